"""Making a catalog say what a table is: entries, columns, partitions, and last of all up to which write.

Everything is taken from one loaded state of the table. The stamp is put when all that it speaks for is there, so a sync
that dies, or loses its connection, leaves an older stamp or none, and the next one makes up for it. So do two that run
beside each other, of which either may have dropped what the other added: who sees the other's stamp takes it away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyhudi.catalogs.entries import (
    COMPLETION_STAMP,
    TIME_STAMP,
    location_of,
    partition_fields_of,
    values_of_path,
    wanted_entries,
)
from pyhudi.catalogs.protocol import Catalog, CatalogColumn, CatalogPartition, CatalogTable
from pyhudi.config.options_catalogs import CatalogOptions
from pyhudi.errors import CatalogError
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState
from pyhudi.table.timeline import comes_once

_Item = TypeVar("_Item")
_STAMPS: Final = (TIME_STAMP, COMPLETION_STAMP)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync changed of one entry. `listed_all`: whether all partitions were compared, not only written ones."""

    database: str
    table: str
    created: bool
    altered: bool
    added: int
    moved: int
    dropped: int
    listed_all: bool


def sync_table(
    table: TableState, catalog: Catalog, options: CatalogOptions, *, dry_run: bool = False
) -> tuple[Synced, ...]:
    """Make the entries of a table right as of the loaded state; with `dry_run` only say what that would change.

    Raises:
        CatalogError: the catalog refuses, or does not answer. The next sync goes on from there.
        InvalidRequestError: the table has no columns yet.
        ConfigError: the paths of partitions do not fit the partition columns.

    Cost: of the first sync of an entry, or after its stamp has left the timeline, or the table its folder, a listing
    of the table and all its partitions from the catalog; else a read per write since the stamp, a listing of each
    partition that these wrote, and only these from the catalog. Three requests, and one per batch of partitions that
    changed.
    """
    entries = wanted_entries(table, options)
    database = entries[0].database
    if not catalog.has_database(database):
        if not options.creates_database:
            raise CatalogError("the catalog has no such database, and auto_create_database is off", database=database)
        if not dry_run:
            catalog.create_database(database)
    states = _PartitionStates(table, options)
    return tuple(_sync_entry(catalog, table, entry, states, options, dry_run=dry_run) for entry in entries)


def _sync_entry(
    catalog: Catalog,
    table: TableState,
    wanted: CatalogTable,
    states: _PartitionStates,
    options: CatalogOptions,
    *,
    dry_run: bool,
) -> Synced:
    present = catalog.find_table(wanted.database, wanted.name)
    target = None if present is None else _altered(present, wanted, options)
    stamps = {} if target is None else _stamps_in(target.parameters)
    altered = target is not None and target != present
    if present is None and not dry_run:
        catalog.create_table(wanted)
    elif present is not None and target is not None and altered and not dry_run:
        catalog.replace_table(target, columns_of_partitions=_needs_cascade(present, target))
    changes = _Changes()
    written = None
    if wanted.partition_columns:
        written = states.written_since(stamps.get(TIME_STAMP), stamps.get(COMPLETION_STAMP))
        folders = states.folders(written)
        changes = _changes([] if present is None else catalog.partitions(present, folders.asked), folders)
        if changes.count and not dry_run:
            _apply(catalog, _present(catalog, wanted), changes, options)
    created = present is None
    if not dry_run and (created or altered or changes.count or not options.only_on_changes):
        _stamp(catalog, table, wanted, stamps)
    return Synced(
        database=wanted.database,
        table=wanted.name,
        created=created,
        altered=altered,
        added=len(changes.added),
        moved=len(changes.moved),
        dropped=len(changes.dropped),
        listed_all=bool(wanted.partition_columns) and written is None,
    )


def _present(catalog: Catalog, wanted: CatalogTable) -> CatalogTable:
    found = catalog.find_table(wanted.database, wanted.name)
    if found is None:
        raise CatalogError(
            "the entry was dropped during the sync: sync again", table=f"{wanted.database}.{wanted.name}"
        )
    return found


