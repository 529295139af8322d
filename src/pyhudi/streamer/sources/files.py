"""The sources of files: ParquetDFSSource, OrcDFSSource, AvroDFSSource, JsonDFSSource and CsvDFSSource."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import SourceError
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, Storage, StorageSpec
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import Apart
from pyhudi.streamer.sources.file_records import joined_records, rows_apart_of_files
from pyhudi.streamer.sources.file_rows import (
    Reading,
    columns_of_files,
    rows_of_file,
    rows_of_files,
    schemas_of_file,
)
from pyhudi.streamer.sources.folder import ReadFiles, new_files
from pyhudi.streamer.sources.protocol import Check, Pull, Rows, Tell


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file of a batch. See `Part`."""

    kind: str
    storage: StorageSpec
    options: FolderOptions
    file: FileInfo

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self.file.size

    def schemas(self, stored: pa.Schema | None) -> list[pa.Schema]:
        """See `schemas_of_file`."""
        return schemas_of_file(self.kind, self.file, self._reading(None, stored))

    def batches(
        self, columns: pa.Schema, wanted: pa.Schema | None, stored: pa.Schema | None
    ) -> Iterator[pa.RecordBatch]:
        """See `Part.batches`. Cost: a request, and a read of the file."""
        yield from rows_of_file(self.kind, self.file, self._reading(wanted, stored), columns)

    def read_apart(
        self, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool, check: Check | None = None
    ) -> Apart:
        """See `Part.read_apart`. Cost: a request, and that of `rows_apart_of_files`."""
        del check  # of messages
        return rows_apart_of_files(self.kind, [self.file], self._reading(wanted, stored), fits=fits)

    def _reading(self, wanted: pa.Schema | None, stored: pa.Schema | None) -> Reading:
        """Raises `SourceError` if the file is not that of the batch any more: tasks read it several times.

        Times count by the second, as S3 has no finer one of a single object.
        """
        storage = open_spec(self.storage)
        found = storage.info(self.file.path)
        if found is None or _version(found) != _version(self.file):
            raise SourceError(
                "a file of the source was removed or changed while the batch was read: run again, and move files into"
                " the folder when they are complete",
                path=f"{storage.uri}/{self.file.path}",
            )
        return Reading(storage, self.options, wanted, stored)


def _version(file: FileInfo) -> tuple[int, int]:
    return file.size, file.modified_ms // 1000


@dataclass(frozen=True, slots=True)
class FileParts:
    """The files of a batch. See `Parts`."""

    tasks: tuple[FilePart, ...]

    def columns(self, tell: Tell, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Schema:
        """See `Parts.columns`. Cost: where nothing says the columns, that of `schemas_of_file` for each file."""
        if wanted is not None:
            return wanted
        schemas = tell(functools.partial(FilePart.schemas, stored=stored))
        return columns_of_files(self.tasks[0].kind, [part.file for part in self.tasks], schemas)

    def joined(self, schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
        """See `Parts.joined`. Cost: none."""
        return joined_records(self.tasks[0].kind, [schema.empty_table() for schema in schemas], stored).schema

    @property
    def kept(self) -> None:
        """See `Parts.kept`."""
        return

    @property
    def is_typed_as_a_whole(self) -> bool:
        """See `Parts.is_typed_as_a_whole`. Each file is decoded alone."""
        return False


@dataclass(frozen=True, slots=True)
class FileSource:
    """The files of one kind in a folder. `kind`: parquet, orc, avro, json or csv."""

    kind: str
    storage: Storage
    options: FolderOptions

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`. Cost: a listing of the folder and all folders below it."""
        read = ReadFiles.of(after)
        files = new_files(self.storage, read, limit)
        if not files:
            return None
        return Pull(
            reached=read.after(self.storage, files),
            read=functools.partial(self._rows, files),
            items=len(files),
            read_apart=functools.partial(self._rows_apart, files),
            parts=FileParts(tuple(FilePart(self.kind, self.storage.spec, self.options, file) for file in files)),
        )

    def _rows(self, files: list[FileInfo], wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
        return rows_of_files(self.kind, files, Reading(self.storage, self.options, wanted, stored))

    def _rows_apart(
        self,
        files: list[FileInfo],
        wanted: pa.Schema | None,
        stored: pa.Schema | None,
        *,
        fits: bool,
        check: Check | None = None,
    ) -> Apart:
        del check  # of messages
        return rows_apart_of_files(self.kind, files, Reading(self.storage, self.options, wanted, stored), fits=fits)
