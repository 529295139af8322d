"""The rows of files: Parquet, ORC and Avro with the columns that they say; JSON lines and CSV with those of others."""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import CorruptDataError, HudiError, SchemaMismatchError, SourceError
from pyhudi.format.schema.avro_arrow import avro_to_arrow, normalise
from pyhudi.format.schema.evolution import Missing, align, write_schema
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.streamer.sources.json_rows import DIGITS, is_beyond_64_bits, joined, lines_of, rows_of_json_lines
from pyhudi.streamer.sources.protocol import Rows

_BATCH_ROWS: Final = 65_536
_CODECS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_SMALL_BYTES: Final = 64 * 1024
"""Up to this size a file of CSV, as it is stored, is taken into memory to be given a last end of line."""
T = TypeVar("T")
OnBadRow: TypeAlias = Callable[[Any], str]
"""A function of what pyarrow says of a row of CSV: its `number` and `text`, and how many columns it has."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read. `wanted` and `stored`: as of `Pull.read`."""

    storage: Storage
    options: FolderOptions
    wanted: pa.Schema | None
    stored: pa.Schema | None


def rows_of_files(kind: str, files: Sequence[FileInfo], reading: Reading) -> Rows:
    """The rows of files of one kind, in the order of the files.

    Files that say their columns are read a piece at a time; JSON and CSV without a schema provider as a whole, as the
    last row may have another column. Raises, naming the file, `SourceError` for one that cannot be read, and
    `SchemaMismatchError` for one that does not fit the columns or the files before it. Cost: a read of each file, and
    before of their footers.
    """
    if kind in _TYPED:
        return _typed_rows(_TYPED[kind], files, reading)
    read = _UNTYPED[kind]
    if reading.wanted is not None:
        return _reader(reading.wanted, files, read, reading)
    return _joined_files([(file, piece) for file in files for piece in _guarded(file, read, reading)])


def _joined_files(pieces: Sequence[tuple[FileInfo, pa.Table]]) -> pa.Table:
    """The rows of pieces of files, with the columns of all."""
    try:
        return joined([piece for _, piece in pieces], None)
    except SchemaMismatchError:
        for number, (file, _) in enumerate(pieces, 1):
            with naming(file):
                joined([piece.slice(0, 0) for _, piece in pieces[:number]], None)
        raise


def _typed_rows(kind: _TypedFormat, files: Sequence[FileInfo], reading: Reading) -> Rows:
    schema = reading.wanted
    if schema is None:
        schema = _joined_schema(files, [_schema_of_file(kind, file, reading) for file in files])

    def read(storage: Storage, path: str, _: Reading) -> Iterator[pa.Table]:
        return (pa.Table.from_batches([batch]) for batch in kind.batches(storage, path))

    return _reader(schema, files, read, reading)


def _schema_of_file(kind: _TypedFormat, file: FileInfo, reading: Reading) -> pa.Schema:
    (found,) = _guarded(file, lambda storage, path, _: iter((kind.schema(storage, path),)), reading)
    return found


