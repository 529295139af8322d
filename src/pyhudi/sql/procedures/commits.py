"""Procedures that show writes: what they wrote, into which partitions and files, and their extra metadata."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Rows, needed, number, procedure, text
from pyhudi.sql.procedures.looks import (
    as_list,
    completion_text,
    is_new,
    stats_of,
    times_if_needed,
    totals,
    write_of,
    writes_newest_first,
)
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.state import TableState

_TOTALS = (
    "total_bytes_written bigint, total_files_added bigint, total_files_updated bigint, "
    "total_partitions_written bigint, total_records_written bigint, total_update_records_written bigint, "
    "total_errors bigint"
)
_FILES = (
    "commit_time string, state_transition_time string, action string, partition string, file_id string, "
    "previous_commit string, num_writes bigint, num_inserts bigint, num_deletes bigint, num_update_writes bigint, "
    "total_errors bigint, total_log_blocks bigint, total_corrupt_log_blocks bigint, total_rollback_blocks bigint, "
    "total_log_records bigint, total_updated_records_compacted bigint, total_bytes_written bigint"
)
_INSTANT = needed("instant_time")


@procedure(
    TABLE,
    number("limit", 10),
    answer=f"commit_time string, state_transition_time string, action string, {_TOTALS}",
    limits_rows=True,
)
def show_commits(context: CallContext, given: Given) -> Rows:
    """The completed writes of the active timeline, newest first, with what each wrote."""
    table = context.table(given).handle.state
    times = times_if_needed(table)
    for instant, metadata in writes_newest_first(table):
        yield (
            instant.requested_time,
            completion_text(table, instant, times),
            instant.action.value,
            *totals(metadata),
        )


@procedure(TABLE, number("limit", 10), answer=_FILES, limits_rows=True)
def show_commits_metadata(context: CallContext, given: Given) -> Rows:
    """The files that the completed writes of the active timeline wrote, newest write first."""
    table = context.table(given).handle.state
    times = times_if_needed(table)
    for instant, metadata in writes_newest_first(table):
        yield from _file_rows(instant, completion_text(table, instant, times), metadata)


@procedure(
    TABLE,
    number("limit", 10),
    text("start_ts", ""),
    text("end_ts", ""),
    answer=f"commit_time string, state_transition_time string, {_TOTALS}",
    limits_rows=True,
)
def show_archived_commits(context: CallContext, given: Given) -> Rows:
    """The writes of the archived timeline, newest first; all of them, where no time is given."""
    for instant, metadata in _archived(context.table(given).handle.state, given):
        yield (instant.requested_time, instant.completion_time, *totals(metadata))


@procedure(TABLE, number("limit", 10), text("start_ts", ""), text("end_ts", ""), answer=_FILES, limits_rows=True)
def show_archived_commits_metadata(context: CallContext, given: Given) -> Rows:
    """The files that the writes of the archived timeline wrote, newest write first."""
    for instant, metadata in _archived(context.table(given).handle.state, given):
        yield from _file_rows(instant, instant.completion_time, metadata)


def _archived(table: TableState, given: Given) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The archived writes between two times, both inclusive."""
    first, last = given.text("start_ts"), given.text("end_ts")
    for instant, metadata in archived_metadata(table.storage, table.version):
        time = instant.requested_time
        # A shorter time means all that begins with it.
        if time >= first and (not last or time[: len(last)] <= last):
            yield instant, metadata


@procedure(
    TABLE,
    number("limit", 10),
    _INSTANT,
    answer="action string, partition_path string, file_id string, previous_commit string, "
    "total_records_updated bigint, total_records_written bigint, total_bytes_written bigint, "
    "total_errors bigint, file_size bigint",
    limits_rows=True,
)
def show_commit_files(context: CallContext, given: Given) -> Rows:
    """The files that one write wrote."""
    instant, metadata = write_of(context.table(given).handle.state, given.text("instant_time"))
    for stat in stats_of(metadata):
        yield (
            instant.action.value,
            stat.partition_path,
            stat.file_id,
            stat.prev_commit,
            stat.num_update_writes,
            stat.num_writes,
            stat.total_write_bytes,
            stat.total_write_errors,
            stat.file_size_in_bytes,
        )


