"""From a topic into a table, with a real Kafka broker: `make bench-ingestion`.

    python benchmarks/ingestion.py [1000000] [SECONDS] [--write-docs]

Printed are, each as a line of JSON, and put into `docs/benchmarks.md` by `--write-docs`:

- of reading messages from the broker and decoding them into Arrow: rows per second of processor time, JSON and Avro;
- of the upsert of so many JSON messages into a merge-on-read table that has all their keys: seconds from the broker to
  the commit, in one process and in tasks of Spark; the same of Debezium's updates of so many rows of PostgreSQL, in one
  process; of JVM Hudi's upsert of the same rows from Parquet files, into a table that has them, too, in a session that
  has done both before; and how many times as long as the others in one process that took;
- of continuous mode with a round each second: from when a message was sent until it was committed, the median and the
  95th percentile, of twenty messages a second for so many seconds.
"""

from __future__ import annotations

import argparse
import importlib
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contestants import CONTESTANTS, HUDI_MOR
from page import put_on_page

if TYPE_CHECKING:  # JVM Hudi's Python has none of these
    import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
        {"name": "ts", "type": "long"},
    ],
}
OPTIONS = {
    "hoodie.table.name": "rows",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}
ROWS, CHANGES = "JsonKafkaSource", "PostgresDebeziumSource"
OF_SOURCE = {
    ROWS: OPTIONS,
    # Debezium's rows have an ordering column of their own. An update may move a row, which a global index finds.
    CHANGES: {
        **{name: value for name, value in OPTIONS.items() if "precombine" not in name},
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "false",
    },
}
CITIES = ("bern", "oslo", "rome", "bonn")
SENT_PER_SECOND = 20


def rows(count: int, turn: int) -> Iterator[dict[str, Any]]:
    """So many rows; those of each turn have the same keys."""
    for number in range(count):
        yield {
            "id": number,
            "city": CITIES[number % len(CITIES)],
            "note": f"note {turn} of {number * 7919 % count}",
            "amount": number * 0.25,
            "ts": turn,
        }


def changes(count: int, turn: int) -> Iterator[dict[str, Any]]:
    """So many rows as Debezium sends them of PostgreSQL: inserts in the first turn, then updates that know the key."""
    place = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "rows"}
    for number, row in enumerate(rows(count, turn)):
        before = None if turn == 1 else {**dict.fromkeys(row), "id": row["id"]}
        source = {**place, "ts_ms": number, "lsn": turn * count + number, "txId": turn}
        yield {"op": "c" if turn == 1 else "u", "before": before, "after": row, "source": source, "ts_ms": number}


