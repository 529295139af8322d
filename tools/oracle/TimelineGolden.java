/*
 * Makes tests/golden/metadata/: bodies of timeline files and table properties by Hudi's own classes.
 *
 *     java -cp hudi-spark3.5-bundle_2.12-<version>.jar:<Jackson, Avro, SLF4J, Hadoop client> TimelineGolden.java <folder>
 *
 * Run with Hudi 0.15.0 it writes the bodies of table version 6, with 1.2.0 those of 8 and 9 and what all versions share.
 */

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hudi.avro.model.HoodieClusteringGroup;
import org.apache.hudi.avro.model.HoodieClusteringPlan;
import org.apache.hudi.avro.model.HoodieInstantInfo;
import org.apache.hudi.avro.model.HoodieRequestedReplaceMetadata;
import org.apache.hudi.avro.model.HoodieRollbackMetadata;
import org.apache.hudi.avro.model.HoodieRollbackPartitionMetadata;
import org.apache.hudi.avro.model.HoodieRollbackPlan;
import org.apache.hudi.avro.model.HoodieRollbackRequest;
import org.apache.hudi.avro.model.HoodieSliceInfo;
import org.apache.hudi.common.model.HoodieCommitMetadata;
import org.apache.hudi.common.model.HoodieDeltaWriteStat;
import org.apache.hudi.common.model.HoodieReplaceCommitMetadata;
import org.apache.hudi.common.model.HoodieWriteStat;
import org.apache.hudi.common.model.WriteOperationType;

public class TimelineGolden {

