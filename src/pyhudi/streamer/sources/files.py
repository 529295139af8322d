"""The sources of files: ParquetDFSSource, OrcDFSSource, AvroDFSSource, JsonDFSSource and CsvDFSSource."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, Storage, StorageSpec
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import Apart
from pyhudi.streamer.sources.file_records import rows_apart_of_files
from pyhudi.streamer.sources.file_rows import Reading, rows_of_files
from pyhudi.streamer.sources.folder import ReadFiles, new_files
from pyhudi.streamer.sources.protocol import Check, Part, Pull, Rows


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
            parts=functools.partial(self._parts, files),
        )

    def _parts(self, files: list[FileInfo]) -> list[Part]:
        read = functools.partial(_rows_of_file, self.kind, self.storage.spec, self.options)
        return [Part(functools.partial(read, file), file.size) for file in files]

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


def _rows_of_file(
    kind: str,
    folder: StorageSpec,
    options: FolderOptions,
    file: FileInfo,
    wanted: pa.Schema | None,
    stored: pa.Schema | None,
) -> Rows:
    """The rows of one file, in a task."""
    return rows_of_files(kind, [file], Reading(open_spec(folder), options, wanted, stored))