def _joined_schema(files: Sequence[FileInfo], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of files that say theirs."""
    joined_columns: pa.Schema | None = None
    for file, schema in zip(files, schemas, strict=True):
        with naming(file):
            joined_columns = write_schema(joined_columns, schema, missing=Missing.NULL)
    assert joined_columns is not None
    return joined_columns


def schemas_of_file(kind: str, file: FileInfo, reading: Reading) -> list[pa.Schema]:
    """The columns of the pieces of a file that is read alone, for `columns_of_files`. Raises as `rows_of_files`.

    Cost: a read of the file's footer; of JSON and CSV of the whole file.
    """
    if kind in _TYPED:
        return [_schema_of_file(_TYPED[kind], file, reading)]
    return [piece.schema for piece in _guarded(file, _UNTYPED[kind], reading)]


def columns_of_files(kind: str, files: Sequence[FileInfo], schemas: Sequence[Sequence[pa.Schema]]) -> pa.Schema:
    """The columns that `rows_of_files` gives without `wanted`, by `schemas_of_file` of each file. Raises alike."""
    of_pieces = [(file, schema) for file, found in zip(files, schemas, strict=True) for schema in found]
    if kind in _TYPED:
        return _joined_schema([file for file, _ in of_pieces], [schema for _, schema in of_pieces])
    return _joined_files([(file, schema.empty_table()) for file, schema in of_pieces]).schema


def rows_of_file(kind: str, file: FileInfo, reading: Reading, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one of the files of `rows_of_files`, with the columns of all. Raises alike."""
    if kind in _TYPED or reading.wanted is not None:
        yield from rows_of_files(kind, [file], replace(reading, wanted=columns))
        return
    for piece in _guarded(file, _UNTYPED[kind], reading):
        with naming(file):
            yield from joined([columns.empty_table(), piece], None).to_batches()


def _reader(
    schema: pa.Schema,
    files: Sequence[FileInfo],
    read: Callable[[Storage, str, Reading], Iterator[pa.Table]],
    reading: Reading,
) -> pa.RecordBatchReader:
    def aligned(storage: Storage, path: str, reading: Reading) -> Iterator[pa.RecordBatch]:
        for piece in read(storage, path, reading):
            yield from align(piece, schema).to_batches()

    batches = (batch for file in files for batch in _guarded(file, aligned, reading))
    return pa.RecordBatchReader.from_batches(schema, batches)


@contextmanager
def naming(file: FileInfo) -> Iterator[None]:
    """Let `SchemaMismatchError` say which file does not fit."""
    try:
        yield
    except SchemaMismatchError as error:
        raise SchemaMismatchError(error.message, **{**error.context, "file": file.path}) from error


def _guarded(file: FileInfo, read: Callable[[Storage, str, Reading], Iterator[T]], reading: Reading) -> Iterator[T]:
    """What is read of a file; whatever goes wrong names it. Decoders of damaged bytes raise errors of any kind."""
    try:
        with naming(file):
            yield from read(reading.storage, file.path, reading)
    except Exception as error:
        if isinstance(error, HudiError) and not isinstance(error, CorruptDataError):
            raise
        raise SourceError(
            f"a file of the source cannot be read: {error}; repair it, or move it out of the folder",
            path=f"{reading.storage.uri}/{file.path}",
        ) from error


@dataclass(frozen=True, slots=True)
class _TypedFormat:
    """A format whose files say their columns."""

    schema: Callable[[Storage, str], pa.Schema]
    batches: Callable[[Storage, str], Iterator[pa.RecordBatch]]


def _parquet_schema(storage: Storage, path: str) -> pa.Schema:
    with closing(storage.open_input(path)) as source:
        return normalise(pq.read_schema(source))


def _parquet_batches(storage: Storage, path: str) -> Iterator[pa.RecordBatch]:
    with closing(storage.open_input(path)) as source, pq.ParquetFile(source) as file:
        yield from file.iter_batches(_BATCH_ROWS)


def _orc_schema(storage: Storage, path: str) -> pa.Schema:
    with closing(storage.open_input(path)) as source:
        return normalise(pa_orc.ORCFile(source).schema)


def _orc_batches(storage: Storage, path: str) -> Iterator[pa.RecordBatch]:
    with closing(storage.open_input(path)) as source:
        file = pa_orc.ORCFile(source)
        for number in range(file.nstripes):
            yield file.read_stripe(number)


def _avro_schema(storage: Storage, path: str) -> pa.Schema:
    with closing(storage.open_input(path)) as source:
        return _avro_columns(fastavro.reader(source), path)


def _avro_columns(reader: Any, path: str) -> pa.Schema:
    return avro_to_arrow(json.dumps(reader.writer_schema), source=path)


def _avro_batches(storage: Storage, path: str) -> Iterator[pa.RecordBatch]:
    with closing(storage.open_input(path)) as source:
        reader = fastavro.reader(source)
        schema = _avro_columns(reader, path)
        while records := list(itertools.islice(reader, _BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(records, schema)


@contextmanager
def opened_text(storage: Storage, path: str) -> Iterator[Any]:
    """The text of a file of JSON or CSV, which may be compressed: the end of its name says so, as in Spark."""
    with closing(storage.open_input(path)) as source, _decompressed(source, path) as text:
        yield text


@contextmanager
def _decompressed(source: Any, path: str) -> Iterator[Any]:
    codec = _CODECS.get(path.rpartition(".")[2])
    if codec is None:
        yield source
    else:
        with pa.CompressedInputStream(source, codec) as stream:
            yield stream


@contextmanager
def _opened_csv(storage: Storage, path: str) -> Iterator[Any]:
    """The text of a file of CSV. That of a small file gets a last end of line: Arrow refuses a single line without."""
    with closing(storage.open_input(path)) as source:
        is_small = source.seek(0, os.SEEK_END) <= _SMALL_BYTES
        source.seek(0)
        with _decompressed(source, path) as text:
            yield pa.BufferReader(_with_last_end(text.read())) if is_small else text


def _with_last_end(text: bytes) -> bytes:
    return text if not text or text.endswith((b"\n", b"\r")) else text + b"\n"


def _json_tables(storage: Storage, path: str, reading: Reading) -> Iterator[pa.Table]:
    with opened_text(storage, path) as source:
        for lines in lines_of(source):
            yield rows_of_json_lines(lines, reading.wanted, reading.stored)


def csv_rows(file: FileInfo, reading: Reading, pass_over: OnBadRow) -> pa.Table:
    """The rows of a CSV file but for those with another number of values. Raises as `rows_of_files`.

    `pass_over` is called for each of these, with its number among the rows of the file, the header counted, and text;
    it returns "skip". Cost: a read of the file.
    """
    (found,) = _guarded(file, functools.partial(_csv_tables, pass_over=pass_over), reading)
    with naming(file):
        return found if reading.wanted is None else align(found, reading.wanted)


def _csv_tables(storage: Storage, path: str, reading: Reading, pass_over: OnBadRow | None = None) -> Iterator[pa.Table]:
    options, known = reading.options, reading.wanted if reading.wanted is not None else reading.stored
    with _opened_csv(storage, path) as source:
        skip: OnBadRow | None = None if pass_over is None else lambda _: "skip"
        names = _csv_names(source, _parse_options(options, skip), has_header=options.csv_header, known=known)
    types: Mapping[str, pa.DataType] = {} if known is None else {field.name: field.type for field in known}
    texts = {} if options.csv_infers else {name: pa.string() for name in names if name not in types}
    convert = pa_csv.ConvertOptions(
        column_types={**{name: types[name] for name in names if name in types}, **texts},
        null_values=[options.csv_null],
        strings_can_be_null=True,
    )

    def read(handler: OnBadRow | None) -> pa.Table:
        with _opened_csv(storage, path) as source:
            return pa_csv.read_csv(
                source,
                read_options=pa_csv.ReadOptions(
                    # Arrow knows where the header ends: blank lines may be before it, and ends of lines in its names.
                    column_names=None if options.csv_header else names,
                    use_threads=pass_over is None,  # threads do not know the numbers of rows
                ),
                parse_options=_parse_options(options, handler),
                convert_options=convert,
            )

    found = read(pass_over)
    rounded = [name for name in found.column_names if name not in types and is_beyond_64_bits(found[name])]
    if rounded:
        convert.include_columns, convert.column_types = rounded, dict.fromkeys(rounded, pa.string())
        for name, column in zip(rounded, read(skip).columns, strict=True):
            found = found.set_column(found.column_names.index(name), name, _as_whole_numbers(column, found[name]))
    yield found


def _as_whole_numbers(texts: pa.ChunkedArray, rounded: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals of texts, if all are whole numbers of at most 38 digits; otherwise what Arrow made of them."""
    digits = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "+-"))).as_py()
    precision = next((known for known in DIGITS if digits <= known), None)
    if precision is None or not pc.all(pc.match_substring_regex(texts, "^[+-]?[0-9]+$")).as_py():
        return rounded
    return texts.cast(pa.decimal128(precision, 0))


def _parse_options(options: FolderOptions, pass_over: OnBadRow | None) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=options.csv_separator,
        quote_char=options.csv_quote,
        newlines_in_values=True,
        invalid_row_handler=pass_over,
    )


def _csv_names(source: Any, parse: pa_csv.ParseOptions, *, has_header: bool, known: pa.Schema | None) -> list[str]:
    """The columns of a CSV file."""
    read = pa_csv.ReadOptions(autogenerate_column_names=not has_header, block_size=1 << 20)
    with pa_csv.open_csv(source, read_options=read, parse_options=parse) as reader:
        found = reader.schema.names
    if has_header:
        return list(found)
    if known is None:
        return [f"_c{number}" for number in range(len(found))]
    if len(known.names) != len(found):
        raise ValueError(f"it has {len(found)} columns, and the schema has {len(known.names)}")
    return list(known.names)


_TYPED: Final = {
    "parquet": _TypedFormat(_parquet_schema, _parquet_batches),
    "orc": _TypedFormat(_orc_schema, _orc_batches),
    "avro": _TypedFormat(_avro_schema, _avro_batches),
}
_UNTYPED: Final[Mapping[str, Callable[[Storage, str, Reading], Iterator[pa.Table]]]] = {
    "json": _json_tables,
    "csv": _csv_tables,
}
KINDS: Final = (*_TYPED, *_UNTYPED)