def _altered(present: CatalogTable, wanted: CatalogTable, options: CatalogOptions) -> CatalogTable:
    """An entry with what it lacks, and all that others put there."""
    if _names(present.partition_columns) != _names(wanted.partition_columns):
        raise CatalogError(
            "the entry has other partition columns than the table: drop it, which deletes no file, and sync again",
            table=f"{wanted.database}.{wanted.name}",
            entry=_names(present.partition_columns),
            wanted=_names(wanted.partition_columns),
        )
    is_there = _path_of(present.location) == _path_of(wanted.location)
    if not is_there and not _is_of_hudi(present):
        raise CatalogError(
            "the entry is of a table elsewhere, and of another format than Hudi's: give this table another name in the"
            " catalog, or drop the entry",
            table=f"{wanted.database}.{wanted.name}",
            location=present.location,
            wanted=wanted.location,
        )
    parameters = _without_old_parts(present.parameters, wanted.parameters)
    if not is_there:  # the stamps speak for partitions of the other place
        parameters = {name: value for name, value in parameters.items() if name not in _STAMPS}
    return replace(
        present,
        location=present.location if is_there else wanted.location,
        columns=wanted.columns if options.with_comments else _with_comments_of(present, wanted),
        format=wanted.format,
        serde_parameters={**present.serde_parameters, **wanted.serde_parameters},
        parameters={**parameters, **wanted.parameters},
    )


def _is_of_hudi(entry: CatalogTable) -> bool:
    """Whether an entry says that its table is one of Hudi: by a class of Hudi, or as Spark and AWS Glue write it."""
    said = [entry.parameters.get(name, "").lower() for name in ("spark.sql.sources.provider", "table_type")]
    return "hudi" in said or re.search("hudi|hoodie", entry.format.input_format, re.IGNORECASE) is not None


def _needs_cascade(present: CatalogTable, target: CatalogTable) -> bool:
    """Whether partitions need the columns of the table anew: Hive reads a partition by columns of its own."""
    retyped = [(column.name, column.type) for column in target.columns] != [
        (column.name, column.type) for column in present.columns
    ]
    return retyped and bool(present.partition_columns)


