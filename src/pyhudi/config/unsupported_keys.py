"""Keys of JVM Hudi that pyhudi knows but does not honour, by area, for warnings.

Ignoring these keys changes neither rows nor files nor access to them; keys that would are refused (`refused_keys`). A
name that ends with a dot stands for all keys that begin with it. `quiet` values describe what pyhudi does anyway, and
cause no warning.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.refused_keys import covered

_OFF = frozenset({"false"})
_ON = frozenset({"true"})
ANY = frozenset({"any value"})
"""For keys without effect in JVM Hudi, and for tuning of features that pyhudi does not have."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An area of keys without effect in this release, and why."""

    area: str
    reason: str
    keys: tuple[str, ...]
    quiet: frozenset[str] = _OFF

    def covers(self, key: str) -> bool:
        """Whether a key belongs to this area, in any case."""
        return covered(key, self.keys)

    def is_quiet(self, text: str) -> bool:
        """Whether a value describes what pyhudi does anyway."""
        return self.quiet is ANY or text.strip().lower() in self.quiet


def _area(area: str, reason: str, keys: str, *, quiet: frozenset[str] = _OFF) -> Unsupported:
    return Unsupported(area, reason, tuple(_full(name) for name in keys.split()), quiet)


def _full(name: str) -> str:
    return name if name.startswith("_") else f"hoodie.{name}"


