"""The columns of the records in the logs of a slice, each read on demand.

For an engine that asks row by row, and column by column, for what a query needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.log.blocks import BlockType
from pyhudi.format.pieces import take_rows
from pyhudi.format.schema.stored_names import NamesByWrite
from pyhudi.io.log.records import LogContent, decode_versions, gather, read_log_contents
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, read_merged
from pyhudi.merge.rules import MergeRules
from pyhudi.storage.protocol import Storage

_JOINED_BYTES_MAX = 1 << 30


class LogColumns:
    """The versions of records in the logs of one slice, numbered from 0 in merge order, deletes among them.

    For logs with partial updates, the records of the whole merged slice instead. Cost: the logs are read once. Memory:
    the logs, and the columns that were asked for; of Avro blocks all columns, as finding one column in a record takes
    as long as reading all; a whole merged slice spills by `settings.spill`.
    """

    def __init__(self, storage: Storage, files: SliceFiles, settings: MergeSettings) -> None:
        self._schema = pa.schema([field.with_nullable(True) for field in settings.schema])
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._contents = read_log_contents(storage, files.logs, files.judged_by(settings.blocks))
        self._names = files.names
        self._decoded: dict[int, list[pa.RecordBatch]] = {}
        if any(content.block.is_partial for content in self._contents):
            rows = gather(read_merged(storage, files, settings, self._schema.names), self._schema, settings.spill)
            self._columns = dict(zip(rows.column_names, rows.columns, strict=True))

    def take(self, name: str, numbers: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """A column's values of some versions; null for a delete. Raises `CorruptDataError` for a damaged block."""
        if name not in self._columns:
            schema = pa.schema([self._schema.field(name)])
            rows = pa.Table.from_batches(self._batches(schema), schema)
            # One array, from which taking is quick, holds 2 GiB.
            self._columns[name] = (rows if rows.nbytes > _JOINED_BYTES_MAX else rows.combine_chunks()).column(0)
        if len(numbers) and (np.diff(numbers) == 1).all():
            # The usual case: logs rarely have two versions of a record.
            return self._columns[name].slice(int(numbers[0]), len(numbers))
        return pa.chunked_array([take_rows(pa.table({name: self._columns[name]}), numbers).column(0)])

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for number, content in enumerate(self._contents):
            if content.block.kind in (BlockType.PARQUET_DATA, BlockType.DELETE):
                yield from _versions(content, schema, self._names)
                continue
            if number not in self._decoded:
                self._decoded[number] = list(_versions(content, self._schema, self._names))
            yield from (batch.select(schema.names) for batch in self._decoded[number])


def _versions(content: LogContent, schema: pa.Schema, names: NamesByWrite | None) -> Iterator[pa.RecordBatch]:
    # The order of versions, and which of them are deletes, was decided before.
    for batch in decode_versions(content, schema, MergeRules(), [], names=names):
        yield batch.select(schema.names)
