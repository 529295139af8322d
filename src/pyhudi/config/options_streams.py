"""The options of Structured Streaming: where a source starts and how much a micro-batch has, and how a sink counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.config.option import option
from pyhudi.config.parsers import boolean, integer, text

START_EARLIEST: Final = "earliest"
START_LATEST: Final = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSourceOptions:
    """Where a stream of a table starts, and how much one micro-batch reads."""

    start: str = option(
        "hoodie.datasource.streaming.startoffset",
        parse=text("`earliest`, `latest`, an instant or a time"),
        default=START_EARLIEST,
        doc="Streams: where a new query starts. `earliest`: all rows. `latest`: what is written from now on. An instant"
        " of a completed write: what was written after it. A time: what was completed after it. A restarted query goes"
        " on from its checkpoint.",
    )
    max_commits: int | None = option(
        "hoodie.datasource.streaming.maxcommitspertrigger",
        aliases=("maxcommitspertrigger", "read.commits.limit"),
        parse=integer(minimum=1, unit="commits"),
        default=None,
        doc="Streams: a micro-batch has the rows of at most so many commits. More, if cleaners have left no state"
        " between them. Needs PySpark 4.2.",
    )
    max_files: int | None = option(
        "hoodie.datasource.streaming.maxfilespertrigger",
        aliases=("maxfilespertrigger",),
        parse=integer(minimum=1, unit="file slices"),
        default=None,
        doc="Streams: a micro-batch reads at most so many file slices. Commits with more are split. Needs PySpark 4.2.",
    )
    max_bytes: int | None = option(
        "hoodie.datasource.streaming.maxbytespertrigger",
        aliases=("maxbytespertrigger",),
        parse=integer(minimum=1, unit="bytes"),
        default=None,
        doc="Streams: a micro-batch reads file slices of at most so many bytes, and at least one. Commits with more are"
        " split. Needs PySpark 4.2.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSinkOptions:
    """How the sink of a stream knows its micro-batches, and what it runs beside them."""

    identifier: str | None = option(
        "hoodie.datasource.write.streaming.checkpoint.identifier",
        parse=text("a name of the stream"),
        default=None,
        doc="Streams: the name under which commits keep the number of their micro-batch for JVM Hudi's sink. If not"
        " given, it is the id of the query. JVM Hudi's default is `default_single_writer` for all queries; with it,"
        " its sink drops the rows of a second query into the same table.",
    )
    ignores_failures: bool = option(
        "hoodie.datasource.write.streaming.ignore.failed.batch",
        parse=boolean(
            refused={
                "TRUE": "rows of a failed micro-batch would be lost: leave the option out; the query stops and can be"
                " restarted"
            }
        ),
        default=False,
        doc="Streams: a micro-batch that fails stops the query.",
    )
    disables_compaction: bool = option(
        "hoodie.datasource.write.streaming.disable.compaction",
        default=False,
        doc="Streams: whether the sink leaves the compaction of a merge-on-read table to another process.",
    )
