"""The checks before a change of version: what is pending, and what the version cannot hold."""

from __future__ import annotations

from pyhudi.config.enums import TableType
from pyhudi.errors import UnsupportedFeatureError, WriteConflictError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.services.upgrade.properties import Leg
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import load_view
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own

_CARRIED = frozenset({Action.SAVEPOINT})
"""Actions whose pending instants mean nothing, and are taken along."""


def check_changeable(table: TableState, legs: tuple[Leg, ...]) -> None:
    """Refuse a table whose rows this release must not change, and what one of the versions cannot hold.

    Raises `UnsupportedFeatureError`. Cost: for a downgrade of a merge-on-read table to version 6 a read per savepoint.
    """
    check_writable(table)
    if any(_to_old_logs(leg) for leg in legs) and table.config.table_type is TableType.MERGE_ON_READ:
        _check_savepoints(table)


def _to_old_logs(leg: Leg) -> bool:
    return leg.moves_timeline and not leg.is_upgrade


def _check_savepoints(table: TableState) -> None:
    """Refuse savepoints that keep logs: version 6 would not find them, and no clean may delete them."""
    for instant_time, savepoint in load_savepoints(table.storage, table.timeline).items():
        for path in sorted(savepoint.paths):
            if isinstance(parse_data_file(path.rpartition("/")[2]), LogFileName):
                raise UnsupportedFeatureError(
                    "a savepoint keeps logs, which version 6 would not find: delete it first, or stay",
                    path=path,
                    savepoint=instant_time,
                )


def check_logs(table: TableState, leg: Leg) -> None:
    """Refuse logs that version 6 would not find: there the name of a log says to which base file it belongs.

    Neither would Hudi 0.15 read their blocks, which have headers that it does not know. Raises `WriteConflictError`.
    Cost: a listing of a merge-on-read table.
    """
    if not _to_old_logs(leg) or table.config.table_type is not TableType.MERGE_ON_READ:
        return
    for group in load_view(table.storage, table.timeline).groups.values():
        bases = {base.instant_time for base in group.base_files}
        strange = next((log for log in group.logs if log.name.instant_time not in bases), None)
        if strange is not None:
            raise WriteConflictError(
                "version 6 would not find the logs of this table that came since it was compacted and cleaned, or that"
                " a plan or another process holds: call this again; the version of the table is as it was",
                path=strange.path,
            )


def check_compacted(table: TableState) -> None:
    """Refuse a merge-on-read table that has logs after its compaction. Cost: a listing of the table.

    Raises `WriteConflictError`.
    """
    if table.config.table_type is not TableType.MERGE_ON_READ:
        return
    for slices in load_view(table.storage, table.timeline).latest.values():
        for file_slice in slices:
            if file_slice.logs:
                raise WriteConflictError(
                    "this table got logs since it was compacted, or a planned clustering holds file groups with logs:"
                    " call this again, or let the clustering run first; the version of the table is as it was",
                    path=file_slice.logs[0].path,
                )


def check_nothing_runs(table: TableState) -> None:
    """Refuse a table on which something is pending that the change would break.

    Pending clusterings that were only planned are taken along. Raises `WriteConflictError`. Cost: in version 6 a read
    per pending replace commit.
    """
    check_nothing_exclusive(table.timeline, Own.VERSION_CHANGE)
    for instant in table.timeline.instants:
        if (
            instant.state is InstantState.COMPLETED
            or instant.action in _CARRIED
            or _is_planned_clustering(table, instant)
        ):
            continue
        raise WriteConflictError(
            f"a {instant.action.value} is {instant.state.name.lower()} on this table: let it finish, or end its"
            " process and roll it back, and call this again; the version of the table is as it was",
            winner=instant.requested_time,
            action=instant.action.value,
        )


def _is_planned_clustering(table: TableState, instant: Instant) -> bool:
    if instant.state is not InstantState.REQUESTED:
        return False
    return instant.action is Action.CLUSTERING or is_clustering_plan(table.storage, table.version, instant)
