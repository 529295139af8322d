"""Partitions that values of some of their columns name: all of `a=1/b=…` for `a = 1`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.format.keys.generator import KeyGenerator


@dataclass(frozen=True, slots=True)
class PartitionPattern:
    """The parts of a partition path, one per partition column; None for any value."""

    levels: tuple[str | None, ...]

    def matches(self, path: str) -> bool:
        """Whether the partition of this path is meant."""
        parts = path.split("/") if len(self.levels) > 1 else [path]
        return len(parts) == len(self.levels) and all(
            level is None or level == part for level, part in zip(self.levels, parts, strict=True)
        )


def pattern_of(keys: KeyGenerator, values: pa.RecordBatch) -> PartitionPattern:
    """The partitions of a table with the values of one row, which has some or all of its partition columns."""
    single = replace(keys, slash_dates=keys.slash_dates and len(keys.partition_fields) == 1)
    levels = [
        replace(single, partition_fields=(field,)).partition_paths(values)[0].as_py()
        if field.name in values.schema.names
        else None
        for field in keys.partition_fields
    ]
    return PartitionPattern(tuple(levels))
