"""Reader of HFiles: sorted files of keys and values, for base files of the metadata table and a type of log blocks.

    file    := data blocks | meta blocks | index blocks | file info block | trailer
    block   := 8 bytes magic | int stored size | int size | long previous block | byte checksum type
               | int bytes per checksum | int header and payload | payload | int checksums
    data    := ( int key size | int value size | short row size | row | 0 | 8 bytes time | 4 | value | 0 )*
    trailer := magic | length | protobuf message | zeros | int version, in the last 4096 bytes

There are two writers: the HBase library in Hudi 0.15 and 1.0, with checksums and deep indexes, and JVM Hudi's own
writer since 1.1, with neither. This reader reads whole files from front to back and does not need the index;
`pyhudi.format.hfile.indexed` reads what it needs of a large file.

https://github.com/apache/hudi/blob/master/hudi-io/hfile_format.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.records import decode_avro_data
from pyhudi.format.hfile.blocks import (
    Block,
    Gathered,
    KeysAndValues,
    Source,
    Trailer,
    block_at,
    parse_file_info,
    parse_trailer,
    schema_of,
    source_of,
)
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.layout import DATA_MAGIC, TRAILER_BYTES
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import RECORD_KEY

_NO_BLOCKS: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HFile:
    """All entries of an HFile, in the file's order, and what it says about itself.

    Attributes:
        keys: The rows: UTF-8 record keys in ascending order of their bytes, where the writer kept to the format. A key
            may occur more than once.
        values: The value of each key, as long as `keys`, without nulls.
        file_info: Names and values of the file info block.
        schema: The Avro JSON of the values; None where the values are something else, as in a bootstrap index.
        codec: How the blocks were compressed.
    """

    keys: pa.BinaryArray = field(repr=False)
    values: pa.BinaryArray = field(repr=False)
    file_info: Mapping[str, bytes] = field(repr=False)
    schema: str | None = field(repr=False)
    codec: HFileCodec


def read_hfile(data: pa.Buffer | bytes | memoryview, *, path: str, offset: int = 0) -> HFile:
    """Every entry of an HFile, of either dialect.

    Checksums are verified where the writer made them. Without, damage to keys and values can go unseen unless the
    codec has checksums of its own, as gzip does; damage to anything that says how long something is does not.

    Args:
        data: The whole HFile and nothing else.
        path: The file that holds it, for errors.
        offset: Where it begins in that file, for errors.

    Raises:
        CorruptDataError: any damage; names path and the offset of the part that is damaged.
        UnsupportedFeatureError: another version than 3, the codec LZO or an unknown one, encryption, entries with
            transaction numbers, or more than `CONTENT_BYTES_MAX`, or than a file of this size may expand to.

    Cost: two copies of the content: one decompressing, one gathering keys and values; 0.5 µs per entry to find where
    it begins.
    """
    source = source_of(data, path, offset)
    trailer = parse_trailer(source)
    file_info = parse_file_info(source, trailer)
    keys, values = _read_entries(source, trailer)
    if len(keys) != trailer.entry_count:
        raise source.damage(
            "the HFile does not hold as many entries as it says",
            source.size - TRAILER_BYTES,
            expected=trailer.entry_count,
            found=len(keys),
        )
    schema = schema_of(file_info, source, trailer)
    return HFile(keys=keys, values=values, file_info=MappingProxyType(file_info), schema=schema, codec=trailer.codec)


def _read_entries(source: Source, trailer: Trailer) -> KeysAndValues:
    gathered = Gathered(source)
    for block in _data_blocks(source, trailer):
        gathered.add(gathered.read(block, trailer.codec))
    return gathered.entries()


def _data_blocks(source: Source, trailer: Trailer) -> Iterator[Block]:
    """The data blocks from the first to the last; the leaves of a deep index stand between them and are passed over."""
    if trailer.entry_count == 0 or trailer.first_data_block == _NO_BLOCKS:
        return
    position = trailer.first_data_block
    while position < trailer.last_data_block:
        block = block_at(source, position)
        if block.magic == DATA_MAGIC:
            yield block
        position = block.end
    if position != trailer.last_data_block or (block := block_at(source, position)).magic != DATA_MAGIC:
        raise source.damage("the last data block of the HFile is not where the trailer says", position)
    yield block


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