def _names(columns: Sequence[CatalogColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _with_comments_of(present: CatalogTable, wanted: CatalogTable) -> tuple[CatalogColumn, ...]:
    comments = {column.name: column.comment for column in present.columns}
    return tuple(replace(column, comment=comments.get(column.name, "")) for column in wanted.columns)


_SCHEMA_PART = re.compile(r"spark\.sql\.sources\.schema\.(part|partCol)\.\d+")


def _without_old_parts(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The parameters without parts of a longer schema of Spark that was there before."""
    return {name: value for name, value in present.items() if name in wanted or not _SCHEMA_PART.fullmatch(name)}


@dataclass(frozen=True, slots=True)
class _Changes:
    added: tuple[CatalogPartition, ...] = ()
    moved: tuple[CatalogPartition, ...] = ()
    dropped: tuple[tuple[str, ...], ...] = ()

    @property
    def count(self) -> int:
        return len(self.added) + len(self.moved) + len(self.dropped)


@dataclass(frozen=True, slots=True)
class _Folders:
    """Partitions of the table by their values: those with rows, and those that have none any more."""

    filled: Mapping[tuple[str, ...], str]
    emptied: frozenset[tuple[str, ...]]
    are_all: bool

    @property
    def asked(self) -> list[tuple[str, ...]] | None:
        """The partitions of the catalog that are compared with them; None: all."""
        return None if self.are_all else [*self.filled, *sorted(self.emptied)]


def _changes(present: Iterable[CatalogPartition], folders: _Folders) -> _Changes:
    known = {partition.values: partition.location for partition in present}
    added = [CatalogPartition(values, place) for values, place in folders.filled.items() if values not in known]
    moved = [
        CatalogPartition(values, place)
        for values, place in folders.filled.items()
        if values in known and _path_of(known[values]) != _path_of(place)
    ]
    gone = known.keys() - folders.filled.keys()
    return _Changes(tuple(added), tuple(moved), tuple(sorted(gone)))


_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_SCHEMES_OF_BUCKETS = re.compile(r"s3[an]?|gs|az|abfss?|wasbs?|memory")


def _path_of(location: str) -> str:
    """What of a location tells it from others: its path, and the bucket or container that it is in.

    Catalogs and programs of Hadoop spell schemes, and hosts of file systems, in several ways.
    """
    found = _LOCATION.fullmatch(location)
    assert found is not None  # of any text
    scheme, host, path = found.groups(default="")
    bucket = host if _SCHEMES_OF_BUCKETS.fullmatch(scheme.lower()) else ""
    return f"{bucket}/{path.strip('/')}"


def _apply(catalog: Catalog, entry: CatalogTable, changes: _Changes, options: CatalogOptions) -> None:
    size = min(options.batch, catalog.batch_max)
    for added in _batches(changes.added, size):
        catalog.add_partitions(entry, added)
    for moved in _batches(changes.moved, size):
        catalog.move_partitions(entry, moved)
    for dropped in _batches(changes.dropped, size):
        catalog.drop_partitions(entry, dropped)


def _batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _stamps_in(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: parameters[name] for name in _STAMPS if name in parameters}


def _stamp(catalog: Catalog, table: TableState, wanted: CatalogTable, previous: Mapping[str, str]) -> None:
    """Say up to which write the entry is right. `previous`: the stamps that this sync began with.

    Cost: two requests; one if it says so already.
    """
    writes = table.timeline.completed_writes
    if not writes:
        return
    present = _present(catalog, wanted)
    stamps = {TIME_STAMP: max(write.requested_time for write in writes)}
    completed = [write.completion_time for write in writes if write.completion_time is not None]
    if completed:
        stamps[COMPLETION_STAMP] = max(completed)
    now = _stamps_in(present.parameters)
    kept = {name: value for name, value in present.parameters.items() if name not in now}
    is_alone = now in (previous, stamps)
    target = replace(present, parameters={**kept, **(stamps if is_alone else {})})
    if target != present:
        catalog.replace_table(target, columns_of_partitions=False)


class _PartitionStates:
    """Which partitions of one loaded table have rows; listed once for all entries."""

    def __init__(self, table: TableState, options: CatalogOptions) -> None:
        self._table = table
        self._options = options
        self._fields = partition_fields_of(table, options)
        self._folders: dict[frozenset[str] | None, _Folders] = {}

    def written_since(self, stamp: str | None, completed: str | None) -> frozenset[str] | None:
        """The paths of partitions that writes after the stamps changed; None if only a full comparison tells.

        That is so without a stamp, and where a write that it names is not on the timeline: it was archived, or undone.
        A bootstrap of version 6 may be that of a table that stood here before.
        In version 6, which has no completion times, all writes of the timeline count: one that began before the stamp
        may have ended after it.
        """
        table = self._table
        writes = table.timeline.completed_writes
        if stamp not in {write.requested_time for write in writes if comes_once(write, table.version)}:
            return None
        if completed is not None and completed not in {write.completion_time for write in writes}:
            return None
        paths: set[str] = set()
        for write in writes:
            seen = completed is not None and write.completion_time is not None and write.completion_time <= completed
            if seen and write.requested_time <= stamp:
                continue
            metadata = load_commit_metadata(table.storage, write, table.version)
            paths |= metadata.stats_by_partition.keys() | (metadata.replaced_file_ids or {}).keys()
        return frozenset(paths)

    def folders(self, paths: frozenset[str] | None) -> _Folders:
        """Those of these partitions that have rows, and those that have none. None: of all."""
        if paths not in self._folders:
            self._folders[paths] = self._load(paths)
        return self._folders[paths]

    def _load(self, paths: frozenset[str] | None) -> _Folders:
        table = self._table
        view = load_view(table.storage, table.timeline, paths, lister=table.lister)
        root = location_of(table, self._options)
        filled = {path for path, slices in view.latest.items() if slices}
        return _Folders(
            {self._values(path): f"{root}/{path}" if path else root for path in sorted(filled)},
            frozenset(self._values(path) for path in (paths or frozenset()) - filled),
            paths is None,
        )

    def _values(self, path: str) -> tuple[str, ...]:
        return values_of_path(
            path,
            self._fields,
            extractor=self._options.extractor,
            hive_style=self._table.config.hive_style,
            decodes=self._options.decodes_values,
        )
