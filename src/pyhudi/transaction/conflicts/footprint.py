"""Footprints: what an action changes, and what two actions have in common. Pure.

The table of conflicts (`pyhudi.transaction.conflicts.table`) decides which overlaps are conflicts.

Two writers that both find a key absent insert it into different file groups, so that their file groups do not overlap.
So a write that guarantees unique keys also conflicts with new rows in the partitions that it inserts into.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyhudi.errors import HudiError
from pyhudi.format.buckets import bucket_of_file_id
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.compaction import CompactionPlan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.table.file_slice import FileGroupId
from pyhudi.transaction.conflicts.table import Ground, Other, Own, conflict_grounds


class UniqueKeys(enum.Enum):
    """Where a write guarantees that it stores no key a second time."""

    NOWHERE = "it did not look its keys up"
    IN_PARTITION = "it looked them up in their partitions"
    IN_TABLE = "it looked them up in all partitions (global indexes)"
    IN_BUCKET = "it put them into their buckets, each of which has one file group"
    LOCK_LESS = "as before, and it appended to logs only, so that readers merge its rows with those of others"


Reads: TypeAlias = "frozenset[str] | None"
"""Partition paths whose rows a write read to compute its own; None: those of all partitions."""

Heirs: TypeAlias = Mapping[FileGroupId, frozenset[FileGroupId]]
"""The file groups that a resize makes of those of its plan. While it is pending, writes change both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What an action changes, or is going to: file groups and partitions, and the columns of the table.

    `rewritten`: groups that it wrote to; those in `rebased` got a base file, the others logs. `replaced`: groups that
    it replaced. `inserted_partitions`: partitions that it inserted rows into. `replaced_partitions`: partitions whose
    rows it replaced. `schema`: the Avro text of the table's columns after it; None if its metadata have none. `read`:
    the partitions from whose rows it computed its own.
    """

    kind: Other
    rewritten: frozenset[FileGroupId] = frozenset()
    rebased: frozenset[FileGroupId] = frozenset()
    replaced: frozenset[FileGroupId] = frozenset()
    inserted_partitions: frozenset[str] = frozenset()
    replaced_partitions: frozenset[str] = frozenset()
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE
    schema: str | None = None
    read: Reads = frozenset()

    @property
    def changed(self) -> frozenset[FileGroupId]:
        """All file groups that it changes."""
        return self.rewritten | self.replaced

    @property
    def as_own(self) -> Own:
        """The kind of our action, which may have to give way."""
        if self.unique_keys is UniqueKeys.LOCK_LESS:
            return Own.LOCK_LESS_WRITE
        return _AS_OWN.get(self.kind, Own.WRITE)


_AS_OWN: Final = {
    Other.OVERWRITE: Own.OVERWRITE,
    Other.CLUSTERING: Own.CLUSTERING,
    Other.SCHEMA_CHANGE: Own.SCHEMA_CHANGE,
}


def footprint_of(
    metadata: CommitMetadata, unique_keys: UniqueKeys = UniqueKeys.NOWHERE, read: Reads = frozenset()
) -> Footprint:
    """The footprint of a write or of a service that wrote files. `read`: see `Footprint`."""
    rewritten: set[FileGroupId] = set()
    rebased: set[FileGroupId] = set()
    inserted: set[str] = set()
    for partition_path, stats in metadata.stats_by_partition.items():
        for stat in stats:
            if stat.file_id:
                rewritten.add(FileGroupId(partition_path, stat.file_id))
                if isinstance(parse_data_file(stat.path.rpartition("/")[2]), BaseFileName):
                    rebased.add(FileGroupId(partition_path, stat.file_id))
            if stat.num_inserts:
                inserted.add(partition_path)
    replaced = metadata.replaced_file_ids or {}
    return Footprint(
        kind=_kind_of(metadata),
        rewritten=frozenset(rewritten),
        rebased=frozenset(rebased),
        replaced=frozenset(FileGroupId(path, file_id) for path, ids in replaced.items() for file_id in ids),
        inserted_partitions=frozenset(inserted),
        replaced_partitions=frozenset(replaced),
        unique_keys=unique_keys,
        schema=metadata.schema,
        read=read,
    )


def footprint_of_compaction_plan(plan: CompactionPlan) -> Footprint:
    """The footprint that a planned compaction, or log compaction, will have."""
    kind = Other.LOG_COMPACTION_PLAN if plan.is_log_compaction else Other.COMPACTION_PLAN
    groups = frozenset(FileGroupId(operation.partition_path, operation.file_id) for operation in plan.operations)
    return Footprint(kind=kind, rewritten=groups)


def footprint_of_clustering_plan(groups: Iterable[FileGroupId]) -> Footprint:
    """The footprint that a planned clustering of these file groups will have."""
    return Footprint(kind=Other.CLUSTERING_PLAN, replaced=frozenset(groups))


def shared_ground(mine: Footprint, theirs: Footprint, version: TableVersion) -> frozenset[FileGroupId | str]:
    """The file groups and partition paths over which a write gives way to another action; empty when it need not."""
    grounds = conflict_grounds(theirs.kind, mine.as_own, version)
    return frozenset(item for ground in grounds if ground in _SHARED for item in _SHARED[ground](mine, theirs))


def forgotten_heirs(theirs: Footprint, heirs: Heirs) -> frozenset[FileGroupId]:
    """The buckets of a resize that another action changed without a change to any bucket that is made of them."""
    return frozenset(group for group in theirs.changed & heirs.keys() if not theirs.changed & heirs[group])


def schemas_clash(mine: Footprint, theirs: Footprint, base_schema: str | None, *, theirs_began_later: bool) -> bool:
    """Whether one of two writes changed the table's columns to something else than the other one's.

    `base_schema`: the columns that mine began from. If only mine changes them, theirs is in the way when it began
    later: the table's columns are those of the write with the largest instant time, so the change would not be seen.
    """
    if mine.kind is Other.SCHEMA_CHANGE and theirs.schema and theirs_began_later:
        # Comments of columns are no difference between columns, and would be lost all the same.
        return theirs.schema != mine.schema
    if not theirs.schema or same_columns(theirs.schema, mine.schema):
        return False
    return theirs_began_later or not same_columns(theirs.schema, base_schema)


def same_columns(one: str | None, other: str | None) -> bool:
    """Whether two Avro texts spell the same columns. Writers differ in names of records, which are no columns."""
    if one == other or one is None or other is None:
        return one == other
    try:
        # JVM Hudi's ALTER TABLE names the meta columns, too.
        columns = [without_meta_columns(avro_to_arrow(text, source="a commit")) for text in (one, other)]
        return bool(columns[0].equals(columns[1]))
    except HudiError:
        # What cannot be understood is not known to be the same.
        return False


def _kind_of(metadata: CommitMetadata) -> Other:
    match metadata.operation:
        case WriteOperation.LOG_COMPACT:
            return Other.LOG_COMPACTION
        case WriteOperation.CLUSTER:
            return Other.CLUSTERING
        case WriteOperation.ALTER_SCHEMA:
            return Other.SCHEMA_CHANGE
    if metadata.compacted or metadata.operation is WriteOperation.COMPACT:
        return Other.COMPACTION
    return Other.WRITE if metadata.replaced_file_ids is None else Other.OVERWRITE


def _groups(mine: Footprint, theirs: Footprint) -> frozenset[FileGroupId]:
    return mine.changed & theirs.changed


def _base_files(mine: Footprint, theirs: Footprint) -> frozenset[FileGroupId]:
    return mine.rebased & theirs.changed


def _buckets(mine: Footprint, theirs: Footprint) -> frozenset[FileGroupId]:
    if mine.unique_keys not in (UniqueKeys.IN_BUCKET, UniqueKeys.LOCK_LESS):
        return frozenset()
    taken: dict[tuple[str, int], set[str]] = {}
    for group in theirs.rewritten:
        if (bucket := bucket_of_file_id(group.file_id)) is not None:
            taken.setdefault((group.partition_path, bucket), set()).add(group.file_id)
    return frozenset(
        group
        for group in mine.rewritten
        if (bucket := bucket_of_file_id(group.file_id)) is not None
        and taken.get((group.partition_path, bucket), {group.file_id}) != {group.file_id}
    )


def _new_keys(mine: Footprint, theirs: Footprint) -> frozenset[str]:
    match mine.unique_keys:
        case UniqueKeys.NOWHERE | UniqueKeys.IN_BUCKET | UniqueKeys.LOCK_LESS:
            return frozenset()
        case UniqueKeys.IN_PARTITION:
            return mine.inserted_partitions & theirs.inserted_partitions
        case UniqueKeys.IN_TABLE:
            return theirs.inserted_partitions if mine.inserted_partitions else frozenset()


def _partitions(mine: Footprint, theirs: Footprint) -> frozenset[str]:
    return (mine.replaced_partitions & (theirs.inserted_partitions | theirs.replaced_partitions)) | (
        theirs.replaced_partitions & mine.inserted_partitions
    )


def _rows_read(mine: Footprint, theirs: Footprint) -> frozenset[str]:
    changed = theirs.inserted_partitions | theirs.replaced_partitions
    changed |= {group.partition_path for group in theirs.changed}
    return changed if mine.read is None else changed & mine.read


_SHARED: Final[Mapping[Ground, Callable[[Footprint, Footprint], Iterable[FileGroupId | str]]]] = {
    Ground.GROUP: _groups,
    Ground.BASE_FILE: _base_files,
    Ground.BUCKET: _buckets,
    Ground.NEW_KEYS: _new_keys,
    Ground.PARTITION: _partitions,
    Ground.READ: _rows_read,
}
"""The grounds that file groups and partitions make; the others are looked for by `check`."""
