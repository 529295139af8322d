"""Hudi's compaction strategies: which slices with logs a compaction chooses.

A strategy has two parts, and several strategies form a chain. First every strategy of the chain selects partitions, in
order; then every strategy orders and limits the slices in them. So a day-based strategy limits the choice of one by log
size, at any position in the chain. The strategies are those of Hudi 1.2.0,
`org.apache.hudi.table.action.compact.strategy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from pyhudi.config.enums import CompactionStrategy
from pyhudi.config.java_patterns import java_pattern
from pyhudi.errors import ConfigError
from pyhudi.format.keys.partition_paths import NULL_PARTITION
from pyhudi.table.file_slice import FileSlice

TOTAL_LOG_FILES: Final = "TOTAL_LOG_FILES"
TOTAL_LOG_FILES_SIZE: Final = "TOTAL_LOG_FILES_SIZE"
TOTAL_IO_READ_MB: Final = "TOTAL_IO_READ_MB"
TOTAL_IO_WRITE_MB: Final = "TOTAL_IO_WRITE_MB"
TOTAL_IO_MB: Final = "TOTAL_IO_MB"

_MB: Final = 1024 * 1024
BASE_FILE_BYTES_MAX: Final = 120 * _MB
"""The default of `hoodie.parquet.max.file.size`."""

_DATE: Final = re.compile(r"(\d{4})([/-])(\d{1,2})\2(\d{1,2})(?!\d)|(\d{4})(\d{2})(\d{2})(?!\d)", re.ASCII)
_HIVE_FIELD: Final = re.compile(r"(^|/)[^/=]*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """How to choose slices; the defaults are Hudi's.

    `strategies` are in the order of the chain; without any, everything is chosen. `target_io_mb` is the budget of one
    plan, in MiB read and written; a slice has at least `log_size_threshold` bytes or `log_count_threshold` logs.
    `target_partitions` counts partitions for the day-based strategy and days for the partition-aware ones.
    `partition_regex` need match only a part of the partition path. `base_file_bytes_max` stands for the size of the
    base file that a slice without one will get.
    """

    strategies: tuple[CompactionStrategy, ...] = (CompactionStrategy.LOG_FILE_SIZE,)
    target_io_mb: int = 512_000
    log_size_threshold: int = 0
    log_count_threshold: int = 0
    target_partitions: int = 10
    partition_regex: str | None = None
    base_file_bytes_max: int = BASE_FILE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Candidate:
    """A slice that could be compacted, with the estimates of `estimate_metrics`."""

    file_slice: FileSlice
    metrics: Mapping[str, float]

    @property
    def partition_path(self) -> str:
        """The partition of its group."""
        return self.file_slice.partition_path

    @property
    def log_bytes(self) -> int:
        """Bytes of its logs."""
        return int(self.metrics[TOTAL_LOG_FILES_SIZE])

    @property
    def io_mb(self) -> int:
        """MiB that compacting it reads and writes."""
        return int(self.metrics[TOTAL_IO_MB])


@dataclass(frozen=True, slots=True)
class Selection:
    """The candidates that a strategy keeps, in order, and the others, each with the reason."""

    kept: tuple[Candidate, ...]
    dropped: tuple[tuple[Candidate, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions that a strategy selects, in order, and why no others."""

    kept: tuple[str, ...]
    reason: str


_PartitionRule = Callable[[tuple[str, ...], CompactionSettings, date], _Partitions]
_SliceRule = Callable[[tuple[Candidate, ...], CompactionSettings], Selection]


@dataclass(frozen=True, slots=True)
class _Rules:
    partitions: _PartitionRule | None = None
    slices: _SliceRule | None = None


def estimate_metrics(file_slice: FileSlice, base_file_bytes_max: int) -> dict[str, float]:
    """What compacting a slice costs, with the names and the rounding of JVM Hudi.

    Reading is base and logs, writing as much as the base file has now; each in whole MiB, rounded down before they are
    added. So small slices cost nothing, and any number of them fits into a budget.
    """
    log_bytes = sum(log.size for log in file_slice.logs)
    base_bytes = file_slice.base.size if file_slice.base else 0
    read_mb = (base_bytes + log_bytes) // _MB
    write_mb = (base_bytes or base_file_bytes_max) // _MB
    return {
        TOTAL_LOG_FILES: float(len(file_slice.logs)),
        TOTAL_LOG_FILES_SIZE: float(log_bytes),
        TOTAL_IO_READ_MB: float(read_mb),
        TOTAL_IO_WRITE_MB: float(write_mb),
        TOTAL_IO_MB: float(read_mb + write_mb),
    }


def select_slices(
    candidates: Iterable[Candidate], partitions: Iterable[str], settings: CompactionSettings, *, today: date
) -> Selection:
    """What the strategies of the settings choose from the candidates.

    `partitions` are all of the table, also those without candidates: the newest ten are the newest of the table. Within
    a partition candidates are taken by file id, unless a strategy orders them; the outcome does not depend on the order
    of either argument. `today` is in the table's zone.

    Raises:
        ConfigError: the regular expression is missing or wrong; a strategy that goes by days meets a partition that is
            no date.
    """
    order, left_out = _looked_at(partitions, settings, today)
    position = {partition: number for number, partition in enumerate(order)}
    by_group = sorted(candidates, key=lambda candidate: (candidate.partition_path, candidate.file_slice.file_id))
    kept = tuple(
        sorted((c for c in by_group if c.partition_path in position), key=lambda c: position[c.partition_path])
    )
    dropped = [(c, left_out[c.partition_path]) for c in by_group if c.partition_path not in position]
    for strategy in settings.strategies:
        if (rule := _RULES[strategy].slices) is not None:
            selection = rule(kept, settings)
            kept = selection.kept
            dropped += [(candidate, f"{strategy.value}: {reason}") for candidate, reason in selection.dropped]
    return Selection(kept, tuple(dropped))


