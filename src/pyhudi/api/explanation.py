"""`ScanExplanation`: a scan before it runs, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyhudi.api.display import bytes_text
from pyhudi.api.read_hints import read_hints
from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.markup import Html, bar, joined, table, tag
from pyhudi.read.arrow import Skipped
from pyhudi.read.conditions import Where, columns_of, condition_of, shown
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.column_statistics import IndexUse
from pyhudi.table.state import TableState

_PARTITIONS_NAMED = 10
"""How many partitions the text of an explanation names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanExplanation:
    """What a scan would read, and why not the rest; `str()` says it in words.

    The numbers that end in `_of` count what the query would read without the condition.

    Attributes:
        uri: where the table is.
        query: "snapshot", "read_optimized" or "incremental".
        as_of: the moment of the rows: the time asked for, or the newest completed write; None for a table that was
            never written to, and for changes.
        begin: of changes: after which time; None for all that was ever written.
        end: of changes: until which time; None for all until the table was opened.
        misses: of changes: what a follower does not learn from them, and from where it does; None for other queries.
        columns: the columns of the result.
        where: the condition as text.
        base_files: how many base files are read.
        logs: how many log files are read.
        bytes: the size of both; of Parquet files only the wanted columns and row groups are fetched.
        files_skipped: of the base files read without logs, those of which only the footer is read: by its statistics no
            row group can match. 0 for a scan of all rows.
        row_groups: how many row groups of the base files without logs are read; None for a scan of all rows.
        row_groups_of: how many row groups these files have; None for a scan of all rows.
        merged: how many file slices have logs, whose records are merged with those of the base file.
        merge_mode: how the versions of a record become one, where slices are merged.
        partitions: the paths of the partitions that are read.
        partitions_left_out: those that are not read, as their paths or indexes rule the condition out.
        indexes: what the indexes of the metadata table left out, and why not more; none for a scan of all rows.
        hints: what makes the read slow, with the command that makes it faster.
    """

    uri: str
    query: str
    as_of: str | None
    begin: str | None
    end: str | None
    misses: str | None
    columns: tuple[str, ...]
    where: str | None
    base_files: int
    base_files_of: int
    logs: int
    logs_of: int
    bytes: int
    bytes_of: int
    files_skipped: int
    row_groups: int | None
    row_groups_of: int | None
    merged: int
    merge_mode: str
    partitions: tuple[str, ...]
    partitions_left_out: tuple[str, ...]
    indexes: tuple[IndexUse, ...]
    hints: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return pruned(self)

    def _lines(self) -> Iterator[str]:
        if self.query == QueryType.INCREMENTAL.value:
            yield f"changes of {self.uri} after {self.begin or 'the beginning'} until {self.end or 'it was opened'}"
            yield f"not among them: {self.misses}"
        else:
            yield f"{self.query} of {self.uri} as of {self.as_of or 'before its first write'}"
        yield f"columns: {', '.join(self.columns)}"
        yield f"where: {self.where or 'all rows'}"
        found = len(self.partitions) + len(self.partitions_left_out)
        yield f"partitions: {len(self.partitions)} of {found}"
        if self.partitions_left_out:
            by = "paths or statistics rule" if any(index.file_slices for index in self.indexes) else "paths rule"
            yield f"  left out, as their {by} the condition out: {_named(self.partitions_left_out)}"
        yield from map(_use, self.indexes)
        yield f"base files: {self.base_files} of {self.base_files_of}"
        yield f"logs: {self.logs} of {self.logs_of}"
        yield f"bytes: {self.bytes} of {self.bytes_of}, before columns and row groups are left out"
        if self.row_groups is not None:
            yield f"row groups that statistics leave: {self.row_groups} of {self.row_groups_of}"
            yield f"base files that they skip as a whole: {self.files_skipped} of {self.base_files}"
        if self.merged:
            yield f"merged: {self.merged} file slices with logs, by {self.merge_mode}"
        else:
            yield "merged: nothing; no file slice has logs"
        for hint in self.hints:
            yield f"hint: {hint}"


