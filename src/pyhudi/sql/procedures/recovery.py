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
    Procedure,
    Rows,
    columns,
    needed,
    number,
    text,
)
from pyhudi.sql.procedures.looks import as_list, body_of, completed


def _create_savepoint(context: CallContext, given: Given) -> Rows:
    context.table(given).savepoints.create(
        given.text_or_none("commit_time"), comment=given.text("comments"), user=given.text("user")
    )
    return [(True,)]


def _delete_savepoint(context: CallContext, given: Given) -> Rows:
    table = context.table(given)
    table.savepoints.delete(_chosen(table, given))
    return [(True,)]


def _rollback_to_savepoint(context: CallContext, given: Given) -> Rows:
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


def _show_savepoints(context: CallContext, given: Given) -> Rows:
    return [(one,) for one in reversed(context.table(given).savepoints.list()["instant"].to_pylist())]


def _rollback_to_instant(context: CallContext, given: Given) -> Rows:
    context.table(given).recovery.rollback(given.text("instant_time"))
    return [(True,)]


def _show_rollbacks(context: CallContext, given: Given) -> Rows:
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


def _show_rollback_detail(context: CallContext, given: Given) -> Rows:
    table, wanted = context.table(given).handle.state, given.text("instant_time")
    found = next((one for one in completed(table, Action.ROLLBACK) if one.requested_time == wanted), None)
    if found is None:
        raise InvalidRequestError("there is no completed rollback with this instant", instant_time=wanted)
    data, path = body_of(table, found)
    done = decode_rollback_metadata(data, path=path)
    for partition, one in done.partitions.items():
        for files, succeeded in ((one.deleted, True), (one.failed, False)):
            for file in files:
                yield (wanted, as_list([done.instant_time]), partition, file, succeeded)


PROCEDURES = (
    Procedure(
        name="create_savepoint",
        what="Keeps the state after a write, so that no clean deletes its files; after the newest, if none is given.",
        parameters=(Parameter("table"), text("commit_time", ""), text("user", ""), text("comments", ""), text("path")),
        columns=columns("create_savepoint_result boolean"),
        run=_create_savepoint,
    ),
    Procedure(
        name="delete_savepoint",
        what="Gives a savepoint up; the newest, if none is given.",
        parameters=(Parameter("table"), text("instant_time", ""), text("path")),
        columns=columns("delete_savepoint_result boolean"),
        run=_delete_savepoint,
    ),
    Procedure(
        name="rollback_to_savepoint",
        what="Takes the table back to the state of a savepoint; of the newest, if none is given.",
        parameters=(Parameter("table"), text("instant_time", ""), text("path")),
        columns=columns("rollback_savepoint_result boolean"),
        run=_rollback_to_savepoint,
    ),
    Procedure(
        name="show_savepoints",
        what="The savepoints, newest first.",
        parameters=TABLE_OR_PATH,
        columns=columns("savepoint_time string"),
        run=_show_savepoints,
    ),
    Procedure(
        name="rollback_to_instant",
        what="Undoes one write: the newest completed one, or a pending one.",
        parameters=(TABLE, needed("instant_time")),
        columns=columns("rollback_result boolean"),
        run=_rollback_to_instant,
    ),
    Procedure(
        name="show_rollbacks",
        what="The completed rollbacks of the active timeline, newest first.",
        parameters=(TABLE, number("limit", 10)),
        columns=columns(
            "instant string, rollback_instant string, total_files_deleted int, time_taken_in_millis bigint, "
            "total_partitions int"
        ),
        run=_show_rollbacks,
        limits_rows=True,
    ),
    Procedure(
        name="show_rollback_detail",
        what="The files that one rollback deleted.",
        parameters=(TABLE, number("limit", 10), needed("instant_time")),
        columns=columns(
            "instant string, rollback_instant string, partition string, deleted_file string, succeeded boolean"
        ),
        run=_show_rollback_detail,
        limits_rows=True,
    ),
)