  static final String FIRST = "20240101000000000";
  static final String SECOND = "20240102030405678";

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    HoodieCommitMetadata commit = fill(new HoodieCommitMetadata(), WriteOperationType.UPSERT);
    HoodieReplaceCommitMetadata replace = fill(new HoodieReplaceCommitMetadata(), WriteOperationType.INSERT_OVERWRITE);
    replace.addReplaceFileId("p=1", "old-0");
    if (!hasAvroCommits()) {
      Files.writeString(folder.resolve("commit_v6.json"), commit.toJsonString());
      Files.writeString(folder.resolve("replacecommit_v6.json"), replace.toJsonString());
      return;
    }
    Files.write(folder.resolve("commit_v9.avro"), avro(commit));
    Files.write(folder.resolve("replacecommit_v9.avro"), avro(replace));
    Files.write(folder.resolve("overwrite_requested.avro"), record(new HoodieRequestedReplaceMetadata()));
    Files.write(folder.resolve("clustering_requested.avro"), record(clustering()));
    Files.write(folder.resolve("rollback_plan.avro"), record(rollbackPlan()));
    Files.write(folder.resolve("rollback.avro"), record(rollback()));
    Files.write(folder.resolve("escaped.properties"), properties());
  }

  static <T extends HoodieCommitMetadata> T fill(T metadata, WriteOperationType operation) {
    HoodieWriteStat created = new HoodieWriteStat();
    created.setFileId("f-0");
    created.setPath("p=1/f-0_0-1-2_" + SECOND + ".parquet");
    created.setPrevCommit("null");
    created.setNumWrites(3);
    created.setNumInserts(3);
    created.setTotalWriteBytes(9);
    created.setFileSizeInBytes(9);
    created.setPartitionPath("p=1");
    HoodieWriteStat.RuntimeStats times = new HoodieWriteStat.RuntimeStats();
    times.setTotalCreateTime(5);
    created.setRuntimeStats(times);
    created.setCdcStats(Map.of("p=1/.f-0_" + SECOND + ".log.1_0-1-2.cdc", 7L));
    HoodieDeltaWriteStat appended = new HoodieDeltaWriteStat();
    appended.setFileId("g-0");
    appended.setPath("p=2/.g-0_" + SECOND + ".log.1_0-0-0");
    appended.setPrevCommit(FIRST);
    appended.setLogVersion(1);
    appended.setBaseFile("g-0_0-0-0_" + FIRST + ".parquet");
    appended.addLogFiles(".g-0_" + SECOND + ".log.1_0-0-0");
    appended.setPartitionPath("p=2");
    appended.setNumWrites(2);
    appended.setNumUpdateWrites(2);
    metadata.addWriteStat("p=1", created);
    metadata.addWriteStat("p=2", appended);
    metadata.addMetadata("schema", "{\"type\":\"record\"}");
    metadata.setOperationType(operation);
    return metadata;
  }

  static HoodieRequestedReplaceMetadata clustering() {
    HoodieSliceInfo slice = HoodieSliceInfo.newBuilder()
        .setDataFilePath("file:/t/p=1/f-0_0-0-0_" + FIRST + ".parquet").setDeltaFilePaths(List.of())
        .setFileId("f-0").setPartitionPath("p=1").setBootstrapFilePath("").build();
    HoodieClusteringGroup group = HoodieClusteringGroup.newBuilder()
        .setSlices(List.of(slice)).setMetrics(Map.of("TOTAL_IO_MB", 2.0)).build();
    HoodieClusteringPlan plan = HoodieClusteringPlan.newBuilder()
        .setInputGroups(List.of(group)).setExtraMetadata(Map.of()).setPreserveHoodieMetadata(true).build();
    return HoodieRequestedReplaceMetadata.newBuilder()
        .setOperationType("CLUSTER").setClusteringPlan(plan).setExtraMetadata(Map.of()).build();
  }

  static HoodieRollbackPlan rollbackPlan() {
    HoodieRollbackRequest request = HoodieRollbackRequest.newBuilder()
        .setPartitionPath("p=1").setFileId("f-0").setLatestBaseInstant(SECOND)
        .setFilesToBeDeleted(List.of("/t/p=1/f-0_0-1-2_" + SECOND + ".parquet"))
        .setLogBlocksToBeDeleted(Map.of()).build();
    return HoodieRollbackPlan.newBuilder()
        .setInstantToRollback(new HoodieInstantInfo(SECOND, "commit")).setRollbackRequests(List.of(request)).build();
  }

  static HoodieRollbackMetadata rollback() {
    HoodieRollbackPartitionMetadata partition = HoodieRollbackPartitionMetadata.newBuilder()
        .setPartitionPath("p=1").setSuccessDeleteFiles(List.of("/t/p=1/f-0_0-1-2_" + SECOND + ".parquet"))
        .setFailedDeleteFiles(List.of()).setRollbackLogFiles(Map.of()).setLogFilesFromFailedCommit(Map.of()).build();
    return HoodieRollbackMetadata.newBuilder()
        .setStartRollbackTime("20240102030406000").setTimeTakenInMillis(12L).setTotalFilesDeleted(1)
        .setCommitsRollback(List.of(SECOND)).setPartitionMetadata(Collections.singletonMap("p=1", partition))
        .setInstantsRollback(List.of(new HoodieInstantInfo(SECOND, "commit"))).build();
  }

  static byte[] properties() throws Exception {
    Properties values = new Properties();
    values.setProperty("plain", "value");
    values.setProperty("empty", "");
    values.setProperty("a key: with=specials#!", " leading and trailing ");
    values.setProperty("controls", "tab\t newline\n return\r feed\f backslash\\ end\\");
    values.setProperty("wide", "caf\u00e9 \u20ac \ud83d\ude00");
    values.setProperty("schema", "{\"type\":\"record\",\"doc\":\"a=b #c !d\"}");
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    values.store(out, "Properties \u20ac\nof two lines");
    // The second line is the time of writing.
    return out.toString("ISO-8859-1").replaceFirst("(?m)^#\\w{3} \\w{3} \\d.*\\R", "").getBytes("ISO-8859-1");
  }

  static boolean hasAvroCommits() {
    try {
      Class.forName("org.apache.hudi.common.table.timeline.versioning.v2.CommitMetadataSerDeV2");
      return true;
    } catch (ClassNotFoundException error) {
      return false;
    }
  }

  /* By reflection, because this file has to compile against 0.15.0, too. */
  static byte[] avro(HoodieCommitMetadata metadata) throws Exception {
    Class<?> kind = Class.forName("org.apache.hudi.common.table.timeline.versioning.v2.CommitMetadataSerDeV2");
    Object option = kind.getMethod("getInstantWriter", Object.class).invoke(kind.getConstructor().newInstance(), metadata);
    Object writer = option.getClass().getMethod("get").invoke(option);
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    Method write = Class.forName("org.apache.hudi.storage.HoodieInstantWriter").getMethod("writeToStream", java.io.OutputStream.class);
    write.invoke(writer, out);
    return out.toByteArray();
  }

  static byte[] record(Object record) throws Exception {
    Class<?> utils = Class.forName("org.apache.hudi.common.table.timeline.TimelineMetadataUtils");
    for (Method method : utils.getMethods()) {
      if (method.getName().equals("serializeAvroMetadata")) {
        Object option = method.invoke(null, record, record.getClass());
        return (byte[]) option.getClass().getMethod("get").invoke(option);
      }
    }
    throw new IllegalStateException("this Hudi has no serializeAvroMetadata");
  }
}
