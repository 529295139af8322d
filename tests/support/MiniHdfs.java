import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/**
 * A NameNode and two DataNodes in one process, over a folder that outlives it.
 *
 *     java -cp 'the jars of hadoop-client-minicluster/*' tests/support/MiniHdfs.java FOLDER PORT
 *
 * Prints "ready" when files can be written. Then each line of its input is a command, which is answered by "done":
 * "safemode enter", "safemode leave", "quota PATH BYTES". It ends with its input.
 */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        Configuration configuration = new Configuration();
        configuration.setInt("dfs.replication", 2);
        configuration.setInt("dfs.heartbeat.interval", 1);
        configuration.setLong("dfs.blocksize", 8 << 20);
        configuration.setLong("dfs.namenode.fs-limits.min-block-size", 4096);
        configuration.set("dfs.permissions.superusergroup", "supergroup");
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration, folder)
            .nameNodePort(Integer.parseInt(arguments[1]))
            .numDataNodes(2)
            .format(!new File(folder, "name-0-1").exists())
            .build();
        cluster.waitActive();
        DistributedFileSystem system = cluster.getFileSystem();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("safemode")) {
                system.setSafeMode(
                    words[1].equals("enter")
                        ? HdfsConstants.SafeModeAction.SAFEMODE_ENTER
                        : HdfsConstants.SafeModeAction.SAFEMODE_LEAVE);
            } else if (words[0].equals("quota")) {
                system.setQuota(new Path(words[1]), HdfsConstants.QUOTA_DONT_SET, Long.parseLong(words[2]));
            } else {
                throw new IllegalArgumentException(line);
            }
            System.out.println("done");
        }
        cluster.shutdown();
        System.exit(0);
    }
}
