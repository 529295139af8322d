"""Facts of a table that the inspector shows, archived ones too: read once, and made small before they are drawn.

What is read and drawn does not grow with the number of commits: of all but the newest writes only the names are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from pyhudi.api.explanation import ScanExplanation
from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.enums import TableType
from pyhudi.config.table_config import TableConfig
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import HudiError
from pyhudi.format.timeline.instant import Action, Instant, InstantState, parse_instant_time
from pyhudi.inspector.attempts import Overlap, RolledBack, overlaps_of, read_rolled_back
from pyhudi.inspector.files import Partition, partitions_of_names, partitions_of_view
from pyhudi.inspector.lanes import Lanes, lanes_of
from pyhudi.inspector.writes import (
    GroupEvent,
    SchemaChange,
    Write,
    WritesRead,
    costs_of,
    lives_of,
    read_newest,
    replaced_groups,
    schema_changes,
)
from pyhudi.read.conditions import Where
from pyhudi.services.frame.runner import due_as_loaded
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.definitions import is_being_built
from pyhudi.services.indexing.listing import listed_indexes
from pyhudi.table.archive.actions import archived_instants
from pyhudi.table.archive.history import archived_metadata, history_files
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import view_of
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS

WRITES_READ: Final = 200
"""So many of the newest writes are read if nothing else is asked for."""
GROUPS_DRAWN: Final = 40
INSTANTS_LISTED: Final = 100
_FILES_OF_A_WRITE: Final = 60
"""The file-system view is made of so many files per write that is read, at most."""
BYTES_READ: Final = 16 << 20
"""So much of the archive is read at most: some 20,000 instants."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A table service: the newest instant of it, whether it is due, and why."""

    service: str
    last: str | None
    is_due: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """All that a page shows.

    Attributes:
        config: what the table is.
        uri: where it is.
        lanes: its timeline, active and archived.
        pending: its instants that are not completed.
        newest: its newest instants, the newest first.
        archived: how many of the instants are archived.
        archive_note: what of the archive was not read, in words; empty where all was.
        rolled_back: writes that were rolled back, as the rollbacks on the active timeline say.
        overlaps: writes that began before another one had completed; None in a table that keeps no completion times.
        writes: the newest writes.
        writes_of: how many completed writes the timeline has, as far as it was read.
        groups: what the newest writes did to the file groups that they changed most often.
        groups_of: how many file groups they changed.
        partitions: the partitions, the largest first.
        is_by_names: whether these are known from the names of files alone, as there are more writes than were read, or
            very many files.
        schema: the columns and their types.
        schema_changes: how the newest writes changed them.
        services: what is due.
        indexes: as `HudiTable.indexes.list` returns them.
        pruning: of the condition that the page was asked for; its error as text.
    """

    config: TableConfig
    uri: str
    lanes: Lanes
    pending: tuple[Instant, ...]
    newest: tuple[Instant, ...]
    archived: int
    archive_note: str
    rolled_back: tuple[RolledBack, ...]
    overlaps: tuple[Overlap, ...] | None
    writes: tuple[Write, ...]
    writes_of: int
    groups: Mapping[FileGroupId, tuple[GroupEvent, ...]]
    groups_of: int
    partitions: tuple[Partition, ...]
    is_by_names: bool
    schema: tuple[tuple[str, str], ...]
    schema_changes: tuple[SchemaChange, ...]
    services: tuple[ServiceState, ...]
    indexes: tuple[Mapping[str, Any], ...]
    pruning: ScanExplanation | str | None


def _no_condition(text: str) -> Where:
    return text


def collect(
    table: HudiTable,
    where: str = "",
    condition_of: Callable[[str], Where] = _no_condition,
    *,
    writes: int = WRITES_READ,
) -> TableFacts:
    """Look at a table. `condition_of`: the condition that the text `where` stands for; it may raise.

    Cost: a listing of each partition, two reads for each of the newest `writes`, one for each of the newest rollbacks,
    those of `read_archive`, and those of `services.due`; with a condition those of `Scan.explain`.
    """
    state = table.handle.state
    config, timeline, zone = state.config, state.timeline, table_zone(state.config)
    call = table.handle.service_call(None, call="inspect")
    active = read_newest(state, writes)
    archived = read_archive(state, writes - len(active) if len(active) == len(timeline.completed_writes) else 0)
    read = [*archived.writes, *active]
    instants = sorted([*archived.instants, *timeline.instants], key=lambda instant: instant.requested_time)
    rolled_back = read_rolled_back(state)
    is_merge_on_read = config.table_type is TableType.MERGE_ON_READ
    overlaps = overlaps_of(instants, is_merge_on_read=is_merge_on_read) if state.version.has_completion_times else None
    groups, groups_of = lives_of(read, lambda time: parse_instant_time(time, zone) or 0, GROUPS_DRAWN)
    small = WriteConfig.from_options(table.handle.options).files.small_file_limit
    files = state.lister.table()
    is_by_names = len(timeline.completed_writes) > len(active) or len(files) > _FILES_OF_A_WRITE * writes
    return TableFacts(
        config=config,
        uri=state.storage.uri,
        lanes=lanes_of(instants, zone, rolled_back, overlaps or (), is_merge_on_read=is_merge_on_read),
        pending=tuple(instant for instant in timeline.instants if instant.state is not InstantState.COMPLETED),
        newest=tuple(instants[: -INSTANTS_LISTED - 1 : -1]),
        archived=len(archived.instants),
        archive_note=archived.note,
        rolled_back=rolled_back,
        overlaps=overlaps,
        writes=tuple(costs_of(read)),
        writes_of=len(timeline.completed_writes) + archived.writes_of,
        groups=groups,
        groups_of=groups_of,
        partitions=tuple(
            partitions_of_names(files, timeline, replaced_groups(read), small)
            if is_by_names
            else partitions_of_view(view_of(state.storage, timeline, files).latest, small)
        ),
        is_by_names=is_by_names,
        schema=tuple((field.name, str(field.type)) for field in table.schema if not field.name.startswith("_hoodie_")),
        schema_changes=tuple(schema_changes(read)),
        services=tuple(_services(call)),
        indexes=tuple(
            listed_indexes(
                call.table,
                lambda partition: is_being_built(state.storage, partition, call.settings.heartbeat, call.environment),
            )
        ),
        pruning=_pruning(table, where, condition_of),
    )


