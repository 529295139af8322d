"""The sources of files: ParquetDFSSource, OrcDFSSource, AvroDFSSource, JsonDFSSource and CsvDFSSource."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import Apart
from pyhudi.streamer.sources.file_records import rows_apart_of_files
from pyhudi.streamer.sources.file_rows import Reading, rows_of_files
from pyhudi.streamer.sources.folder import ReadFiles, new_files
from pyhudi.streamer.sources.protocol import Check, Pull, Rows


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
