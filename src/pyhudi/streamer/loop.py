"""The loop of the streamer: rounds of the streamer, and what happens when one fails."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import HudiError, Retry, SourceError
from pyhudi.storage.open import open_storage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion, checkpoint_of, new_ingestion, run_round
from pyhudi.streamer.result import Idle, IngestedBatch, StreamerResult
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources.open import open_source
from pyhudi.streamer.sources.routed import released
from pyhudi.table.pending_clusterings import instants_of_clusterings
from pyhudi.table.state import TableState

IDLE_SECONDS: Final = 1.0
_log = logging.getLogger("pyhudi")


def run(target_base_path: str | os.PathLike[str], **arguments: Any) -> StreamerResult:
    """Write what is new in a source into a table, in one commit, which keeps how far the source was read.

    With `continuous=True` it goes on, a commit for each round in which something is new.

    The names are those of JVM Hudi's HoodieStreamer, and so are the checkpoints: either goes on where the other has
    stopped. The table is made by the first batch. docs/ingestion.md describes sources and options.

    Args:
        target_base_path: the table's folder: a path, or a URI of an object store.
        arguments: the other fields of `StreamerConfig`.

    Returns:
        What was committed.

    Raises:
        ConfigError: an argument or an option is not legal.
        UnsupportedFeatureError: a source, an option or an argument that is not built.
        SourceError: the source does not answer, or has something that cannot be read.
        WriteConflictError: another streamer writes to the table, and was faster.
        HudiError: as a write, see `HudiTable`.

    After an error nothing of the batch is in the table, and the next run reads it again. Cost: that of a write, and a
    read of what is new. Where nothing is new, that of asking the source, four requests, and a read for each commit
    since the last one of a streamer; each further round that finds nothing new asks the source alone, and the table
    once a minute.
    """
    config = StreamerConfig(target_base_path, **arguments)
    settings = settings_of(config)
    storage = open_storage(settings.path, settings.options)
    ingestion = new_ingestion(settings, open_source(settings), storage, spark=config.spark)
    try:
        if config.continuous:
            return run_continuously(ingestion, config)
        ended = with_retries(ingestion, config)
    finally:
        released([ingestion.source])
    if isinstance(ended, IngestedBatch):
        return StreamerResult().after(ended)
    return StreamerResult(checkpoint=checkpoint_of(ingestion))


def run_continuously(ingestion: Ingestion, config: StreamerConfig) -> StreamerResult:
    """Rounds until the termination of the arguments says that it is enough, or an error does not pass."""
    clock = ingestion.environment.clock
    result, idle, failed = StreamerResult(), 0, 0
    while True:
        began = clock.monotonic()
        batch = None
        try:
            ended = with_retries(ingestion, config)
            if isinstance(ended, IngestedBatch):
                batch, idle = ended, 0
            elif ended is Idle.NOTHING_NEW:
                idle += 1
            failed = 0
        except HudiError as error:
            failed += 1
            if error.retry is Retry.NEVER or failed > config.max_retry_count:
                raise
            _log.warning("a round failed, and is run again (%d of %d): %s", failed, config.max_retry_count, error)
        if batch is not None:
            result = result.after(batch)
        if config.post_write_termination is not None and config.post_write_termination(result, idle):
            return result if result.batches else replace(result, checkpoint=checkpoint_of(ingestion))
        least = config.retry_interval_seconds if failed else config.min_sync_interval_seconds
        if batch is None:
            least = max(least, IDLE_SECONDS)
        clock.sleep(max(0.0, least - (clock.monotonic() - began)))


def is_behind(table: TableState, config: StreamerConfig) -> bool:
    """Whether so many plans of table services are not done that no round may begin. Cost: a read for each new plan."""
    compactions = len(table.timeline.pending_compactions)
    clusterings = len(instants_of_clusterings(table.storage, table.timeline))
    is_late = compactions >= config.max_pending_compactions or clusterings >= config.max_pending_clustering
    if is_late:
        _log.warning(
            "no round begins: %d compactions and %d clusterings are planned and not done", compactions, clusterings
        )
    return is_late


def with_retries(ingestion: Ingestion, config: StreamerConfig) -> IngestedBatch | Idle:
    """One round, which is repeated after a failure of the source that may pass, as often as the arguments say."""
    waits = functools.partial(is_behind, config=config) if config.continuous else None
    retries = config.max_retry_count if config.retry_on_source_failures else 0
    for attempt in range(retries):
        try:
            return run_round(ingestion, waits)
        except SourceError as error:
            if error.retry is Retry.NEVER:
                raise
            _log.warning("the source failed, and is asked again (%d of %d): %s", attempt + 1, retries, error)
        ingestion.environment.clock.sleep(config.retry_interval_seconds)
    return run_round(ingestion, waits)
