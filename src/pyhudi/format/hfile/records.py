"""Decoding of HFile records into Arrow: Avro datums by key, with the key restored to its column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.records import decode_avro_data
from pyhudi.format.hfile.reader import HFile, read_hfile
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import RECORD_KEY

METADATA_RECORD: Final = "HoodieMetadataRecord"
"""The name of the metadata table's records."""
METADATA_KEY: Final = "key"
"""Their key column."""


def decode_hfile_records(
    content: pa.Buffer | bytes | memoryview,
    avro_schema: str,
    *,
    columns: Sequence[str] | None = None,
    key_column: str | None = None,
    path: str,
    offset: int,
) -> pa.RecordBatch:
    """The records of an HFile, one row per entry, in the file's order.

    Args:
        content: The content of an HFile data block of a log, or a whole base file: an HFile.
        avro_schema: What the values were written with: the block's `SCHEMA` header, or `HFile.schema`.
        columns: The wanted columns; None for all.
        key_column: The column whose values are the HFile's keys; stored they are empty. None for `key` in the
            metadata table and for `_hoodie_record_key` elsewhere: that is, always but in tables without meta columns.
        path: The file that holds the HFile, for errors.
        offset: Where the HFile begins in that file, for errors.

    Returns:
        Types as `avro_to_arrow` gives them. Of the metadata table only columns without unions of
        several types can be wanted, so no column statistics.

    Raises:
        CorruptDataError: a damaged HFile, record or schema, or a key that is no text.
        UnsupportedFeatureError: as `read_hfile` and `avro_to_arrow`; no key column.

    Cost: that of `read_hfile` and `decode_avro_records`, and one more copy of the values between them.
    """
    hfile = read_hfile(content, path=path, offset=offset)
    key_column = key_column or _key_column(avro_schema, path)
    readable, left_out = _readable_schema(avro_schema, None if columns is None else frozenset(columns), path)
    try:
        batch = decode_avro_data(hfile.values, readable, columns=columns, path=path, offset=offset)
    except CorruptDataError as error:
        if not left_out:
            raise
        raise CorruptDataError(
            "the records of the HFile are damaged, or hold values in columns that cannot be read",
            path=path,
            offset=offset,
            unreadable_columns=left_out,
        ) from error
    place = batch.schema.get_field_index(key_column)
    if place < 0:
        return batch
    if not pa.types.is_string(batch.schema.field(place).type):
        raise CorruptDataError(
            "the key column of the HFile's records is no text", path=path, offset=offset, column=key_column
        )
    return batch.set_column(place, batch.schema.field(place), _key_texts(hfile, path, offset))


def _key_texts(hfile: HFile, path: str, offset: int) -> pa.StringArray:
    try:
        return hfile.keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptDataError("a key of the HFile is no UTF-8 text", path=path, offset=offset) from error


def _record_of(avro_schema: str, path: str) -> dict[str, Any]:
    try:
        record = json.loads(avro_schema)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError("the Avro schema of the HFile is not JSON", path=path) from error
    fields = record.get("fields") if isinstance(record, dict) else None
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise CorruptDataError("the Avro schema of the HFile is not one of a record", path=path)
    return dict(record)


@lru_cache(maxsize=64)
def _key_column(avro_schema: str, path: str) -> str:
    record = _record_of(avro_schema, path)
    names = [field.get("name") for field in record["fields"]]
    is_metadata = str(record.get("name")).rpartition(".")[2] == METADATA_RECORD
    name = METADATA_KEY if is_metadata else RECORD_KEY
    if name not in names:
        raise UnsupportedFeatureError(
            "the records of the HFile have no key column that is known by name; name it", path=path, column=name
        )
    return name


@lru_cache(maxsize=64)
def _readable_schema(avro_schema: str, wanted: frozenset[str] | None, path: str) -> tuple[str, tuple[str, ...]]:
    """A schema by which the wanted columns can be decoded, and the columns that it cannot decode.

    The metadata table has one record type for all of its partitions, and one nullable column for each kind of them.
    An unwanted column whose type Arrow lacks must be null, as it is in all partitions but its own; otherwise decoding
    fails.
    """
    try:
        avro_to_arrow(avro_schema, source=path)
    except UnsupportedFeatureError:
        if wanted is None:
            raise
    else:
        return avro_schema, ()
    record = _record_of(avro_schema, path)
    left_out = tuple(
        str(field.get("name"))
        for field in record["fields"]
        if field.get("name") not in wanted and _is_nullable_without_type(record, field, path)
    )
    fields = [field | {"type": ["null"]} if str(field.get("name")) in left_out else field for field in record["fields"]]
    return json.dumps(record | {"fields": fields}), left_out


def _is_nullable_without_type(record: dict[str, Any], field: dict[str, Any], path: str) -> bool:
    avro = field.get("type")
    if not isinstance(avro, list) or avro[:1] != ["null"]:
        return False
    try:
        avro_to_arrow(json.dumps(record | {"fields": [field]}), source=path)
    except UnsupportedFeatureError:
        return True
    except CorruptDataError:
        return False  # uses a type that another column defines; the whole schema was fine in that respect
    return False