UNSUPPORTED: tuple[Unsupported, ...] = (
    _area(
        "cleaning",
        "pyhudi chooses how many tasks delete, keeps a clean going until it is complete before it plans the next one,"
        " and never cleans before the rows of a write are there",
        """clean.multiple.enabled clean.allow.multiple
        clean.optimize.using.local.engine.context clean.parallelism clean.trigger.strategy
        cleaner.parallelism prewrite.cleaner.policy
        write.empty.clean.interval.hours""",
    ),
    _area(
        "archiving",
        "pyhudi deletes archived instants one by one, keeps what a clean has not passed, merges archive files when"
        " there are enough, and warns where archiving fails after a write",
        """archive.block.on.latest.clean.ectr archive.delete.parallelism commits.archival.batch
        fail.on.timeline.archiving timeline.compaction.enabled timeline.compaction.parallelism
        timeline.compaction.target.file.max.bytes""",
    ),
    _area(
        "record positions",
        "log records are matched with base files by key; positions, which are faster, are neither written nor read",
        "write.record.positions merge.use.record.positions",
    ),
    _area(
        "details of merge-on-read",
        "log files are read once, block by block, and merged by pyhudi's own plan",
        """compaction.plan.generator compaction.lazy.block.read compaction.reverse.log.read
        compaction.preserve.commit.metadata logfile.to.parquet.compression.ratio
        optimized.log.blocks.scan.enable is.update.record.for.mor""",
        quiet=frozenset(
            {"true", "false", "org.apache.hudi.table.action.compact.plan.generators.hoodiecompactionplangenerator"}
        ),
    ),
    _area(
        "details of clustering",
        "pyhudi reads each group in one task, always keeps the commit times of rows, builds curves from samples, and"
        " plans by size",
        """clustering.group.read.parallelism clustering.max.parallelism clustering.preserve.commit.metadata
        clustering.plan.generation.use.local.engine.context clustering.plan.strategy.file.slices.sort.by
        clustering.plan.strategy.earliest.commit.to.cluster clustering.plan.strategy.binary.copy.
        layout.optimize.curve.build.method layout.optimize.enable
        layout.optimize.data.skipping.enable""",
        quiet=frozenset({"true", "sample", "size", "false"}),
    ),
    _area(
        "expiry of clustering plans",
        "a plan of a dead process is executed by the next run, and a write need not wait for it: use"
        " SparkAllowUpdateStrategy or PreferWriterConflictResolutionStrategy",
        """clustering.enable.expirations clustering.expiration.threshold.mins
        clustering.fail.on.pending.ingestion.during.conflict.resolution""",
    ),
    _area(
        "the table service manager",
        "not built yet: pyhudi hands no service over to it",
        "table.service.manager table.service.manager. table.services.incremental.enabled",
    ),
    _area(
        "failures of table services",
        "a service that fails after its write never fails the write, which stands; it is logged",
        """fail.writes.on.inline.table.service.exception write.can.ignore.post.commit.failures
        post.commit.failures.ignored""",
    ),
    _area(
        "metadata table and its indexes",
        "commits keep the indexes that a table has, whatever these options say, and table.indexes makes and drops them",
        """metadata metadata. table.metadata. metaserver metaserver. table.index.defs.path index.name
        expression.index. record.index. fileIndex.
        table.secondary.indexes.metadata datasource.write.secondarykey.column _hoodie.metadata.""",
    ),
    _area(
        "tuning of JVM Hudi's bucket indexes",
        "tasks here are made of the buckets of the rows, and a scan by key always reads its buckets alone",
        "bucket.index.remote.partitioner.enable bucket.index.query.pruning",
    ),
    _area(
        "HBase indexes",
        "hoodie.index.hbase.store names the Thrift server of HBase, which knows its ZooKeeper and limits its clients "
        "itself; a rollback needs no change of the index, whose rows of other writes count for nothing",
        "index.hbase. hbase.",
    ),
    _area(
        "tuning of JVM Hudi's index lookups",
        "lookups here run over files, with the tasks that these need",
        """bloom.index.bucketized. bloom.index.fileid.key.sorting.enable bloom.index.input.storage.level
        bloom.index.keys.per.bucket bloom.index.parallelism bloom.index.use.caching
        bloom.index.use.treebased.filter bloom.index.bucketized.checking global.index.reconcile.parallelism
        global.simple.index.parallelism simple.index.input.storage.level simple.index.parallelism
        simple.index.use.caching""",
        quiet=frozenset({"true", "false", "0"}),
    ),
    _area(
        "catalogs",
        "tables are synced with Hive metastores and AWS Glue, by their own interfaces; these options are of other "
        "catalogs, of Hive's server, or tune JVM Hudi's client",
        """datasource.hive_sync. datasource.meta.sync. datasource.meta_sync. meta.sync. meta_sync.
        datasource.partition_extractor_class gcp.bigquery.sync. glue. datahub. spark.polaris.catalog.class
        incremental.use.database""",
    ),
    _area(
        "details of JVM Hudi's metrics",
        "reporters are those of hoodie.metrics.reporter.type, and tasks of Spark report through their write",
        "metrics metrics. metricscompaction.log.blocks.on",
    ),
    _area(
        "callbacks of JVM Hudi's clients",
        "there is no client to begin; hoodie.write.commit.callback.on tells of commits",
        "write.commit.callback. client.init.callback.classes",
    ),
    _area(
        "writes that go on without some of their rows",
        "a row that cannot be written stops the write, and nothing of it becomes visible; the streamer has an error"
        " table, whose writes need no settings of their own",
        "errortable. write.ignore.failed",
        quiet=frozenset({"false", "true"}),
    ),
    _area(
        "validators of offsets",
        "the streamer commits checkpoints with the rows that it has read up to there",
        "precommit.validators.",
    ),
    _area(
        "checks of the schema",
        "every batch is converted to the table's columns, or refused, whatever the value",
        "avro.schema.validate avro.schema.external.transformation avro.schema.externalTransformation"
        " internal.write.schema.canonicalize",
        quiet=ANY,
    ),
    _area(
        "streaming and the streamer",
        "the streamer refuses those of its own that it does not know, and other writes do not use these",
        """streamer. deltastreamer. datasource.write.streaming.
        internal.spark.streaming.batch.id""",
    ),
    _area(
        "change data capture",
        "memory of readers is bounded by hoodie.memory.merge.max.size",
        "cdc.",
    ),
    _area(
        "bootstrap",
        "sources are Parquet, and indexes are HFiles",
        "bootstrap.",
    ),
    _area(
        "details of schema evolution",
        "columns are found by their ids wherever a table has them",
        "schema.",
    ),
    _area(
        "details of payloads",
        "pyhudi has no payload classes and no merge handles: merge modes and mergers define how records merge",
        "payload.record.schema write.merge.handle.fallback support.payload",
        quiet=ANY,
    ),
    _area(
        "upgrades",
        "a write never upgrades a table: it writes each table at its own version, and table.alter.upgrade changes that",
        "write.auto.upgrade rollback.instant.backup. skip.default.partition.validation",
    ),
    _area(
        "waiting for locks",
        "writers retry the table lock until hoodie.write.lock.wait_time_ms has passed",
        """write.lock.client. write.lock.max_wait_time_ms_between_retry write.lock.num_retries
        write.lock.wait_time_ms_between_retry write.lock.heartbeat_interval_ms write.lock.app_id
        auto.adjust.lock.configs write.application.id""",
    ),
    _area(
        "ZooKeeper's port",
        "JVM Hudi ignores it, too: write host:port in hoodie.write.lock.zookeeper.url",
        "write.lock.zookeeper.port",
    ),
    _area(
        "the lock of the Hive metastore",
        "not built yet, and HiveMetastoreBasedLockProvider is refused",
        "write.lock.hivemetastore.",
    ),
    _area(
        "conflicts",
        "one table of conflicts applies to all writers, including schema changes, and is checked at the commit",
        "write.concurrency.async. write.concurrency.schema.",
        quiet=_ON,
    ),
    _area(
        "instant times",
        "a write takes its time under the table lock, above all times on the timeline",
        "time.generator. _hoodie.time.generator. _.hoodie.allow.multi.write.on.same.instant",
    ),
    _area(
        "batches of markers",
        "announcements that arrive while a batch is being stored form the next batch: there is no timer and no pool",
        "markers.",
    ),
    _area(
        "rollback",
        "rollbacks use markers and a listing, and readers ignore data files that no commit lists",
        """rollback.avoid.duplicate.plan rollback.parallelism
        rollback.using.markers fail.job.on.duplicate.data.file.detection finalize.write.parallelism""",
        quiet=frozenset({"false", "true"}),
    ),
    _area(
        "the timeline server and file-system views of JVM Hudi",
        "pyhudi has neither, and lists what it needs once",
        """embed. instant_state. filesystem. file.index. file.listing.parallelism fs.atomic_creation.support
        consistency. optimistic.consistency. _hoodie.optimistic.consistency.guard.enable datasource.read.file.index.""",
        quiet=frozenset({"false", "true", "lazy", "eager"}),
    ),
    _area(
        "memory, executors and buffers of JVM Hudi",
        "pyhudi writes row group by row group and has no such buffers",
        """memory.merge.fraction memory.compaction.fraction memory.compaction.max.size memory.dfs.buffer.max.size
        memory.writestatus.failure.fraction common. write.buffer. write.executor. write.status. write.tagged.
        writestatus.class release.resource.on.completion.enable datasource.write.row.writer.enable
        file.group.reader.enabled datasource.read.use.new.parquet.file.format""",
        quiet=frozenset({"false", "true"}),
    ),
    _area(
        "speculative execution",
        "writes are safe with it: readers take the files that the commit lists",
        "block.writes.on.speculative.execution",
        quiet=ANY,
    ),
    _area(
        "other formats of files",
        "no such files are written",
        "hfile. _hoodie.hfile. orc. lance. vector.columns read.blob.inline.mode",
        quiet=ANY,
    ),
    _area(
        "Parquet's legacy format",
        "files are written in the current Parquet format, which Hudi reads in all releases",
        "parquet.writelegacyformat.enabled",
    ),
    _area(
        "details of Parquet",
        "dictionaries are used where they help, and timestamps have the precision of their column",
        """parquet.dictionary.enabled parquet.outputtimestamptype parquet.write.utc-timezone.enabled
        parquet.write.utc-timezone""",
        quiet=frozenset({"true", "timestamp_micros"}),
    ),
    _area(
        "field ids of Parquet",
        "columns are found by name, and get no field ids",
        "parquet.field_id.write.enabled",
    ),
    _area(
        "estimates of sizes",
        "the size of a record is estimated from previous commits and from the rows being written",
        """parquet.compression.ratio record.size.estimator. _hoodie.record.size.estimator. copyonwrite.insert.auto.split
        copyonwrite.insert.split.size""",
        quiet=_ON,
    ),
    _area(
        "details of bulk_insert",
        "rows are arranged by hoodie.bulkinsert.sort.mode, and file ids follow from the write",
        """bulkinsert.user. bulkinsert.are.partitioner.records.sorted bulkinsert.schema.ddl
        bulkinsert.sort.suffix.record_key fileid.prefix.provider.class""",
        quiet=frozenset({"false", "org.apache.hudi.table.randomfileidprefixprovider"}),
    ),
    _area(
        "the encoding of single keys of COMPLEX tables",
        "it is detected from the keys in the table",
        "write.complex.keygen.validation.enable",
        quiet=ANY,
    ),
    _area(
        "redaction",
        "values of options are no part of commits or logs, but for those that"
        " hoodie.datasource.write.commitmeta.key.prefix names",
        "sensitive.config.keys",
        quiet=frozenset({"ssl,tls,sasl,auth,credentials"}),
    ),
    _area(
        "statements of JVM Hudi",
        "INSERT INTO goes by hoodie.spark.sql.insert.into.operation alone, and other statements have one way to run",
        "spark.sql. sql. internal.sql.",
    ),
    _area(
        "services in incremental reads",
        "compactions and clusterings keep the commit times of rows, so they cause no changes, whatever the value",
        "datasource.read.incr.skip_cluster datasource.read.incr.skip_compact",
        quiet=ANY,
    ),
    _area(
        "details of JVM Hudi's table-valued functions",
        "SQL hands the arguments of these functions over by itself",
        "datasource.read.table.valued. valid.commits.list",
    ),
    _area(
        "properties of the table",
        "a property of the table, not an option",
        """table.checksum table.create.schema table.initial.version table.partition_extractor_class
        timeline.layout.version table.log.file.format table.ro.file.format table.rt.file.format""",
        quiet=frozenset({"hoodie_log", "parquet"}),
    ),
)


def unsupported_area(key: str) -> Unsupported | None:
    """The area of a key, or None if pyhudi honours, refuses or does not know the key."""
    return next((area for area in UNSUPPORTED if area.covers(key)), None)
