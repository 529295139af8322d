"""One round of the streamer: what is new in the source becomes one commit, which keeps the checkpoint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyhudi.config.options_metrics import MetricsOptions
from pyhudi.config.options_streamer import StreamerOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import ConfigError, TableNotFoundError, WriteConflictError
from pyhudi.events import ErrorTableWritten, Observe, RoundEnded, TopicAsked
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.batch import Batch, batch_of
from pyhudi.streamer.batch_on_spark import batch_on_spark, source_on_spark, spark_engine
from pyhudi.streamer.checkpoints import (
    Checkpoint,
    Resumption,
    checkpoint_of_commit,
    last_commit,
    metadata_of,
    resumption,
)
from pyhudi.streamer.error_table import ErrorTable, error_table_of, write_errors
from pyhudi.streamer.result import Idle, IngestedBatch
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.protocol import Pull, Source
from pyhudi.streamer.transformers_on_spark import made_without_on
from pyhudi.streamer.watermarks import watermark_of_topic
from pyhudi.table.state import TableState, load_table
from pyhudi.table.watermarks import WATERMARK_KEY
from pyhudi.telemetry.metrics import metrics_observer
from pyhudi.write.create import create_for_rows, removed_on_failure
from pyhudi.write.result import WriteResult
from pyhudi.write.run import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BatchOf: TypeAlias = Callable[
    [Pull | None, Settings, TableState | None, WriteConfig, ErrorTable | None],
    Batch | None,
]
"""Makes the rows of a batch, of a kind that the engine accepts: see `batch_of`."""
_NAME: Final = "hoodie.table.name"
_REMEMBERED_SECONDS: Final = 60.0
"""After this long without anything new a round looks whether another process has moved the checkpoint."""


@dataclass(slots=True)
class Quiet:
    """What is remembered of a table whose source had nothing new, so that the next rounds ask the source alone.

    `after`: where the source was, None where it is not known to have had nothing new; `until`: by the monotonic clock.
    """

    after: Checkpoint | None = None
    until: float = 0.0
    table_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    """A streamer that is set up: its settings, its source, the store of its table, and its error table.

    `batch_of`: makes the rows for the engine.
    """

    settings: Settings
    source: Source
    storage: Storage
    engine: Engine
    batch_of: BatchOf = batch_of
    errors: ErrorTable | None = None
    environment: Environment = SYSTEM
    quiet: Quiet = field(default_factory=Quiet, init=False, repr=False, compare=False)


def new_ingestion(
    settings: Settings,
    source: Source,
    storage: Storage,
    environment: Environment = SYSTEM,
    *,
    spark: SparkSession | None = None,
) -> Ingestion:
    """A streamer that runs in this process, or in tasks of a Spark session. Raises as `spark_engine`."""
    errors = error_table_of(settings.path, settings.options)
    engine: Engine = LocalEngine()
    make: BatchOf = batch_of
    if spark is not None:
        on_spark = spark_engine(spark, settings)
        engine, make = on_spark, functools.partial(batch_on_spark, on_spark, made_without_on(on_spark))
        source = source_on_spark(spark, source)
    return Ingestion(
        settings=settings,
        source=source,
        storage=storage,
        engine=engine,
        batch_of=make,
        errors=errors,
        environment=environment,
    )


def checkpoint_of(ingestion: Ingestion) -> str | None:
    """The checkpoint that the table keeps. Cost: as `ingest` without anything new, but for the source."""
    table = _table_of(ingestion.storage)
    last = None if table is None else last_commit(table)
    return None if last is None else last.checkpoint.text


def _table_of(storage: Storage) -> TableState | None:
    try:
        return load_table(storage)
    except TableNotFoundError:
        return None


def ingest(ingestion: Ingestion) -> IngestedBatch | None:
    """Write what is new in the source, in one commit; None where that is nothing. See `run_round`."""
    ended = run_round(ingestion)
    return ended if isinstance(ended, IngestedBatch) else None


def run_round(ingestion: Ingestion, waits: Callable[[TableState], bool] | None = None) -> IngestedBatch | Idle:
    """Write what is new in the source, in one commit. With `waits`: unless this is true of the table.

    The commit has the checkpoint. So what fails or dies before it advances nothing, and is read again. Of two streamers
    that go on from one commit one writes, and the other raises `WriteConflictError`.

    Raises what the source and the write raise. Cost where nothing is new, besides the requests of the source: none
    within a minute after a round in which nothing was new; otherwise two, or three where there is no table, and those
    of `last_commit`.
    """
    clock, quiet = ingestion.environment.clock, ingestion.quiet
    began, observe = clock.monotonic(), _observer(ingestion, quiet.table_name)
    ended: IngestedBatch | Idle | None = None
    try:
        asked = None
        if quiet.after is not None and began < quiet.until:
            asked = _pull(ingestion, quiet.after, observe)
            if asked is None:
                ended = Idle.NOTHING_NEW
                return ended
        table = _table_of(ingestion.storage)
        observe = _observer(ingestion, None if table is None else table.config.name)
        if table is not None and waits is not None and waits(table):
            quiet.after = None  # the source is asked when the round may begin: a queue counts how often it is
            ended = Idle.SERVICES_BEHIND
            return ended
        ended = _round(ingestion, table, asked, observe)
        return ended
    finally:
        observe(
            RoundEnded(
                ended_ms=clock.now_ms(),
                seconds=clock.monotonic() - began,
                has_failed=ended is None,
                has_committed=isinstance(ended, IngestedBatch),
            )
        )


def _observer(ingestion: Ingestion, table_name: str | None) -> Observe:
    """What records the rounds of a streamer, under the name of its table, where the options ask for metrics."""
    options = ingestion.settings.group(MetricsOptions)
    if not options.enabled:
        return ingestion.environment.observe
    name = _options(ingestion.settings, None)[_NAME] if table_name is None else table_name
    return metrics_observer(options, name, ingestion.storage.uri)


def _pull(ingestion: Ingestion, after: Checkpoint, observe: Observe) -> Pull | None:
    """What the source has after a checkpoint."""
    pull = ingestion.source.pull(after, limit=ingestion.settings.source_limit)
    if ingestion.settings.reads_kafka:
        items, behind = (0, 0) if pull is None else (pull.items, pull.behind)
        observe(TopicAsked(messages=items, behind=items if behind is None else behind))
    return pull


def _round(
    ingestion: Ingestion, table: TableState | None, asked: Pull | None, observe: Observe
) -> IngestedBatch | Idle:
    """The round that `run_round` describes, of a table as it was loaded. `asked`: what came after the quiet time."""
    settings, clock, quiet = ingestion.settings, ingestion.environment.clock, ingestion.quiet
    last = None if table is None else last_commit(table)
    begin = resumption(last, checkpoint=settings.checkpoint, ignore_checkpoint=settings.ignore_checkpoint)
    if asked is None or quiet.after != begin.checkpoint:
        asked = _pull(ingestion, begin.checkpoint, observe)
    quiet.after = None
    if asked is None and not settings.commits_without_change:
        return _nothing_new(ingestion, table, begin.checkpoint)
    config = WriteConfig.from_options(_options(settings, table))
    if settings.changes is not None:
        config = settings.changes.with_event_times(config)
    pull, batch = _next_batch(ingestion, table, config, begin.checkpoint, asked, observe)
    if batch is None:
        return Idle.NOTHING_NEW
    reached = begin.checkpoint if pull is None else pull.reached
    if config.input.tracks_event_time and settings.reads_kafka:
        kept = watermark_of_topic(ingestion.engine, batch.rows, reached, table, config, now=clock.now_ms())
        config = replace(config, extra_metadata=(*config.extra_metadata, (WATERMARK_KEY, kept)))
    if ingestion.errors is not None and batch.errors is not None:
        began = clock.monotonic()
        write_errors(ingestion.errors, batch.errors, batch.failed, ingestion.engine, ingestion.environment)
        observe(ErrorTableWritten(seconds=clock.monotonic() - began))
    has_place = pull is None or reached.text is not None
    skips = settings.group(StreamerOptions).skips_checkpoint or not has_place
    write_done = _written(ingestion, batch.rows, table, config, begin, None if skips else reached)
    if pull is not None and pull.committed is not None:
        pull.committed()
    items = 0 if pull is None else pull.items
    return IngestedBatch(items=items, failed=batch.failed, checkpoint=reached.text, write=write_done)


def _nothing_new(ingestion: Ingestion, table: TableState | None, after: Checkpoint) -> Idle:
    """Remember where the source had nothing new."""
    quiet = ingestion.quiet
    quiet.after, quiet.until = after, ingestion.environment.clock.monotonic() + _REMEMBERED_SECONDS
    quiet.table_name = None if table is None else table.config.name
    return Idle.NOTHING_NEW


def _next_batch(
    ingestion: Ingestion,
    table: TableState | None,
    config: WriteConfig,
    after: Checkpoint,
    pull: Pull | None,
    observe: Observe,
) -> tuple[Pull | None, Batch | None]:
    """What the source gave after a checkpoint, and its rows; no batch where nothing is to be written.

    What has neither rows nor columns makes no table, and so no commit that could keep how far the source was read: as a
    range of a topic from which everything was compacted away. Then what comes after it is read at once.
    """
    settings = ingestion.settings
    while True:
        if pull is None and not settings.commits_without_change:
            _nothing_new(ingestion, table, after)
            return None, None
        batch = ingestion.batch_of(pull, settings, table, config, ingestion.errors)
        if batch is not None or pull is None:
            return pull, batch
        if pull.must_be_kept:
            raise ConfigError(
                "the source begins with what comes next, and a commit must keep where that is; but nothing says which"
                " columns the new table has: give them as schema, or by a schema provider"
            )
        if pull.reached.text is None or pull.reached.text == after.text or pull.committed is not None:
            return pull, None
        after = pull.reached
        pull = _pull(ingestion, after, observe)


def _options(settings: Settings, table: TableState | None) -> dict[str, str]:
    """The options of a write. Those of a new table are for the first one."""
    if table is not None:
        return dict(settings.options)
    name = {_NAME: settings.path.rstrip("/").rpartition("/")[2], **settings.options}
    return name if settings.changes is None else settings.changes.options_of_table(name)


def _written(
    ingestion: Ingestion,
    rows: Any,
    table: TableState | None,
    config: WriteConfig,
    begin: Resumption,
    reached: Checkpoint | None,
) -> WriteResult:
    """Write the rows of a batch. `reached`: the checkpoint of the commit; None for one that keeps none."""
    settings, storage = ingestion.settings, ingestion.storage
    options = _options(settings, table)
    config = replace(config, what=replace(config.what, allows_empty_commit=True))
    if reached is not None:
        kept = metadata_of(
            reached,
            batch=ingestion.environment.ids.uuid(),
            checkpoint=settings.checkpoint,
            ignore_checkpoint=settings.ignore_checkpoint,
        )
        config = _with_checkpoint(config, kept, begin.batch_id)
    created = table is None and create_for_rows(rows, storage, config, options, ingestion.engine)
    with removed_on_failure(storage, config, ingestion.environment, created=created):
        done = write(
            rows,
            storage,
            config=config,
            options=options,
            engine=ingestion.engine,
            environment=ingestion.environment,
            known=frozenset() if table is None else table.timeline.completed_times,
        )
    if reached is not None:
        _check_ours(storage, done, reached)
    return done


def _with_checkpoint(config: WriteConfig, kept: Mapping[str, str], batch_id: str) -> WriteConfig:
    """The write with the checkpoint in its commit, which gives way to another commit of the same batch."""
    if config.what.batch_id is not None:
        raise ConfigError("the streamer numbers its batches", batch_id=config.what.batch_id)
    return replace(
        config,
        what=replace(config.what, batch_id=batch_id),
        extra_metadata=(*config.extra_metadata, *kept.items()),
    )


def _check_ours(storage: Storage, done: WriteResult, reached: Checkpoint) -> None:
    """Raise `WriteConflictError` if the commit of this batch is that of another streamer. Cost: one read."""
    kept = checkpoint_of_commit(load_table(storage), done.instant)
    if kept is not None and kept.text != reached.text:
        raise WriteConflictError(
            "another streamer writes to this table, and was faster: nothing of this batch was written; run again",
            instant=done.instant,
            checkpoint=kept.text,
        )
