"""The source of a bootstrap: which files it has, in which partitions, and with which columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    InvalidRequestError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.keys.partition_paths import path_columns
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.base_file import read_footer
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, Storage, StorageSpec
from pyhudi.table.lister import EngineLister

_FILES_PER_TASK = 64
_FOOTER_BYTES = 64 * 1024
"""About what is read per file; an engine may run small work in this process."""


@dataclass(frozen=True, slots=True)
class Source:
    """The Parquet files of a folder. `files` by the folder that they are in, relative to the source."""

    storage: StorageSpec
    files: Mapping[str, tuple[FileInfo, ...]] = field(repr=False)

    @property
    def partition_paths(self) -> tuple[str, ...]:
        """The folders with files."""
        return tuple(self.files)

    def source_file(self, info: FileInfo) -> SourceFile:
        """A file of it as tasks get it."""
        path_values = path_columns(info.path.rpartition("/")[0])
        return SourceFile(self.storage, info.path, info.size, info.modified_ms, path_values)


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What the footers of the source say: the columns of the table to be, in order, and how many rows each file has.

    `in_paths`: the columns that are only in the names of folders.
    """

    schema: pa.Schema
    in_paths: tuple[str, ...]
    rows: Mapping[str, int] = field(repr=False)


def load_source(storage: Storage, engine: Engine) -> Source:
    """List the source. Files and folders whose names begin with a dot or an underscore are left out, as Spark does.

    Cost: one recursive listing for each top-level folder, of many folders in tasks. Raises `InvalidRequestError` if
    there are no files, `ConfigError` for one that is not named as Parquet, and `UnsafePathError` for a symbolic link
    that leads out of the folder.
    """
    found: dict[str, list[FileInfo]] = defaultdict(list)
    for info in EngineLister(storage, engine).table():
        if any(part.startswith((".", "_")) for part in info.path.split("/")):
            continue
        if not info.name.endswith((".parquet", ".parq")):
            raise ConfigError(
                "the source has a file that is not named as Parquet: move it out of the folder, or bootstrap a folder "
                "that has only Parquet files",
                path=f"{storage.uri}/{info.path}",
            )
        found[info.path.rpartition("/")[0]].append(info)
    if not found:
        raise InvalidRequestError("the source has no Parquet files; check the path", path=storage.uri)
    return Source(storage.spec, {path: tuple(files) for path, files in sorted(found.items())})


def check_unchanged(source: Source, engine: Engine, *, whole: bool = True) -> None:
    """Raise `WriteConflictError`, which names a file, if the source is not what it was. Cost: that of `load_source`.

    `whole`: new folders count, too.
    """
    storage = open_spec(source.storage)
    before = {info.path: info for files in source.files.values() for info in files}
    found = load_source(storage, engine).files
    now = {info.path: info for folder in found if whole or folder in source.files for info in found[folder]}
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            raise changed(f"{source.storage.uri}/{path}")


def changed(path: str) -> WriteConflictError:
    """The error for a file of the source that is not what it was when the source was listed."""
    return WriteConflictError(
        "the source was changed while it was bootstrapped; nothing of the table is visible; stop all writers of the "
        "source, and run it again",
        path=path,
    )


@dataclass(frozen=True, slots=True)
class FootersTask:
    """Files whose footers one task reads."""

    storage: StorageSpec
    files: tuple[str, ...]


def read_footers(_: TaskContext, task: FootersTask) -> list[tuple[str, int, pa.Schema]]:
    """Path, number of rows and schema of each file. Raises `InvalidRequestError` for one that is no Parquet file."""
    storage, found = open_spec(task.storage), []
    for path in task.files:
        place = f"{task.storage.uri}/{path}"
        try:
            footer = read_footer(storage, path)
        except CorruptDataError as error:
            raise InvalidRequestError(
                "the source has a file that cannot be read as Parquet: it is damaged, or something else; "
                "move it out of the folder",
                path=place,
                cause=error.context.get("cause"),
            ) from error
        except UnsupportedFeatureError as error:
            raise InvalidRequestError(f"the source cannot be bootstrapped: {error.message}", path=place) from error
        except NotFoundError as error:
            raise changed(place) from error
        found.append((path, footer.rows, footer.schema))
    return found


