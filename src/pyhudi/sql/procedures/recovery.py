"""Procedures of savepoints and rollbacks."""

from __future__ import annotations

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.rollback import decode_rollback_metadata
from pyhudi.format.timeline.instant import Action
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    TABLE,
    TABLE_OR_PATH,
    Parameter,
    Rows,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.sql.procedures.looks import as_list, body_of, completed


@procedure(
    Parameter("table"),
    text("commit_time", ""),
    text("user", ""),
    text("comments", ""),
    text("path"),
    answer="create_savepoint_result boolean",
)
def create_savepoint(context: CallContext, given: Given) -> Rows:
    """Keeps the state after a write, so that no clean deletes its files; after the newest, if none is given."""
    context.table(given).savepoints.create(
        given.text_or_none("commit_time"), comment=given.text("comments"), user=given.text("user")
    )
    return [(True,)]


@procedure(Parameter("table"), text("instant_time", ""), text("path"), answer="delete_savepoint_result boolean")
def delete_savepoint(context: CallContext, given: Given) -> Rows:
    """Gives a savepoint up; the newest, if none is given."""
    table = context.table(given)
    table.savepoints.delete(_chosen(table, given))
    return [(True,)]


@procedure(Parameter("table"), text("instant_time", ""), text("path"), answer="rollback_savepoint_result boolean")
def rollback_to_savepoint(context: CallContext, given: Given) -> Rows:
    """Takes the table back to the state of a savepoint; of the newest, if none is given."""
    table = context.table(given)
    table.recovery.restore(_chosen(table, given))
    return [(True,)]


def _chosen(table: HudiTable, given: Given) -> str:
    """The savepoint of `instant_time`, which may be a name; the newest one if none is given."""
    found = table.savepoints.list()
    known = {*found["instant"].to_pylist(), *found["name"].to_pylist()}
    asked = given.text_or_none("instant_time")
    if asked is None:
        instants = found["instant"].to_pylist()
        if not instants:
            raise InvalidRequestError("the table has no savepoint; nothing was changed")
        return str(max(instants))
    if asked not in known:
        raise InvalidRequestError("there is no such savepoint; nothing was changed", savepoint=asked)
    return asked


@procedure(*TABLE_OR_PATH, answer="savepoint_time string")
def show_savepoints(context: CallContext, given: Given) -> Rows:
    """The savepoints, newest first."""
    return [(instant,) for instant in reversed(context.table(given).savepoints.list()["instant"].to_pylist())]


@procedure(TABLE, needed("instant_time"), answer="rollback_result boolean")
def rollback_to_instant(context: CallContext, given: Given) -> Rows:
    """Undoes one write: the newest completed one, or a pending one."""
    context.table(given).recovery.rollback(given.text("instant_time"))
    return [(True,)]


@procedure(
    TABLE,
    number("limit", 10),
    answer="instant string, rollback_instant string, total_files_deleted int, time_taken_in_millis bigint, "
    "total_partitions int",
    limits_rows=True,
)
def show_rollbacks(context: CallContext, given: Given) -> Rows:
    """The completed rollbacks of the active timeline, newest first."""
    table = context.table(given).handle.state
    for instant in completed(table, Action.ROLLBACK):
        data, path = body_of(table, instant)
        done = decode_rollback_metadata(data, path=path)
        yield (
            instant.requested_time,
            done.instant_time,
            done.total_files_deleted,
            done.time_taken_ms,
            len(done.partitions),
        )


@procedure(
    TABLE,
    number("limit", 10),
    needed("instant_time"),
    answer="instant string, rollback_instant string, partition string, deleted_file string, succeeded boolean",
    limits_rows=True,
)
def show_rollback_detail(context: CallContext, given: Given) -> Rows:
    """The files that one rollback deleted."""
    table, wanted = context.table(given).handle.state, given.text("instant_time")
    found = next((instant for instant in completed(table, Action.ROLLBACK) if instant.requested_time == wanted), None)
    if found is None:
        raise InvalidRequestError("there is no completed rollback with this instant", instant_time=wanted)
    data, path = body_of(table, found)
    done = decode_rollback_metadata(data, path=path)
    for partition, rolled_back in done.partitions.items():
        for files, succeeded in ((rolled_back.deleted, True), (rolled_back.failed, False)):
            for file in files:
                yield (wanted, as_list([done.instant_time]), partition, file, succeeded)
