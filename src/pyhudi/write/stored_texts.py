"""Checks that stored keys and partition paths of timestamps have the form that this release writes.

They differ for timestamps. JVM Hudi prints microseconds since the epoch in inserts and upserts (`1706695200500000`), as
pyhudi does; but `2024-01-31 10:00:00.5` in bulk inserts, and in all writes with
`hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled`; and its SQL names partitions
`2024-01-31 10%3A00%3A00`. The latter are truncated local times of an unknown machine, so the text of a row cannot
be computed. A write would store the row a second time, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.keys.generator_types import PartitionFieldKind
from pyhudi.format.keys.partition_paths import partition_values
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.schema.type_at import type_at
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.io.base_file import read_batches
from pyhudi.table.file_system_view import SlicesByPartition, load_view
from pyhudi.table.lister import Lister
from pyhudi.table.remembered_files import listed_once
from pyhudi.table.state import TableState

LOGICAL_TIMESTAMPS_KEY = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
_MICROSECONDS = re.compile(r"-?\d+")
_DATE_AT_END = re.compile(r"([^/]+=)?\d{4}-\d{2}-\d{2}")
_SLASHED_DATE_AT_END = re.compile(r"([^/]+=)?\d{4}/\d{2}/\d{2}")


def stored_key(table: TableState, latest: SlicesByPartition) -> pa.StringArray:
    """One record key of the table, or none. Cost: the key column of one base file."""
    for base in (file_slice.base for slices in latest.values() for file_slice in slices if file_slice.base is not None):
        for batch in read_batches(table.storage, base.path, columns=[RECORD_KEY], batch_rows=1):
            return batch.column(RECORD_KEY)
    return pa.array([], pa.string())


def check_timestamp_texts(
    table: TableState, keys: KeyGenerator, schema: pa.Schema, lister: Lister, *, logical: bool
) -> None:
    """Refuse a write whose timestamps would become keys or partition paths of another form than the stored ones.

    `logical`: whether the caller asks for JVM Hudi's consistent logical timestamps. Here one stored key is checked; the
    others are checked when they are looked up (`pyhudi.index.stored_keys`).

    Raises `UnsupportedFeatureError`. Cost: for tables with such a column, a listing and a key; nothing for others.
    """
    in_keys = timestamp_key_fields(keys, schema)
    in_paths = tuple(
        field.name
        for field in keys.partition_fields
        if field.kind is PartitionFieldKind.SIMPLE and _is_timestamp(schema, field.name)
    )
    if not in_keys and not in_paths:
        return
    if logical:
        raise UnsupportedFeatureError(
            f"{LOGICAL_TIMESTAMPS_KEY}=true makes record keys or partition paths of local times, which this release "
            "does not support: omit it for a new table, and write a table with such keys with JVM Hudi",
            columns=(*in_keys, *in_paths),
        )
    with listed_once(table.storage, table.timeline, lister) as remembering:
        latest = load_view(table.storage, table.timeline, lister=remembering).latest
        for path in latest if in_paths else ():
            _check_path(table, keys, path, in_paths)
        if in_keys:
            check_stored_keys(stored_key(table, latest), keys.patterns_of_numbers(in_keys))


def check_date_folders(table: TableState, keys: KeyGenerator, partition_paths: Iterable[str]) -> None:
    """Refuse a write of `2024-01-31` into a table whose folders are `2024/01/31`, which would store rows once more.

    JVM Hudi creates such folders by an option, and does not store that option for hive style.

    Raises `UnsupportedFeatureError`. Cost: what `TableState.newest_writes` costs, which a write needs anyway.
    """
    if len(keys.partition_fields) != 1:
        return
    dates = [path for path in partition_paths if _DATE_AT_END.fullmatch(path)]
    if dates and any(_SLASHED_DATE_AT_END.fullmatch(path) for path in table.newest_writes.partition_paths):
        raise UnsupportedFeatureError(
            "dates of this table are folders like 2024/01/31, and rows of this write would go to folders like "
            "2024-01-31: write this table with JVM Hudi and "
            "hoodie.datasource.write.slash.separated.date.partitioning=true",
            partitions=dates[:5],
        )


def timestamp_key_fields(keys: KeyGenerator, schema: pa.Schema) -> tuple[str, ...]:
    """The record key fields whose columns are timestamps."""
    return tuple(name for name in keys.record_key_fields if _is_timestamp(schema, name))


def _check_path(table: TableState, keys: KeyGenerator, path: str, fields: tuple[str, ...]) -> None:
    names = keys.partition_field_names
    texts = partition_values(path, names, hive_style=keys.hive_style, url_encoded=table.config.url_encode)
    for name in fields:
        text = texts[name]
        if text is not None and not _MICROSECONDS.fullmatch(text):
            raise UnsupportedFeatureError(
                f"the partitions of the timestamp column {name!r} are named by local times, as SQL and bulk inserts of "
                "JVM Hudi do; this release names them by microseconds and would store rows a second time: write this "
                "table with JVM Hudi",
                column=name,
                partition=path,
            )


def _is_timestamp(schema: pa.Schema, name: str) -> bool:
    kind = type_at(schema, name)
    return kind is not None and bool(pa.types.is_timestamp(kind))
