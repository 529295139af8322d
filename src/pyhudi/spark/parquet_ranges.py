"""Ranges of Parquet files that tasks read with Arrow in Spark's place, where both read the same rows.

Spark gives each of its splits ranges of bytes. A row group belongs to the range with its middle, as in parquet-mr.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import HudiError
from pyhudi.io.parquet_batches import bounded_batches, leaf_columns, open_parquet
from pyhudi.spark.batches import SPLIT_BATCH_ROWS, cast_batch

_WRITER, _OLD_DATES, _OLD_INT96 = (
    b"org.apache.spark.version",
    b"org.apache.spark.legacyDateTime",
    b"org.apache.spark.legacyINT96",
)
"""What Spark says in a footer: its version, and whether old dates are those of the Julian calendar."""
_WITHOUT_OLD_INT96: Final = (3, 1)
"""From this version on Spark says so of INT96; from 3.0 on of the other types."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A local file, as Spark has listed it."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """The row groups of a file whose middles are in a range of its bytes."""

    file: ListedFile
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScannedColumns:
    """What is read of each file.

    Attributes:
        names: the names of the columns in the files.
        schema: the columns of the rows that come out, one for each name.
        new_dates: old dates and times are of the Gregorian calendar in files that do not say which Spark wrote them.
        new_int96: the same of times of type INT96.
    """

    names: tuple[str, ...]
    schema: pa.Schema
    new_dates: bool
    new_int96: bool


class RowsNotReadError(HudiError):
    """Arrow does not read a range after all: the file has changed, or is damaged. Spark decides what that means."""


def reads_alike(columns: ScannedColumns, file: ListedFile) -> bool:
    """Whether Arrow certainly reads the same rows of a file as Spark. Cost: a read of its footer."""
    try:
        with _opened(file) as source:
            return _is_alike(columns, file, open_parquet(source))
    except (RowsNotReadError, OSError, pa.ArrowException):
        return False


def rows_of_ranges(columns: ScannedColumns, ranges: Sequence[FileRange]) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges in their order, of files that `reads_alike` approved.

    Memory: about `PIECE_BYTES` and a row, whatever is in a row group. Raises `RowsNotReadError`. Cost: the reads of
    the footers, and of the wanted columns of these row groups.
    """
    try:
        yield from _batches(columns, ranges)
    except RowsNotReadError:
        raise
    except (HudiError, OSError, pa.ArrowException) as error:
        raise RowsNotReadError(f"these files are not read by Arrow: {error}") from error


def _batches(columns: ScannedColumns, ranges: Sequence[FileRange]) -> Iterator[pa.RecordBatch]:
    names = list(columns.names)
    for part in ranges:
        with _opened(part.file) as source:
            parquet = open_parquet(source)
            middles = _middles(parquet.metadata)
            groups = [number for number, middle in enumerate(middles) if part.start <= middle < part.end]
            if groups:
                for batch in bounded_batches(source, parquet, list(dict.fromkeys(names)), SPLIT_BATCH_ROWS, groups):
                    yield cast_batch(batch.select(names), columns.schema)


@contextmanager
def _opened(file: ListedFile) -> Iterator[Any]:
    """The file, open. Raises `RowsNotReadError` if it is not the one that Spark has listed."""
    with pa.OSFile(file.path) as source:
        found = Path(file.path).stat()
        modified = found.st_mtime_ns // 1_000_000
        # Some runtimes of Java know times of files by the second.
        by_second = file.modified_ms % 1000 == 0 and modified // 1000 * 1000 == file.modified_ms
        if found.st_size != file.size or not (modified == file.modified_ms or by_second):
            raise RowsNotReadError("the file has changed since Spark listed it", path=file.path)
        yield source


def _middles(footer: pq.FileMetaData) -> list[int]:
    """The middle of each row group in the file, computed as parquet-mr does."""
    middles = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunks = [group.column(n) for n in range(group.num_columns)]
        first = chunks[0]
        begin = min(first.data_page_offset, first.dictionary_page_offset or first.data_page_offset)
        middles.append(begin + sum(chunk.total_compressed_size for chunk in chunks) // 2)
    return middles


def _is_alike(columns: ScannedColumns, file: ListedFile, parquet: pq.ParquetFile) -> bool:
    footer, found = parquet.metadata, parquet.schema_arrow
    # A dot in a name would also mean a column in another one; to Spark names may be equal but for their letter case.
    if any("." in name for name in found.names) or _has_twins(found.names):
        return False
    if not all(0 <= middle < file.size for middle in _middles(footer)):
        return False
    int96 = {path.partition(".")[0] for path, kind in leaf_columns(footer) if kind == "INT96"}
    for name, wanted in zip(columns.names, columns.schema, strict=True):
        if name not in found.names:
            return False
        # Spark takes them for instants. A column with some in it is none, so its type differs, and Spark reads it.
        kind = pa.timestamp("us", "UTC") if name in int96 else found.field(name).type
        if not _is_same(kind, wanted.type):
            return False
        if _has_dates(kind) and not _is_new_calendar(columns, footer.metadata or {}, is_int96=name in int96):
            return False
    return True


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type in a file are those of Spark's type, as far as a cast changes nothing but the form."""
    if pa.types.is_struct(wanted):
        return (
            pa.types.is_struct(found)
            and [field.name for field in found.fields] == [field.name for field in wanted.fields]
            and not _has_twins([field.name for field in found.fields])
            and all(_is_same(own.type, field.type) for own, field in zip(found.fields, wanted.fields, strict=True))
        )
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(found)
            and _is_same(found.key_type, wanted.key_type)
            and _is_same(found.item_type, wanted.item_type)
        )
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _is_same(found.value_type, wanted.value_type)
    if pa.types.is_timestamp(wanted):
        is_exact = pa.types.is_timestamp(found) and found.unit in ("ms", "us")
        return is_exact and (found.tz is None) == (wanted.tz is None)
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return bool(found in (wanted, large.get(wanted)))


def _has_twins(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


def _is_new_calendar(columns: ScannedColumns, said: Mapping[bytes, bytes], *, is_int96: bool) -> bool:
    """Whether Spark takes dates and times as they are in a file, whose footer has said this."""
    if (version := said.get(_WRITER)) is None:
        return columns.new_int96 if is_int96 else columns.new_dates
    numbers = version.decode().split(".")[:2]
    since = _WITHOUT_OLD_INT96 if is_int96 else (3, 0)
    is_new = all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= since
    return is_new and (_OLD_INT96 if is_int96 else _OLD_DATES) not in said


def _has_dates(kind: pa.DataType) -> bool:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return any(_has_dates(kind.field(number).type) for number in range(kind.num_fields))
