"""Writing the change data log of a base file that replaces an older one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.log.cdc import DELETED, INSERTED, UPDATED, LoggingMode, change_rows, encode_changes
from pyhudi.format.pieces import PIECE_BYTES, in_pieces
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class ChangeDataSettings:
    """How a write logs its changes. `schema`: the Avro JSON of the records (`change_schema`)."""

    mode: LoggingMode
    schema: str


def change_log_path(partition_path: str, base: BaseFileName) -> str:
    """The path of the change data log of a base file, relative to the table."""
    name = str(LogFileName(base.file_id, base.instant_time, 1, base.write_token, is_cdc=True))
    return f"{partition_path}/{name}" if partition_path else name


class ChangeDataLog:
    """The change data log of one base file, written block by block.

    There is one for every base file that replaces another, if need be without a change: JVM Hudi cannot
    read the changes of a replaced file without one.
    """

    def __init__(
        self, storage: Storage, settings: ChangeDataSettings, partition_path: str, base: BaseFileName, rows: pa.Schema
    ) -> None:
        self.path = change_log_path(partition_path, base)
        self._storage, self._settings, self._instant, self._rows = storage, settings, base.instant_time, rows
        self._sink: IO[bytes] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._size = 0

    def discard(self, *error: object) -> None:
        """Remove what was written."""
        if self._sink is not None:
            self._sink.__exit__(*error)  # type: ignore[arg-type]
            self._sink = None

    def updated(self, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        """Note new versions of records: row `i` of both is one record."""
        self._add(UPDATED, before, after)

    def inserted(self, rows: pa.RecordBatch) -> None:
        """Note records that are new."""
        self._add(INSERTED, None, rows)

    def deleted(self, rows: pa.RecordBatch) -> None:
        """Note records that are gone."""
        self._add(DELETED, rows, None)

    def close(self) -> dict[str, int]:
        """Finish the log. Returns its path and size in bytes."""
        if self._waiting or self._sink is None:
            self._write_block()
        assert self._sink is not None
        self._sink.close()
        self._sink = None
        return {self.path: self._size}

    def _add(self, operation: str, before: pa.RecordBatch | None, after: pa.RecordBatch | None) -> None:
        both = [rows for rows in (before, after) if rows is not None]
        if both[0].num_rows == 0:
            return
        keys = both[-1].column(RECORD_KEY)
        start = 0
        for piece in in_pieces(_image(both[-1], self._rows)):
            stop = start + piece.num_rows
            old = None if before is None else _image(before.slice(start, piece.num_rows), self._rows)
            changes = change_rows(
                self._settings.schema,
                operation,
                self._instant,
                keys.slice(start, piece.num_rows),
                old,
                None if after is None else piece,
            )
            self._waiting.append(changes)
            self._waiting_bytes += changes.nbytes
            if self._waiting_bytes >= PIECE_BYTES:
                self._write_block()
            start = stop

    def _write_block(self) -> None:
        if self._sink is None:
            self._sink = self._storage.open_output(self.path)
        schema = self._settings.schema
        batches = self._waiting or [change_rows(schema, INSERTED, self._instant, pa.array([], pa.string()), None, None)]
        content = encode_changes(pa.concat_batches(batches), schema)
        headers = {BlockHeader.INSTANT_TIME: self._instant, BlockHeader.SCHEMA: schema}
        for part in encode_block(BlockType.CDC_DATA, headers, content):
            self._size += memoryview(part).nbytes
            self._sink.write(part)
        self._waiting, self._waiting_bytes = [], 0


def _image(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The table's own columns of the rows, in its types."""
    names = set(rows.schema.names)
    return align(rows.select([name for name in schema.names if name in names]), schema)
