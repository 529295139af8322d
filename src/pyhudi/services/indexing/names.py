"""Names of indexes: what a user calls one, its kind, and its partition of the metadata table."""

from __future__ import annotations

import enum
import re
from typing import Final

from pyhudi.errors import ConfigError


class IndexKind(enum.Enum):
    """What an index is good for; the value is what a user writes."""

    RECORD = "record"
    COLUMN_STATS = "column_stats"
    PARTITION_STATS = "partition_stats"
    BLOOM = "bloom"
    SECONDARY = "secondary"
    EXPRESSION = "expression"


ONE_OF_A_TABLE: Final = {
    IndexKind.RECORD: "record_index",
    IndexKind.COLUMN_STATS: "column_stats",
    IndexKind.PARTITION_STATS: "partition_stats",
    IndexKind.BLOOM: "bloom_filters",
}
"""The partitions of indexes of which a table has at most one: their names are given."""
PREFIXES: Final = {IndexKind.SECONDARY: "secondary_index_", IndexKind.EXPRESSION: "expr_index_"}
"""What the partitions of indexes begin with of which a table has any number."""
_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,100}")


def partition_named(name: str, kind: str | None) -> tuple[str, IndexKind]:
    """The partition of the metadata table for a new index. Raises `ConfigError` for a name or kind that cannot be."""
    chosen = _kind_of(kind) if kind is not None else kind_of_partition(name)
    if chosen is None:
        known = ", ".join(ONE_OF_A_TABLE.values())
        raise ConfigError(f"say what kind of index it is to be, or name one of {known}", name=name)
    if chosen in ONE_OF_A_TABLE:
        if name != ONE_OF_A_TABLE[chosen]:
            raise ConfigError(
                f"a table has one index of this kind at most, and its name is {ONE_OF_A_TABLE[chosen]!r}",
                name=name,
                kind=chosen.value,
            )
        return name, chosen
    own = name.removeprefix(PREFIXES[chosen])
    if not isinstance(name, str) or _NAME.fullmatch(own) is None:
        raise ConfigError("the name of an index must be 1 to 100 letters, digits and underscores", name=repr(name))
    return PREFIXES[chosen] + own, chosen


def kind_of_partition(partition: str) -> IndexKind | None:
    """The kind of index that a partition of the metadata table is; None for `files` and unknown ones."""
    for kind, name in ONE_OF_A_TABLE.items():
        if partition == name:
            return kind
    return next((kind for kind, prefix in PREFIXES.items() if partition.startswith(prefix)), None)


def short_name(partition: str) -> str:
    """What a user calls the index with this partition."""
    prefix = next((prefix for prefix in PREFIXES.values() if partition.startswith(prefix)), "")
    return partition.removeprefix(prefix)


def _kind_of(kind: str) -> IndexKind:
    try:
        return IndexKind(kind)
    except ValueError as error:
        known = ", ".join(one.value for one in IndexKind)
        raise ConfigError(f"the kind of an index must be one of {known}", kind=repr(kind)) from error
