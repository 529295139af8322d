"""Which two writes exclude one another. Pure.

When two writes overlap in time, the second to commit gives up

- if both rewrote, made or replaced a common file group;
- if it looked its keys up and put new ones into a partition which the first gave new rows to; with a global index,
  into any partition while the first gave new rows to any;
- if it replaces a partition (overwrite, delete_partition) that the first gave new rows to or replaced;
- if it puts rows into a partition that the first replaced.

- if a compaction was planned over a file group while it ran, and it made a base file there, which the compaction will
  not read; in table version 6, whose logs carry the name of the slice that they belong to, also if it appended there.

Besides, any write conflicts with one that changed the table's schema meanwhile to another than its own. A compaction
whose plan was there when a write began does not stand in its way: the write belongs to the slice after it.

The rule on new keys keeps UPSERT's promise of one row per key: two writers that both find a key absent put it into
different file groups, where no file-group check can see them. Mission rows S5-34, S5-39, S5-43.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.compaction_plan import CompactionPlan
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.table_version import TableVersion
from pyhudi.table.file_slice import FileGroupId


class UniqueKeys(enum.Enum):
    """Where a write promises that no key is twice because of it."""

    NOWHERE = "it did not look for its keys"
    IN_PARTITION = "it looked for them in the partitions they belong to"
    IN_TABLE = "it looked for them in all partitions (global indexes)"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a write changes: groups it wrote to, groups it replaced, where it put new keys, and its schema.

    `rebased` are those of the groups in `rewritten` that got a base file; the others got logs.
    """

    rewritten: frozenset[FileGroupId]
    rebased: frozenset[FileGroupId]
    replaced: frozenset[FileGroupId]
    inserted_partitions: frozenset[str]
    replaced_partitions: frozenset[str]
    unique_keys: UniqueKeys
    schema: str | None
    is_compaction: bool = False

    @property
    def is_replace(self) -> bool:
        """Whether the write replaces file groups or partitions."""
        return bool(self.replaced or self.replaced_partitions)


def footprint_of(metadata: CommitMetadata, unique_keys: UniqueKeys = UniqueKeys.NOWHERE) -> Footprint:
    """The footprint of a write. What it promises of its keys matters only for the second of two."""
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
        rewritten=frozenset(rewritten),
        rebased=frozenset(rebased),
        replaced=frozenset(FileGroupId(path, file_id) for path, ids in replaced.items() for file_id in ids),
        inserted_partitions=frozenset(inserted),
        replaced_partitions=frozenset(replaced),
        unique_keys=unique_keys,
        schema=metadata.extra.get("schema"),
        is_compaction=metadata.compacted,
    )


def shared_ground(mine: Footprint, theirs: Footprint, version: TableVersion) -> frozenset[FileGroupId | str]:
    """The file groups and partition paths over which two writes conflict; empty when both may commit."""
    if theirs.is_compaction:
        return frozenset(_met_by_compaction(mine, version) & theirs.rewritten)
    groups = (mine.rewritten | mine.replaced) & (theirs.rewritten | theirs.replaced)
    partitions: frozenset[str] = frozenset()
    if mine.unique_keys is UniqueKeys.IN_PARTITION:
        partitions |= mine.inserted_partitions & theirs.inserted_partitions
    elif mine.unique_keys is UniqueKeys.IN_TABLE and mine.inserted_partitions:
        partitions |= theirs.inserted_partitions
    if mine.is_replace:
        partitions |= mine.replaced_partitions & (theirs.inserted_partitions | theirs.replaced_partitions)
    if theirs.is_replace:
        partitions |= theirs.replaced_partitions & mine.inserted_partitions
    return frozenset(groups) | partitions


def ground_of_plan(plan: CompactionPlan, version: TableVersion, mine: Footprint) -> frozenset[FileGroupId]:
    """The file groups of a plan over which a write conflicts with it that began before the plan was made."""
    planned = {FileGroupId(operation.partition_path, operation.file_id) for operation in plan.operations}
    return frozenset(planned & _met_by_compaction(mine, version))


def _met_by_compaction(mine: Footprint, version: TableVersion) -> frozenset[FileGroupId]:
    """The groups of a write that a compaction planned meanwhile must not touch."""
    return mine.rebased if version.has_completion_times else mine.rewritten
