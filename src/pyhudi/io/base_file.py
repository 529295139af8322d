"""Base files: Parquet with Hudi's footer, written and read in pieces of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType, TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.metadata_table.ranges import Range
from pyhudi.format.parquet.footer import TAIL, has_encrypted_columns
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.column_ranges import ranges_of_footer
from pyhudi.io.key_footer import BloomSettings, KeyFooter
from pyhudi.io.parquet_batches import bounded_batches, leaf_columns, open_parquet
from pyhudi.io.row_groups import RowGroupWriter
from pyhudi.storage.protocol import Storage

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""Arrow bytes gathered before a row group is written: what a task holds in memory, and what a reader skips by."""
READ_BATCH_ROWS = 65_536
_FULL_ENOUGH = 0.03
"""Share of the maximum size that may be left over: else the last row groups would be ever smaller."""
_TOO_LARGE = 1 / 16
"""Share of the maximum size by which a file may exceed it, if its last rows cannot be compressed as the first could."""
_ENCRYPTED_FOOTER: Final = b"PARE"

OpenedFile = tuple[Any, pq.ParquetFile]
"""An open base file, and its reader, which has read the footer."""


@dataclass(frozen=True, slots=True)
class BaseFileSettings:
    """How base files are written: sizes in bytes, `avro_schema` with the meta columns as it goes into the footer.

    `indexed_columns`: those of which the metadata table keeps statistics.
    """

    codec: str
    max_file_size: int
    row_group_size: int
    page_size: int
    avro_schema: str
    bloom: BloomSettings | None
    indexed_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed base file: its rows, its size in bytes, and the ranges of its indexed columns."""

    rows: int
    size: int
    ranges: tuple[Range, ...] = ()


class BaseFileWriter:
    """Writes one base file from Arrow batches of the file schema (meta columns first).

    `keys` collects what the footer says of record keys; None leaves it out. Used as a context manager: leaving it by
    an exception removes the file.
    """

    def __init__(
        self, storage: Storage, path: str, schema: pa.Schema, settings: BaseFileSettings, keys: KeyFooter | None
    ) -> None:
        self._settings, self._keys = settings, keys
        self._pending: list[pa.RecordBatch] = []
        self._pending_keys: list[pa.Array] = []
        self._pending_bytes = 0
        self._flushed_bytes = 0
        self._rows = 0
        self._sink = storage.open_output(path)
        self._row_groups = RowGroupWriter(self._sink, schema, codec=settings.codec, page_size=settings.page_size)

    def __enter__(self) -> BaseFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the store forget the file when the block failed before `close`."""
        if kind is not None:
            self._sink.__exit__(kind, error, trace)
            self._row_groups.forget()

    @property
    def room(self) -> int:
        """Arrow bytes that can be written before the row group, or the file, has its size."""
        of_file = min(self._left() / self._stored_per_byte(), self._surely_left())
        return max(0, int(min(self._row_group_size - self._pending_bytes, of_file)))

    def is_full(self) -> bool:
        """Whether the file has rows, and its maximum size. Writes a row group where only that can tell."""
        nearly = self._settings.max_file_size * _FULL_ENOUGH
        if self._rows == 0 or min(self._left(), self._surely_left()) > nearly:
            return False
        self.flush()
        return self._left() <= nearly

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes of the rows in memory."""
        return self._pending_bytes

    def write(self, batch: pa.RecordBatch, *, keys_are_known: bool = False) -> None:
        """Append rows. At most `ROW_GROUP_BYTES` of them are held in memory.

        `keys_are_known`: the footer began with these keys already.
        """
        if batch.num_rows == 0:
            return
        if not keys_are_known:
            self._pending_keys.append(batch.column(RECORD_KEY))
        size, limit = batch.nbytes, self._row_group_size
        if self._pending_bytes + size > limit and self._pending_bytes >= limit // 2:
            self.flush()
        self._rows += batch.num_rows
        self._pending.append(batch)
        self._pending_bytes += size
        if self._pending_bytes >= limit:
            self.flush()

    def close(self, tombstones: Mapping[str, str] = MappingProxyType({})) -> WrittenFile:
        """Write the footer, `tombstones` in it, and make the file durable.

        Whether another process has deleted the file meanwhile, because it took this write for dead, is not asked: the
        commit looks at the timeline with the lock, and gives way to a rollback of its write.
        """
        self.flush(is_last=True)
        footer = {"parquet.avro.schema": self._settings.avro_schema, "writer.model.name": "avro", **tombstones}
        written = self._row_groups.close(footer if self._keys is None else {**footer, **self._keys.values()})
        size = int(self._sink.tell())
        self._sink.close()
        columns = self._settings.indexed_columns
        ranges = ranges_of_footer(written, columns, unlisted=self._row_groups.unlisted) if columns else ()
        return WrittenFile(self._rows, size, tuple(ranges))

    @property
    def _row_group_size(self) -> int:
        return min(ROW_GROUP_BYTES, self._settings.row_group_size)

    def _stored_per_byte(self) -> float:
        """Of a byte in memory; before a row group has shown it, that nothing can be compressed."""
        return int(self._sink.tell()) / self._flushed_bytes if self._flushed_bytes else 1.0

    def _left(self) -> float:
        stored = int(self._sink.tell()) + self._pending_bytes * self._stored_per_byte()
        return self._settings.max_file_size - stored

    def _surely_left(self) -> float:
        """Bytes that are left, up to a size that is a little too large, if the rows in memory cannot be compressed."""
        stored = int(self._sink.tell()) + self._pending_bytes * max(1.0, self._stored_per_byte())
        return self._settings.max_file_size * (1 + _TOO_LARGE) - stored

    def _expected_rows(self, *, is_last: bool) -> int:
        """How many rows the file will have, if it goes on as it began, to the maximum size."""
        if is_last:
            return self._rows
        return int(self._rows * max(1.0, self._settings.max_file_size / int(self._sink.tell())))

    def flush(self, *, is_last: bool = False) -> None:
        """Write the rows in memory as a row group. `is_last`: there will be no more."""
        if self._pending:
            self._row_groups.write(pa.Table.from_batches(self._pending))
            self._flushed_bytes += self._pending_bytes
            if self._keys is not None and self._pending_keys:
                # All at once: the filter's cost per call is that of some thousand keys.
                self._keys.add(pa.concat_arrays(self._pending_keys), expected=self._expected_rows(is_last=is_last))
            self._pending, self._pending_keys, self._pending_bytes = [], [], 0


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What a base file's footer says, without reading rows."""

    rows: int
    schema: pa.Schema
    values: dict[str, str]


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """The footer of a base file. Cost: one or two ranged reads."""
    with opened_base_file(storage, path) as (_, parquet):
        values = footer_values(parquet, path)
        schema = _schema_with_instants(parquet) or parquet.schema_arrow
        return BaseFileFooter(parquet.metadata.num_rows, schema.remove_metadata(), values)


