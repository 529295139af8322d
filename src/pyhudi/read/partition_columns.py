"""Partition columns: which values are in the names of folders, and which of them hold for the rows of a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import pyarrow as pa

from pyhudi.config.table_config import TableConfig
from pyhudi.format.keys.generator_types import KeyGeneratorType, PartitionFieldKind
from pyhudi.format.keys.partition_paths import partition_values
from pyhudi.format.keys.timestamps import TIMEBASED_PREFIX, TimestampKind

_SLASHED_DATE = re.compile(r"\d{4}/\d{2}/\d{2}")

PartitionValues = tuple[tuple[str, str | None], ...]
"""Columns and their texts in a partition path, None for the null partition."""


def plain_fields(config: TableConfig, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns whose text in the path is their value; none for a CUSTOM table that does not define it."""
    if config.key_generator_type is KeyGeneratorType.CUSTOM:
        kinds = zip(fields, config.partition_kinds, strict=False)
        return tuple(name for name, kind in kinds if kind is PartitionFieldKind.SIMPLE)
    return () if config.key_generator_type is KeyGeneratorType.TIMESTAMP else fields


def folder_columns(config: TableConfig, fields: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    """The partition columns whose values the folders may tell: none with a key generator of the user's own."""
    if config.key_generator_type is KeyGeneratorType.USER_PROVIDED:
        return ()
    return tuple(name for name in plain_fields(config, fields) if name in schema.names)


def slashed_dates(
    config: TableConfig, fields: tuple[str, ...], schema: pa.Schema, partition_paths: Iterable[str]
) -> tuple[str, ...]:
    """The partition column whose dates are folders `2024/01/31`, if there is one.

    No property shows it, once `hoodie.datasource.write.slash.separated.date.partitioning` made the folders.
    The files hold `2024-01-31`, or after an update in its SQL `2024/01/31`; JVM Hudi shows the latter for all of them.
    If the values themselves have slashes, the folders have the same text.
    """
    if len(fields) != 1 or fields[0] not in plain_fields(config, fields) or config.url_encode:
        return ()
    (name,) = fields
    if name not in schema.names or not pa.types.is_string(schema.field(name).type):
        return ()
    prefix = f"{name}=" if config.hive_style else ""
    return fields if any(_SLASHED_DATE.fullmatch(path.removeprefix(prefix)) for path in partition_paths) else ()


def texts_of_numbers(config: TableConfig, fields: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    """The partition columns that are text by the schema, and may be numbers in files.

    JVM Hudi shows the numbers of its timestamp key generator as text, and an `UPDATE` in SQL writes them so.
    """
    if config.key_generator_type is not KeyGeneratorType.TIMESTAMP:
        return ()
    kind = config.values.get(f"{TIMEBASED_PREFIX}timestamp.type", "").upper()
    if kind in TimestampKind.__members__ and TimestampKind[kind].is_text:
        return ()
    return tuple(name for name in fields if name in schema.names and pa.types.is_string(schema.field(name).type))


def values_of_path(
    config: TableConfig,
    fields: tuple[str, ...],
    partition_path: str,
    plain: Collection[str],
    path_columns: Collection[str],
) -> PartitionValues:
    """What a partition path says of the columns in `plain` and `path_columns`.

    Raises `CorruptDataError` where it does not tell the values of `path_columns`. What else it does not tell, because
    values have slashes, is in the files: then no file can be left out for its path.
    """
    if not plain and not path_columns:
        return ()
    is_ambiguous = len(fields) > 1 and len(fields) != partition_path.count("/") + 1
    if is_ambiguous and not path_columns:
        return ()
    values = partition_values(partition_path, fields, hive_style=config.hive_style, url_encoded=config.url_encode)
    return tuple((name, text) for name, text in values.items() if name in plain or name in path_columns)