def _looked_at(
    partitions: Iterable[str], settings: CompactionSettings, today: date
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The partitions that every strategy of the chain selects, in order, and the reason for each other one."""
    order = tuple(sorted(set(partitions)))
    left_out: dict[str, str] = {}
    for strategy in settings.strategies:
        if (rule := _RULES[strategy].partitions) is not None:
            choice = rule(order, settings, today)
            left_out |= dict.fromkeys(set(order).difference(choice.kept), f"{strategy.value}: {choice.reason}")
            order = choice.kept
    return order, left_out


def _within_budget(candidates: tuple[Candidate, ...], settings: CompactionSettings) -> Selection:
    """As many as fit: slices are taken while the budget is not used up, so the last one may exceed it."""
    left_mb, kept, dropped = settings.target_io_mb, [], []
    reason = f"the slices before it use up the budget of {settings.target_io_mb} MiB"
    for candidate in candidates:
        if left_mb > 0:
            left_mb -= candidate.io_mb
            kept.append(candidate)
        else:
            dropped.append((candidate, reason))
    return Selection(tuple(kept), tuple(dropped))


def _largest_logs_first(candidates: tuple[Candidate, ...], settings: CompactionSettings) -> Selection:
    least = settings.log_size_threshold
    reason = f"its logs have fewer than {least} bytes"
    return _best_within_budget(candidates, settings, lambda candidate: candidate.log_bytes, least, reason)


def _most_logs_first(candidates: tuple[Candidate, ...], settings: CompactionSettings) -> Selection:
    least = settings.log_count_threshold
    reason = f"it has fewer than {least} log files"
    return _best_within_budget(candidates, settings, lambda candidate: len(candidate.file_slice.logs), least, reason)


def _best_within_budget(
    candidates: tuple[Candidate, ...],
    settings: CompactionSettings,
    rank: Callable[[Candidate], int],
    least: int,
    reason: str,
) -> Selection:
    """The slices of at least a rank within the budget, the highest rank first; a stable order."""
    enough = sorted((c for c in candidates if rank(c) >= least), key=rank, reverse=True)
    too_few = tuple((candidate, reason) for candidate in candidates if rank(candidate) < least)
    bounded = _within_budget(tuple(enough), settings)
    return Selection(bounded.kept, too_few + bounded.dropped)


def _newest_partitions(partitions: tuple[str, ...], settings: CompactionSettings, _today: date) -> _Partitions:
    newest = _newest_first(partitions)[: settings.target_partitions]
    return _Partitions(newest, f"its partition is not among the newest {settings.target_partitions}")


def _recent_days(partitions: tuple[str, ...], settings: CompactionSettings, today: date) -> _Partitions:
    """Days in the future count as recent."""
    first = _first_recent_day(settings, today)
    recent = tuple(partition for partition in _newest_first(partitions) if _day_of(partition) >= first)
    return _Partitions(recent, f"its partition is older than {first}")


def _older_days(partitions: tuple[str, ...], settings: CompactionSettings, today: date) -> _Partitions:
    first = _first_recent_day(settings, today)
    older = tuple(partition for partition in _newest_first(partitions) if _day_of(partition) < first)
    return _Partitions(older, f"its partition is not older than {first}")


def _matching(partitions: tuple[str, ...], settings: CompactionSettings, _today: date) -> _Partitions:
    if settings.partition_regex is None:
        raise ConfigError("the strategy needs a regular expression", option="hoodie.compaction.partition.path.regex")
    pattern = java_pattern(settings.partition_regex)
    kept = tuple(partition for partition in partitions if pattern.search(partition))
    return _Partitions(kept, f"its partition does not match {settings.partition_regex!r}")


def _first_recent_day(settings: CompactionSettings, today: date) -> date:
    # A count beyond the calendar means all days.
    return today - timedelta(days=min(settings.target_partitions, today.toordinal() - 1))


def _newest_first(partitions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(partitions, key=_day_of, reverse=True))


def _day_of(partition: str) -> date:
    """The day that a partition path begins with; hours and other fields may follow.

    JVM Hudi takes `yyyy/MM/dd` alone, with or without the names of hive style. `yyyy-MM-dd` and `yyyyMMdd` are as
    clear, and rows without a date are older than any: one such row must not end all compaction.
    """
    values = _HIVE_FIELD.sub(r"\1", partition)
    if values.partition("/")[0] == NULL_PARTITION:
        return date.min
    match = _DATE.match(values)
    if match is not None:
        year, _, month, day, *compact = match.groups()
        try:
            return date(*map(int, compact if year is None else (year, month, day)))
        except ValueError:
            pass
    raise ConfigError(
        "a compaction strategy that goes by days needs partitions of dates, as in 2024/12/31 or 2024-12-31",
        partition=partition,
    )


_RULES: Final[Mapping[CompactionStrategy, _Rules]] = {
    CompactionStrategy.LOG_FILE_SIZE: _Rules(slices=_largest_logs_first),
    CompactionStrategy.LOG_FILE_NUM: _Rules(slices=_most_logs_first),
    CompactionStrategy.BOUNDED_IO: _Rules(slices=_within_budget),
    CompactionStrategy.UNBOUNDED: _Rules(),
    CompactionStrategy.DAY_BASED: _Rules(partitions=_newest_partitions, slices=_within_budget),
    CompactionStrategy.BOUNDED_PARTITION_AWARE: _Rules(partitions=_recent_days),
    CompactionStrategy.UNBOUNDED_PARTITION_AWARE: _Rules(partitions=_older_days),
    CompactionStrategy.PARTITION_REGEX: _Rules(partitions=_matching),
}
