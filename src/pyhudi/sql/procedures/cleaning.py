"""Procedures of cleaning: run it, and show what cleans planned and deleted."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.metadata.clean import CleanMetadata, CleanPlan, decode_clean_metadata, decode_clean_plan
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.services.repair.metadata_files import remove_corrupt_clean_plans
from pyhudi.sql.procedures.call_context import CallContext, Given, options_of, renamed
from pyhudi.sql.procedures.declared import FILTER, TABLE, Rows, flag, number, procedure, text
from pyhudi.sql.procedures.looks import body_of, completed, completion_text, requested, times_if_needed
from pyhudi.table.archive.actions import archived_bodies
from pyhudi.table.state import TableState

_VERSION = 2
"""The version of the records of cleans, which all writers since Hudi 0.6 set."""
_OPTIONS = {
    "clean_policy": "hoodie.clean.policy",
    "retain_commits": "hoodie.clean.commits.retained",
    "hours_retained": "hoodie.clean.hours.retained",
    "file_versions_retained": "hoodie.clean.fileversions.retained",
    "trigger_strategy": "hoodie.clean.trigger.strategy",
    "trigger_max_commits": "hoodie.clean.trigger.max.commits",
}


_SHOWN = (TABLE, number("limit", 10), flag("showArchived", False), FILTER)


@procedure(
    TABLE,
    flag("schedule_in_line", True),
    text("clean_policy"),
    number("retain_commits"),
    number("hours_retained"),
    number("file_versions_retained"),
    text("trigger_strategy"),
    number("trigger_max_commits"),
    text("options"),
    answer="start_clean_time string, time_taken_in_millis bigint, total_files_deleted int, "
    "earliest_commit_to_retain string, bootstrap_part_metadata string, version int",
)
def run_clean(context: CallContext, given: Given) -> Rows:
    """Deletes the file slices that no retained state of the table needs."""
    options = {**renamed(given, _OPTIONS), **options_of(given)}
    table = context.table(given, options)
    known = {instant.requested_time for instant in completed(table.handle.state, Action.CLEAN)}
    if not given.flag("schedule_in_line"):
        pending = table.services.pending()
        for instant, kind in zip(pending["instant"].to_pylist(), pending["kind"].to_pylist(), strict=True):
            if kind == "clean":
                table.services.run(instant, hudi_options=options)
    elif not given.is_given("trigger_max_commits") or _is_due(table.services.due(hudi_options=options).to_pylist()):
        table.services.clean(hudi_options=options)
    state = table.refresh().handle.state
    for instant in completed(state, Action.CLEAN):
        if instant.requested_time not in known:
            metadata = _metadata(state, instant)
            yield (
                metadata.start_time,
                metadata.time_taken_ms,
                _files(metadata),
                metadata.earliest,
                "{}",
                _VERSION,
            )


def _is_due(services: list[dict[str, object]]) -> bool:
    return any(service["service"] == "clean" and service["due"] for service in services)


@procedure(
    *_SHOWN,
    answer="clean_time string, state_transition_time string, action string, start_clean_time string, "
    "time_taken_in_millis bigint, total_files_deleted int, earliest_commit_to_retain string, "
    "last_completed_commit_timestamp string, version int",
    limits_rows=True,
)
def show_cleans(context: CallContext, given: Given) -> Rows:
    """The completed cleans, newest first."""
    table = context.table(given).handle.state
    times = times_if_needed(table)
    for instant, metadata in _cleans(table, archived=given.flag("showArchived")):
        yield (
            instant.requested_time,
            completion_text(table, instant, times),
            instant.action.value,
            metadata.start_time,
            metadata.time_taken_ms,
            _files(metadata),
            metadata.earliest,
            metadata.last_completed,
            _VERSION,
        )


@procedure(
    *_SHOWN,
    answer="clean_time string, state_transition_time string, action string, start_clean_time string, "
    "partition_path string, policy string, delete_path_patterns int, success_delete_files int, "
    "failed_delete_files int, is_partition_deleted boolean, time_taken_in_millis bigint, "
    "total_files_deleted int",
    limits_rows=True,
)
def show_cleans_metadata(context: CallContext, given: Given) -> Rows:
    """What the completed cleans deleted in each partition, newest clean first."""
    table = context.table(given).handle.state
    times = times_if_needed(table)
    for instant, metadata in _cleans(table, archived=given.flag("showArchived")):
        for partition, deleted in metadata.deleted.items():
            failed = metadata.failed.get(partition, ())
            yield (
                instant.requested_time,
                completion_text(table, instant, times),
                instant.action.value,
                metadata.start_time,
                partition,
                metadata.policy,
                len(deleted) + len(failed),
                len(deleted),
                len(failed),
                partition in metadata.deleted_partitions,
                metadata.time_taken_ms,
                _files(metadata),
            )


@procedure(
    *_SHOWN,
    answer="plan_time string, state string, action string, earliest_instant_to_retain string, "
    "last_completed_commit_timestamp string, policy string, version int, total_partitions_to_clean int, "
    "total_partitions_to_delete int, extra_metadata string",
    limits_rows=True,
)
def show_clean_plans(context: CallContext, given: Given) -> Rows:
    """The plans of cleans of the active timeline, completed or not, newest first."""
    table = context.table(given).handle.state
    for instant, plan in _plans(table):
        yield (
            instant.requested_time,
            instant.state.name,
            instant.action.value,
            plan.earliest[0] if plan.earliest else None,
            plan.last_completed,
            plan.policy,
            _VERSION,
            len(plan.files),
            len(plan.partitions_to_delete),
            ", ".join(f"{key}={value}" for key, value in plan.extra.items()) or None,
        )


def _cleans(table: TableState, *, archived: bool) -> Iterator[tuple[Instant, CleanMetadata]]:
    for instant in completed(table, Action.CLEAN):
        yield instant, _metadata(table, instant)
    known = {instant.requested_time for instant in completed(table, Action.CLEAN)}
    for instant, data, path in archived_bodies(table, Action.CLEAN) if archived else ():
        if instant.requested_time not in known:
            yield instant, decode_clean_metadata(data, path=path)


def _metadata(table: TableState, instant: Instant) -> CleanMetadata:
    data, path = body_of(table, instant)
    return decode_clean_metadata(data, path=path)


def _plans(table: TableState) -> Iterator[tuple[Instant, CleanPlan]]:
    """The plans of the active timeline, newest first. The archive keeps what was done, not what was planned."""
    for instant in reversed(table.timeline.instants):
        if instant.action is Action.CLEAN:
            plan = requested(instant)
            data, path = body_of(table, plan)
            yield instant, decode_clean_plan(data, path=path)


def _files(metadata: CleanMetadata) -> int:
    return sum(map(len, metadata.deleted.values()))


@procedure(TABLE, answer="result boolean")
def repair_corrupted_clean_files(context: CallContext, given: Given) -> Rows:
    """Removes planned cleans whose plans are damaged."""
    remove_corrupt_clean_plans(context.table(given).handle.service_call(None, call="repair_corrupted_clean_files"))
    yield (True,)
