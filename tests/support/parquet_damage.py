"""Damage to a page of a Parquet file, alone or in a block of a log, that only its checksum shows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq


def with_damaged_page(content: bytes, column: str) -> bytes:
    """The content with another byte near the end of a column's chunk, which has values there, and no header."""
    data = bytearray(content)
    begin, end = data.index(b"PAR1"), data.rindex(b"PAR1") + 4
    group = pq.ParquetFile(pa.BufferReader(bytes(data[begin:end]))).metadata.row_group(0)
    (chunk,) = [chunk for chunk in map(group.column, range(group.num_columns)) if chunk.path_in_schema == column]
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    data[begin + first + chunk.total_compressed_size - 3] ^= 0xFF
    return bytes(data)
