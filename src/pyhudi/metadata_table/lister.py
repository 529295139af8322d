"""The lister over the metadata table's `files`, and the view that readers get: from it, or else from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import (
    CorruptDataError,
    HistoryNotRetainedError,
    HudiError,
    NotFoundError,
    SchemaMismatchError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from pyhudi.format.metadata_table.keys import NO_PARTITION
from pyhudi.format.metadata_table.schema import FILES_COLUMN, KEY, TYPE, RecordType
from pyhudi.format.safe_paths import path_problem
from pyhudi.metadata_table.lookup import all_records, records_with_keys
from pyhudi.metadata_table.read_checks import missing_files, problem_for_reads, warn_of_metadata_table
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState

_LOOKUPS_MAX: Final = 4
"""So many partitions are looked up one by one; who asks for more is given them from all of them."""
_UNBELIEVABLE: Final = (CorruptDataError, UnsupportedFeatureError, NotFoundError, SchemaMismatchError, UnsafePathError)


class MetadataLister:
    """A `Lister` that reads the metadata table's `files`. Sizes are those in it; modification times are not known.

    Raises `CorruptDataError`, `UnsupportedFeatureError` or `NotFoundError` where the metadata table is damaged.
    """

    def __init__(self, state: MetadataState) -> None:
        """The lister of a metadata table that was found believable."""
        self._state = state
        self._all: Mapping[str, list[FileInfo]] | None = None
        self._lookups = 0

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        """See `Lister`. Cost: that of `partition` for each."""
        return [info for path in paths for info in self.partition(path)]

    def partition(self, path: str) -> list[FileInfo]:
        """The files of one partition. Cost: a lookup of one key; after some of them that of `table`, once."""
        if self._all is None and self._lookups < _LOOKUPS_MAX:
            self._lookups += 1
            key = pa.array([path or NO_PARTITION])
            found = files_by_partition(records_with_keys(self._state, FILES, FILES_COLUMN, key))
            return found.get(path, [])
        return list(self._by_partition().get(path, []))

    def table(self) -> list[FileInfo]:
        """See `Lister`. Cost: all files of `files`, once."""
        return [info for files in self._by_partition().values() for info in files]

    def _by_partition(self) -> Mapping[str, list[FileInfo]]:
        if self._all is None:
            self._all = files_by_partition(pa.concat_tables(all_records(self._state, FILES, FILES_COLUMN)))
        return self._all


def files_by_partition(records: pa.Table) -> dict[str, list[FileInfo]]:
    """The files in records of `files`, by the path of their partition, `""` where the table has none.

    Raises:
        UnsafePathError: a partition or a file lies outside of the table.
    """
    listings = records.filter(pc.equal(records.column(TYPE), int(RecordType.FILES))).combine_chunks()
    found: dict[str, list[FileInfo]] = {}
    for key, entries in zip(listings.column(KEY).to_pylist(), listings.column(FILES_COLUMN), strict=True):
        path = "" if key == NO_PARTITION else key
        if path and (problem := path_problem(path)) is not None:
            raise UnsafePathError(f"a partition in the metadata table {problem}", path=path)
        found[path] = list(_files(path, entries.values)) if entries.is_valid else []
    return found


def _files(path: str, entries: pa.Array) -> Iterable[FileInfo]:
    names, infos = entries.field(0), entries.field(1)
    is_there = ~np.asarray(infos.field("isDeleted").to_numpy(zero_copy_only=False), dtype=np.bool_)
    kept = pa.array(is_there)
    prefix = f"{path}/" if path else ""
    for name, size in zip(names.filter(kept).to_pylist(), infos.field("size").filter(kept).to_pylist(), strict=True):
        if "/" in name or "\\" in name:
            raise UnsafePathError("a file in the metadata table has a folder in its name", path=f"{prefix}{name}")
        yield FileInfo(prefix + name, size, 0)


def metadata_lister(table: TableState, wanted: bool | None) -> MetadataLister | None:
    """The lister over the metadata table; None where files are to be listed in the store.

    `wanted`: None uses the metadata table from table version 8 on, as JVM Hudi does. Warns (`MetadataTableWarning`)
    where it is not valid. Cost: two listings and `problem_for_reads`; nothing without a metadata table.
    """
    config = table.config
    use = table.version.has_completion_times if wanted is None else wanted
    if not use or FILES not in config.metadata_partitions:
        return None
    try:
        state = load_metadata_state(table)
        reason = problem_for_reads(state) or missing_files(state)
    except _UNBELIEVABLE as error:
        reason = f"its timeline cannot be read ({error.message})"
    if reason is None:
        return MetadataLister(state)
    warn_of_metadata_table(table.storage, reason, is_listed=True)
    return None


def load_read_view(
    table: TableState,
    partition_paths: Iterable[str] | None = None,
    *,
    wanted: bool | None = None,
    skips_damaged: bool = False,
) -> FileSystemView:
    """The view of some partitions, or of all, for a read: from the metadata table, or listed where it cannot be.

    A metadata table that is damaged, or lacks files of completed writes, is passed over with a warning. `wanted`: see
    `metadata_lister`. Raises and costs what `load_view` does.
    """
    paths = None if partition_paths is None else tuple(partition_paths)
    lister = metadata_lister(table, wanted)
    reason: HudiError | None = None
    if lister is not None:
        try:
            view = load_view(table.storage, table.timeline, paths, lister=lister)
            _ = view.latest  # finds files of completed writes that are missing
        except (*_UNBELIEVABLE, HistoryNotRetainedError) as error:
            reason = error
        else:
            return replace(view, skips_damaged=skips_damaged) if skips_damaged else view
    view = load_view(table.storage, table.timeline, paths, skips_damaged=skips_damaged)
    if reason is not None:
        if not skips_damaged:
            _ = view.latest  # what is missing in the store as well is not the fault of the metadata table
        warn_of_metadata_table(table.storage, f"{reason.message} [{reason.context.get('path')}]", is_listed=True)
    return view
