"""The comparison of the metadata table with the store: files with folders, statistics with footers, keys with rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import HudiError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.metadata_table.checks.indexes import index_differences
from pyhudi.metadata_table.checks.statistics import statistics_differences
from pyhudi.metadata_table.lister import MetadataLister
from pyhudi.metadata_table.read_checks import missing_files, problem_for_reads
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.committed_files import committed_files
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.state import TableState

DIFFERENCES: Final = pa.schema(
    [
        pa.field("problem", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("stored_bytes", pa.int64()),
        pa.field("listed_bytes", pa.int64()),
        pa.field("detail", pa.string()),
    ]
)


def differences(table: TableState, *, with_contents: bool = True) -> pa.Table:
    """How the metadata table differs from the store, with the columns of `DIFFERENCES`; no rows where it does not.

    `with_contents`: compare also statistics with footers, and indexes with rows. Cost: a recursive listing of the
    table, and all of `files`; with contents a footer per base file for column statistics, and for other indexes those
    of `index_differences`.
    """
    rows = list(_differences(table, with_contents=with_contents)) if has_metadata_table(table) else []
    return pa.Table.from_pylist(rows, schema=DIFFERENCES)


def _differences(table: TableState, *, with_contents: bool) -> Iterator[dict[str, Any]]:
    stored = {info.path: info for info in list_data_files(table.storage) if parse_data_file(info.name) is not None}
    try:
        state = load_metadata_state(table)
        reason = problem_for_reads(state) or missing_files(state)
        if reason is not None:
            yield {"problem": "not valid", "detail": reason}
        listed = {info.path: info for info in MetadataLister(state).table() if parse_data_file(info.name) is not None}
        of_lost_attempts = _of_lost_attempts(table, [stored[path] for path in stored.keys() - listed.keys()])
    except HudiError as error:
        yield {"problem": "unreadable", "path": error.context.get("path"), "detail": error.message}
        return
    for path in sorted((stored.keys() | listed.keys()) - of_lost_attempts):
        in_store, in_list = stored.get(path), listed.get(path)
        problem = _problem(table, in_store, in_list)
        if problem is not None:
            yield {
                "problem": problem,
                "path": path,
                "stored_bytes": None if in_store is None else in_store.size,
                "listed_bytes": None if in_list is None else in_list.size,
            }
    if not with_contents:
        return
    try:
        yield from statistics_differences(state)
        yield from index_differences(state)
    except HudiError as error:
        yield {"problem": "unreadable", "path": error.context.get("path"), "detail": error.message}


def _problem(table: TableState, stored: FileInfo | None, listed: FileInfo | None) -> str | None:
    if stored is None:
        return "gone from the store"
    if listed is None:
        return "not listed" if _is_committed(table, stored) else None
    return None if stored.size == listed.size else "another size"


def _of_lost_attempts(table: TableState, files: Sequence[FileInfo]) -> frozenset[str]:
    """The paths of base files that lost task attempts left. Cost: none, or that of `committed_files`."""
    if not any(_is_committed(table, info) for info in files):
        return frozenset()
    committed = committed_files(table.storage, table.timeline)
    return frozenset(info.path for info in files if committed.is_of_lost_attempt(info))


def _is_committed(table: TableState, info: FileInfo) -> bool:
    """Whether a file is one of a completed write, as far as its name shows: that of a log of version 6 does not."""
    name = parse_data_file(info.name)
    if name is None or (isinstance(name, LogFileName) and not table.version.has_completion_times):
        return False
    return table.timeline.is_committed(name.instant_time) or table.timeline.starts_after(name.instant_time)
