"""`Scan.to_parquet` and `Scan.to_json`: the rows of a scan as plain files, for readers that know nothing of Hudi."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.api.arguments import HudiOptions, known_options, texts_of
from pyhudi.config.location import table_path
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.json_rows import JsonForm, rows_as_json
from pyhudi.format.keys.partition_paths import checked_segments
from pyhudi.format.keys.value_text import distinct_values, value_text
from pyhudi.format.pieces import runs
from pyhudi.format.schema.avro_arrow import is_list
from pyhudi.markup import Shown
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

BYTES_PER_FILE: Final = 512 * 1024 * 1024
"""In memory; a file of Parquet has a part of that."""
FILES_OPEN_MAX: Final = 64
"""So many folders have an open file at a time."""
SUCCESS: Final = "_SUCCESS"
"""The empty file that Spark, too, puts when all others are there."""

ExportFormat: TypeAlias = Literal["parquet", "json"]
_Write: TypeAlias = Callable[[pa.RecordBatch], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(Shown):
    """What an export wrote: where, how many files and rows, and the size of the files in bytes."""

    uri: str
    files: int
    rows: int
    bytes: int


def export_rows(
    source: Storage,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    path: str | os.PathLike[str],
    file_format: ExportFormat,
    partition_by: str | Sequence[str] | None,
    hudi_options: HudiOptions | None,
) -> Exported:
    """Write rows of the table in `source`, which have a schema. See `Scan.to_parquet` and `Scan.to_json`."""
    options = {**source.spec.options, **known_options(hudi_options, call=f"to_{file_format}")}
    columns = _partition_columns(schema, partition_by)
    target = open_storage(table_path(path, {}), options)
    if f"{target.uri}/".startswith(f"{source.uri}/"):
        raise InvalidRequestError(
            "an export into the folder of its table would put files among those of the table: name another folder",
            path=target.uri,
        )
    if target.list_recursive(""):
        raise InvalidRequestError("the folder of an export must be empty, and this one has files", path=target.uri)
    stored = pa.schema([field for field in schema if field.name not in columns])
    with _Files(target, stored, file_format) as files:
        for batch in batches:
            for folder, rows in _by_folder(batch, columns):
                files.write(folder, rows)
        if not files.rows and not columns:
            files.write("", pa.RecordBatch.from_pylist([], stored))
    target.put(SUCCESS, b"")
    size = sum(info.size for info in target.list_recursive(""))
    return Exported(uri=target.uri, files=files.count, rows=files.rows, bytes=size)


def _partition_columns(schema: pa.Schema, given: str | Sequence[str] | None) -> tuple[str, ...]:
    names = () if given is None else tuple(texts_of(given, "partition_by"))
    if unknown := [name for name in names if name not in schema.names]:
        raise ConfigError("partition_by must name columns of the rows", column=unknown[0])
    if len(names) == len(schema):
        raise ConfigError("partition_by leaves no column for the files", columns=names)
    for name in names:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind) or kind == pa.bool_()):
            raise ConfigError(
                "folders are made of texts, whole numbers, dates and booleans", column=name, type=str(kind)
            )
    return names


def _by_folder(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each folder, without the columns that are in its name."""
    if not columns:
        yield "", batch
        return
    parts = [_segments(batch.column(name), name, is_first=at == 0) for at, name in enumerate(columns)]
    folders = pc.binary_join_element_wise(*parts, "/").dictionary_encode()
    order = pc.sort_indices(folders.indices)
    rows, numbers = batch.drop_columns(list(columns)).take(order), folders.indices.take(order).to_numpy()
    for start, end in runs(numbers):
        yield folders.dictionary[int(numbers[start])].as_py(), rows.slice(start, end - start)


def _segments(column: pa.Array, name: str, *, is_first: bool) -> pa.StringArray:
    distinct = distinct_values(column)
    texts = value_text(distinct.dictionary).to_pylist()
    folders = checked_segments(name, texts, is_first=is_first, hive_style=True, url_encode=True)
    return pa.array(folders, pa.string()).take(distinct.indices)


@dataclass(slots=True)
class _OpenFile:
    """A file that is being written, and the bytes of its rows in memory."""

    write: _Write
    closing: ExitStack
    bytes: int = 0


@dataclass(slots=True)
class _Files:
    """The files of an export: one after the other in each folder. A context manager, which closes them."""

    target: Storage
    schema: pa.Schema
    file_format: ExportFormat
    count: int = 0
    rows: int = 0
    _open: dict[str, _OpenFile] = field(default_factory=dict)

    def write(self, folder: str, rows: pa.RecordBatch) -> None:
        """Add rows to the open file of a folder, or to a new one."""
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= FILES_OPEN_MAX:
                self._open.pop(next(iter(self._open))).closing.close()
            file = self._new(folder)
        file.write(rows.cast(self.schema))
        file.bytes, self.rows = file.bytes + rows.nbytes, self.rows + rows.num_rows
        if file.bytes < BYTES_PER_FILE:
            self._open[folder] = file  # as the one that was written last
        else:
            file.closing.close()

    def _new(self, folder: str) -> _OpenFile:
        name = f"{folder}/" if folder else ""
        path = f"{name}part-{self.count:05}.{self.file_format}"
        closing = ExitStack()
        file = _OpenFile(closing.enter_context(_WRITERS[self.file_format](self.target, path, self.schema)), closing)
        self.count += 1
        return file

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: object) -> None:
        with ExitStack() as all_files:
            for file in self._open.values():
                all_files.push(file.closing)


@contextmanager
def _parquet(target: Storage, path: str, schema: pa.Schema) -> Iterator[_Write]:
    with target.open_output(path) as sink, pq.ParquetWriter(sink, schema) as writer:
        yield writer.write_batch


@contextmanager
def _json(target: Storage, path: str, schema: pa.Schema) -> Iterator[_Write]:
    printed = pa.schema([pa.field(field.name, _printed(field.type)) for field in schema])

    def write(rows: pa.RecordBatch) -> None:
        texts = rows_as_json(rows.cast(printed).to_struct_array(), JsonForm.OF_ROW)
        lines = pc.binary_join_element_wise(texts, "", "\n")
        if len(lines):  # its data are the texts, one behind the other
            sink.write(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))

    with target.open_output(path) as sink:
        yield write


_WRITERS: Final[Mapping[str, Callable[[Storage, str, pa.Schema], AbstractContextManager[_Write]]]] = {
    "parquet": _parquet,
    "json": _json,
}


def _printed(kind: pa.DataType) -> pa.DataType:
    """The type with texts for dates and times, as numbers do not say their units."""
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _printed(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _printed(kind.item_type))
    if is_list(kind):
        return pa.list_(_printed(kind.value_type))
    return kind