@procedure(
    TABLE,
    number("limit", 10),
    _INSTANT,
    answer="action string, partition_path string, total_files_added bigint, total_files_updated bigint, "
    "total_records_inserted bigint, total_records_updated bigint, total_bytes_written bigint, "
    "total_errors bigint",
    limits_rows=True,
)
def show_commit_partitions(context: CallContext, given: Given) -> Rows:
    """The partitions that one write changed."""
    instant, metadata = write_of(context.table(given).handle.state, given.text("instant_time"))
    for partition, stats in metadata.stats_by_partition.items():
        changed = [stat for stat in stats if not is_new(stat)]
        yield (
            instant.action.value,
            partition,
            len(stats) - len(changed),
            len(changed),
            sum(stat.num_inserts for stat in stats),
            sum(stat.num_update_writes for stat in changed),
            sum(stat.total_write_bytes for stat in stats),
            sum(stat.total_write_errors for stat in stats),
        )


@procedure(
    TABLE,
    number("limit", 10),
    _INSTANT,
    answer="action string, total_bytes_written bigint, total_records_written bigint, avg_record_size bigint",
    limits_rows=True,
)
def show_commit_write_stats(context: CallContext, given: Given) -> Rows:
    """How much one write wrote, and the average size of a record in bytes."""
    instant, metadata = write_of(context.table(given).handle.state, given.text("instant_time"))
    stats = stats_of(metadata)
    size, records = sum(stat.total_write_bytes for stat in stats), sum(stat.num_writes for stat in stats)
    yield (instant.action.value, size, records, math.ceil(size / records) if records else 0)


@procedure(
    TABLE,
    number("limit", 100),
    text("instant_time"),
    text("metadata_key"),
    answer="instant_time string, action string, metadata_key string, metadata_value string",
    limits_rows=True,
)
def show_commit_extra_metadata(context: CallContext, given: Given) -> Rows:
    """The extra metadata of one write, such as its schema and checkpoints; of the newest, if none is given."""
    table = context.table(given).handle.state
    asked = given.text_or_none("instant_time")
    found = write_of(table, asked) if asked else next(writes_newest_first(table), None)
    wanted = given.text_or_none("metadata_key")
    if found is not None:
        instant, metadata = found
        for key, value in metadata.extra.items():
            if wanted is None or key == wanted:
                yield (instant.requested_time, instant.action.value, key, value)


@procedure(TABLE, needed("path"), answer="compare_detail string")
def commits_compare(context: CallContext, given: Given) -> Rows:
    """How many writes a table is ahead of another one, or behind it.

    `path` is the other table, so the first one goes by its name.
    """
    name, path = given.text("table"), given.text("path")
    source = context.by_name(name, {}).handle.state.timeline.completed_writes
    other = context.by_path(path, {}).handle.state.timeline.completed_writes
    newest = [max((write.requested_time for write in writes), default="0") for writes in (source, other)]
    is_behind = newest[0] < newest[1]
    ahead = [
        instant.requested_time for instant in (other if is_behind else source) if instant.requested_time > min(newest)
    ]
    word = "behind" if is_behind else "ahead"
    yield (f"Source {name} is {word} by {len(ahead)} commits. Commits to catch up - {as_list(ahead)}",)


@procedure(
    TABLE,
    number("limit", 10),
    answer="commit_time string, total_upserted bigint, total_written bigint, write_amplification_factor string",
)
def stats_wa(context: CallContext, given: Given) -> Rows:
    """The records written per updated record, for each write but delta commits, and in total.

    How many records were written per updated one; delta commits append, and do not count.
    """
    table = context.table(given).handle.state
    upserted = written = 0
    limit = given.number("limit")
    for instant, metadata in reversed(list(writes_newest_first(table))):
        if instant.action is Action.DELTA_COMMIT:
            continue
        stats = stats_of(metadata)
        updates, records = sum(stat.num_update_writes for stat in stats), sum(stat.num_writes for stat in stats)
        upserted, written, limit = upserted + updates, written + records, limit - 1
        if limit > 0:
            yield (instant.requested_time, updates, records, _factor(records, updates))
    yield ("Total", upserted, written, _factor(written, upserted))


def _factor(written: int, upserted: int) -> str:
    if not upserted:
        return "0"
    factor = f"{written / upserted:.2f}"
    return factor.removeprefix("0") if factor.startswith("0.") else factor


def _file_rows(instant: Instant, completed: str | None, metadata: CommitMetadata) -> Iterator[tuple[Any, ...]]:
    for stat in stats_of(metadata):
        yield (
            instant.requested_time,
            completed,
            instant.action.value,
            stat.partition_path,
            stat.file_id,
            stat.prev_commit,
            stat.num_writes,
            stat.num_inserts,
            stat.num_deletes,
            stat.num_update_writes,
            stat.total_write_errors,
            stat.total_log_blocks,
            stat.total_corrupt_log_block,
            stat.total_rollback_blocks,
            stat.total_log_records,
            stat.total_updated_records_compacted,
            stat.total_write_bytes,
        )
