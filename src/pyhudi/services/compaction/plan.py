"""Planning a compaction: which file slices get a new base file, and why the others do not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final, NamedTuple

from pyhudi.errors import InternalError
from pyhudi.format.metadata.compaction import LOG_COMPACTOR, CompactionOperation, CompactionPlan
from pyhudi.services.compaction.strategies import (
    BASE_FILE_BYTES_MAX,
    Candidate,
    CompactionSettings,
    estimate_metrics,
    select_slices,
)
from pyhudi.table.file_slice import FileGroupId, FileSlice

LOG_BLOCKS_THRESHOLD: Final = 5
"""The default of `hoodie.log.compaction.blocks.threshold`."""

_PENDING: Final = "a pending compaction or clustering holds its file group"
_NO_COUNTS: Final[Mapping[FileGroupId, int]] = MappingProxyType({})
_NONE: Final[Mapping[FileGroupId, str]] = MappingProxyType({})


class SliceChoice(NamedTuple):
    """A slice, and why it is or is not compacted, in words for the user."""

    file_slice: FileSlice
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCompaction:
    """A plan with its reasons. Every slice that has logs is in exactly one of `chosen` and `skipped`.

    `chosen` are in the order of the plan's operations. A plan without operations must not be written.
    """

    plan: CompactionPlan
    chosen: tuple[SliceChoice, ...]
    skipped: tuple[SliceChoice, ...]


def plan_compaction(
    slices: Iterable[FileSlice], pending: Collection[FileGroupId], settings: CompactionSettings, *, today: date
) -> PlannedCompaction:
    """The compaction that the strategies of the settings plan for the newest slices of a table.

    `slices` are those of all partitions, with or without logs, and only with committed logs: strategies count
    partitions, and the plan names the partitions that keep logs. `pending` are the groups of pending compactions and
    clusterings. `today` is the day in the table's zone. Cost: sorting the slices.

    Raises:
        ConfigError: see `select_slices`.
        InternalError: two slices of one file group.
    """
    ordered = _ordered(slices)
    free, held = _split_by_pending(ordered, pending)
    candidates = [
        Candidate(file_slice, estimate_metrics(file_slice, settings.base_file_bytes_max)) for file_slice in free
    ]
    partitions = [file_slice.partition_path for file_slice in ordered]
    selection = select_slices(candidates, partitions, settings, today=today)
    skipped = held + tuple(SliceChoice(candidate.file_slice, reason) for candidate, reason in selection.dropped)
    return PlannedCompaction(
        plan=CompactionPlan(
            operations=tuple(_operation_of(candidate) for candidate in selection.kept),
            missing_partitions=_partitions_of(skipped),
        ),
        chosen=tuple(SliceChoice(candidate.file_slice, _cost_of(candidate)) for candidate in selection.kept),
        skipped=skipped,
    )


def plan_log_compaction(
    slices: Iterable[FileSlice],
    pending: Collection[FileGroupId],
    blocks_threshold: int = LOG_BLOCKS_THRESHOLD,
    *,
    block_counts: Mapping[FileGroupId, int] = _NO_COUNTS,
    unjoinable: Mapping[FileGroupId, str] = _NONE,
    base_file_bytes_max: int = BASE_FILE_BYTES_MAX,
) -> PlannedCompaction:
    """The log compaction of all slices with at least `blocks_threshold` log files or log blocks.

    `block_counts` has the number of blocks of slices whose logs were read; it matters in table version 6, where a log
    file grows by a block per write. `pending` are the groups of all pending services, log compactions included.
    `unjoinable`: the groups whose logs cannot be compacted, and why. `base_file_bytes_max` is for the metrics only, see
    `CompactionSettings`.

    Raises:
        InternalError: two slices of one file group.
    """
    free, held = _split_by_pending(_ordered(slices), pending)
    chosen, skipped = [], list(held)
    candidates = []
    for file_slice in free:
        blocks = max(len(file_slice.logs), block_counts.get(file_slice.group, 0))
        if blocks >= blocks_threshold and file_slice.group in unjoinable:
            skipped.append(SliceChoice(file_slice, unjoinable[file_slice.group]))
        elif blocks >= blocks_threshold:
            candidates.append(Candidate(file_slice, estimate_metrics(file_slice, base_file_bytes_max)))
            chosen.append(SliceChoice(file_slice, f"{blocks} log files or blocks"))
        else:
            skipped.append(SliceChoice(file_slice, f"{blocks} log files or blocks, fewer than {blocks_threshold}"))
    return PlannedCompaction(
        plan=CompactionPlan(
            operations=tuple(_operation_of(candidate) for candidate in candidates),
            compactor_class=LOG_COMPACTOR,
            preserve_meta=True,
            missing_partitions=_partitions_of(skipped),
        ),
        chosen=tuple(chosen),
        skipped=tuple(skipped),
    )


def _ordered(slices: Iterable[FileSlice]) -> tuple[FileSlice, ...]:
    ordered = tuple(sorted(slices, key=lambda file_slice: (file_slice.partition_path, file_slice.file_id)))
    if len({file_slice.group for file_slice in ordered}) != len(ordered):
        raise InternalError("a compaction was planned over two slices of one file group")
    return ordered


def _split_by_pending(
    slices: tuple[FileSlice, ...], pending: Collection[FileGroupId]
) -> tuple[tuple[FileSlice, ...], tuple[SliceChoice, ...]]:
    """The slices with logs: those that are free, and those that another service holds."""
    with_logs, held = [file_slice for file_slice in slices if file_slice.logs], frozenset(pending)
    free = tuple(file_slice for file_slice in with_logs if file_slice.group not in held)
    return free, tuple(SliceChoice(file_slice, _PENDING) for file_slice in with_logs if file_slice.group in held)


def _operation_of(candidate: Candidate) -> CompactionOperation:
    file_slice = candidate.file_slice
    return CompactionOperation(
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        base_instant_time=file_slice.base.instant_time if file_slice.base else file_slice.logs[0].name.instant_time,
        delta_files=tuple(str(log.name) for log in file_slice.logs),
        data_file=str(file_slice.base.name) if file_slice.base else None,
        metrics=candidate.metrics,
        bootstrap_file=file_slice.base.source.uri if file_slice.base and file_slice.base.source else None,
    )


def _partitions_of(skipped: Iterable[SliceChoice]) -> tuple[str, ...]:
    """The partitions that keep logs.

    JVM Hudi plans its next compaction from these and from the partitions that were written since. A partition that is
    missing here would keep its logs until the next write to it.
    """
    return tuple(sorted({choice.file_slice.partition_path for choice in skipped}))


def _cost_of(candidate: Candidate) -> str:
    logs = len(candidate.file_slice.logs)
    return f"{logs} log file{'s' if logs > 1 else ''} of {candidate.log_bytes} bytes; {candidate.io_mb} MiB of I/O"
