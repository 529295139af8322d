"""Decoding of the HFile records of tables into Arrow: Avro datums by key, with the key restored to its column.

Those of the metadata table are decoded by `pyhudi.format.metadata_table.records`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.records import decode_avro_data
from pyhudi.format.hfile.reader import HFile, read_hfile
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import RECORD_KEY


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
        content: The content of an HFile data block of a log: an HFile.
        avro_schema: What the values were written with: the block's `SCHEMA` header.
        columns: The wanted columns; None for all.
        key_column: The column whose values are the HFile's keys; stored they are empty. None for `_hoodie_record_key`:
            that is, always but in tables without meta columns.
        path: The file that holds the HFile, for errors.
        offset: Where the HFile begins in that file, for errors.

    Returns:
        Types as `avro_to_arrow` gives them.

    Raises:
        CorruptDataError: a damaged HFile, record or schema, or a key that is no text.
        UnsupportedFeatureError: as `read_hfile` and `avro_to_arrow`; no key column.

    Cost: that of `read_hfile` and `decode_avro_records`, and one more copy of the values between them.
    """
    hfile = read_hfile(content, path=path, offset=offset)
    if key_column is None and RECORD_KEY not in avro_to_arrow(avro_schema, source=path).names:
        raise UnsupportedFeatureError(
            "the records of the HFile have no key column that is known by name; name it", path=path, column=RECORD_KEY
        )
    batch = decode_avro_data(hfile.values, avro_schema, columns=columns, path=path, offset=offset)
    key_column = key_column or RECORD_KEY
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
