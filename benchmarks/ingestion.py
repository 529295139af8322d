"""From a topic into a table, with a real Kafka broker: `make bench-ingestion`.

    python benchmarks/ingestion.py 1000000 [SECONDS]

Printed are, each as a line of JSON:

- of reading messages from the broker and decoding them into Arrow: rows per second of processor time, JSON and Avro;
- of the upsert of so many JSON messages into a merge-on-read table that has all their keys: seconds from the broker to
  the commit, in one process and in tasks of Spark; of JVM Hudi's upsert of the same rows from Parquet files, into a
  table that has them, too, in a session that has done both before; and how many times as long that took;
- of continuous mode with a round each second: from when a message was sent until it was committed, the median and the
  95th percentile, of twenty messages a second for so many seconds.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contestants import CONTESTANTS, HUDI_MOR

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


def send(broker: Any, topic: str, messages: Iterator[Any]) -> None:
    """Send messages, as many at a time as a producer keeps."""
    while piece := list(itertools.islice(messages, 50_000)):
        broker.send(topic, piece)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def decoding(broker: Any, count: int) -> None:
    """Messages to Arrow."""
    import fastavro

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
    for kind, (encode, decode) in kinds.items():
        topic = broker.new_topic()
        send(broker, topic, map(encode, rows(count, 1)))
        for _ in range(2):  # the first time code is loaded
            began, wall = time.process_time(), time.perf_counter()
            messages = read_messages(client, topic, {0: 0}, {0: count})
            read = time.process_time()
            assert decode(messages["value"].combine_chunks()).num_rows == count
            ended, seconds = time.process_time(), time.perf_counter() - wall
        say(
            part="decode",
            kind=kind,
            rows=count,
            rows_per_processor_second=round(count / (ended - began)),
            of_reading=round(count / (read - began)),
            of_decoding=round(count / (ended - read)),
            seconds=round(seconds, 2),
        )


def upsert(broker: Any, home: Path, count: int) -> None:
    """A topic into a merge-on-read table, beside JVM Hudi."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pyhudi import spark_session

    topic, spark = broker.new_topic(), spark_session(master="local[2]")
    for turn in (1, 2):
        send(broker, topic, rows(count, turn))
        ours = streamed(broker, topic, home / "ours")
        on_spark = streamed(broker, topic, home / "ours_on_spark", spark)
    spark.stop()
    say(part="upsert", peer="pyhudi, from the broker to the commit", rows=count, seconds=round(ours, 2))
    say(part="upsert", peer="pyhudi on Spark, from the broker to the commit", rows=count, seconds=round(on_spark, 2))
    for turn in (1, 2):
        pq.write_table(pa.Table.from_pylist(list(rows(count, turn))), home / f"{turn}.parquet")
    peer = next(one for one in CONTESTANTS if one.name == HUDI_MOR)
    request = json.dumps({"peer": peer.peer, "jars": [str(jar) for jar in peer.jars], "home": str(home)})
    command = [str(peer.python), __file__, "--jvm", request]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    theirs = float(done.stdout.splitlines()[-1])
    say(part="upsert", peer="JVM Hudi, from Parquet files", rows=count, seconds=round(theirs, 2))
    say(part="upsert", times_as_long=round(theirs / ours, 2))


def streamed(broker: Any, topic: str, table: Path, spark: Any = None) -> float:
    """The seconds of a round of a streamer, from the broker to the commit."""
    from pyhudi.streamer import run

    began = time.perf_counter()
    run(
        table,
        source_class="JsonKafkaSource",
        hoodie_conf={**OPTIONS, "bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic},
        spark=spark,
    )
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


def freshness(broker: Any, home: Path, seconds: int) -> None:
    """How old messages are when they are committed."""
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
    say(
        part="freshness",
        messages=len(ages),
        median_seconds=round(statistics.median(ages), 2),
        p95_seconds=round(ages[len(ages) * 95 // 100], 2),
    )


def main(count: int, seconds: int) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.kafka import running  # the broker that the tests use
    from tests.support.server_jars import server_jars

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "broker").mkdir()
        with running(server_jars("kafka"), home / "broker") as broker:
            decoding(broker, count)
            freshness(broker, home, seconds)
            upsert(broker, home, count)


if __name__ == "__main__":
    if sys.argv[1] == "--jvm":
        jvm_upsert(json.loads(sys.argv[2]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 120)