def footer_values(parquet: pq.ParquetFile, path: str) -> dict[str, str]:
    """The values in the footer of an open base file. Raises `CorruptDataError` naming it when they are no text."""
    raw = parquet.metadata.metadata or {}
    try:
        return {key.decode(): value.decode() for key, value in raw.items() if key != b"ARROW:schema"}
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error


def read_batches(
    storage: Storage,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = READ_BATCH_ROWS,
    rows: range | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file in order, a bounded batch at a time, whatever the size of its rows and row groups.

    `columns` that the file does not have are left out. `rows`: which ones, from the beginning of a row group to the end
    of one; None for all. Raises `CorruptDataError` naming the file when it does not
    parse.
    """
    with opened_base_file(storage, path) as opened:
        yield from batches_of(opened, path, columns=columns, batch_rows=batch_rows, rows=rows)


def batches_of(
    opened: OpenedFile,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = READ_BATCH_ROWS,
    rows: range | None = None,
) -> Iterator[pa.RecordBatch]:
    """`read_batches` of a file that is open."""
    source, parquet = opened
    present = set(parquet.schema_arrow.names)
    wanted = None if columns is None else [name for name in columns if name in present]
    instants = _schema_with_instants(parquet)
    try:
        missing = parquet.metadata.num_rows if rows is None else len(rows)
        groups = None if rows is None else _groups_in(parquet.metadata, rows)
        for batch in bounded_batches(source, parquet, wanted, batch_rows, groups):
            missing -= batch.num_rows
            yield batch if instants is None else _retyped(batch, instants)
            del batch  # before the next one is read: a row may take 100 MB
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if missing and wanted != []:
        raise _damaged(path, "its row groups do not have as many rows as its footer says")


def row_group_ends(footer: pq.FileMetaData) -> tuple[int, ...]:
    """The number of rows up to the end of each row group."""
    return tuple(accumulate(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))


def _groups_in(footer: pq.FileMetaData, rows: range) -> list[int]:
    ends = row_group_ends(footer)
    begins = (0, *ends[:-1])
    return [number for number, begin in enumerate(begins) if rows.start <= begin and ends[number] <= rows.stop]


def _schema_with_instants(parquet: pq.ParquetFile) -> pa.Schema | None:
    """The schema of a file with INT96 columns, whose values are instants in UTC; None for other files."""
    stored = [physical for _, physical in leaf_columns(parquet.metadata)]
    if "INT96" not in stored:
        return None
    leaves = iter(stored)
    return pa.schema([field.with_type(_with_instants(field.type, leaves)) for field in parquet.schema_arrow])


def _with_instants(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """`leaves`: how the columns from this one on are stored, in the file's order."""
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_with_instants(child.type, leaves)) for child in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_with_instants(kind.key_type, leaves))
        return pa.map_(key, kind.item_field.with_type(_with_instants(kind.item_type, leaves)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_instants(kind.value_type, leaves)))
    return pa.timestamp("us", tz="UTC") if next(leaves) == "INT96" else kind


