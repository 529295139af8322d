"""The size of a record in a base file, measured: a sample of a write's rows is encoded."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.format.pieces import cuts, row_bytes
from pyhudi.format.schema.meta_columns import COMMIT_SEQNO, PARTITION_PATH
from pyhudi.io.row_groups import RowGroupWriter

SAMPLE_BYTES: Final = 1 << 20
"""Arrow bytes of the rows that are encoded: as many as a page of a base file has by default."""


def stored_share(rows: pa.RecordBatch, codec: str) -> float:
    """Stored bytes of a row, as a share of its Arrow bytes. `rows`: keyed ones, at least one.

    What all rows of a file share, as its footer and the columns with one value, is not counted. Cost: the encoding of
    the first rows, up to `SAMPLE_BYTES`, or of the first row.
    """
    _, count = next(cuts(row_bytes(rows.slice(0, SAMPLE_BYTES // 8)), SAMPLE_BYTES))
    sample = rows.slice(0, count)
    numbers = pa.array(np.arange(count)).cast(pa.string())
    stored = sample.drop_columns([PARTITION_PATH]).append_column(COMMIT_SEQNO, numbers)
    sink = pa.BufferOutputStream()
    writer = RowGroupWriter(sink, stored.schema, codec=codec, page_size=SAMPLE_BYTES)
    writer.write(pa.Table.from_batches([stored]))
    footer = writer.close({})
    group = footer.row_group(0)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    return float(size / max(1, sample.nbytes))
