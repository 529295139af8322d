"""One merge-on-read table that is fed at a steady rate for hours, with all its services on: is it flat?

    python benchmarks/steady_table.py SECONDS [FOLDER]

A topic of a real Kafka broker gets 500 rows a second, of 100,000 keys. The table has a round every second; compaction,
cleaning and archiving run beside the rounds. Each minute a line of JSON is printed: batches and rows of this minute;
how old rows were when they were committed, the median and the 95th percentile; what a batch asked of the store, by kind
of call; files of data, below `.hoodie` and of the active timeline; memory of the process, which also sends the rows. At
the end each key of the table has the time of its newest row.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from live_tables import ROOT, Load, ages_of, config, say
from long_life import files_below

import pyhudi

ROWS_PER_SECOND, REPORT_SECONDS = 500, 60
SERVICES = {
    "hoodie.metrics.on": "true",
    "hoodie.metrics.reporter.type": "INMEMORY",
    "hoodie.clean.async.enabled": "true",
    "hoodie.archive.async": "true",
}


def requests_so_far() -> dict[str, float]:
    """What was asked of the store since the process began, by kind of call."""
    found = defaultdict[str, float](float)
    for name, value in pyhudi.metrics().items():
        if ".storage." in name and name.endswith(".requests"):
            found[name.split(".")[-2]] += value
    return found


class Minutes:
    """What happened since the last line was printed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = self.reported = time.monotonic()
        self.ages: list[float] = []
        self.batches = 0
        self.newest: dict[int, float] = {}
        self.unfinished: pa.Table | None = None
        self.requests = requests_so_far()

    def remember(self, rows: pa.Table) -> pa.Table:
        """Keep the rows of a batch that is about to be written."""
        self.unfinished = rows
        return rows

    def is_over(self, result: pyhudi.streamer.StreamerResult, seconds: float) -> bool:
        """Count the batch that was written, and print a line where a minute has passed."""
        if self.unfinished is not None:
            now, sent = time.time(), self.unfinished["sent"].to_pylist()
            self.ages.extend(now - at for at in sent)
            self.newest.update(zip(self.unfinished["id"].to_pylist(), sent, strict=True))
            self.unfinished = None
            self.batches += 1
        now = time.monotonic()
        if now - self.reported >= REPORT_SECONDS and self.ages:
            self._report(now, result.items)
        return now - self.began > seconds

    def _report(self, now: float, rows: int) -> None:
        data, metadata = files_below(self.path)
        requests = requests_so_far()
        say(
            minute=round((now - self.began) / 60, 1),
            rows=rows,
            batches=self.batches,
            **ages_of(self.ages),
            requests_per_batch={
                kind: round((count - self.requests[kind]) / self.batches, 1) for kind, count in requests.items()
            },
            data_files=data,
            metadata_files=metadata,
            timeline_files=len(list((self.path / ".hoodie" / "timeline").glob("*.*"))),
            rss_mib=round(psutil.Process().memory_info().rss / 2**20),
        )
        self.reported, self.requests, self.batches, self.ages = now, requests, 0, []


def feed(broker: Any, path: Path, seconds: float) -> None:
    """Feed a table for so many seconds, and compare it with what was sent."""
    from pyhudi.streamer import run

    topic, minutes = broker.new_topic(), Minutes(path)
    given = config(
        broker,
        path,
        topic,
        source_ordering_fields="sent",
        min_sync_interval_seconds=1,
        transformer_class=minutes.remember,
    )
    fields = {name: getattr(given, name) for name in given.__dataclass_fields__}
    fields["hoodie_conf"] = {**fields["hoodie_conf"], **SERVICES}
    fields |= {"continuous": True, "post_write_termination": lambda result, _: minutes.is_over(result, seconds)}
    with Load(broker.servers, [topic], ROWS_PER_SECOND):
        result = run(**fields)
    rows = pyhudi.HudiTable.for_path(path).scan(["id", "sent"]).to_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["sent"].to_pylist(), strict=True))
    say(rows=result.items, batches=result.batches, keys=len(found), equals_what_was_read=found == minutes.newest)


def main(seconds: float, folder: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.kafka import running  # the broker that the tests use
    from tests.support.server_jars import server_jars

    (folder / "broker").mkdir(parents=True)
    with running(server_jars("kafka"), folder / "broker") as broker:
        feed(broker, folder / "table", seconds)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(float(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(float(sys.argv[1]), Path(name))
