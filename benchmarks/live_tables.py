"""How late rows are in tables that are fed all the time, with a real Kafka broker: `make bench-ingestion`.

    python benchmarks/live_tables.py SECONDS [NAME …]

Each part prints lines of JSON:

- `micro_batches`: one merge-on-read table with a round every ten seconds: from when a message was sent until it was
  committed, the median and the 95th percentile;
- `many_tables`: sixty topics of six rows a second each, into sixty tables of one process, and in the midst of it a
  burst of 35,000 rows for each of ten seconds in one of them: how many rows no table has yet, the most and at the end,
  and how long the table with the burst took to catch up;
- `layers`: a topic of 1,000 rows a second, and three tables, each made of the changes of the one below once a minute:
  how old rows are when the last table has them, in minutes.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi.streamer import StreamerConfig, TableResult

ROOT = Path(__file__).resolve().parents[1]
TABLES, ROWS_PER_SECOND = 60, 6
BURST_ROWS, BURST_SECONDS = 35_000, 10
LAYER_ROWS, TICK_SECONDS = 1_000, 60


class Load:
    """Rows that a thread sends to topics at a steady rate, until it is stopped. `sent`: how many, by topic."""

    def __init__(self, servers: str, topics: Sequence[str], rows_per_second: int) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
        self.sent = dict.fromkeys(topics, 0)
        self.rate, self.over = rows_per_second, threading.Event()
        self.thread = threading.Thread(target=self._send)

    def __enter__(self) -> Load:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _send(self) -> None:
        began = time.monotonic()
        while not self.over.wait(0.1):
            for topic in self.sent:
                due = int((time.monotonic() - began) * self.rate) - self.sent[topic]
                self.send(topic, due)

    def send(self, topic: str, count: int) -> None:
        """Send so many rows at once, of 100,000 keys."""
        for _ in range(count):
            row = {"id": self.sent[topic] % 100_000, "sent": time.time()}
            self.producer.produce(topic, json.dumps(row).encode())
            self.sent[topic] += 1
            self.producer.poll(0)
        self.producer.flush(60)


def config(broker: Any, path: Path, topic: str, **given: Any) -> StreamerConfig:
    from pyhudi.streamer import StreamerConfig

    return StreamerConfig(
        path,
        source_class="JsonKafkaSource",
        table_type="mor",
        hoodie_conf={
            "bootstrap.servers": broker.servers,
            "hoodie.streamer.source.kafka.topic": topic,
            "hoodie.datasource.write.recordkey.field": "id",
        },
        **given,
    )


def ages_of(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median_seconds": round(ordered[len(ordered) // 2], 2),
        "p95_seconds": round(ordered[len(ordered) * 95 // 100], 2),
    }


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def micro_batches(broker: Any, home: Path, seconds: float) -> None:
    """How old messages are when they are committed, with a round every ten seconds."""
    from pyhudi.streamer import run_many

    topic, batch, ages = broker.new_topic(), list[float](), list[float]()

    def remember(table: pa.Table) -> pa.Table:
        batch[:] = table["sent"].to_pylist()
        return table

    def is_over(_: Sequence[TableResult]) -> bool:
        ages.extend(time.time() - sent for sent in batch)
        batch.clear()
        return time.time() > until

    given = config(broker, home / "fresh", topic, min_sync_interval_seconds=10, transformer_class=remember)
    with Load(broker.servers, [topic], 20):
        until = time.time() + seconds
        run_many([given], continuous=True, post_write_termination=is_over)
    say(part="micro_batches", messages=len(ages), **ages_of(ages))


def many_tables(broker: Any, home: Path, seconds: float) -> None:
    """How far sixty tables of one process are behind their topics, also while one of them has a burst."""
    from pyhudi.streamer import run_many

    topics = [broker.new_topic() for _ in range(TABLES)]
    configs = [config(broker, home / topic, topic, min_sync_interval_seconds=1) for topic in topics]
    with Load(broker.servers, topics, ROWS_PER_SECOND) as load, Load(broker.servers, topics[:1], 0) as burst:
        began = time.monotonic()
        behind = list[int]()
        thread: threading.Thread | None = None
        caught_up: float | None = None

        def is_over(results: Sequence[TableResult]) -> bool:
            nonlocal thread, caught_up
            now, sent = time.monotonic() - began, sum(load.sent.values()) + sum(burst.sent.values())
            behind.append(sent - sum(found.result.items for found in results))
            if thread is None and now > seconds / 2:
                thread = threading.Thread(target=_burst, args=(burst, topics[0]))
                thread.start()
            is_sent = thread is not None and not thread.is_alive()
            if is_sent and caught_up is None and results[0].result.items >= burst.sent[topics[0]]:
                caught_up = now - seconds / 2
            return now > seconds and caught_up is not None

        results = run_many(configs, continuous=True, post_write_termination=is_over)
    assert all(found.error is None for found in results)
    say(
        part="many_tables",
        tables=TABLES,
        rows=sum(found.result.items for found in results),
        most_behind_before_the_burst=max(behind[: len(behind) // 3]),
        most_behind=max(behind),
        behind_at_the_end=behind[-1],
        seconds_of_the_burst_until_it_was_read=round(caught_up or 0.0, 1),
    )


def _burst(load: Load, topic: str) -> None:
    for _ in range(BURST_SECONDS):
        began = time.monotonic()
        load.send(topic, BURST_ROWS)
        time.sleep(max(0.0, 1 - (time.monotonic() - began)))


def layers(broker: Any, home: Path, seconds: float) -> None:
    """How old rows are when the third table has them, each made of the changes of the one below once in a tick."""
    import pyhudi
    from pyhudi.streamer import StreamerConfig, run_many

    topic, tick = broker.new_topic(), min(TICK_SECONDS, seconds / 5)
    names = ["ods", "dwd", "dws"]
    configs = [config(broker, home / names[0], topic, min_sync_interval_seconds=tick)]
    for below, name in itertools.pairwise(names):
        conf = {
            "hoodie.streamer.source.hoodieincr.path": str(home / below),
            "hoodie.datasource.write.recordkey.field": "id",
        }
        configs.append(
            StreamerConfig(
                home / name,
                source_class="HoodieIncrSource",
                table_type="mor",
                hoodie_conf=conf,
                min_sync_interval_seconds=tick,
                retry_interval_seconds=1,
            )
        )
    lags = list[float]()

    def is_over(results: Sequence[TableResult]) -> bool:
        if results[-1].result.batches > len(lags):
            newest = pyhudi.HudiTable.for_path(home / names[-1]).scan(["sent"]).to_arrow()["sent"]
            lags.append((time.time() - max(newest.to_pylist())) / tick)
        return time.time() > until

    with Load(broker.servers, [topic], LAYER_ROWS):
        until = time.time() + seconds
        results = run_many(configs, continuous=True, post_write_termination=is_over)
    say(
        part="layers",
        rows=results[0].result.items,
        tick_seconds=tick,
        batches=[found.result.batches for found in results],
        longest_lag_in_ticks=round(max(lags), 2),
    )


PARTS: dict[str, Callable[[Any, Path, float], None]] = {
    part.__name__: part for part in (micro_batches, many_tables, layers)
}


def main(seconds: float, names: Sequence[str]) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.kafka import running  # the broker that the tests use
    from tests.support.server_jars import server_jars

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "broker").mkdir()
        with running(server_jars("kafka"), home / "broker") as broker:
            for name in names or PARTS:
                PARTS[name](broker, home, seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
