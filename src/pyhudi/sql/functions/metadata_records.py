"""The records of the metadata table as a DataFrame, in the form of JVM Hudi: read by Spark's tasks, group by group."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata_table.schema import (
    BLOOM_FILTER_COLUMN,
    COLUMN_STATS_COLUMN,
    FILES_COLUMN,
    KEY,
    RECORD_INDEX_COLUMN,
    SECONDARY_INDEX_COLUMN,
    TYPE,
    arrow_schema,
)
from pyhudi.format.timeline.table_version import NEWEST
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.lookup import read_slice
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.spark.types import spark_schema
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.metadata_partitions import BLOOM_FILTERS, FILES, RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.state import TableState

_PAYLOADS: Final = (FILES_COLUMN, BLOOM_FILTER_COLUMN, COLUMN_STATS_COLUMN, RECORD_INDEX_COLUMN, SECONDARY_INDEX_COLUMN)
_OF_PARTITION: Final = {
    FILES: FILES_COLUMN,
    BLOOM_FILTERS: BLOOM_FILTER_COLUMN,
    RECORD_INDEX: RECORD_INDEX_COLUMN,
    SECONDARY_INDEX_PREFIX: SECONDARY_INDEX_COLUMN,
}
_Group: TypeAlias = tuple[StorageSpec, GroupSlice, str]
"""A file group, the store that it is in, and the payload column of its records."""


def metadata_records(spark: SparkSession, table: TableState) -> DataFrame:
    """All records of the metadata table. Cost: its listing here; its files in the tasks.

    Raises `InvalidRequestError` for a table without one.
    """
    names = table.config.metadata_partitions
    if FILES not in names:
        raise InvalidRequestError("the table has no metadata table: CALL create_metadata_table builds one")
    state = load_metadata_state(table)
    spec = table.storage.spec
    groups = [(spec, file_slice, _payload_of(name)) for name in names for file_slice in state.slices(name)]
    # The groups go with the function, not with the rows: a store's credentials are in no plan that Spark shows.
    numbers = spark.range(len(groups)).repartition(max(len(groups), 1))
    return numbers.mapInArrow(functools.partial(_read, groups), spark_schema(_schema()))


def _payload_of(partition: str) -> str:
    found = (
        payload for name, payload in _OF_PARTITION.items() if partition == name.rstrip("_") or _is_one(partition, name)
    )
    return next(found, COLUMN_STATS_COLUMN)


def _is_one(partition: str, prefix: str) -> bool:
    return prefix.endswith("_") and partition.startswith(prefix)


def _read(groups: Sequence[_Group], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _rows(*groups[number])


def _rows(spec: StorageSpec, group: GroupSlice, payload: str) -> Iterator[pa.RecordBatch]:
    schema = _schema()
    records = read_slice(open_spec(spec), group, payload)
    for batch in records.to_batches(max_chunksize=65_536):
        columns = [batch.column(KEY).cast(pa.string()), batch.column(TYPE).cast(pa.int32())]
        for name in _PAYLOADS:
            kind = schema.field(name).type
            columns.append(_shaped(batch.column(name), kind) if name == payload else pa.nulls(len(batch), kind))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@cache
def _schema() -> pa.Schema:
    stored = arrow_schema(NEWEST)
    return pa.schema([(name, _spark_type(stored.field(name).type)) for name in (KEY, TYPE, *_PAYLOADS)])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """The type as Spark reads Avro: the members of a union have numbers, a time is a number."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _spark_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if not pa.types.is_struct(kind):
        return pa.int64() if pa.types.is_time(kind) else kind
    fields = list(kind)
    is_union = all(field.name.endswith("Wrapper") for field in fields)
    names = [f"member{at}" if is_union else field.name for at, field in enumerate(fields)]
    return pa.struct([(name, _spark_type(field.type)) for name, field in zip(names, fields, strict=True)])


def _shaped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in the type that `_spark_type` makes of theirs."""
    if pa.types.is_struct(kind):
        children = [_shaped(values.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _repeated(values, kind)
    return values.cast(kind)


def _repeated(values: Any, kind: pa.DataType) -> pa.Array:
    mask = values.is_null()
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(values.offsets, values.keys, _shaped(values.items, kind.item_type), mask=mask)
    return pa.ListArray.from_arrays(values.offsets, _shaped(values.values, kind.value_type), type=kind, mask=mask)
