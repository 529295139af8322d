"""How often a commit asks an S3 server, by pyhudi and by JVM Hudi: `python benchmarks/writes_on_s3.py [--write-docs]`.

Each writes a table of its own on one MinIO, through a relay that counts requests: 10,000 rows in four partitions, then
upserts of 100 rows, with the services that the defaults run. Counted are ten, after twelve: a clean follows each,
and the mean has a compaction of the metadata table. No commit is archived yet.
`--write-docs` puts the table, with the price of a month of such commits, into `docs/benchmarks.md`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from page import put_on_page
from reads_on_s3 import FILES, OPTIONS, counted_server, rows_of

import pyhudi
from pyhudi.storage.metered import Call
from pyhudi.telemetry.prices import dollars_a_month

WARM, COUNTED = 12, 10
CASES = {
    "no metadata table": {"hoodie.metadata.enable": "false"},
    "files": FILES,
    "files, column and partition statistics": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
    },
}
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
Writer = Callable[[int], Any]


def writer_here(path: str, options: Mapping[str, str]) -> Writer:
    """What does each write by pyhudi without Spark, in a table that stays open."""
    table = pyhudi.HudiTable.create(
        path, schema=SCHEMA, record_key="id", partition_by="city", ordering_fields="ts", hudi_options=options
    )

    def write(turn: int) -> pyhudi.WriteResult:
        first, count = rows_of(turn)
        numbers = range(first, first + count)
        rows = pa.table(
            [
                [f"key-{number}" for number in numbers],
                [f"c{number % 4}" for number in numbers],
                [turn] * count,
                [number / 7 for number in numbers],
            ],
            schema=SCHEMA,
        )
        return table.upsert(rows) if turn else table.bulk_insert(rows)

    return write


def writer_of_jvm_hudi(ask: Callable[[dict[str, Any]], Any], asked: dict[str, Any]) -> Writer:
    """What has each write made by JVM Hudi. `ask`: tells it what to do."""
    return lambda turn: ask({**asked, "turn": turn})


def requests_of_a_commit(write: Writer, requests: list[str]) -> dict[str, float]:
    """How many requests of each kind the relay sees for a commit, in the mean."""
    found: Counter[str] = Counter()
    for turn in range(1 + WARM + COUNTED):
        requests.clear()
        write(turn)
        if turn > WARM:
            found.update(requests)
    return {kind: found[kind] / COUNTED for kind in Call}


def on_page(measured: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    """The table of the page: requests of a commit, and dollars a month."""
    names = ["PUT", "LIST", "GET", "HEAD", "DELETE"]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, the mean of {COUNTED} upserts of 100 rows, and dollars of a table and a month:",
        "",
        "| writer | metadata table | " + " | ".join(names) + " | dollars |",
        "| --- | --- | " + "---: | " * (len(names) + 1),
    ]
    for (writer, case), requests in measured.items():
        counts = " | ".join(f"{requests[name]:.1f}" for name in names)
        lines.append(f"| {writer} | {case} | {counts} | {dollars_a_month(requests):.2f} |")
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    measured = {}
    with counted_server() as (server, received, ask):
        store = received.server.options
        for case, options in CASES.items():
            here = writer_here(server.new_root(), {**OPTIONS, **options, **store})
            # With statistics JVM Hudi needs more connections than the default, and its session ends.
            pool = {"fs.s3a.connection.maximum": "2000"}
            asked = {"do": "write", "store": {**store, **pool}, "options": options, "path": server.new_root("s3a")}
            writers = {
                "pyhudi without Spark": here,
                "JVM Hudi 1.2.0": writer_of_jvm_hudi(ask, asked),
            }
            for writer, write in writers.items():
                requests = requests_of_a_commit(write, received.requests)
                measured[writer, case] = requests
                print(f"{case}, {writer}: {requests}, {dollars_a_month(requests):.2f} dollars a month", flush=True)
    if "--write-docs" in sys.argv:
        put_on_page("python benchmarks/writes_on_s3.py --write-docs", on_page(measured))


if __name__ == "__main__":
    main()