def explanation_of(
    state: TableState,
    request: ReadConfig,
    whole: ScanPlan,
    pruned: ScanPlan,
    skipped: Skipped | None,
    indexes: tuple[IndexUse, ...],
    *,
    columns: tuple[str, ...],
    where: Where,
) -> ScanExplanation:
    """The explanation of a scan: of the `whole` one, `pruned` is what its condition leaves, without the `skipped`.

    `indexes`: what led to `pruned`, besides the paths of partitions.
    """
    is_range = request.query_type is QueryType.INCREMENTAL
    writes = state.timeline.completed_writes
    read = _partitions(pruned)
    return ScanExplanation(
        uri=state.storage.uri,
        query=request.query_type.value,
        as_of=None if is_range else request.as_of or (writes[-1].requested_time if writes else None),
        begin=request.begin if is_range and request.begin != EARLIEST else None,
        end=request.end if is_range else None,
        misses=_misses(state) if is_range else None,
        columns=columns,
        where=shown(where),
        base_files=_base_files(pruned),
        base_files_of=_base_files(whole),
        logs=_logs(pruned),
        logs_of=_logs(whole),
        bytes=_bytes(pruned),
        bytes_of=_bytes(whole),
        files_skipped=0 if skipped is None else skipped.files,
        row_groups=None if skipped is None else skipped.row_groups,
        row_groups_of=None if skipped is None else skipped.row_groups_of,
        merged=sum(bool(file_slice.files.logs) for file_slice in pruned.slices),
        merge_mode=state.config.merge_mode.value,
        partitions=tuple(sorted(read)),
        partitions_left_out=tuple(sorted(_partitions(whole) - read)),
        indexes=indexes,
        hints=tuple(_hints(state, whole, pruned, skipped, where)),
    )


def _hints(
    state: TableState, whole: ScanPlan, pruned: ScanPlan, skipped: Skipped | None, where: Where
) -> Iterator[str]:
    condition = condition_of(where, whole.schema)
    asked = [] if condition is None else columns_of(condition.whole, whole.schema)
    yield from read_hints(
        state.storage.uri,
        base_files=_base_files(pruned),
        logs=_logs(pruned),
        merged=sum(bool(file_slice.files.logs) for file_slice in pruned.slices),
        size=_bytes(pruned),
        partitions=len(_partitions(pruned)),
        row_groups=0 if skipped is None else skipped.row_groups,
        row_groups_of=0 if skipped is None else skipped.row_groups_of,
        asked_columns=[name for name in asked if name not in (state.config.partition_fields or ())],
    )


def _misses(state: TableState) -> str:
    captured = "changes(format='cdc') has them" if state.config.cdc_enabled else "the table captures no change data"
    return f"rows that were deleted, dropped or overwritten, and the previous places of rows that moved; {captured}"


def _partitions(plan: ScanPlan) -> set[str]:
    return {file_slice.partition_path for file_slice in plan.slices}


def _base_files(plan: ScanPlan) -> int:
    return sum(file_slice.files.base is not None for file_slice in plan.slices)


def _logs(plan: ScanPlan) -> int:
    return sum(len(file_slice.files.logs) for file_slice in plan.slices)


def _bytes(plan: ScanPlan) -> int:
    return sum(
        file_slice.size if file_slice.files.logs else file_slice.size - file_slice.log_size
        for file_slice in plan.slices
    )


def _use(index: IndexUse) -> str:
    by = f" by {', '.join(index.columns)}" if index.columns else ""
    note = f"; {index.note}" if index.note else ""
    return f"{index.index}: {index.file_slices} file slices left out{by}{note}"


def _named(partitions: tuple[str, ...]) -> str:
    more = len(partitions) - _PARTITIONS_NAMED
    named = ", ".join(path or "(the table's own folder)" for path in partitions[:_PARTITIONS_NAMED])
    return f"{named}, and {more} more" if more > 0 else named


def pruned(found: ScanExplanation) -> Html:
    """What a scan opens of what there is, as bars, and in words."""
    left_out = len(found.partitions_left_out)
    kinds = [
        ("partitions", len(found.partitions), len(found.partitions) + left_out),
        ("base files", found.base_files - found.files_skipped, found.base_files_of),
        ("logs", found.logs, found.logs_of),
    ]
    if found.row_groups is not None and found.row_groups_of is not None:
        kinds.append(("row groups of base files without logs", found.row_groups, found.row_groups_of))
    rows = [(name, bar(part, whole, f"{part:,} of {whole:,}")) for name, part, whole in kinds]
    rows.append(
        ("bytes", bar(found.bytes, found.bytes_of, f"{bytes_text(found.bytes)} of {bytes_text(found.bytes_of)}"))
    )
    bars = table("What is read, of what there is", ("", "read"), rows)
    return joined([bars, tag("details", tag("summary", "In words"), tag("pre", str(found)))])