_ACTIONS: Final = {
    "rollback": {Action.ROLLBACK, Action.RESTORE},
    "compaction": {Action.COMMIT},
    "log_compaction": {Action.LOG_COMPACTION},
    "clustering": {Action.CLUSTERING, Action.REPLACE_COMMIT},
    "clean": {Action.CLEAN},
}
"""By which completed instants a service is known. A commit of a merge-on-read table is a compaction."""


def _services(call: ServiceCall) -> list[ServiceState]:
    newest: dict[Action, str] = {}
    for instant in call.table.timeline.instants:
        if instant.state is InstantState.COMPLETED:
            newest[instant.action] = instant.requested_time
    has_compactions = call.table.config.table_type is TableType.MERGE_ON_READ
    services = []
    for name, due in due_as_loaded(call):
        actions = _ACTIONS.get(name, set()) if has_compactions or name != "compaction" else set()
        last = max((newest[action] for action in actions if action in newest), default=None)
        services.append(ServiceState(name, last, due.is_due, due.reason))
    return services


def _pruning(table: HudiTable, where: str, condition_of: Callable[[str], Where]) -> ScanExplanation | str | None:
    if not where:
        return None
    try:
        return table.scan(where=condition_of(where)).explain()
    except HudiError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class Archived:
    """What was read of the archive, oldest first, without what is on the active timeline, too.

    `note` says in words what was not read; it is empty where all was.
    """

    instants: tuple[Instant, ...] = ()
    writes: WritesRead = ()
    note: str = ""

    @property
    def writes_of(self) -> int:
        """How many completed writes are among the instants."""
        return sum(instant.action in WRITE_ACTIONS for instant in self.instants)


def read_archive(state: TableState, writes: int, *, bytes_max: int = BYTES_READ) -> Archived:
    """The newest instants of the archive, and so many of its newest writes, from files of so many bytes at most.

    Cost: two reads, and one per archive file, twice if `writes` are wanted; in table version 6 a listing instead of
    the two.
    """
    try:
        oldest, note = _bounds(state, bytes_max)
        if oldest is None:
            return Archived(note=note)
        active = {(instant.requested_time, instant.action) for instant in state.timeline.instants}
        instants = tuple(
            instant
            for instant in reversed(archived_instants(state, since=oldest))
            if instant.requested_time >= oldest and (instant.requested_time, instant.action) not in active
        )
        some = Archived(instants, note=note)
        kept = islice(archived_metadata(state.storage, state.version), min(writes, some.writes_of))
        newest = [write for write in kept if (write[0].requested_time, write[0].action) not in active]
        return Archived(instants, newest[::-1], note)
    except HudiError as error:  # the page shows what else there is
        return Archived(note=f"The archived timeline cannot be read: {error}")


def _bounds(state: TableState, bytes_max: int) -> tuple[str | None, str]:
    """From which instant on the archive is read, None for none of it; and what that leaves out, in words."""
    if not state.version.has_completion_times:
        size = sum(file.size for file in state.storage.list_folder(state.version.history_folder).files)
        left_out = f"The archived timeline is not shown: it has {size:,} bytes."
        return (None, left_out) if size > bytes_max else ("", "")
    left, oldest = bytes_max, None
    files = sorted(history_files(state.storage, state.version), key=attrgetter("max_time"), reverse=True)
    for at, file in enumerate(files):
        left -= file.size
        if left < 0:
            return oldest, f"The oldest {len(files) - at:,} files of the archived timeline are not shown."
        oldest = file.min_time if oldest is None else min(oldest, file.min_time)
    return oldest, ""
