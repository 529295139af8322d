import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;

/**
 * One of Hudi's own lock providers, driven over stdin: `lock <milliseconds>`, `unlock`, `close`. Each is answered by one
 * line that begins with `=`: what became of it, or `=error` and why.
 *
 * <p>Arguments: the provider's class, then `key=value` for each option.
 */
public class LockHolder {
  public static void main(String[] arguments) throws Exception {
    Properties options = new Properties();
    for (int n = 1; n < arguments.length; n++) {
      String[] parts = arguments[n].split("=", 2);
      options.setProperty(parts[0], parts[1]);
    }
    LockProvider<?> provider = (LockProvider<?>) Class.forName(arguments[0])
        .getConstructor(LockConfiguration.class, StorageConfiguration.class)
        .newInstance(new LockConfiguration(options), new HadoopStorageConfiguration(new Configuration()));
    System.out.println("=ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String request = requests.readLine(); request != null; request = requests.readLine()) {
      System.out.println("=" + answer(provider, request.split(" ")));
    }
    System.exit(0);
  }

  private static String answer(LockProvider<?> provider, String[] request) {
    try {
      switch (request[0]) {
        case "lock":
          return provider.tryLock(Long.parseLong(request[1]), TimeUnit.MILLISECONDS) ? "locked" : "refused";
        case "unlock":
          provider.unlock();
          return "unlocked";
        case "close":
          provider.close();
          return "closed";
        default:
          return "error unknown request " + request[0];
      }
    } catch (Exception error) {
      return "error " + error.toString().replace('\n', ' ');
    }
  }
}
