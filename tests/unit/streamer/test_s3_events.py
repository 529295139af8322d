"""Files in S3 that a queue names, with moto's S3 and SQS: each is read once, and no message is deleted too early."""

from __future__ import annotations

import io
import itertools
import json
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.dynamodb import DynamoDb
from tests.support.ingestions import ids_in, ingestion, run_until_idle
from tests.support.pages import ROOT, blocks, run_block
from tests.support.tables import LATER_MS, StepClock, environment, open_table

import pyhudi
import pyhudi.streamer
from pyhudi.errors import ConfigError, SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import settings_of
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

pytestmark = [pytest.mark.xdist_group("moto"), pytest.mark.timeout(300)]
REGION = "us-east-1"


@dataclass(frozen=True)
class Bucket:
    """A bucket that tells a queue what happens to its objects."""

    name: str
    queue: str
    endpoint: str
    s3: Any
    sqs: Any

    def put(self, key: str, *ids: int) -> None:
        """A Parquet file with these ids."""
        data = io.BytesIO()
        pq.write_table(pa.table({"id": list(ids)}), data)
        self.s3.put_object(Bucket=self.name, Key=key, Body=data.getvalue())

    def waiting(self) -> int:
        """How many messages the queue has, those included that are hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(int(number) for number in found.values())

    def events(self, storage: Storage, **given: Any) -> Ingestion:
        """A streamer of the events; what it has received and not deleted comes again after a second."""
        conf = {
            "hoodie.streamer.s3.source.queue.url": self.queue,
            "hoodie.streamer.s3.source.queue.region": REGION,
            "hoodie.streamer.s3.source.queue.long.poll.wait": "0",
            "hoodie.streamer.s3.source.queue.visibility.timeout": "1",
            "hoodie.datasource.write.recordkey.field": "s3.bucket.name,s3.object.key,eventTime",
        }
        arguments: dict[str, Any] = {"op": "INSERT", "filter_dupes": True, **given}
        config = StreamerConfig("memory://t/table", source_class="S3EventsSource", hoodie_conf=conf, **arguments)
        return ingestion(settings_of(config), storage, environment(StepClock(LATER_MS)))

    def files(self, table: str, **options: str) -> StreamerConfig:
        """A streamer of the files that a table of events names; a row that is read twice is there twice."""
        conf = {
            "hoodie.streamer.source.hoodieincr.path": table,
            "hoodie.datasource.write.recordkey.field": "id",
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.access.key": "testing",
            "fs.s3a.secret.key": "testing",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": REGION,
            **options,
        }
        return StreamerConfig("memory://t/rows", "S3EventsHoodieIncrSource", op="INSERT", hoodie_conf=conf)


@pytest.fixture
def bucket(dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", dynamodb.endpoint)
    s3, sqs = (boto3.client(name, region_name=REGION) for name in ("s3", "sqs"))
    name = f"b{secrets.token_hex(6)}"
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    s3.create_bucket(Bucket=name)
    notify = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}]}
    s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration=notify)
    return Bucket(name, queue, dynamodb.endpoint, s3, sqs)


def keys_in(storage: Storage) -> list[str]:
    events = open_table(storage).scan(["s3"]).to_arrow()["s3"].to_pylist()
    return sorted(unquote_plus(event["object"]["key"]) for event in events)


def test_events_are_rows_and_their_messages_are_deleted_after_the_commit(bucket: Bucket):
    storage = MemoryStorage()
    assert run_until_idle(bucket.events(storage)) == 0  # the message by which S3 tests the queue
    assert bucket.waiting() == 0
    bucket.put("in/a b+1.parquet", 1)
    bucket.put("in/2.parquet", 2)
    bucket.s3.delete_object(Bucket=bucket.name, Key="in/2.parquet")
    assert run_until_idle(bucket.events(storage, source_limit=1)) == 2
    assert keys_in(storage) == ["in/2.parquet", "in/a b+1.parquet"]
    assert bucket.waiting() == 0


def test_killed_at_some_effects_no_event_is_lost_or_there_twice(bucket: Bucket):
    run_until_idle(bucket.events(MemoryStorage()))
    for number in itertools.count(1, 4):
        inner = MemoryStorage()
        bucket.put(f"{number}.parquet", number)
        storage = FaultStorage(inner, before=at_effect(number, SimulatedCrash()))
        with suppress(SimulatedCrash):
            ingest(bucket.events(storage))
        assert bucket.waiting() == storage.is_dead
        time.sleep(1.1)
        run_until_idle(bucket.events(inner))
        assert keys_in(inner) == [f"{number}.parquet"]
        assert bucket.waiting() == 0
        if not storage.is_dead:
            break
    assert number > 12


def test_message_that_could_not_be_deleted_comes_again_and_is_no_second_row(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
):
    storage = MemoryStorage()
    run_until_idle(bucket.events(storage))
    bucket.put("1.parquet", 1)
    streamer = bucket.events(storage)
    pull = streamer.source.pull(Checkpoint(text=None), limit=None)
    assert pull is not None

    class Once:
        def pull(self, after: Checkpoint, *, limit: int | None) -> Any:
            del after, limit
            bucket.sqs.delete_queue(QueueUrl=bucket.queue)
            return pull

    assert ingest(replace(streamer, source=Once())) is not None
    assert "come again" in caplog.text
    assert keys_in(storage) == ["1.parquet"]
    with pytest.raises(SourceError, match="does not answer"):
        ingest(streamer)


def test_event_that_comes_again_is_one_row(bucket: Bucket):
    storage = MemoryStorage()
    run_until_idle(bucket.events(storage))
    bucket.put("1.parquet", 1)
    (message,) = bucket.sqs.receive_message(QueueUrl=bucket.queue, VisibilityTimeout=0)["Messages"]
    bucket.sqs.send_message(QueueUrl=bucket.queue, MessageBody=message["Body"])
    wrapped = json.dumps({"Type": "Notification", "Message": message["Body"]})  # as SNS sends it
    for _ in range(2):
        assert run_until_idle(bucket.events(storage)) == 1
        bucket.sqs.send_message(QueueUrl=bucket.queue, MessageBody=wrapped)
    assert keys_in(storage) == ["1.parquet"]


def test_message_that_is_no_event_stops_the_run_and_stays_in_the_queue(bucket: Bucket):
    bucket.sqs.send_message(QueueUrl=bucket.queue, MessageBody="hello")
    with pytest.raises(SourceError, match="no event"):
        ingest(bucket.events(MemoryStorage()))
    assert bucket.waiting() == 2


def test_operations_that_write_an_event_twice_are_refused(bucket: Bucket):
    with pytest.raises(ConfigError, match="more than once"):
        bucket.events(MemoryStorage(), filter_dupes=False)


def test_files_that_events_name_are_read_once(bucket: Bucket):
    table = f"memory://{bucket.name}/events"
    events, rows = open_storage(table, {}), MemoryStorage()
    given = ingestion(settings_of(bucket.files(table, **{"hoodie.streamer.source.s3incr.key.prefix": "in/"})), rows)
    bucket.put("in/a b+1.parquet", 1, 2)
    bucket.put("out/2.parquet", 3)
    run_until_idle(bucket.events(events))
    assert run_until_idle(given) == 1
    bucket.put("in/3.parquet", 4)
    run_until_idle(bucket.events(events))
    assert run_until_idle(given) == 1
    assert ids_in(rows) == [1, 2, 4]
    bucket.put("in/4.parquet", 5)
    bucket.s3.delete_object(Bucket=bucket.name, Key="in/4.parquet")
    run_until_idle(bucket.events(events))
    with pytest.raises(SourceError, match="not there any more"):
        ingest(given)
    assert ids_in(rows) == [1, 2, 4]


def test_files_of_an_unknown_format_are_refused(bucket: Bucket):
    config = bucket.files("memory://t/events", **{"hoodie.streamer.source.hoodieincr.file.format": "xml"})
    with pytest.raises(ConfigError, match="parquet, orc"):
        ingestion(settings_of(config), MemoryStorage())


def test_block_of_the_page_writes_events(bucket: Bucket, tmp_path: Path):
    bucket.put("1.parquet", 1)
    (block,) = (block for block in blocks(ROOT / "docs" / "ingestion.md") if "S3EventsSource" in block.code)
    code = re.sub('"https://sqs[^"]+"', repr(bucket.queue), block.code).replace("eu-north-1", REGION)
    run_block(type(block)(code, block.note), {"pyhudi": pyhudi}, folder=tmp_path)
    events = pyhudi.HudiTable.for_path(tmp_path / "events_of_the_bucket").scan(["eventName"]).to_arrow()
    assert events["eventName"].to_pylist() == ["ObjectCreated:Put"]
