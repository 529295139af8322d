"""`table.recovery`: what became of a write, how to undo one, and how to go back to an earlier state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, count_of, known_options, moment_text, time_text
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.config.location import table_path
from pyhudi.config.write_config import WriteConfig
from pyhudi.environment import Environment
from pyhudi.format.safe_paths import METADATA_FOLDER
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.services.copying.execute import Copied, copy_table
from pyhudi.services.copying.plan import plan_copy
from pyhudi.services.indexing.create import keeping_indexes
from pyhudi.services.metadata_table.rebuild import build_metadata_table, rebuild_metadata_table
from pyhudi.services.restore.execute import Restored, recover, restore
from pyhudi.services.restore.plan import PlannedRestore, plan_restore
from pyhudi.services.rollback.checks import check_rollback, instant_to_roll_back
from pyhudi.services.rollback.execute import RolledBack
from pyhudi.services.rollback.plan import Leftovers, find_leftovers
from pyhudi.services.rollback.rollback import roll_back
from pyhudi.storage.open import open_storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS
from pyhudi.transaction.settings import TransactionSettings, equipped, transaction_settings

if TYPE_CHECKING:
    from pyhudi.engine.progress import OnProgress


@dataclass(frozen=True)
class Recovery:
    """Undoing writes, finding out what became of them, and copies of the table. `HudiTable.recovery` makes it."""

    _handle: TableHandle = field(repr=False)

    def outcome_of(self, instant: str) -> Outcome:
        """What became of a write, as of now: committed, pending, rolled back, or unknown; never a guess.

        Ask after `CommitOutcomeUnknownError`, with the instant in its context.

        Raises `CorruptDataError` for damaged metadata. Cost: one read and one listing; for old instants
        also the archived timeline.

        >>> table.recovery.outcome_of(table.upsert(rows).instant) is pyhudi.Outcome.COMMITTED
        True
        """
        return outcome_of(self._handle.state.reload(), time_text(instant, "instant"))

    @changes_table
    def rollback(self, instant: str) -> RolledBack:
        """Undo the newest completed write, a pending write, or a compaction, clustering or clean that is only planned.

        Readers see all of a write or nothing of it, at any moment.

        Raises:
            InvalidRequestError: there is no such write, several actions have this instant, or it has been built on: by
                a later write, a pending plan, a savepoint or a cleaner. Nothing was changed.
            WriteConflictError: JVM Hudi may be rolling it back, or it was completed at this moment.

        Indexes over record keys and bounds of partitions that have what the write said for good, as a compaction of the
        metadata table has merged it, are dropped before and built again afterwards.

        Cost: the table lock, some listings of the timeline, one of each partition that the write changed, a delete per
        file that it wrote, and three puts; of indexes that are built again that of `table.indexes.create`.
        """
        state, settings, environment = self._means()
        with keeping_indexes(self._handle.service_call(None, call="rollback")):
            return roll_back(state, time_text(instant, "instant"), settings, environment)

    def plan_rollback(self, instant: str) -> pa.Table:
        """What `rollback` would do. Nothing is written.

        Columns: as of `plan_restore`. Raises `InvalidRequestError` as `rollback`. Cost: a listing of the table and of
        the markers; of a completed write also its metadata.
        """
        state, settings, environment = self._means()
        table = state.reload()
        undone = instant_to_roll_back(table, time_text(instant, "instant"))
        listed, leftovers = list_data_files(table.storage), Leftovers(())
        if undone.action is not Action.CLEAN:  # its plan alone goes: what it has deleted stays deleted
            check_rollback(table, undone, settings.heartbeat, environment)
            leftovers = find_leftovers(table, undone, listed=listed)
        sizes = {info.path: info.size for info in listed}
        return table_of(_PLAN_COLUMNS, list(_undone_rows(undone, leftovers, "asked for", sizes)))

    @changes_table
    def restore(self, to: str | datetime) -> Restored:
        """Take the table back to the state after a completed write, or at a time.

        Everything that came later is rolled back, newest first: readers see at each moment a state that the table once
        had. Before anything is touched, all files of the state are looked up. Pending writes are rolled back, too, and
        fail at their commits. The metadata table stays, and indexes are built again as after `rollback`.

        A restore that dies is finished by the next write or restore; until then JVM Hudi refuses to write.

        Args:
            to: the instant of a completed write of the active timeline, the name of a savepoint, or a time: text with
                separators ("2026-01-31 10:00:00") or a `datetime` with a zone. A time means the state after the write
                that was completed last by then.

        Returns:
            What was rolled back; nothing where no write is younger than `to`.

        Raises:
            InvalidRequestError: there is no such write, a later write has a savepoint, or later writes are archived.
            HistoryNotRetainedError: cleaners have deleted files of the state; the error names some.
            CorruptDataError: files of the state are missing or cut off; the error names one.
            WriteConflictError: a planned clean names files of the state, a process executes a later plan, or JVM Hudi
                restores the table, rolls a write back or builds an index.

        Nothing was changed then. Cost: one listing of the table, a read per write and later clean that this process
        does not know; for each instant that is rolled back some listings of the timeline, three puts, and a delete per
        file.

        >>> table.recovery.restore(table.upsert(rows).instant).rolled_back
        ()
        """
        state, settings, environment = self._means()
        with keeping_indexes(self._handle.service_call(None, call="restore")):
            return restore(state, moment_text(to, "to"), settings, environment)

    def plan_restore(self, to: str | datetime) -> pa.Table:
        """What `restore` would do, in this order. Nothing is written.

        Columns: instant, action and state ("completed", "requested", "inflight") of what would be rolled back; reason
        (why); path and size (of a file that would be deleted, in bytes; null for an instant that has none); deletes
        (false for a log of table version 6 that stays, with a block behind it that takes the write back).

        Raises as `restore`. Cost: as `restore`, without the lock, and nothing is changed.
        """
        state, settings, environment = self._means()
        table = state.reload()
        planned = plan_restore(table, moment_text(to, "to"), settings.heartbeat, environment)
        return table_of(_PLAN_COLUMNS, list(_plan_rows(table, planned)))

    def _means(self) -> tuple[TableState, TransactionSettings, Environment]:
        """The table, and what changes of it are made with."""
        handle = self._handle
        config = WriteConfig.from_options(handle.options)
        environment = equipped(handle.environment, config, handle.state.config.name, handle.state.storage.uri)
        return handle.state, transaction_settings(config), environment

    @changes_table
    def rebuild_metadata_table(self) -> tuple[str, ...]:
        """Drop the metadata table and build it again from the table: the repair of one that is damaged or behind.

        Where the table has none, it is built if the table was opened with `hoodie.metadata.enable=true`.

        Returns:
            The partitions that were built, such as `files`. Those that pyhudi does not maintain are dropped; JVM Hudi
            builds them again.

        Raises:
            InvalidRequestError: there is no metadata table, and no option asks for one.
            WriteConflictError: a write is running. Nothing was changed.

        Cost: the table lock; a listing of the table; what its indexes take to be built.
        """
        call = self._handle.service_call(None, call="rebuild_metadata_table").reloaded()
        if call.config.metadata_table.enabled and not has_metadata_table(call.table):
            return build_metadata_table(call)
        return rebuild_metadata_table(call.table, call.settings, call.environment, self._handle.engine)

    def copy(
        self,
        path: str | os.PathLike[str],
        *,
        newest: bool = False,
        hudi_options: HudiOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> Copied:
        """Copy the table, as it is now, into an empty folder: its rows, its timeline with the archive, its savepoints.

        Others may write the table meanwhile. What is pending stays behind, but for planned compactions and clusterings.
        The copy has the same version and options, and a metadata table of its own with the same indexes. The folder is
        a table from the last moment on; after a death the same call goes on with the files that are there. The files of
        a bootstrap's source are not copied: both tables read them.

        Args:
            path: a folder, or a URI, without any files, outside of the table.
            newest: only the files that the newest state needs, without savepoints. Older states are then refused by
                pyhudi (`HistoryNotRetainedError`); JVM Hudi reads them without the rows whose files are missing.
            hudi_options: options of its store; those of the table's store hold, too.
            on_progress: called with a `Progress` whenever a task has ended; not with a Spark session.

        Raises:
            TableExistsError: there is a table in the folder.
            InvalidRequestError: the folder has other files, or lies in the table, or the table in it.
            WriteConflictError: a rollback or a division of buckets is pending; the table was cleaned or archived again
                and again meanwhile; in version 6, logs are being written; another process copies into the folder.
            CorruptDataError: a file of the newest state is missing or cut off.

        Cost: two listings of the table, two requests per file, what the metadata table takes to be built, and a table
        lock in the copy.
        """
        call = self._handle.service_call(None, call="copy", on_progress=on_progress)
        options = {**self._handle.storage.spec.options, **known_options(hudi_options, call="copy")}
        return copy_table(call, open_storage(table_path(path, {}), options), newest=newest)

    def plan_copy(self, *, newest: bool = False) -> pa.Table:
        """What `copy` would copy. Nothing is written.

        Columns: partition_path (`.hoodie` for timeline, archive and the like), files, bytes. Raises as `copy`, but for
        the folder. Cost: a listing of the table.
        """
        planned = plan_copy(self._handle.state.reload(), newest=newest)
        found: dict[str, list[int]] = {}
        for info in planned.data:
            found.setdefault(info.path.rpartition("/")[0], []).append(info.size)
        found[METADATA_FOLDER] = [info.size for info in planned.metadata]
        rows = ((folder, len(sizes), sum(sizes)) for folder, sizes in sorted(found.items()))
        return table_of("partition_path string, files int64, bytes int64", rows)

    @changes_table
    def mend(self, *, files: int = 1000) -> tuple[str, ...]:
        """Do what mends the findings of `inspect.findings(files=…)`, and say what that was.

        Ends a change of the properties that died, rolls dead writers back, removes damaged plans of cleans, markers and
        files that are of no write, puts partition metafiles, builds the metadata table again, and runs services that
        are due; each only where a finding asks for it. Raises the first error after all of it was tried. What readers
        see does not change. Findings without a `mend` stay: a lost file comes from a copy, or the table goes back by
        `restore`. Cost: that of the diagnosis, and of what is done.

        >>> table.recovery.mend()
        ()
        """
        from pyhudi.doctor.diagnosis import diagnose, mend  # noqa: PLC0415 - loads much that undoing does not need

        call = self._handle.service_call(None, call="mend")
        return tuple(mend(call, diagnose(call, count_of(files, "files") or 0)))

    @changes_table
    def roll_back_failed_writes(self, *, eager: bool = False) -> tuple[RolledBack, ...]:
        """Remove what writers left behind that died, and finish restores; every write begins with this by itself.

        Args:
            eager: also roll back pending writes that have no heartbeat, as a single-writer JVM Hudi makes them. Only
                when no other process is writing.

        Returns:
            What was rolled back; empty where nothing was left.

        Raises `UnsupportedFeatureError` for a table that pyhudi must not write to, and `CorruptDataError` for a damaged
        rollback plan. Cost: one read and two listings where nothing is left, and a read per living writer; else as
        `rollback`.
        """
        state, settings, environment = self._means()
        return recover(state.reload(), settings, environment, eager=eager)


def _plan_rows(table: TableState, planned: PlannedRestore) -> Iterator[dict[str, Any]]:
    sizes = {info.path: info.size for info in planned.state.listed}
    for instant, leftovers in planned.leftovers(table):
        yield from _undone_rows(instant, leftovers, _reason(instant, planned), sizes)


def _undone_rows(
    instant: Instant, leftovers: Leftovers, reason: str, sizes: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    about = {
        "instant": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "reason": reason,
    }
    undone = [info.path for logs in leftovers.logs.values() for info in logs]
    for path in (*leftovers.files, *undone):
        yield {**about, "path": path, "size": sizes.get(path), "deletes": path not in undone}
    if not leftovers.files and not undone:
        yield {**about, "deletes": False}


def _reason(instant: Instant, planned: PlannedRestore) -> str:
    target = planned.target.requested_time
    if instant.state is InstantState.COMPLETED:
        return f"completed after {target}"
    return f"planned after {target}" if instant.action not in WRITE_ACTIONS else f"was not completed at {target}"


_PLAN_COLUMNS = "instant string, action string, state string, reason string, path string, size int64, deletes bool"
