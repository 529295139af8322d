"""Partition columns: which of them the folder names say, and what they say of the rows of a file."""

from __future__ import annotations

from collections.abc import Collection

from pyhudi.config.choices import KeyGeneratorType, PartitionKind
from pyhudi.config.table_config import TableConfig
from pyhudi.format.partition_paths import partition_values

PartitionValues = tuple[tuple[str, str | None], ...]
"""Columns and their texts in a partition path, None for the null partition."""


def plain_fields(config: TableConfig, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns whose own text is in the path. Nobody knows for a CUSTOM table that does not say."""
    if config.key_generator_type is KeyGeneratorType.CUSTOM:
        kinds = zip(fields, config.partition_kinds, strict=False)
        return tuple(name for name, kind in kinds if kind is PartitionKind.SIMPLE)
    return () if config.key_generator_type is KeyGeneratorType.TIMESTAMP else fields


def values_of_path(
    config: TableConfig, fields: tuple[str, ...], partition_path: str, shown: Collection[str]
) -> PartitionValues:
    """What a partition path says of the columns in `shown`."""
    if not shown:
        return ()
    values = partition_values(partition_path, fields, hive_style=config.hive_style, url_encoded=config.url_encode)
    return tuple((name, text) for name, text in values.items() if name in shown)
