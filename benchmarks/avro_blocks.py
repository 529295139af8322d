"""Rows per second of log blocks on one core: Avro, as real Hudi writes it by default, and Parquet.

Seconds are those of the process, so other work on the machine counts little.

Run: python benchmarks/avro_blocks.py [rows]
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.avro.records import decode_avro_records, encode_avro_records
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow, avro_with_meta_columns

TWO_COLUMNS = ["_hoodie_record_key", "l_extendedprice"]
FLAGS, STATUSES = ["A", "N", "R"], ["F", "O"]
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
INSTRUCTIONS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
WORDS = ["carefully", "final", "deposits", "detect", "slyly", "against the", "furiously", "regular ideas", "sleep"]


def lineitem(rows: int) -> pa.RecordBatch:
    """Rows with the 16 columns of TPC-H's largest table, and Hudi's five before them."""
    random = np.random.default_rng(20240229)

    def chosen(texts: list[str]) -> pa.Array:
        return pa.array(texts).take(pa.array(random.integers(0, len(texts), rows)))

    def money(high: int) -> pa.Array:
        halves = np.zeros((rows, 2), np.int64)
        halves[:, 0] = random.integers(1, high, rows)
        return pa.Array.from_buffers(pa.decimal128(15, 2), rows, [None, pa.py_buffer(halves)])

    def dates() -> pa.Array:
        return pa.array(random.integers(8036, 10591, rows).astype(np.int32)).cast(pa.date32())

    comments = [" ".join(random.choice(WORDS, random.integers(1, 6)))[:44] for _ in range(5000)]
    orders = random.integers(1, 6_000_000, rows)
    columns = {
        "_hoodie_commit_time": pa.array(["20240229120000000"] * rows),
        "_hoodie_commit_seqno": pa.array([f"20240229120000000_7_{row}" for row in range(rows)]),
        "_hoodie_record_key": pa.array(
            [f"l_orderkey:{order},l_linenumber:{row % 7}" for row, order in enumerate(orders)]
        ),
        "_hoodie_partition_path": chosen([f"l_shipyear={year}" for year in range(1992, 1999)]),
        "_hoodie_file_name": pa.array(["7d5a2c0e-3f7b-4a58-9c2d-1f0e8b6a4c11-0"] * rows),
        "l_orderkey": pa.array(orders),
        "l_partkey": pa.array(random.integers(1, 200_000, rows)),
        "l_suppkey": pa.array(random.integers(1, 10_000, rows)),
        "l_linenumber": pa.array((np.arange(rows) % 7).astype(np.int32)),
        "l_quantity": money(5000),
        "l_extendedprice": money(10_000_000),
        "l_discount": money(11),
        "l_tax": money(9),
        "l_returnflag": chosen(FLAGS),
        "l_linestatus": chosen(STATUSES),
        "l_shipdate": dates(),
        "l_commitdate": dates(),
        "l_receiptdate": dates(),
        "l_shipinstruct": chosen(INSTRUCTIONS),
        "l_shipmode": chosen(MODES),
        "l_comment": chosen(comments),
    }
    return pa.RecordBatch.from_pydict(columns)


def parquet(batch: pa.RecordBatch, codec: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink, compression=codec)
    return sink.getvalue()


def read_parquet(content: bytes, columns: list[str] | None) -> pa.Table:
    return pq.read_table(pa.BufferReader(content), columns=columns, use_threads=False)


def million_rows_per_second(call: Callable[[], Any], rows: int) -> float:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return rows / min(seconds) / 1e6


def main(rows: int) -> None:
    pa.set_cpu_count(1)
    batch = lineitem(rows)
    schema = avro_with_meta_columns(arrow_to_avro(batch.schema, table_name="lineitem"))
    batch = batch.cast(avro_to_arrow(schema, source="benchmark"))
    avro = encode_avro_records(batch, schema)
    assert decode_avro_records(avro, schema, path="", offset=0).equals(batch)

    def decode(columns: list[str] | None) -> pa.RecordBatch:
        return decode_avro_records(avro, schema, columns=columns, path="", offset=0)

    print(f"{rows} rows of {batch.num_columns} columns; million rows per second on one core")
    print(f"{'block':16}{'encode':>9}{'decode':>9}{'2 columns':>11}{'bytes a row':>13}")
    calls: dict[str, tuple[bytes, Callable[[], Any], Callable[[list[str] | None], Any]]] = {
        "avro": (avro, lambda: encode_avro_records(batch, schema), decode)
    }
    for codec in ("zstd", "snappy"):
        content = parquet(batch, codec)
        calls[f"parquet {codec}"] = (
            content,
            partial(parquet, batch, codec),
            partial(read_parquet, content),
        )
    for name, (content, encode, read) in calls.items():
        timed = (encode, partial(read, None), partial(read, TWO_COLUMNS))
        rates = [million_rows_per_second(call, rows) for call in timed]
        print(f"{name:16}{rates[0]:9.2f}{rates[1]:9.2f}{rates[2]:11.2f}{len(content) / rows:13.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
