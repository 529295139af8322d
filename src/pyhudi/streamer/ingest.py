"""One round of the streamer: what is new in the source becomes one commit, which keeps the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi.config.options_metrics import MetricsOptions
from pyhudi.config.options_streamer import StreamerOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import ConfigError, WriteConflictError
from pyhudi.events import ErrorTableWritten, Observe, RoundEnded, TopicAsked
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.batch import Batch, batch_of
from pyhudi.streamer.checkpoints import (
    Checkpoint,
    Resumption,
    checkpoint_of_commit,
    last_commit,
    metadata_of,
    resumption,
)
from pyhudi.streamer.error_table import ErrorTable, error_table_of, write_errors
from pyhudi.streamer.result import IngestedBatch
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.protocol import Pull, Rows, Source
from pyhudi.streamer.watermarks import watermark_of_topic
from pyhudi.table.state import TableState, load_table, table_exists
from pyhudi.table.watermarks import WATERMARK_KEY
from pyhudi.telemetry.metrics import metrics_observer
from pyhudi.write.create import create_for_rows, removed_on_failure
from pyhudi.write.result import WriteResult
from pyhudi.write.run import write

_NAME = "hoodie.table.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    """A streamer that is set up: its settings, its source, the store of its table, and its error table."""

    settings: Settings
    source: Source
    storage: Storage
    engine: Engine
    errors: ErrorTable | None = None
    environment: Environment = SYSTEM


def new_ingestion(settings: Settings, source: Source, storage: Storage, environment: Environment = SYSTEM) -> Ingestion:
    """A streamer that runs in this process."""
    return Ingestion(
        settings=settings,
        source=source,
        storage=storage,
        engine=LocalEngine(),
        errors=error_table_of(settings.path, settings.options),
        environment=environment,
    )


def checkpoint_of(ingestion: Ingestion) -> str | None:
    """The checkpoint that the table keeps. Cost: as `ingest` without anything new, but for the source."""
    table = load_table(ingestion.storage) if table_exists(ingestion.storage) else None
    last = None if table is None else last_commit(table)
    return None if last is None else last.checkpoint.text


def ingest(ingestion: Ingestion) -> IngestedBatch | None:
    """Write what is new in the source, in one commit; None where that is nothing.

    The commit has the checkpoint. So what fails or dies before it advances nothing, and is read again. Of two streamers
    that go on from one commit one writes, and the other raises `WriteConflictError`.

    Raises what the source and the write raise. Cost: two requests where nothing is new, besides those of the source.
    """
    clock = ingestion.environment.clock
    began, observe, batch, has_failed = clock.monotonic(), _observer(ingestion, None), None, True
    try:
        table = load_table(ingestion.storage) if table_exists(ingestion.storage) else None
        observe = _observer(ingestion, table)
        batch = _round(ingestion, table, observe)
        has_failed = False
        return batch
    finally:
        observe(
            RoundEnded(
                ended_ms=clock.now_ms(),
                seconds=clock.monotonic() - began,
                has_failed=has_failed,
                has_committed=batch is not None,
            )
        )


def _observer(ingestion: Ingestion, table: TableState | None) -> Observe:
    """What records the rounds of a streamer, under the name of its table, where the options ask for metrics."""
    options = ingestion.settings.group(MetricsOptions)
    if not options.enabled:
        return ingestion.environment.observe
    name = _options(ingestion.settings, None)[_NAME] if table is None else table.config.name
    return metrics_observer(options, name, ingestion.storage.uri)


def _round(ingestion: Ingestion, table: TableState | None, observe: Observe) -> IngestedBatch | None:
    """The round that `ingest` describes, of a table as it was loaded."""
    settings, clock = ingestion.settings, ingestion.environment.clock
    last = None if table is None else last_commit(table)
    begin = resumption(last, checkpoint=settings.checkpoint, ignore_checkpoint=settings.ignore_checkpoint)
    config = WriteConfig.from_options(_options(settings, table))
    if settings.changes is not None:
        config = settings.changes.with_event_times(config)
    pull, batch = _next_batch(ingestion, table, config, begin.checkpoint, observe)
    if batch is None:
        return None
    reached = begin.checkpoint if pull is None else pull.reached
    if config.input.tracks_event_time and settings.reads_kafka:
        kept = watermark_of_topic(batch.rows, reached, table, config, now=clock.now_ms())
        config = replace(config, extra_metadata=(*config.extra_metadata, (WATERMARK_KEY, kept)))
    failed = 0
    if ingestion.errors is not None and batch.errors is not None:
        failed = batch.errors.num_rows
        began = clock.monotonic()
        write_errors(ingestion.errors, batch.errors, ingestion.engine, ingestion.environment)
        observe(ErrorTableWritten(seconds=clock.monotonic() - began))
    has_place = pull is None or reached.text is not None
    skips = settings.group(StreamerOptions).skips_checkpoint or not has_place
    write_done = _written(ingestion, batch.rows, table, config, begin, None if skips else reached)
    if pull is not None and pull.committed is not None:
        pull.committed()
    items = 0 if pull is None else pull.items
    return IngestedBatch(items=items, failed=failed, checkpoint=reached.text, write=write_done)


def _next_batch(
    ingestion: Ingestion, table: TableState | None, config: WriteConfig, after: Checkpoint, observe: Observe
) -> tuple[Pull | None, Batch | None]:
    """What the source gives after a checkpoint, and its rows; no batch where nothing is to be written.

    What has neither rows nor columns makes no table, and so no commit that could keep how far the source was read: as a
    range of a topic from which everything was compacted away. Then what comes after it is read at once.
    """
    settings = ingestion.settings
    while True:
        pull = ingestion.source.pull(after, limit=settings.source_limit)
        if settings.reads_kafka:
            items, behind = (0, 0) if pull is None else (pull.items, pull.behind)
            observe(TopicAsked(messages=items, behind=items if behind is None else behind))
        if pull is None and not settings.commits_without_change:
            return None, None
        batch = batch_of(pull, settings, table, config, ingestion.errors)
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


def _options(settings: Settings, table: TableState | None) -> dict[str, str]:
    """The options of a write. Those of a new table are for the first one."""
    if table is not None:
        return dict(settings.options)
    name = {_NAME: settings.path.rstrip("/").rpartition("/")[2], **settings.options}
    return name if settings.changes is None else settings.changes.options_of_table(name)


def _written(
    ingestion: Ingestion,
    rows: Rows,
    table: TableState | None,
    config: WriteConfig,
    begin: Resumption,
    reached: Checkpoint | None,
) -> WriteResult:
    """Write the rows of a batch. `reached`: the checkpoint of the commit; None for one that keeps none."""
    settings, storage = ingestion.settings, ingestion.storage
    options = _options(settings, table)
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