def send(broker: Any, topic: str, messages: Iterator[Any]) -> None:
    """Send messages, as many at a time as a producer keeps."""
    while piece := list(itertools.islice(messages, 50_000)):
        broker.send(topic, piece)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def decoding(broker: Any, count: int) -> dict[str, int]:
    """Messages to Arrow: how many a second of processor time, of each kind."""
    import fastavro
    import pyarrow as pa

    from pyhudi.streamer.sources.avro_rows import rows_of_avro
    from pyhudi.streamer.sources.json_rows import rows_of_json
    from pyhudi.streamer.sources.kafka_client import client_options, read_messages

    def avro(row: dict[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, row)
        return b"\0\0\0\0\1" + body.getvalue()

    parsed = fastavro.parse_schema(AVRO)
    client = client_options({"bootstrap.servers": broker.servers})
    kinds: dict[str, tuple[Callable[[dict[str, Any]], bytes], Callable[[pa.Array], pa.Table]]] = {
        "json": (lambda row: json.dumps(row).encode(), lambda values: rows_of_json(values, None, None)),
        "avro": (avro, lambda values: rows_of_avro(values, lambda _: json.dumps(AVRO), None, None)),
    }
    rates = {}
    for kind, (encode, decode) in kinds.items():
        topic = broker.new_topic()
        send(broker, topic, map(encode, rows(count, 1)))
        for _ in range(2):  # the first time code is loaded
            began, wall = time.process_time(), time.perf_counter()
            messages = pa.Table.from_batches(read_messages(client, topic, {0: 0}, {0: count}))
            read = time.process_time()
            assert decode(messages["value"].combine_chunks()).num_rows == count
            ended, seconds = time.process_time(), time.perf_counter() - wall
        rates[kind] = round(count / (ended - began))
        say(
            part="decode",
            kind=kind,
            rows=count,
            rows_per_processor_second=rates[kind],
            of_reading=round(count / (read - began)),
            of_decoding=round(count / (ended - read)),
            seconds=round(seconds, 2),
        )
    return rates


def upsert(broker: Any, home: Path, count: int) -> dict[str, float]:
    """A topic into a merge-on-read table, beside JVM Hudi: the seconds of each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pyhudi import spark_session

    topic, of_changes, spark = broker.new_topic(), broker.new_topic(), spark_session(master="local[2]")
    found: dict[str, float] = {}
    for turn in (1, 2):
        send(broker, topic, rows(count, turn))
        found["pyhudi, JSON"] = streamed(broker, topic, home / "ours", ROWS)
        found["pyhudi on Spark, JSON"] = streamed(broker, topic, home / "ours_on_spark", ROWS, spark)
    spark.stop()
    for turn in (1, 2):
        send(broker, of_changes, changes(count, turn))
        found["pyhudi, Debezium"] = streamed(broker, of_changes, home / "ours_of_changes", CHANGES)
    for turn in (1, 2):
        pq.write_table(pa.Table.from_pylist(list(rows(count, turn))), home / f"{turn}.parquet")
    peer = next(one for one in CONTESTANTS if one.name == HUDI_MOR)
    request = json.dumps({"peer": peer.peer, "jars": [str(jar) for jar in peer.jars], "home": str(home)})
    command = [str(peer.python), __file__, "--jvm", request]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    theirs = found["JVM Hudi, Parquet files"] = float(done.stdout.splitlines()[-1])
    for peer_name, seconds in found.items():
        say(part="upsert", peer=peer_name, rows=count, seconds=round(seconds, 2), times=round(theirs / seconds, 2))
    return found


def streamed(broker: Any, topic: str, table: Path, source_class: str, spark: Any = None) -> float:
    """The seconds of a round of a streamer, from the broker to the commit."""
    from pyhudi.streamer import run

    client = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    began = time.perf_counter()
    run(table, source_class=source_class, hoodie_conf={**OF_SOURCE[source_class], **client}, spark=spark)
    return time.perf_counter() - began


def jvm_upsert(request: dict[str, Any]) -> None:
    """The seconds of JVM Hudi's second upsert of the same keys, after both were done to another table."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    home = Path(request["home"])
    module, _, name = request["peer"].partition(":")
    (home / "work").mkdir()
    peer = getattr(importlib.import_module(module), name)(home / "work", request["jars"])
    peer.start()
    for table in ("warm_up", "theirs"):
        for turn in (1, 2):
            began = time.perf_counter()
            frame = peer.spark.read.parquet(str(home / f"{turn}.parquet"))
            frame.write.format("hudi").options(**OPTIONS).mode("append").save(str(home / table))
            seconds = time.perf_counter() - began
    peer.stop()
    print(seconds, file=out, flush=True)


def freshness(broker: Any, home: Path, seconds: int) -> tuple[float, float]:
    """How many seconds old messages are when they are committed: the median, and the 95th percentile."""
    from pyhudi.streamer import StreamerResult, run

    topic, stop = broker.new_topic(), threading.Event()
    batch: list[float] = []
    ages: list[float] = []

    def send() -> None:
        number = 0
        while not stop.wait(1 / SENT_PER_SECOND):
            number += 1
            broker.send(topic, [{"id": number % 1000, "sent": time.time()}])

    def remember(table: pa.Table) -> pa.Table:
        batch[:] = table["sent"].to_pylist()
        return table

    def is_over(result: StreamerResult, idle: int) -> bool:
        del result
        if not idle:
            ages.extend(time.time() - sent for sent in batch)
        return time.time() > until

    thread = threading.Thread(target=send)
    thread.start()
    until = time.time() + seconds
    try:
        run(
            home / "fresh",
            source_class="JsonKafkaSource",
            table_type="mor",
            continuous=True,
            min_sync_interval_seconds=1,
            transformer_class=remember,
            post_write_termination=is_over,
            hoodie_conf={
                "bootstrap.servers": broker.servers,
                "hoodie.streamer.source.kafka.topic": topic,
                "hoodie.datasource.write.recordkey.field": "id",
            },
        )
    finally:
        stop.set()
        thread.join()
    ages.sort()
    median, late = statistics.median(ages), ages[len(ages) * 95 // 100]
    say(part="freshness", messages=len(ages), median_seconds=round(median, 2), p95_seconds=round(late, 2))
    return median, late


def on_page(count: int, rates: Mapping[str, int], seconds: Mapping[str, float], ages: tuple[float, float]) -> str:
    """The table of the page."""
    theirs = seconds["JVM Hudi, Parquet files"]

    def ours(kind: str) -> str:
        return f"{seconds[kind]:.2f} s: {theirs / seconds[kind]:.2f} times as fast"

    median, late = ages
    of_core = f"JSON {rates['json']:,}, Avro {rates['avro']:,} (goals 50,000 and 100,000)"
    whole = f"an upsert of {count:,} rows into a merge-on-read table that has them, from the broker to the commit"
    lines = {
        "from a Kafka broker to decoded Arrow, messages a second of one core": of_core,
        f"{whole}: JSON, in one process": f"{ours('pyhudi, JSON')} (goal 3)",
        "the same in tasks of Spark": ours("pyhudi on Spark, JSON"),
        "the same, Debezium's updates of rows of PostgreSQL, in one process": f"{ours('pyhudi, Debezium')} (goal 3)",
        "JVM Hudi's upsert of the same rows from Parquet files, into a table that has them, too": f"{theirs:.1f} s",
        "a message until its commit, with a round a second": f"{median:.2f} s, 95th percentile {late:.2f} s (goal 3 s)",
    }
    table = [f"| {what} | {figure} |" for what, figure in lines.items()]
    return "\n".join(
        [f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores:\n", "| what | figure |", "|---|---|", *table]
    )


def main(count: int, seconds: int, *, writes_docs: bool) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.kafka import running  # the broker that the tests use
    from tests.support.server_jars import server_jars

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "broker").mkdir()
        with running(server_jars("kafka"), home / "broker") as broker:
            rates = decoding(broker, count)
            ages = freshness(broker, home, seconds)
            taken = upsert(broker, home, count)
    if writes_docs:
        put_on_page("python benchmarks/ingestion.py --write-docs", on_page(count, rates, taken, ages))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--jvm"]:
        jvm_upsert(json.loads(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser(description="From a topic into a table.")
        parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
        parser.add_argument(
            "seconds", type=int, nargs="?", default=120, help="how long messages are sent for their age"
        )
        parser.add_argument("--write-docs", action="store_true", help="update docs/benchmarks.md")
        asked = parser.parse_args()
        main(asked.rows, asked.seconds, writes_docs=asked.write_docs)
