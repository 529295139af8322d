"""Logs whose records are all in Parquet blocks, which an engine can read by itself: a block is a Parquet file."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from pyhudi.errors import HudiError
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.io.log.records import BlockPlace, list_log_blocks
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.storage.protocol import Storage


def parquet_blocks(storage: Storage, files: SliceFiles, settings: MergeSettings) -> dict[BlockPlace, LogBlock] | None:
    """The data blocks of a slice's logs that count; None if a reader of Parquet alone cannot read one of them.

    That is a block of another format, one with partial updates, one with a column of another type than the table's, or
    a damaged one, for which decoding raises an error. Cost: see `list_log_blocks`.
    """
    found: dict[BlockPlace, LogBlock] = {}
    for place, block in list_log_blocks(storage, files.logs, files.judged_by(settings.blocks)):
        if block.kind is BlockType.DELETE:
            continue
        if block.kind is not BlockType.PARQUET_DATA or block.is_partial or not block.content_size:
            return None
        if block.schema is None or not _has_types_of(block.schema, settings.schema):
            return None
        found[place] = block
    return found


@lru_cache(maxsize=64)
def _has_types_of(text: str, schema: pa.Schema) -> bool:
    try:
        written = avro_to_arrow(text, source="a log block")
    except HudiError:
        return False
    return all(field.type == schema.field(field.name).type for field in written if field.name in schema.names)
