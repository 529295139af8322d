"""Changes: what one action did to the files of the table. The partitions of the metadata table make records of them.

Commits, delta commits, replace commits, compactions and cleans are changes. A rollback is none as a rule: it takes back
the delta commit of the metadata table that the write made (`rollback.py` has the exceptions).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.clean import CleanMetadata
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.rollback import RollbackMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata.written_files import end_of
from pyhudi.format.metadata_table.keys import NO_PARTITION

NOTHING_LEARNED: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file that an action added to its partition, or a log of table version 6 that it made longer.

    Attributes:
        name: the file's name, without folders.
        size: the size of the whole file in bytes after the action.
        stat: what the commit says of it: its file group (`file_id`), the version before it (`prev_commit`,
            `prev_base_file`), its rows and deletes, the `log_offset`. None where no commit does: for the log with
            a command block that a rollback of version 6 adds, and for change data.
    """

    name: str
    size: int
    stat: WriteStat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one action did to the files of the table.

    Partition paths are those of the table, `""` where it has none. Nothing here is a record of the metadata table:
    each `MetadataPartition` makes its own from it.

    Attributes:
        instant_time: the action's requested time, which the delta commit of the metadata table has, too.
        added: the files that it wrote, by partition path; a log of a merge-on-read table is one of them. Change data
            (`.cdc`) is among them.
        removed: the names of the files that it deleted, by partition path: cleans and rollbacks delete.
        ended: partition paths that ceased to exist with it, as a clean ends them.
        replaced: the file ids that a replace commit took out of the table, by partition path. Their files stay until a
            clean removes them, so they are not in `removed`; but their records are no longer in the table.
        undoes: the instant of a write that is about to be rolled back although files of the metadata table have what it
            said: `MetadataPartition.follows` says whether the partition can undo that. None for all that is done.
        metadata: all that the commit says, with the schema of the table in `metadata.schema`; None for cleans
            and rollbacks.
        learned: what the tasks of the write learned for one partition of the metadata table, by its name: an index
            that needs more than the write stats lets its tasks return it and finds it here. A partition must do
            without where its name is missing: the action was executed by a service that collects nothing for it.
    """

    instant_time: str
    added: Mapping[str, tuple[AddedFile, ...]] = field(default_factory=dict, repr=False)
    removed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    ended: frozenset[str] = frozenset()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    undoes: str | None = None
    metadata: CommitMetadata | None = field(default=None, repr=False)
    learned: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def operation(self) -> WriteOperation | None:
        """The operation of the commit; None for cleans and rollbacks."""
        return None if self.metadata is None else self.metadata.operation

    @property
    def partitions(self) -> frozenset[str]:
        """The partition paths in which files came or went."""
        return frozenset((*self.added, *self.removed, *self.ended))


def stored_partition(path: str) -> str:
    """The name of a partition path in the keys and values of the metadata table."""
    return path or NO_PARTITION


def partition_path_of(stored: str) -> str:
    """The partition path that a key of the partition `files` names: the reverse of `stored_partition`."""
    return "" if stored == NO_PARTITION else stored


def change_of_commit(
    instant_time: str, metadata: CommitMetadata, learned: Mapping[str, Any] = NOTHING_LEARNED
) -> Change:
    """What a commit, delta commit, replace commit, clustering or compaction of any table version did."""
    added: dict[str, dict[str, AddedFile]] = defaultdict(dict)
    for stats in metadata.stats_by_partition.values():
        for stat in stats:
            if stat.path:
                partition, _, name = stat.path.rpartition("/")
                size = end_of(stat.log_offset or 0, stat.file_size_in_bytes)
                previous = added[partition].get(name)
                if previous is None or previous.size <= size:
                    added[partition][name] = AddedFile(name=name, size=size, stat=stat)
            for path, size in (stat.cdc_stats or {}).items():
                partition, _, name = path.rpartition("/")
                added[partition][name] = AddedFile(name=name, size=size, stat=None)
    return Change(
        instant_time=instant_time,
        added={partition: tuple(files.values()) for partition, files in sorted(added.items())},
        replaced=metadata.replaced_file_ids or {},
        metadata=metadata,
        learned=learned,
    )


def change_of_clean(instant_time: str, metadata: CleanMetadata) -> Change:
    """What a clean did: files went, those that it failed to delete too, for another attempt will have deleted them."""
    return Change(
        instant_time=instant_time,
        removed=_by_partition((*_all_of(metadata.deleted), *_all_of(metadata.failed))),
        ended=frozenset(metadata.deleted_partitions),
    )


def change_of_rollback(done: RollbackMetadata) -> Change:
    """What a rollback did: files went, and in table version 6 logs with command blocks came."""
    removed: dict[str, tuple[str, ...]] = {}
    added: dict[str, tuple[AddedFile, ...]] = {}
    for partition, files in sorted(done.partitions.items()):
        removed[partition] = tuple(sorted({_name(file) for file in (*files.deleted, *files.failed)}))
        # By markers, Hudi 0.15 writes the folder of the table where the name of a log should be.
        logs = {**files.log_files_from_failed_commit, **files.rollback_log_files}
        sizes = {_name(file): size for file, size in logs.items() if parse_data_file(_name(file)) is not None}
        added[partition] = tuple(AddedFile(name=name, size=size) for name, size in sorted(sizes.items()))
    return Change(
        instant_time=done.start_time,
        added={partition: files for partition, files in added.items() if files},
        removed={partition: names for partition, names in removed.items() if names},
    )


def _all_of(by_partition: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    return (path for paths in by_partition.values() for path in paths)


def _by_partition(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        partition, _, name = path.rpartition("/")
        found[partition].add(name)
    return {partition: tuple(sorted(names)) for partition, names in sorted(found.items())}


def _name(file: str) -> str:
    return file.rpartition("/")[2]
