"""Records of the metadata table: Arrow columns to and from the keys and Avro datums in its HFiles.

A partition of the metadata table uses one payload column. So its records are batches of three columns:

    key          string
    type         int32, see `RecordType`
    <payload>    one of `PAYLOAD_COLUMNS`, of the type that `payload_type` gives it; the column's name tells which
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, InternalError
from pyhudi.format.avro.records import decode_avro_data, encode_avro_data
from pyhudi.format.metadata_table.schema import KEY, PAYLOAD_COLUMNS, TYPE, arrow_schema, payload_type, record_schema
from pyhudi.format.timeline.table_version import NEWEST, TableVersion

Records = TypeVar("Records", pa.RecordBatch, pa.Table)
_PAYLOAD_AT = 2
_TIGHT = "isTightBound"
"""The one field with a value in all records that version 6 does not have."""


def records_schema(version: TableVersion, payload: str) -> pa.Schema:
    """The three columns of records with this payload column."""
    return pa.schema(
        [
            pa.field(KEY, pa.string(), nullable=False),
            pa.field(TYPE, pa.int32(), nullable=False),
            pa.field(payload, payload_type(version, payload)),
        ]
    )


def make_records(
    version: TableVersion, payload: str, keys: pa.Array, types: pa.Array, payloads: pa.Array
) -> pa.RecordBatch:
    """A batch of records. `payloads` has the type that `payload_type` gives it.

    Raises:
        InternalError: a column has another type or length.
    """
    schema = records_schema(version, payload)
    try:
        return pa.RecordBatch.from_arrays([keys, types, payloads], schema=schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InternalError("records of the metadata table are not of its schema", payload=payload) from error


def sorted_by_key(records: Records) -> Records:
    """The records by the bytes of their keys, as HFiles need them; equal keys keep their order."""
    # Arrow's sort is stable, and compares strings byte by byte.
    return records.take(pc.sort_indices(records.column(KEY)))


def encode_metadata_records(records: pa.RecordBatch, version: TableVersion) -> tuple[pa.StringArray, pa.BinaryArray]:
    """Keys and values for `write_hfile`, whose `schema` is `record_schema(version)`; sort the records first.

    The payloads of records of one type may be a dictionary: then each distinct one is encoded once.
    """
    rows = records.num_rows
    payloads = records.column(_PAYLOAD_AT)
    if pa.types.is_dictionary(payloads.type):
        return records.column(KEY), _distinct_values(records, version).take(payloads.indices)
    given = {field.name: records.column(number) for number, field in enumerate(records.schema)}
    given[KEY] = pa.array([""], pa.string()).take(pa.array([0] * rows, pa.int32()))
    schema = arrow_schema(version)
    columns = [given.get(field.name, pa.nulls(rows, field.type)) for field in schema]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    return records.column(KEY), encode_avro_data(whole, record_schema(version), with_unions=True)


def _distinct_values(records: pa.RecordBatch, version: TableVersion) -> pa.BinaryArray:
    """The values of the payloads in a dictionary."""
    distinct = records.column(_PAYLOAD_AT).dictionary
    kinds = pc.unique(records.column(TYPE))
    if len(kinds) != min(1, records.num_rows):
        raise InternalError("records with payloads in a dictionary are not of one type")
    kind = kinds[0] if len(kinds) else pa.scalar(0, pa.int32())
    keys, types = pa.repeat("", len(distinct)), pa.repeat(kind, len(distinct))
    rows = make_records(version, records.schema.names[_PAYLOAD_AT], keys, types, distinct)
    return encode_metadata_records(rows, version)[1]


def decode_metadata_records(
    keys: pa.Array, values: pa.BinaryArray, payload: str, *, avro_schema: str, path: str, offset: int
) -> pa.RecordBatch:
    """The records of an HFile, or of some of its entries, in their order.

    Args:
        keys: The keys of the HFile.
        values: Its values, as many.
        payload: The payload column of the partition.
        avro_schema: What the values were written with, as the HFile says.
        path: The file, for errors.
        offset: Where the HFile begins in that file, for errors.

    Returns:
        The payload has the type that the writer's schema gives it, which an older or newer JVM Hudi may have written.

    Raises:
        CorruptDataError: damage in records, keys or schema.
        UnsupportedFeatureError: a type of record that this release does not know: a newer JVM Hudi wrote it.
        SchemaMismatchError: the writer's schema has no such payload column.
    """
    batch = decode_avro_data(
        values, avro_schema, columns=[KEY, TYPE, payload], with_unions=True, path=path, offset=offset
    )
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptDataError("a key in the metadata table is no UTF-8 text", path=path, offset=offset) from error
    types = batch.column(TYPE)
    if not pa.types.is_int32(types.type) or types.null_count:
        raise CorruptDataError("a record of the metadata table has no type", path=path, offset=offset)
    if not pc.all(pc.is_in(types, pa.array([*PAYLOAD_COLUMNS], pa.int32())), min_count=0).as_py():
        raise CorruptDataError("a record of the metadata table has an unknown type", path=path, offset=offset)
    fields = [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(TYPE, pa.int32(), nullable=False),
        batch.schema.field(payload),
    ]
    return pa.RecordBatch.from_arrays([texts, types, batch.column(payload)], schema=pa.schema(fields))


def conformed(records: pa.RecordBatch | None, payload: str) -> pa.RecordBatch:
    """Records with the payload type of the newest table version, whichever release wrote them; None: none.

    What an older release does not say is null, false or zero. What a release newer than this one says is left out.
    """
    schema = records_schema(NEWEST, payload)
    if records is None:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    if records.schema.field(payload).type == schema.field(payload).type:
        return records
    column = _conform(records.column(payload), schema.field(payload).type)
    return pa.RecordBatch.from_arrays([records.column(KEY), records.column(TYPE), column], schema=schema)


def as_written_by(records: pa.Table, version: TableVersion, payload: str) -> pa.Table:
    """Records with the payload type of a table version: what that version has no room for is left out."""
    schema = records_schema(version, payload)
    column = _conform(records.column(payload).combine_chunks(), schema.field(payload).type)
    return pa.table([records.column(KEY), records.column(TYPE), column], schema=schema)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """An array as another type, which has other fields in some of its structs."""
    if array.type == wanted:
        return array
    if not pa.types.is_struct(wanted) or not pa.types.is_struct(array.type):
        try:
            return array.cast(wanted)
        except pa.ArrowException as error:
            raise CorruptDataError("records of the metadata table have a field of another type") from error
    count = len(array)
    children = []
    for field in wanted:
        place = array.type.get_field_index(field.name)
        if place >= 0:
            children.append(_conform(array.field(place), field.type))
        elif field.nullable:
            children.append(pa.nulls(count, field.type))
        elif field.name == _TIGHT:
            children.append(pa.array(np.zeros(count, np.bool_)))
        else:
            raise CorruptDataError("records of the metadata table lack a field", field=field.name)
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
