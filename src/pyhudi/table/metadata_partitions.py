"""The partitions of the metadata table: this release maintains some, a commit drops some, and some make it refuse.

The one table of it. Who implements a partition (`pyhudi.metadata_table.partitions.maintained`) changes its row here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

FILES: Final = "files"
"""The partition that lists the files; without it there is no metadata table."""

RECORD_INDEX: Final = "record_index"
"""The partition that has the file group of each record key."""

SECONDARY_INDEX_PREFIX: Final = "secondary_index_"
"""What the names of partitions begin with that have the record keys of each value of a column."""

EXPRESSION_INDEX_PREFIX: Final = "expr_index_"
"""What the names of partitions begin with that have statistics or bloom filters of an expression."""

BLOOM_FILTERS: Final = "bloom_filters"
"""The partition that has the bloom filter of each base file."""


class Upkeep(enum.Enum):
    """What a commit does about a partition of the metadata table."""

    MAINTAINED = "maintained"
    """The commit writes its records."""
    REFUSED = "refused"
    """The table is not written: a user asked for this index by name, and it would be gone."""


UPKEEP: Final[Mapping[str, Upkeep]] = {
    FILES: Upkeep.MAINTAINED,
    "column_stats": Upkeep.MAINTAINED,
    "partition_stats": Upkeep.MAINTAINED,
    BLOOM_FILTERS: Upkeep.MAINTAINED,
    RECORD_INDEX: Upkeep.MAINTAINED,
    SECONDARY_INDEX_PREFIX: Upkeep.MAINTAINED,
    EXPRESSION_INDEX_PREFIX: Upkeep.MAINTAINED,
}
"""By the name of the partition, or what its name begins with where it ends in `_`."""


def upkeep_of(partition: str) -> Upkeep:
    """What a commit does about a partition; one that this release does not know makes it refuse."""
    found = UPKEEP.get(partition)
    if found is None:
        found = next(
            (upkeep for name, upkeep in UPKEEP.items() if name.endswith("_") and partition.startswith(name)), None
        )
    return found or Upkeep.REFUSED


def with_upkeep(partitions: Iterable[str], upkeep: Upkeep) -> tuple[str, ...]:
    """Those of the partitions that a commit treats so, in their order."""
    return tuple(partition for partition in partitions if upkeep_of(partition) is upkeep)
