package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Properties;

import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * What Hudi's storage-based lock asks of S3, on local disk: a stand-in under the name that Hudi looks for.
 *
 * <p>Hudi's own needs Amazon's S3. Everything above this class, and all bytes of the lock, are Hudi's. `s3://x/path`
 * stands for `/path`. Compares and writes without a lock: good enough where one party acts at a time.
 */
public class S3StorageLockClient implements StorageLockClient {
  private final Path file;

  public S3StorageLockClient(String owner, String uri, Properties options) {
    file = pathOf(uri);
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    try {
      if (!Files.exists(file)) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      byte[] data = Files.readAllBytes(file);
      StorageLockFile current = StorageLockFile.createFromStream(new ByteArrayInputStream(data), versionOf(data));
      return Pair.of(LockGetResult.SUCCESS, Option.of(current));
    } catch (IOException error) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData wanted, Option<StorageLockFile> previous) {
    try {
      String found = Files.exists(file) ? versionOf(Files.readAllBytes(file)) : null;
      String known = previous.isPresent() ? previous.get().getVersionId() : null;
      if (known == null ? found != null : !known.equals(found)) {
        return Pair.of(LockUpsertResult.ACQUIRED_BY_OTHERS, Option.empty());
      }
      byte[] data = StorageLockFile.toByteArray(wanted);
      Files.createDirectories(file.getParent());
      Files.write(file, data);
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(wanted, versionOf(data))));
    } catch (IOException error) {
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Option<String> readObject(String uri, boolean checkExistsFirst) {
    try {
      return Files.exists(pathOf(uri)) ? Option.of(Files.readString(pathOf(uri))) : Option.empty();
    } catch (IOException error) {
      return Option.empty();
    }
  }

  @Override
  public boolean writeObject(String uri, String content) {
    try {
      Files.createDirectories(pathOf(uri).getParent());
      Files.writeString(pathOf(uri), content);
      return true;
    } catch (IOException error) {
      return false;
    }
  }

  @Override
  public void close() {
  }

  private static Path pathOf(String uri) {
    return Path.of("/" + uri.split("/", 4)[3]);
  }

  private static String versionOf(byte[] data) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}
