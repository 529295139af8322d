"""Cleaning policies: decide for each file slice whether a clean may delete it. Pure.

A state of the table is retained if a reader may still ask for it. Of each file group the newest slice is always needed,
and of those that began before the earliest retained write the newest one, for it is what that write's readers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.format.file_names import LogFileName
from pyhudi.format.metadata.clean import CleaningPolicy
from pyhudi.format.timeline.instant import Instant
from pyhudi.table.file_slice import FileGroupId, FileSlice, LogFile
from pyhudi.table.file_system_view import FileGroup, FileSystemView
from pyhudi.table.timeline import position_of

ChangeDataFiles = Mapping[FileGroupId, Sequence[tuple[str, LogFileName]]]
"""Paths and names of the change data files of each group."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean must leave.

    `earliest`: the oldest write whose state stays readable; None under KEEP_LATEST_FILE_VERSIONS, where `versions`
    slices of each group stay. `newest`: the newest completed write. `savepointed`: paths that savepoints name.
    `planned`: by group, the instant of the oldest slice that a pending plan needs. `reading_since`: the requested
    time of the oldest pending write, which may be reading what was current then. `spares_readers`: whether what the
    newest write has replaced stays for readers that are at work.
    """

    policy: CleaningPolicy
    earliest: Instant | None
    newest: Instant
    versions: int = 1
    savepointed: frozenset[str] = frozenset()
    planned: Mapping[FileGroupId, str] = field(default_factory=dict)
    reading_since: str | None = None
    spares_readers: bool = True


@dataclass(frozen=True, slots=True)
class SliceDecision:
    """Whether a clean deletes a file slice, and why. `paths`: its files, change data files among them."""

    file_slice: FileSlice
    deletes: bool
    reason: str
    paths: tuple[str, ...]


def decide(view: FileSystemView, change_data: ChangeDataFiles, retention: Retention) -> Iterator[SliceDecision]:
    """A decision for each slice of each group of a view, group by group, oldest slice first."""
    for group_id, group in view.groups.items():
        replaced_at = view.replaced.get(group_id)
        slices = slices_of(group)
        reasons = _reasons(group_id, slices, replaced_at, view, retention)
        for file_slice, reason, paths in zip(
            slices, reasons, _paths_of(slices, change_data.get(group_id, ())), strict=True
        ):
            if not retention.savepointed.isdisjoint(paths):
                yield SliceDecision(file_slice, False, "a savepoint keeps it", paths)
            elif reason:
                yield SliceDecision(file_slice, False, reason, paths)
            elif replaced_at is not None:
                yield SliceDecision(file_slice, True, f"its file group was replaced by {replaced_at}", paths)
            else:
                yield SliceDecision(file_slice, True, "newer slices hold every retained state of its file group", paths)


def slices_of(group: FileGroup) -> tuple[FileSlice, ...]:
    """All slices of a group, oldest first; logs from before the first base file are a slice of their own."""
    starts = [base.instant_time for base in group.base_files]
    logs: list[list[LogFile]] = [[] for _ in range(len(starts) + 1)]
    for log in group.logs:
        at = sum(start <= log.position for start in starts)
        logs[at].append(log)
    slices = [FileSlice(group.id, logs[0][0].instant_time, None, tuple(logs[0]))] if logs[0] else []
    for base, of_base in zip(group.base_files, logs[1:], strict=True):
        slices.append(FileSlice(group.id, base.instant_time, base, tuple(of_base)))
    return tuple(slices)


def _reasons(
    group_id: FileGroupId,
    slices: Sequence[FileSlice],
    replaced_at: str | None,
    view: FileSystemView,
    retention: Retention,
) -> list[str]:
    """By slice, why the policy keeps it; empty where it does not."""
    if replaced_at is not None:
        is_needed = _needs_replaced(replaced_at, view, retention)
        reasons = ["a retained state from before its replacement needs it" if is_needed else "" for _ in slices]
    elif retention.earliest is None:
        first_kept = len(slices) - retention.versions
        reasons = [
            f"one of the newest {retention.versions} slices" if n >= first_kept else "" for n in range(len(slices))
        ]
        if retention.reading_since is not None:
            older = sum(file_slice.instant_time < retention.reading_since for file_slice in slices)
            reasons[max(0, older - 1) :] = ["a pending write may be reading it"] * len(slices[max(0, older - 1) :])
    else:
        reasons = _reasons_by_earliest(slices, retention.earliest, view)
    if slices and replaced_at is None:
        reasons[-1] = "the newest slice of its file group"
    planned = retention.planned.get(group_id)
    return [
        reason or ("a pending plan needs it" if planned is not None and file_slice.instant_time >= planned else "")
        for reason, file_slice in zip(reasons, slices, strict=True)
    ]


def _needs_replaced(replaced_at: str, view: FileSystemView, retention: Retention) -> bool:
    """Whether a reader may still ask for a state from before a replacement.

    Readers of the state before the newest write may still be at work, so groups that it replaced stay, too, unless
    nothing is to stay that is older than the newest state.
    """
    bound = retention.earliest or retention.newest
    if retention.earliest is None and not retention.spares_readers:
        return retention.reading_since is not None
    if retention.reading_since is not None and replaced_at >= retention.reading_since:
        return True
    return replaced_at >= bound.requested_time or not _completed_before(replaced_at, bound, view)


def _reasons_by_earliest(slices: Sequence[FileSlice], earliest: Instant, view: FileSystemView) -> list[str]:
    first_kept = 0
    for number, file_slice in enumerate(slices):
        if file_slice.instant_time < earliest.requested_time and _completed_before(
            file_slice.instant_time, earliest, view
        ):
            first_kept = number
    return [
        "" if n < first_kept else "the newest slice before the earliest retained write" if n == first_kept
        else "it began with a retained write"
        for n in range(len(slices))
    ]  # fmt: skip


def _completed_before(instant_time: str, earliest: Instant, view: FileSystemView) -> bool:
    """Whether a write was visible before the earliest retained write; an archived write was.

    A compaction takes its instant when it is planned, and may complete much later: until then readers saw the slice
    before it.
    """
    completed = view.timeline.completion_times.get(instant_time)
    return completed is None or completed <= position_of(earliest)


def _paths_of(slices: Sequence[FileSlice], change_data: Sequence[tuple[str, LogFileName]]) -> Iterator[tuple[str, ...]]:
    """The files of each slice: base file, logs, and the change data that the writes of the slice made."""
    starts = [file_slice.instant_time for file_slice in slices]
    for number, file_slice in enumerate(slices):
        end = starts[number + 1] if number + 1 < len(starts) else None
        changes = (
            path
            for path, name in change_data
            if (number == 0 or name.instant_time >= starts[number]) and (end is None or name.instant_time < end)
        )
        base = [file_slice.base.path] if file_slice.base is not None else []
        yield (*base, *(log.path for log in file_slice.logs), *changes)
