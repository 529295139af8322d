"""`Scan.to_parquet`: the rows of a scan as plain Parquet files, for readers that know nothing of Hudi."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.config.location import table_path
from pyhudi.errors import InvalidRequestError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

BYTES_PER_FILE: Final = 512 * 1024 * 1024
"""In memory; a file of Parquet has a part of that."""
SUCCESS: Final = "_SUCCESS"
"""The empty file that Spark, too, puts when all others are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote: where, how many files and rows, and the size of the files in bytes."""

    uri: str
    files: int
    rows: int
    bytes: int


def export_to_parquet(
    source: Storage,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    path: str | os.PathLike[str],
    hudi_options: HudiOptions | None,
) -> Exported:
    """Write rows of the table in `source`, which have a schema. See `Scan.to_parquet`."""
    options = {**source.spec.options, **known_options(hudi_options, call="to_parquet")}
    target = open_storage(table_path(path, {}), options)
    if f"{target.uri}/".startswith(f"{source.uri}/"):
        raise InvalidRequestError(
            "an export into the folder of its table would put files among those of the table: name another folder",
            path=target.uri,
        )
    if target.list_recursive(""):
        raise InvalidRequestError("the folder of an export must be empty, and this one has files", path=target.uri)
    files = rows = size = 0
    first = next(batches, None)
    while first is not None or not files:
        name = f"part-{files:05}.parquet"
        with target.open_output(name) as sink, pq.ParquetWriter(sink, schema) as writer:
            first, written = _fill(writer, first, batches)
        info = target.info(name)
        files, rows, size = files + 1, rows + written, size + (0 if info is None else info.size)
    target.put(SUCCESS, b"")
    return Exported(uri=target.uri, files=files, rows=rows, bytes=size)


def _fill(
    writer: pq.ParquetWriter, first: pa.RecordBatch | None, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.RecordBatch | None, int]:
    """Write batches until the file is full.

    Returns the batch that begins the next file, None after the last one, and how many rows were written.
    """
    size, rows, batch = 0, 0, first
    while batch is not None and size < BYTES_PER_FILE:
        writer.write_batch(batch.cast(writer.schema))
        size, rows = size + batch.nbytes, rows + batch.num_rows
        batch = next(batches, None)
    return batch, rows
