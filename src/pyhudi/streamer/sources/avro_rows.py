"""Avro messages as Arrow: each by the schema that it was written with, whose id it begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.records import decode_avro_data
from pyhudi.format.schema.evolution import Missing, align, write_schema
from pyhudi.streamer.sources.apart import UnreadableError

_HEAD_BYTES: Final = 5
_MAGIC: Final = 0


def rows_of_avro(
    values: pa.BinaryArray, schema_of: Callable[[int], str | None], wanted: pa.Schema | None, stored: pa.Schema | None
) -> pa.Table:
    """The record in each of these messages, of which none may be null, in their order.

    `schema_of`: the JSON of the writer's schema with an id, None where there is none. `wanted`: the columns; None for
    those of all writers' schemas together. `stored`: those of the table, which has rows without the others. Raises
    `UnreadableError`, and `SchemaMismatchError` where two schemas do not fit together.
    """
    places = places_by_schema(values)
    parts = [
        pa.Table.from_batches([_decoded(_bodies(values.take(pa.array(rows))), schema_of, number, rows)])
        for number, rows in places.items()
    ]
    schema = wanted if wanted is not None else _joined_schema([part.schema for part in parts], stored)
    if not parts:
        return schema.empty_table()
    joined = pa.concat_tables([align(part, schema) for part in parts])
    return joined if len(parts) == 1 else joined.take(in_order(places))


def places_by_schema(values: pa.BinaryArray) -> dict[int, npt.NDArray[np.intp]]:
    """The rows of the messages of each writer's schema, by its id. Raises as `rows_of_avro`."""
    ids = _schema_ids(values)
    return {number: np.flatnonzero(ids == number) for number in np.unique(ids).tolist()}


def in_order(places: Mapping[int, npt.NDArray[np.intp]]) -> pa.Array:
    """Where the messages are among those of one schema after the other."""
    return pa.array(np.argsort(np.concatenate(list(places.values())), kind="stable"))


def joined_rows(tables: Sequence[pa.Table], stored: pa.Schema | None) -> pa.Table:
    """Tables one after the other, with the columns of all. `stored`, and errors: as of `rows_of_avro`."""
    schema = _joined_schema([table.schema for table in tables], stored)
    return pa.concat_tables([schema.empty_table(), *(align(table, schema) for table in tables)])


def _joined_schema(schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
    """The columns of all schemas; those that one of them or the table lacks may be null."""
    known = [*schemas, *(() if stored is None else (stored,))]
    everywhere = set.intersection(*(set(schema.names) for schema in known)) if known else set()
    joined: pa.Schema | None = None
    for schema in schemas:
        fields = [field if field.name in everywhere else field.with_nullable(True) for field in schema]
        joined = write_schema(joined, pa.schema(fields), missing=Missing.NULL)
    return pa.schema([]) if joined is None else joined


def _schema_ids(values: pa.BinaryArray) -> npt.NDArray[np.uint32]:
    """The id of the writer's schema of each message."""
    if not len(values):
        return np.array([], np.uint32)
    long_enough = pc.greater_equal(pc.binary_length(values), _HEAD_BYTES)
    if not pc.all(long_enough).as_py():
        raise UnreadableError(pc.index(long_enough, False).as_py(), "it is too short for Avro with the id of a schema")
    heads = pa.concat_arrays([pc.binary_slice(values, 0, _HEAD_BYTES)]).cast(pa.binary(_HEAD_BYTES))
    octets = np.frombuffer(heads.buffers()[1], np.uint8)[heads.offset * _HEAD_BYTES :][: len(heads) * _HEAD_BYTES]
    octets = octets.reshape(-1, _HEAD_BYTES)
    strange = np.flatnonzero(octets[:, 0] != _MAGIC)
    if strange.size:
        raise UnreadableError(int(strange[0]), "it does not begin with a zero and the id of a schema")
    found: npt.NDArray[np.uint32] = np.ascontiguousarray(octets[:, 1:]).view(">u4").reshape(-1).astype(np.uint32)
    return found


def _bodies(values: pa.BinaryArray) -> pa.BinaryArray:
    """The messages without their heads. With an end, as Arrow 26 computes the size of an open slice wrongly."""
    longest = pc.max(pc.binary_length(values)).as_py()
    return pc.binary_slice(values, _HEAD_BYTES, longest)


def _decoded(
    data: pa.BinaryArray, schema_of: Callable[[int], str | None], number: int, rows: npt.NDArray[np.intp]
) -> pa.RecordBatch:
    schema = schema_of(number)
    if schema is None:
        raise UnreadableError(int(rows[0]), f"the schema registry has no schema with the id {number}")
    try:
        return decode_avro_data(data, schema, path="", offset=0)
    except CorruptDataError as error:
        raise _first_bad_row(data, schema, rows, error) from error


def _first_bad_row(
    data: pa.BinaryArray, schema: str, rows: npt.NDArray[np.intp], error: CorruptDataError
) -> UnreadableError:
    """The error for the first message that does not parse. One at a time, as the batch has failed."""
    for number, row in enumerate(rows.tolist()):
        try:
            decode_avro_data(data.slice(number, 1), schema, path="", offset=0)
        except CorruptDataError as cause:
            return UnreadableError(row, cause.message)
    return UnreadableError(int(rows[0]), error.message)
