"""Topics that a streamer reads on Spark: their watermark, and their identity."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import topic_settings
from tests.support.kafka import Broker
from tests.support.topic_logs import BEGIN_MS, MINUTE_MS, OPTIONS, Log, check_no_hour_is_complete_early

from pyhudi.errors import ConfigError, SourceDataLostError
from pyhudi.storage.local import LocalStorage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.ingest import Ingestion, ingest, new_ingestion
from pyhudi.streamer.sources.open import open_source
from pyhudi.streamer.sources.protocol import Pull, Source
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.table.watermarks import WATERMARK_KEY, load_source_times

SQL = "hoodie.streamer.transformer.sql"
pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def new_streamer(path: Path, broker: Broker, topic: str, spark: Any = None, **options: str) -> Ingestion:
    """A streamer of a topic into the table of a folder; without `spark` one of this process."""
    by_query = "SqlQueryBasedTransformer" if SQL in options else None
    given = topic_settings(broker, topic, {**OPTIONS, **options}, transformer_class=by_query)
    path.mkdir(exist_ok=True)
    return new_ingestion(given, open_source(given), LocalStorage(path), spark=spark)


def said(path: Path) -> tuple[dict[str, int | None], dict[str, str]]:
    """What the newest commit says of event times, and of all else but when and which batch it was."""
    table = load_table(LocalStorage(path))
    newest = load_commit_metadata(table.storage, table.timeline.completed_writes[-1], table.version)
    own = (WATERMARK_KEY, "pyhudi.streamer.batch", "_pyhudi_batch_id")
    other = {name: text for name, text in newest.extra.items() if name not in own}
    return {name: found.time for name, found in load_source_times(table)[1].items()}, other


def test_no_hour_of_a_topic_is_complete_early_on_spark(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic = broker.new_topic(partitions=3)
    log = Log(random.Random(7), lateness=20, events_of_partition=3)
    for number in range(3):
        log.add_partition(number)
    check_no_hour_is_complete_early(log, broker, topic, new_streamer(tmp_path, broker, topic, spark))


@pytest.mark.parametrize(("version", "kind"), [("9", "COPY_ON_WRITE"), ("8", "MERGE_ON_READ"), ("6", "MERGE_ON_READ")])
def test_watermark_of_a_topic_is_that_of_a_run_without_spark(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, kind: str
) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 2)
    topic, at = broker.new_topic(partitions=3), [BEGIN_MS + minute * MINUTE_MS for minute in range(9)]
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    if version == "8":
        options[SQL] = "SELECT * FROM <SRC> WHERE id < 8"
    both = [new_streamer(tmp_path / str(n), broker, topic, on, **options) for n, on in enumerate((None, spark))]
    times: list[list[int | None]] = []
    portions: tuple[dict[int, list[Any]], ...] = (
        {0: [{"id": 1, "at": at[3]}, {"id": 2, "at": at[8]}, {"id": 3, "at": at[5]}], 1: [{"id": 4}]},
        {0: [{"id": 5, "at": at[6]}], 1: [{"id": 6, "at": at[2]}, None]},
        {2: [{"id": 7, "at": at[1]}, {"id": 8}]},
    )
    for sent in portions:
        for partition, messages in sent.items():
            broker.send(topic, messages, partition=partition)
        batches = [batch for batch in (ingest(streamer) for streamer in both) if batch is not None]
        assert batches[0].items == sum(len(messages) for messages in sent.values())
        assert (
            len({(batch.items, batch.checkpoint, batch.write.inserted, batch.write.updated) for batch in batches}) == 1
        )
        (here, others), on_spark = said(tmp_path / "0"), said(tmp_path / "1")
        assert on_spark == (here, others)
        times.append([here[f"{topic}-{partition}"] for partition in range(3)])
    assert times == [[at[8], None, None], [at[8], at[2], None], [at[8], at[2], at[1]]]


def test_topic_without_columns_of_offsets_has_no_watermark_on_spark(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1, "at": BEGIN_MS}])
    without = {"hoodie.streamer.source.kafka.append.offsets": "false"}
    with pytest.raises(ConfigError, match=r"append\.offsets"):
        ingest(new_streamer(tmp_path, broker, topic, spark, **without))


@dataclass(frozen=True)
class MadeAnew:
    """A source whose topic is made anew between the plan of a batch and the tasks that read it."""

    source: Source
    broker: Broker
    topic: str

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        pull = self.source.pull(after, limit=limit)
        self.broker.delete_topic(self.topic)
        self.broker.new_topic(name=self.topic)
        self.broker.send(self.topic, [{"id": 10}, {"id": 11}, {"id": 12}])
        return pull


def test_topic_that_is_made_anew_before_its_tasks_read_it_is_an_error(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1}, {"id": 2}])
    given = topic_settings(broker, topic, schema=pa.schema([("id", pa.int64())]))
    streamer = new_ingestion(given, open_source(given), LocalStorage(tmp_path), spark=spark)
    with pytest.raises(SourceDataLostError, match="while it was being read") as raised:
        ingest(replace(streamer, source=MadeAnew(streamer.source, broker, topic)))
    assert raised.value.context["topic"] == topic
    assert not (tmp_path / ".hoodie").exists()
