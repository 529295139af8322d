"""S3EventsSource: what happened to the objects of buckets, as they tell a queue of SQS, as rows.

The queue gives a message again until it is deleted, and this is done after the commit of its rows. So each event is in
the table, and none is lost; one that comes again is that row again, by its key.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from pyhudi.config.options_streamer_events import QueueOptions
from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError
from pyhudi.format.schema.evolution import align
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import Pull, Rows

_AT_ONCE: Final = 10
"""So many messages a request of SQS gives, or deletes."""
_CREATED: Final = "ObjectCreated:"
_OBJECT: Final = pa.struct(
    {
        "key": pa.string(),
        "size": pa.int64(),
        "eTag": pa.string(),
        "versionId": pa.string(),
        "sequencer": pa.string(),
    }
)
EVENTS: Final = pa.schema(
    [
        ("eventTime", pa.string()),
        ("eventName", pa.string()),
        ("awsRegion", pa.string()),
        ("s3", pa.struct([("bucket", pa.struct([("name", pa.string())])), ("object", _OBJECT)])),
    ]
)
"""The columns of events that are rows. Keys of objects are as the event has them, with escapes of URLs."""
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class S3EventsSource:
    """A queue."""

    url: str
    options: QueueOptions

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`; the limit is one of messages. Cost: a request for ten messages, and one more.

        The checkpoint is JVM Hudi's, the time of the newest event. What is to be read is what the queue has.
        """
        del after
        client = _client(self.options)
        messages = _received(client, self.url, self.options, self.options.messages if limit is None else limit)
        events = [event for message in messages for event in _events(message)]
        if not events:
            _delete(client, self.url, messages)  # tests of the bucket, and what happened to objects that are gone
            return None
        newest = max(_milliseconds(event["eventTime"]) for event in events)
        return Pull(
            reached=Checkpoint(text=str(newest)),
            read=functools.partial(_rows, events),
            items=len(events),
            committed=functools.partial(_delete, client, self.url, messages),
        )


def s3_events_source(options: QueueOptions, *, writes_once: bool) -> S3EventsSource:
    """The source of a queue. Raises `ConfigError` and `UnsupportedFeatureError`. Cost: none.

    `writes_once`: whether a row that is read again is in the table once.
    """
    if options.url is None:
        raise ConfigError("S3EventsSource needs hoodie.streamer.s3.source.queue.url, the queue")
    if not writes_once:
        raise ConfigError(
            "a queue may give a message more than once: use op=INSERT with filter_dupes, or op=UPSERT, with a record"
            " key of the event such as s3.bucket.name,s3.object.key,eventTime"
        )
    _library()
    return S3EventsSource(options.url, options)


def _library() -> Any:
    try:
        import boto3  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UnsupportedFeatureError(
            "S3EventsSource needs boto3: pip install 'pyhudi[sqs]'", package="boto3"
        ) from error
    return boto3


def _client(options: QueueOptions) -> Any:
    return _library().client("sqs", region_name=options.region)


def _received(client: Any, url: str, options: QueueOptions, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        answer = _asked(
            client.receive_message,
            QueueUrl=url,
            MaxNumberOfMessages=min(_AT_ONCE, limit - len(found)),
            WaitTimeSeconds=0 if found else options.wait_seconds,
            VisibilityTimeout=options.hidden_seconds,
        )
        if not answer.get("Messages"):
            break
        found += answer["Messages"]
    return found


def _asked(call: Any, **arguments: Any) -> dict[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - see _library

    try:
        answer: dict[str, Any] = call(**arguments)
    except (BotoCoreError, ClientError) as error:
        raise SourceError(f"the queue does not answer: {error}", queue=arguments["QueueUrl"]) from error
    return answer


def _events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of objects that were created. SNS puts a message into another one."""
    try:
        body = json.loads(message["Body"])
        if "Records" not in body and "Message" in body:
            body = json.loads(body["Message"])
        records = body.get("Records", ())
        created = [record for record in records if str(record["eventName"]).startswith(_CREATED)]
        for record in created:
            _milliseconds(record["eventTime"])
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SourceError(
            "a message of the queue is no event of a bucket: delete it, or let the queue have events alone",
            message_id=message.get("MessageId"),
        ) from error
    return created


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _rows(events: Sequence[dict[str, Any]], wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
    del stored
    rows = pa.Table.from_pylist(list(events), EVENTS)
    return rows if wanted is None else align(rows, wanted)


def _delete(client: Any, url: str, messages: Sequence[dict[str, Any]]) -> None:
    """Delete messages. The queue gives those again that could not be deleted: this is no failure of the batch."""
    for start in range(0, len(messages), _AT_ONCE):
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages[start : start + _AT_ONCE])
        ]
        try:
            failed = _asked(client.delete_message_batch, QueueUrl=url, Entries=entries).get("Failed", ())
        except SourceError as error:
            failed = [str(error)]
        if failed:
            _log.warning("messages of the queue were not deleted, and come again: %s", failed)
