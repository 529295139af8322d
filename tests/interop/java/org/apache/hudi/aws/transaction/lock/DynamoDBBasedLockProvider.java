package org.apache.hudi.aws.transaction.lock;

import java.net.URI;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import com.amazonaws.services.dynamodbv2.model.LockNotGrantedException;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.storage.StorageConfiguration;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * AWS's lock client for Java, as Hudi's lock provider of this name runs it: a stand-in for Hudi's module for AWS.
 *
 * <p>The table of locks has to exist. Every request, and so all of the layout, is made by AWS's client.
 */
public class DynamoDBBasedLockProvider implements LockProvider<LockItem> {
  private static final String PREFIX = "hoodie.write.lock.dynamodb.";

  private final AmazonDynamoDBLockClient client;
  private final String key;
  private LockItem lock;

  public DynamoDBBasedLockProvider(LockConfiguration configuration, StorageConfiguration<?> ignored) {
    Properties options = configuration.getConfig();
    long lease = Long.parseLong(options.getProperty("hoodie.write.lock.wait_time_ms"));
    DynamoDbClient dynamoDb = DynamoDbClient.builder()
        .endpointOverride(URI.create(options.getProperty(PREFIX + "endpoint_url")))
        .region(Region.US_EAST_1)
        .build();
    key = options.getProperty(PREFIX + "partition_key");
    client = new AmazonDynamoDBLockClient(
        AmazonDynamoDBLockClientOptions.builder(dynamoDb, options.getProperty(PREFIX + "table"))
            .withTimeUnit(TimeUnit.MILLISECONDS)
            .withLeaseDuration(lease)
            .withHeartbeatPeriod(lease / 3)
            .withCreateHeartbeatBackgroundThread(true)
            .build());
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) {
    try {
      lock = client.acquireLock(AcquireLockOptions.builder(key)
          .withAdditionalTimeToWaitForLock(unit.toMillis(time))
          .withTimeUnit(TimeUnit.MILLISECONDS)
          .build());
      return !lock.isExpired();
    } catch (LockNotGrantedException refused) {
      return false;
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public void unlock() {
    client.releaseLock(lock);
  }
}
