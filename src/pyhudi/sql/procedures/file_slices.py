"""Procedures of the file-system view: the slices of file groups, and what became of one file."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.metadata.clean import decode_clean_metadata
from pyhudi.format.metadata.restore import decode_restored_files
from pyhudi.format.metadata.rollback import decode_rollback_metadata
from pyhudi.format.safe_paths import check_data_path, check_file_name
from pyhudi.format.timeline.instant import Action
from pyhudi.services.cleaning.policy import slices_of
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE_OR_PATH,
    Parameter,
    Rows,
    flag,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.sql.procedures.globs import glob_pattern
from pyhudi.sql.procedures.looks import body_of, completed
from pyhudi.table.archive.actions import archived_bodies
from pyhudi.table.file_slice import FileSlice, LogFile
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline

ALL_PARTITIONS = "ALL_PARTITIONS"


_VIEW = (
    text("max_instant", ""),
    flag("include_max", False),
    flag("include_in_flight", False),
    flag("exclude_compaction", False),
    number("limit", 10),
    text("path_regex", ALL_PARTITIONS),
    FILTER,
)
_SLICE = (
    "partition string, file_id string, base_instant string, data_file string, data_file_size bigint, "
    "num_delta_files bigint, total_delta_file_size bigint"
)


def _view(table: TableState, given: Given) -> FileSystemView:
    """The view of the writes that the call asks for."""
    if given.flag("include_in_flight"):
        raise UnsupportedFeatureError(
            "files of writes that are not completed belong to no file slice yet: look at their markers, or at the "
            "timeline (show_timeline)",
            parameter="include_in_flight",
        )
    timeline, newest = table.timeline, given.text_or_none("max_instant")
    if newest is not None:
        kept = tuple(
            instant
            for instant in timeline.instants
            if instant.requested_time < newest or (given.flag("include_max") and instant.requested_time == newest)
        )
        timeline = Timeline(timeline.version, kept, timeline.foreign)
    return load_view(table.storage, timeline)


@procedure(*TABLE_OR_PATH, *_VIEW, answer=f"{_SLICE}, delta_files string", limits_rows=True)
def show_fsview_all(context: CallContext, given: Given) -> Rows:
    """All file slices of the groups that are not replaced; `path_regex` is a glob of partition paths."""
    table = context.table(given).handle.state
    wanted = glob_pattern(given.text("path_regex"))
    for partition, slices in all_slices(_view(table, given)).items():
        if given.text("path_regex") == ALL_PARTITIONS or wanted.fullmatch(partition):
            for file_slice in slices:
                yield (*_facts(table, file_slice), _log_list(table, file_slice.logs, ", "))


def all_slices(view: FileSystemView) -> dict[str, list[FileSlice]]:
    """All slices of the file groups that are not replaced, by partition and file group, the newest of a group first."""
    found: dict[str, list[FileSlice]] = {}
    for group_id, group in sorted(view.groups.items(), key=lambda item: (item[0].partition_path, item[0].file_id)):
        if group_id not in view.replaced:
            found.setdefault(group_id.partition_path, []).extend(reversed(slices_of(group)))
    return found


@procedure(
    *TABLE_OR_PATH,
    *_VIEW,
    text("partition_path", ALL_PARTITIONS),
    flag("merge", True),
    answer=f"{_SLICE}, delta_size_compaction_scheduled bigint, delta_size_compaction_unscheduled bigint, "
    "delta_to_base_radio_compaction_scheduled double, delta_to_base_radio_compaction_unscheduled double, "
    "delta_files_compaction_scheduled string, delta_files_compaction_unscheduled string",
    limits_rows=True,
)
def show_fsview_latest(context: CallContext, given: Given) -> Rows:
    """The newest file slice of each file group, by partition."""
    table = context.table(given).handle.state
    if given.is_given("path_regex") and given.is_given("partition_path"):
        raise ConfigError("give path_regex or partition_path, not both")
    pattern = given.text("path_regex") if given.is_given("path_regex") else given.text("partition_path")
    wanted = glob_pattern(pattern)
    view = _view(table, given)
    for partition, slices in sorted(view.latest.items()):
        if pattern != ALL_PARTITIONS and not wanted.fullmatch(partition):
            continue
        for newest in slices:
            file_slice = newest if given.flag("merge") else _after_planned(view, newest)
            log_size = sum(log.size for log in file_slice.logs)
            base_size = file_slice.base.size if file_slice.base else 0
            begins = [log for log in file_slice.logs if log.name.instant_time == file_slice.instant_time]
            yield (
                *_facts(table, file_slice),
                log_size,
                0,
                log_size / base_size if base_size else -1.0,
                0.0 if base_size else -1.0,
                _log_list(table, begins, ","),
                _log_list(table, [log for log in file_slice.logs if log not in begins], ","),
            )


def _after_planned(view: FileSystemView, file_slice: FileSlice) -> FileSlice:
    """What comes after a pending compaction of the slice; the slice itself where there is none."""
    planned = view.pending_compactions.get(file_slice.group)
    if planned is None:
        return file_slice
    return FileSlice(file_slice.group, planned, None, tuple(log for log in file_slice.logs if log.position >= planned))


def _facts(table: TableState, file_slice: FileSlice) -> tuple[str, str, str, str, int, int, int]:
    return (
        file_slice.partition_path,
        file_slice.file_id,
        file_slice.instant_time,
        full_path(table, file_slice.base.path) if file_slice.base else "",
        file_slice.base.size if file_slice.base else 0,
        len(file_slice.logs),
        sum(log.size for log in file_slice.logs),
    )


def _log_list(table: TableState, logs: list[LogFile] | tuple[LogFile, ...], separator: str) -> str:
    """Log files, newest first, as JVM Hudi shows them."""
    shown = (f"HoodieLogFile(pathStr={full_path(table, log.path)}, fileSize={log.size})" for log in reversed(logs))
    return f"[{separator.join(shown)}]"


def full_path(table: TableState, path: str) -> str:
    """The URI of a file of the table."""
    return f"{table.storage.uri.rstrip('/')}/{path}"


@procedure(
    *TABLE_OR_PATH,
    Parameter("partition"),
    needed("file"),
    FILTER,
    answer="status string not null, action string, instant string, timeline string, full_path string",
)
def show_file_status(context: CallContext, given: Given) -> Rows:
    """Whether a file is there, or which clean, rollback or restore deleted it."""
    table = context.table(given).handle.state
    partition, name = given.text("partition"), check_file_name(given.text("file"), source="file")
    if not partition and table.config.partition_fields:
        raise InvalidRequestError("the table has partitions: give that of the file", file=name)
    if partition:
        check_data_path(partition, source="partition")
    path = f"{partition}/{name}" if partition else name
    for action, instant, timeline, deleted in _deletions(table):
        if any(file == path or file.endswith(f"/{path}") for file in deleted):
            return [("deleted", action.value, instant, timeline, "")]
    if table.storage.info(path) is None:
        return [("unknown", "", "", "", "")]
    return [("exist", "", "", "active", full_path(table, path).removeprefix("file:"))]


def _deletions(table: TableState) -> Iterator[tuple[Action, str, str, frozenset[str]]]:
    """The files that cleans, rollbacks and restores deleted, with the action, its instant and its timeline."""
    for action in (Action.CLEAN, Action.ROLLBACK, Action.RESTORE):
        for instant in completed(table, action):
            yield action, instant.requested_time, "active", _deleted(action, *body_of(table, instant))
        if table.version.has_completion_times and action is not Action.RESTORE:
            for instant, data, path in archived_bodies(table, action):
                yield action, instant.requested_time, "archived", _deleted(action, data, path)


def _deleted(action: Action, data: bytes, path: str) -> frozenset[str]:
    if action is Action.CLEAN:
        return decode_clean_metadata(data, path=path).paths
    if action is Action.RESTORE:
        return decode_restored_files(data, path=path)
    done = decode_rollback_metadata(data, path=path)
    return frozenset(file for partition in done.partitions.values() for file in partition.deleted)
