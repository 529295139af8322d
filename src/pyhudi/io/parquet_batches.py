"""Reading a Parquet file in batches of bounded memory, by the sizes in its footer.

The footer has the uncompressed size of each column chunk. Its rows take as much memory, except for values in a
dictionary, which are stored once and may occur often: columns with wide values are read as dictionaries, and their
values are filled in piece by piece. So are texts of large files that occur often, because Arrow fills them in faster
than it decodes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.pieces import PIECE_BYTES, in_pieces
from pyhudi.format.schema.evolution import align

_WIDE_BYTES: Final = 1024
"""From this size on a value counts as wide. Writers leave such values out of statistics."""
FEW_ROWS: Final = 4096
"""Up to so many rows in a row group, dictionaries are not worth a second reader, whose batches end with row groups."""
_FIXED_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}

RowGroup: TypeAlias = tuple[list[Any], int]
"""The chunks of the wanted columns, and the rows."""


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """A reader that reads column chunks in pieces, and checks their pages."""
    return pq.ParquetFile(
        source,
        buffer_size=1 << 20,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
        **options,
    )


def rows_at_once(row_groups: Iterable[RowGroup], rows_max: int) -> int:
    """How many rows of a file take about `PIECE_BYTES`, up to `rows_max`."""
    widest = 0
    for chunks, rows in row_groups:
        size = sum(max(chunk.total_uncompressed_size, _plain_size(chunk)) for chunk in chunks)
        widest = max(widest, -(-size // rows))
    return max(1, min(rows_max, PIECE_BYTES // max(1, widest)))


def wide_dictionaries(row_groups: Iterable[RowGroup], rows_max: int) -> tuple[str, ...]:
    """Parquet paths of the columns of text or bytes that may be wide, in dictionaries whose values may occur often."""
    found: dict[str, None] = {}
    for chunks, rows in row_groups:
        for chunk in chunks:
            largest = chunk.total_uncompressed_size * min(rows, rows_max)
            if largest > PIECE_BYTES and _has_dictionary(chunk) and _may_be_wide(chunk):
                found[chunk.path_in_schema] = None
    return tuple(found)


def repeated_texts(row_groups: Sequence[RowGroup]) -> tuple[str, ...]:
    """The columns of text or bytes whose values are all in dictionaries, as most of them occur often.

    None where row groups have few rows, as reading them in another way is not worth a second reader.
    """
    if sum(rows for _, rows in row_groups) <= FEW_ROWS * len(row_groups):
        return ()
    in_all: set[str] | None = None
    for chunks, _ in row_groups:
        # A value outside of a dictionary takes four bytes for its length alone.
        here = {
            chunk.path_in_schema
            for chunk in chunks
            if _has_dictionary(chunk) and chunk.total_uncompressed_size <= 2 * chunk.num_values
        }
        in_all = here if in_all is None else in_all & here
    return tuple(sorted(path for path in in_all or () if "." not in path))


def bounded_batches(
    source: Any,
    parquet: pq.ParquetFile,
    columns: Sequence[str] | None,
    rows_max: int,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of an open file in order, in batches of up to `rows_max` rows and about `PIECE_BYTES`.

    A larger row forms its own batch. `row_groups`: their numbers; None for all. Cost: the reads of the rows.
    """
    footer = parquet.metadata
    described = row_groups_of(footer, columns)
    rows = rows_at_once(described, rows_max)
    wide = wide_dictionaries(described, rows)
    groups = range(footer.num_row_groups) if row_groups is None else row_groups
    repeated = repeated_texts(described)
    if not wide and not repeated:
        yield from parquet.iter_batches(batch_size=rows, columns=columns, row_groups=groups, use_threads=False)
        return
    encoded = open_parquet(source, metadata=footer, read_dictionary=[*wide, *repeated])
    fields = {field.name: field for field in parquet.schema_arrow}
    for batch in encoded.iter_batches(batch_size=rows, columns=columns, row_groups=groups, use_threads=False):
        schema = pa.schema([fields[name] for name in batch.schema.names])
        for piece in in_pieces(batch) if wide else (batch,):
            yield align(piece, schema)
            del piece
        del batch


def leaf_columns(footer: pq.FileMetaData) -> list[tuple[str, str]]:
    """The dotted path and the physical type of each column that has no columns in it, in the file's order."""
    schema = schema_of(footer)
    return [(column.path, column.physical_type) for column in map(schema.column, range(len(schema)))]


def schema_of(footer: pq.FileMetaData) -> pq.ParquetSchema:
    """The schema in a footer, in place of `footer.schema`.

    pyarrow keeps that in a cycle with the footer, which with a filter takes 0.8 MB of memory: until Python's next full
    garbage collection, thousands of them would stay.
    """
    return pq.ParquetSchema(footer)


def row_groups_of(footer: Any, columns: Sequence[str] | None) -> list[RowGroup]:
    """The chunks of the wanted columns, and the rows, of each row group that has rows; `columns` None means all."""
    wanted = None if columns is None else set(columns)
    paths = [path for path, _ in leaf_columns(footer)]
    numbers = [n for n, path in enumerate(paths) if wanted is None or path.partition(".")[0] in wanted]
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    return [([group.column(n) for n in numbers], group.num_rows) for group in groups if group.num_rows > 0]


def _plain_size(chunk: Any) -> int:
    """The least memory of the values in Arrow, even if they are smaller in the file."""
    return max(0, int(chunk.num_values)) * _FIXED_WIDTHS.get(chunk.physical_type, 4)


def _has_dictionary(chunk: Any) -> bool:
    return chunk.physical_type == "BYTE_ARRAY" and any(name.endswith("_DICTIONARY") for name in chunk.encodings)


def _may_be_wide(chunk: Any) -> bool:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return True
    values = (statistics.min_raw, statistics.max_raw)
    return any(isinstance(value, str | bytes) and len(value) > _WIDE_BYTES for value in values)
