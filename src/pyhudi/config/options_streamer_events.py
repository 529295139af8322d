"""The options of the streamer's sources of S3 events, under the names of JVM Hudi's HoodieStreamer."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.options_streamer import older_names
from pyhudi.config.parsers import any_text, integer, text


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The queue of SQS that S3EventsSource reads, to which buckets send what happens to their objects."""

    url: str | None = option(
        "hoodie.streamer.s3.source.queue.url",
        aliases=older_names("s3.source.queue.url"),
        parse=text("a URL"),
        default=None,
        doc="The streamer, with S3EventsSource: the queue.",
    )
    region: str | None = option(
        "hoodie.streamer.s3.source.queue.region",
        aliases=older_names("s3.source.queue.region"),
        parse=text("the name of a region"),
        default=None,
        doc="The streamer, with S3EventsSource: the region of the queue; by default as boto3 finds it.",
    )
    messages: int = option(
        "hoodie.streamer.s3.source.queue.max.messages.per.batch",
        aliases=older_names("s3.source.queue.max.messages.per.batch"),
        parse=integer(minimum=1, unit="messages"),
        default=1_000,
        doc="The streamer, with S3EventsSource: how many messages a batch has at most, if `source_limit` is not given."
        " JVM Hudi's default is 5.",
    )
    wait_seconds: int = option(
        "hoodie.streamer.s3.source.queue.long.poll.wait",
        aliases=older_names("s3.source.queue.long.poll.wait"),
        parse=integer(minimum=0, unit="seconds"),
        default=1,
        doc="The streamer, with S3EventsSource: how long it waits for a first message. JVM Hudi's default is 20.",
    )
    hidden_seconds: int = option(
        "hoodie.streamer.s3.source.queue.visibility.timeout",
        aliases=older_names("s3.source.queue.visibility.timeout"),
        parse=integer(minimum=1, unit="seconds"),
        default=300,
        doc="The streamer, with S3EventsSource: after how long the queue gives a message again that was not deleted, as"
        " after the death of the process: longer than a batch takes. JVM Hudi's default is 30.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFileOptions:
    """The files that S3EventsHoodieIncrSource reads."""

    file_format: str = option(
        "hoodie.streamer.source.hoodieincr.file.format",
        aliases=older_names("source.hoodieincr.file.format"),
        parse=text("parquet, orc, avro, json or csv"),
        default="parquet",
        doc="The streamer, with S3EventsHoodieIncrSource: the format of the files.",
    )
    key_prefix: str = option(
        "hoodie.streamer.source.s3incr.key.prefix",
        aliases=older_names("source.s3incr.key.prefix"),
        parse=any_text(),
        default="",
        doc="The streamer, with S3EventsHoodieIncrSource: what the keys of the files begin with; others are left out.",
    )