def load_columns(source: Source, engine: Engine) -> SourceColumns:
    """Read all footers. Cost: one footer per file, in tasks.

    Raises:
        SchemaMismatchError: two files have a column with different types, or a column of Hudi's, or of a type that
            Hudi cannot store; names the file.
        InvalidRequestError: a file is no Parquet file.
    """
    listed = [info.path for files in source.files.values() for info in files]
    tasks = [
        FootersTask(source.storage, tuple(listed[start : start + _FILES_PER_TASK]))
        for start in range(0, len(listed), _FILES_PER_TASK)
    ]
    size = len(listed) * _FOOTER_BYTES
    results = engine.map(read_footers, tasks, size_bytes=size, description="read footers of the source")
    fields: dict[str, pa.Field] = {}
    rows: dict[str, int] = {}
    for path, count, schema in (footer for result in results for footer in result):
        rows[path] = count
        _add_columns(fields, schema, f"{source.storage.uri}/{path}")
    in_paths = {name: kind for name, kind in _types_in_paths(source).items() if name not in fields}
    schema = pa.schema([*fields.values(), *(pa.field(name, kind) for name, kind in in_paths.items())])
    return SourceColumns(schema, tuple(in_paths), rows)


def _add_columns(fields: dict[str, pa.Field], schema: pa.Schema, path: str) -> None:
    """Add the columns of a file to those of the files before it."""
    for name in META_COLUMNS:
        if name in schema.names:
            raise SchemaMismatchError(
                f"the source has a column {name!r}, as the files of a Hudi table do; bootstrap is for other files",
                path=path,
            )
    for column, stored in zip(normalise(schema), schema, strict=True):
        if pa.types.is_timestamp(stored.type) and stored.type.unit == "ns":
            raise SchemaMismatchError(
                f"column {column.name!r} has nanoseconds, which Hudi does not store; rewrite the file in microseconds",
                path=path,
                column=column.name,
            )
        if pa.types.is_float16(stored.type):
            raise SchemaMismatchError(
                f"column {column.name!r} has floats of 16 bits, which Spark does not read; rewrite the file with float",
                path=path,
                column=column.name,
            )
        known = fields.setdefault(column.name, column.with_nullable(True))
        if known.type != column.type:
            raise SchemaMismatchError(
                f"column {column.name!r} has the type {column.type} in a file, and {known.type} in files before it; "
                "rewrite the file, or bootstrap a folder whose files agree",
                path=path,
                column=column.name,
            )


def _types_in_paths(source: Source) -> dict[str, pa.DataType]:
    """The columns in the names of folders; whole numbers and dates get types of their own where all texts are such."""
    texts: dict[str, set[str]] = defaultdict(set)
    for path in source.files:
        for name, text in path_columns(path):
            texts[name].update(() if text is None else (text,))
    return {name: _type_of_texts(sorted(found)) for name, found in texts.items()}


def _type_of_texts(texts: Sequence[str]) -> pa.DataType:
    kinds: tuple[tuple[pa.DataType, Callable[[str], bool]], ...] = (
        (pa.int32(), _is_plain_number),
        (pa.int64(), _is_plain_number),
        (pa.date32(), lambda text: len(text) == len("2024-01-31")),
    )
    for kind, may_be in kinds:
        if texts and all(map(may_be, texts)):
            try:
                pa.array(texts).cast(kind)
            except pa.ArrowInvalid:
                continue
            return kind
    return pa.string()


def _is_plain_number(text: str) -> bool:
    """Whether a text is what a number is written as: `07` as a number would be another folder."""
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
