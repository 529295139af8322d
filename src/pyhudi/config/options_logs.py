"""Options of merge-on-read tables: log files, and the compactions that merge them into base files."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import CompactionStrategy, CompactionTrigger, LogBlockFormat, TableType
from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, boolean, integer, one_of, regular_expression

BLOCK_BYTES_MAX = 64 << 20
"""The limit of a log block in bytes of Arrow data. Tasks and readers hold one block in memory."""
_STRATEGY_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_STRATEGIES = {strategy.value: strategy for strategy in CompactionStrategy}


def _read_strategies(value: str) -> tuple[CompactionStrategy, ...]:
    names = [name.strip().removeprefix(_STRATEGY_PACKAGE) for name in value.split(",")]
    if unknown := [name for name in names if name not in _STRATEGIES]:
        raise ValueError(unknown)
    return tuple(dict.fromkeys(_STRATEGIES[name] for name in names))


COMPACTION_STRATEGIES = Parser(
    _read_strategies, f"one of {', '.join(_STRATEGIES)}, or several of them separated by commas"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Sizes and encoding of log files, which take the updates of merge-on-read tables."""

    max_file_size: int = option(
        "hoodie.logfile.max.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="A log file of this size gets no further blocks; the next block starts a new file.",
    )
    max_block_size: int = option(
        "hoodie.logfile.data.block.max.size",
        parse=integer(minimum=1, unit="bytes"),
        default=BLOCK_BYTES_MAX,
        doc="The size at which a new block of records starts. The limit is 64 MiB, because tasks and readers hold a"
        " block in memory; a larger value causes a warning.",
    )
    block_format: LogBlockFormat | None = option(
        "hoodie.logfile.data.block.format",
        parse=one_of(
            LogBlockFormat,
            refused={"HFILE": "log blocks in the format HFILE are only read, not written: use avro or parquet"},
        ),
        default=None,
        doc="The encoding of blocks of records; pyhudi chooses if not given.",
    )
    small_file_candidates: int = option(
        "hoodie.merge.small.file.group.candidates.limit",
        parse=integer(minimum=0),
        default=1,
        doc="The number of small base files per partition that get new records in one write to a merge-on-read table.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """Compaction, which merges base files and their logs into new base files, in merge-on-read tables."""

    inline: bool | None = option(
        "hoodie.compact.inline",
        parse=boolean(),
        default=None,
        doc="Whether a write also runs the compaction that is due after it. If not given, it does, as in Spark batch "
        "writes of JVM Hudi, unless the write only schedules compactions.",
    )
    in_background: bool = option(
        "hoodie.datasource.compaction.async.enable",
        default=False,
        doc="Whether the compaction that is due after a write runs in a thread of its process, after the write has"
        " returned, unless `hoodie.compact.inline` is true.",
    )
    services_enabled: bool = option(
        "hoodie.table.services.enabled",
        default=True,
        doc="Whether a write schedules and runs table services after it. Rolling back dead writers is not one of them.",
    )
    schedule_inline: bool = option(
        "hoodie.compact.schedule.inline",
        default=False,
        doc="Whether a write only schedules the compaction that is due after it, and another process runs it.",
    )
    max_delta_commits: int = option(
        "hoodie.compact.inline.max.delta.commits",
        parse=integer(minimum=1, unit="delta commits"),
        default=5,
        doc="The number of delta commits after which a compaction is due.",
    )
    max_delta_seconds: int = option(
        "hoodie.compact.inline.max.delta.seconds",
        parse=integer(minimum=1, unit="seconds"),
        default=3600,
        doc="The time after which a compaction is due.",
    )
    trigger: CompactionTrigger = option(
        "hoodie.compact.inline.trigger.strategy",
        default=CompactionTrigger.NUM_COMMITS,
        doc="Whether the number of delta commits, the time, or both make a compaction due. Both count from the last"
        " compaction, or with NUM_COMMITS_AFTER_LAST_REQUEST from the last one scheduled.",
    )
    strategies: tuple[CompactionStrategy, ...] = option(
        "hoodie.compaction.strategy",
        parse=COMPACTION_STRATEGIES,
        default=(CompactionStrategy.LOG_FILE_SIZE,),
        doc="Which file slices are compacted. Each of several strategies selects from the result of the one before it.",
    )
    target_io_mb: int = option(
        "hoodie.compaction.target.io",
        parse=integer(minimum=0, unit="MiB"),
        default=512_000,
        doc="The bytes that one compaction may read and write, for strategies with an I/O budget.",
    )
    log_size_threshold: int = option(
        "hoodie.compaction.logfile.size.threshold",
        parse=integer(minimum=0, unit="bytes"),
        default=0,
        doc="LogFileSizeBasedCompactionStrategy: slices with fewer bytes of logs are not compacted.",
    )
    log_count_threshold: int = option(
        "hoodie.compaction.logfile.num.threshold",
        parse=integer(minimum=0, unit="log files"),
        default=0,
        doc="LogFileNumBasedCompactionStrategy: slices with fewer log files are not compacted.",
    )
    target_partitions: int = option(
        "hoodie.compaction.daybased.target.partitions",
        parse=integer(minimum=1, unit="partitions"),
        default=10,
        doc="The number of newest partitions that the strategies by day compact.",
    )
    partition_regex: str | None = option(
        "hoodie.compaction.partition.path.regex",
        parse=regular_expression(),
        default=None,
        doc="PartitionRegexBasedCompactionStrategy: partitions whose path contains a match are compacted.",
    )
    log_enabled: bool = option(
        "hoodie.log.compaction.enable",
        default=False,
        doc="Whether log compactions may merge small log blocks of a slice into large ones, without a new base file.",
    )
    log_inline: bool = option(
        "hoodie.log.compaction.inline",
        default=False,
        doc="Whether a write also runs the log compaction that is due after it.",
    )
    log_blocks_threshold: int = option(
        "hoodie.log.compaction.blocks.threshold",
        parse=integer(minimum=1, unit="log blocks"),
        default=5,
        doc="The number of log blocks at which a slice is due for a log compaction.",
    )

    def runs_inline(self, table_type: TableType) -> bool:
        """Whether a write to a table of this type also runs the compaction that is due after it."""
        if table_type is TableType.COPY_ON_WRITE or not self.services_enabled:
            return False
        if self.inline is None:
            return not (self.schedule_inline or self.in_background)
        return self.inline

    @property
    def runs_in_background(self) -> bool:
        """Whether the compaction after a write to a merge-on-read table runs in a thread of the process."""
        return self.in_background and not self.inline and not self.schedule_inline
