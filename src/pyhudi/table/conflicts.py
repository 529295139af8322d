"""Which two writes exclude one another. Pure.

When two writes overlap in time, the second to commit gives up

- if both rewrote, made or replaced a common file group;
- if it looked its keys up and put new ones into a partition which the first gave new rows to; with a global index,
  into any partition while the first gave new rows to any;
- if it replaces a partition (overwrite, delete_partition) that the first gave new rows to or replaced;
- if it puts rows into a partition that the first replaced.

Besides, any write conflicts with one that changed the table's schema meanwhile to another than its own.

The rule on new keys keeps UPSERT's promise of one row per key: two writers that both find a key absent put it into
different file groups, where no file-group check can see them. Mission rows S5-34, S5-39, S5-43.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.table.file_system_view import FileGroupId


class UniqueKeys(enum.Enum):
    """Where a write promises that no key is twice because of it."""

    NOWHERE = "it did not look for its keys"
    IN_PARTITION = "it looked for them in the partitions they belong to"
    IN_TABLE = "it looked for them in all partitions (global indexes)"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a write changes: groups it rewrote or made, groups it replaced, where it put new keys, and its schema."""

    rewritten: frozenset[FileGroupId]
    replaced: frozenset[FileGroupId]
    inserted_partitions: frozenset[str]
    replaced_partitions: frozenset[str]
    unique_keys: UniqueKeys
    schema: str | None

    @property
    def is_replace(self) -> bool:
        """Whether the write replaces file groups or partitions."""
        return bool(self.replaced or self.replaced_partitions)


def footprint_of(metadata: CommitMetadata, unique_keys: UniqueKeys = UniqueKeys.NOWHERE) -> Footprint:
    """The footprint of a write. What it promises of its keys matters only for the second of two."""
    rewritten: set[FileGroupId] = set()
    inserted: set[str] = set()
    for partition_path, stats in metadata.stats_by_partition.items():
        for stat in stats:
            if stat.file_id:
                rewritten.add(FileGroupId(partition_path, stat.file_id))
            if stat.num_inserts:
                inserted.add(partition_path)
    replaced = metadata.replaced_file_ids or {}
    return Footprint(
        rewritten=frozenset(rewritten),
        replaced=frozenset(FileGroupId(path, file_id) for path, ids in replaced.items() for file_id in ids),
        inserted_partitions=frozenset(inserted),
        replaced_partitions=frozenset(replaced),
        unique_keys=unique_keys,
        schema=metadata.extra.get("schema"),
    )


def shared_ground(mine: Footprint, theirs: Footprint) -> frozenset[FileGroupId | str]:
    """The file groups and partition paths over which two writes conflict; empty when both may commit."""
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
