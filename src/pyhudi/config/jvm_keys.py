"""Keys of the JVM Hudi that pyhudi knows and does not honour, by area, so that who sets one learns it.

A name that ends with a dot stands for all keys that begin with it. `quiet` values ask for nothing that we do
not do anyway, so they bring no warning.
"""

from __future__ import annotations

from dataclasses import dataclass

_OFF = frozenset({"false"})


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An area of keys without effect in this release, and why."""

    area: str
    reason: str
    keys: tuple[str, ...]
    quiet: frozenset[str] = _OFF

    def covers(self, key: str) -> bool:
        """Whether a key belongs to this area."""
        return any(key == name or (name.endswith(".") and key.startswith(name)) for name in self.keys)


def _area(area: str, reason: str, keys: str, *, quiet: frozenset[str] = _OFF) -> Unsupported:
    return Unsupported(area, reason, tuple(f"hoodie.{name}" for name in keys.split()), quiet)


UNSUPPORTED: tuple[Unsupported, ...] = (
    _area(
        "operation column",
        "files get no column of their own for it; a row that brings `_hoodie_operation` = `D` is a delete all the same",
        "allow.operation.metadata.field",
    ),
    _area(
        "cleaning",
        "not built yet: nothing is cleaned by this release",
        """clean.allow.multiple clean.async clean.async.enabled clean.automatic clean.commits.retained
        clean.delete.bootstrap.base.file clean.fileversions.retained clean.hours.retained
        clean.incremental.enabled clean.max.commits clean.max.commits.to.clean clean.multiple.enabled
        clean.optimize.using.local.engine.context clean.parallelism clean.partition. clean.policy
        clean.trigger. cleaner.commits.retained cleaner.delete.bootstrap.base.file
        cleaner.fileversions.retained cleaner.hours.retained cleaner.incremental.mode cleaner.parallelism
        cleaner.partition. cleaner.policy prewrite.cleaner.policy write.empty.clean.interval.hours""",
    ),
    _area(
        "archiving",
        "not built yet: this release leaves all instants on the active timeline",
        """archive. archivelog.folder commits.archival.batch fail.on.timeline.archiving keep.max.commits
        keep.min.commits timeline.compaction. timeline.manifest.""",
    ),
    _area(
        "details of merge-on-read",
        "pyhudi decides this by itself",
        """compaction.plan.generator compaction.lazy.block.read compaction.reverse.log.read
        compaction.preserve.commit.metadata datasource.compaction. logfile.to.parquet.compression.ratio
        optimized.log.blocks.scan.enable table.log.file.format table.ro.file.format table.rt.file.format
        write.record.positions merge.use.record.positions is.update.record.for.mor realtime.merge.skip
        query.as.ro.table""",
        quiet=frozenset({"true", "false"}),
    ),
    _area(
        "clustering",
        "not built yet",
        "clustering. datasource.clustering. layout.optimize.",
    ),
    _area(
        "partition TTL",
        "not built yet",
        "partition.ttl.",
    ),
    _area(
        "table services",
        "not built yet; nothing runs beside a write",
        """table.service.manager table.service.manager. table.services.enabled
        table.services.incremental.enabled fail.writes.on.inline.table.service.exception""",
    ),
    _area(
        "metadata table and its indexes",
        "not built yet: a commit drops a metadata table, and the JVM builds it again",
        """metadata metadata. table.metadata. metaserver metaserver. table.index.defs.path index.name
        expression.index. bloom.index.use.metadata record.index. enable.data.skipping fileIndex.
        table.secondary.indexes.metadata datasource.write.secondarykey.column""",
    ),
    _area(
        "other indexes",
        "not built yet: use SIMPLE, BLOOM, GLOBAL_SIMPLE or GLOBAL_BLOOM",
        "bucket.index. index.bucket.engine index.class storage.layout. index.hbase. hbase.",
    ),
    _area(
        "tuning of the JVM's index lookups",
        "lookups here run over files, with the tasks that these need",
        """bloom.index.bucketized. bloom.index.fileid.key.sorting.enable bloom.index.input.storage.level
        bloom.index.keys.per.bucket bloom.index.parallelism bloom.index.use.caching
        bloom.index.use.treebased.filter bloom.index.bucketized.checking global.index.reconcile.parallelism
        global.simple.index.parallelism simple.index.input.storage.level simple.index.parallelism
        simple.index.use.caching""",
        quiet=frozenset({"true", "false", "0"}),
    ),
    _area(
        "catalog sync",
        "not built yet",
        """datasource.hive_sync. datasource.meta.sync. datasource.meta_sync. meta.sync. meta_sync.
        datasource.partition_extractor_class gcp.bigquery.sync. glue. datahub.""",
    ),
    _area(
        "metrics",
        "not built yet",
        "metrics metrics. metricscompaction.log.blocks.on",
    ),
    _area(
        "callbacks and validators",
        "not built yet",
        """write.commit.callback. client.init.callback.classes precommit.validators precommit.validators.
        prewrite.validators errortable. merge.data.validation.enabled avro.schema.validate""",
    ),
    _area(
        "streaming and the streamer",
        "not built yet",
        """streamer. deltastreamer. datasource.write.streaming. datasource.streaming.
        datasource.read.streaming.table.version internal.spark.streaming.batch.id write.rolling.metadata.
        write.track.event.time.watermark payload.event.time.field""",
    ),
    _area(
        "change data capture",
        "not built yet",
        "table.cdc.supplemental.logging.mode cdc.",
    ),
    _area(
        "bootstrap",
        "not built yet",
        "bootstrap.",
    ),
    _area(
        "schema evolution on read",
        "not built yet: columns can be added, and types be widened",
        """schema.on.read.enable schema. internal.schema
        datasource.write.schema.allow.auto.evolution.column.drop datasource.read.schema.use.end.instanttime
        write.schema avro.schema internal.write.schema.canonicalize""",
    ),
    _area(
        "details of payloads and partial updates",
        "a new table gets them by its payload class, and pyhudi has no merge handles",
        """payload.record.schema payload.update.on.same.ordering.field
        record.merge.property. table.partial.update.mode write.partial.update. write.concat.handle.class
        write.merge.handle. compact.merge.handle.class support.payload""",
    ),
    _area(
        "upgrades",
        "pyhudi never upgrades a table: it writes each table at its own version",
        "write.auto.upgrade table.version rollback.instant.backup.",
    ),
    _area(
        "locks and conflicts",
        "the locks and the conflict check need no more options",
        """auto.adjust.lock.configs write.lock.app_id write.lock.client.
        write.lock.conflict.resolution.strategy write.lock.heartbeat_interval_ms write.lock.hivemetastore.
        write.lock.max_wait_time_ms_between_retry write.lock.num_retries write.lock.wait_time_ms_between_retry
        write.lock.zookeeper.port
        write.concurrency.async. write.concurrency.schema. time.generator.
        write.application.id""",
    ),
    _area(
        "batches of markers",
        "what is announced while a batch is being stored makes the next one: there is no timer and no pool to set",
        "markers.",
    ),
    _area(
        "rollback",
        "rollbacks go by markers and by a listing",
        """rollback.avoid.duplicate.plan rollback.parallelism
        rollback.using.markers write.ignore.failed write.can.ignore.post.commit.failures
        post.commit.failures.ignored fail.job.on.duplicate.data.file.detection finalize.write.parallelism""",
        quiet=frozenset({"false"}),
    ),
    _area(
        "the timeline server and file-system views of the JVM",
        "pyhudi has neither",
        "embed. filesystem. file.index. file.listing.parallelism fs.atomic_creation.support consistency. "
        "optimistic.consistency. storage.class io.factory.class",
    ),
    _area(
        "memory, executors and buffers of the JVM",
        "pyhudi writes row group by row group and has no such buffers",
        """memory.merge.fraction memory.compaction.fraction memory.compaction.max.size memory.dfs.buffer.max.size
        memory.writestatus.failure.fraction common. write.buffer. write.executor. write.status. write.tagged.
        writestatus.class release.resource.on.completion.enable block.writes.on.speculative.execution hfile. orc. lance.
        parquet.write. parquet.flink. parquet.spark. parquet.field_id.write.enabled
        parquet.writelegacyformat.enabled parquet.compression.ratio avro.write.support.class
        bulkinsert.are.partitioner.records.sorted bulkinsert.schema.ddl bulkinsert.sort.suffix.record_key
        datasource.write.row.writer.enable vector.columns sensitive.config.keys spark.polaris.catalog.class
        fileid.prefix.provider.class""",
        quiet=frozenset({"false", "true"}),
    ),
    _area(
        "details of writing",
        "pyhudi decides this by itself",
        """allow.empty.commit copyonwrite.insert.auto.split copyonwrite.insert.split.size
        merge.allow.duplicate.on.inserts
        parquet.outputtimestamptype parquet.dictionary.enabled record.size.estimator. bulkinsert.user.
        bulkinsert.overwrite.operation.type static.overwrite.partition.paths skip.default.partition.validation
        write.complex.keygen.validation.enable keygen.datetime.parser.class
        deltastreamer.keygen.datetime.parser.class""",
        quiet=frozenset({"true", "timestamp_micros"}),
    ),
    _area(
        "Spark SQL",
        "not built yet",
        "spark.sql. sql. internal.sql.",
    ),
    _area(
        "other kinds of reads",
        "not built yet",
        """datasource.read.create.filesystem.relation datasource.read.extract.partition.values.from.path
        datasource.read.file.index. datasource.read.incr.filters datasource.read.incr.path.glob
        datasource.read.incr.skip_cluster datasource.read.incr.skip_compact datasource.read.incr.table.version
        datasource.read.partition.value.extractor.enabled datasource.read.paths datasource.read.table.valued.
        file.group.reader.enabled incremental.use.database read. valid.commits.list tablePath base.path""",
    ),
    _area(
        "properties of the table",
        "a property that is set when the table is made, and not an option",
        """partition.metafile.use.base.format table.checksum table.create.schema table.format
        table.initial.version table.multiple.base.file.formats.enable table.partition_extractor_class
        timeline.history.path timeline.layout.version timeline.path""",
    ),
)


def unsupported_area(key: str) -> Unsupported | None:
    """The area that a key belongs to, or None for a key that pyhudi honours or has never heard of."""
    return next((area for area in UNSUPPORTED if area.covers(key)), None)
