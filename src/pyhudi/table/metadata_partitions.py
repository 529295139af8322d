"""The partitions of the metadata table that this release maintains.

Who implements a partition (`pyhudi.metadata_table.partitions.maintained`) adds it here.
"""

from __future__ import annotations

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


MAINTAINED: Final = frozenset({FILES, "column_stats", "partition_stats", BLOOM_FILTERS, RECORD_INDEX})
"""The partitions whose records a commit writes, beside those with a prefix: a table with another one is not written."""


def is_maintained(partition: str) -> bool:
    """Whether a commit writes the records of a partition."""
    return partition in MAINTAINED or partition.startswith((SECONDARY_INDEX_PREFIX, EXPRESSION_INDEX_PREFIX))
