"""INT96, which is how old writers store instants, at every depth of a base file."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.io.base_file import read_batches, read_footer
from pyhudi.storage.memory import MemoryStorage

INSTANT = pa.timestamp("us", "UTC")


def test_int96_is_read_as_microseconds_in_utc_at_every_depth() -> None:
    moments = [dt.datetime(9999, 12, 31, tzinfo=dt.UTC), dt.datetime(1600, 1, 1, tzinfo=dt.UTC), None]
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "at": pa.array(moments, INSTANT),
            "list": pa.array([[at] for at in moments], pa.list_(INSTANT)),
            "map": pa.array([[("k", at)] for at in moments], pa.map_(pa.string(), INSTANT)),
            "deep": pa.array([{"n": 1, "at": at} for at in moments], pa.struct([("n", pa.int32()), ("at", INSTANT)])),
            "none": pa.array([None] * 3, pa.struct([("at", INSTANT)])),
        }
    )
    file, storage = io.BytesIO(), MemoryStorage()
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
    storage.put("f.parquet", file.getvalue())

    assert pa.Table.from_batches(read_batches(storage, "f.parquet")).to_pylist() == rows.to_pylist()
    (some,) = read_batches(storage, "f.parquet", columns=["deep", "id", "gone"])
    assert some.schema.field("deep").type == rows.schema.field("deep").type
    assert read_footer(storage, "f.parquet").schema.field("at").type == INSTANT