def _retyped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))


def read_ranges(storage: Storage, path: str, columns: Sequence[str]) -> list[Range]:
    """The ranges of columns that the footer of a base file states. Cost: one or two ranged reads.

    Raises `CorruptDataError` naming the file when its footer does not parse.
    """
    with opened_base_file(storage, path) as (_, parquet):
        return ranges_of_footer(parquet.metadata, columns)


@contextmanager
def opened_base_file(storage: Storage, path: str) -> Iterator[OpenedFile]:
    """The file and its reader.

    Raises `CorruptDataError` naming it when its footer does not parse, `UnsupportedFeatureError` if it is encrypted.
    """
    source = storage.open_input(path)
    try:
        try:
            tail = tail_of_plain(source, path)
            parquet = open_parquet(source)
            check_columns_are_plain(source, tail, parquet.metadata, path)
        except (pa.ArrowException, OSError, ValueError) as error:  # the last one for names that are not UTF-8
            raise _damaged(path, error) from error
        if parquet.metadata.num_rows < 0:
            raise _damaged(path, "the footer declares a negative number of rows")
        yield source, parquet
    finally:
        source.close()


def _damaged(path: str, cause: object) -> CorruptDataError:
    return CorruptDataError(
        "this base file is damaged; restore it from a copy, or roll the table back to before it was written",
        path=path,
        cause=str(cause),
    )


def tail_of_plain(source: Any, path: str) -> bytes:
    """The last bytes of an open file, which give the size of its footer. Cost: to read them.

    Raises `UnsupportedFeatureError` if the footer is encrypted.
    """
    tail = _last_bytes(source, TAIL.size)
    if tail.endswith(_ENCRYPTED_FOOTER):
        raise _encrypted(path)
    return tail


def check_columns_are_plain(source: Any, tail: bytes, footer: pq.FileMetaData, path: str) -> None:
    """Raise `UnsupportedFeatureError` if columns of an open file are encrypted. Cost: nothing, else its footer.

    `tail`: what `tail_of_plain` has returned.
    """
    size, _ = TAIL.unpack(tail)
    if size != footer.serialized_size:
        data = _last_bytes(source, size + TAIL.size)[: footer.serialized_size]
        if has_encrypted_columns(data, path=path):
            raise _encrypted(path)


def _last_bytes(source: Any, count: int) -> bytes:
    size = source.seek(0, os.SEEK_END)
    source.seek(max(size - count, 0))
    return bytes(source.read(count))


def _encrypted(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "this Parquet file is encrypted, and pyhudi has no keys: write it again without encryption", path=path
    )
