"""`table.services`: compaction, clustering, cleaning, archiving and expiry of partitions, at once or in two steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, texts_of, time_text
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.engine.progress import OnProgress
from pyhudi.errors import ConfigError
from pyhudi.format.schema.result_tables import table_of
from pyhudi.services.archiving.archive import Archived, archive, judged_instants
from pyhudi.services.cleaning.execute import Cleaned, clean, planned_clean
from pyhudi.services.clustering.execute import run_clustering, run_pending_clusterings
from pyhudi.services.clustering.schedule import planned_clustering, schedule_clustering
from pyhudi.services.compaction.execute import Compacted, run_compaction, run_pending_compactions
from pyhudi.services.compaction.schedule import planned_compaction, schedule_compaction
from pyhudi.services.frame.background import wait_for_background
from pyhudi.services.frame.runner import (
    checked_names,
    due_services,
    pending_plans,
    run_due,
    run_plan,
    service_that_plans,
)
from pyhudi.services.frame.service import ServiceRun
from pyhudi.services.partition_ttl.expire import Expired, expire_partitions, planned_expiry
from pyhudi.table.file_slice import FileSlice

ServiceKind = Literal["compaction", "log_compaction", "clustering", "clean"]


@dataclass(frozen=True)
class Services:
    """The table services of a table, run on the table as it is now. `HudiTable.services` makes it.

    They change no answer of a reader, except for `expire_partitions`; they may die at any moment, and run beside
    writers. All of them raise `ConfigError` for an option that is not legal; those that write also
    `LockNotAcquiredError`, and `CorruptDataError` for damaged logs or plans. Compactions raise `InvalidRequestError`
    for a copy-on-write table.

    `on_progress` is called with a `Progress` whenever a task has ended: `print` shows how many tasks of a step have
    ended, and what the others may still take. Not with a Spark session, which shows its tasks: a `ConfigError`.

    The methods that compact return an Arrow table with one row per compaction. Columns: instant; slices (how many file
    slices were compacted); rows (of the files written); updated, inserted, deleted (records, by the logs); bytes.
    """

    _handle: TableHandle = field(repr=False)

    @changes_table
    def compact(self, *, hudi_options: HudiOptions | None = None, on_progress: OnProgress | None = None) -> pa.Table:
        """Merge the logs of a merge-on-read table into new base files.

        Executes the pending compactions that are not running elsewhere; then removes what dead writers left, as a write
        does, and schedules and executes one compaction of what is there now. The strategies of the options choose the
        file slices (`hoodie.compaction.strategy`, `hoodie.compaction.target.io`); triggers
        (`hoodie.compact.inline.*`) have no effect.

        Cost: every file that is compacted is read once, and its new base file written; two listings of the table, and
        the table lock twice per compaction.

        >>> table.services.compact(hudi_options={"hoodie.compaction.target.io": "5000"}).num_rows
        0
        """
        call = self._handle.service_call(hudi_options, call="compact", on_progress=on_progress)
        done = [*run_pending_compactions(call)]
        planned = schedule_compaction(call)
        return _compacted_table([*done, None if planned is None else run_compaction(call, planned)])

    @changes_table
    def compact_logs(
        self, *, hudi_options: HudiOptions | None = None, on_progress: OnProgress | None = None
    ) -> pa.Table:
        """Merge the logs of file slices that have many of them into one log per slice (a log compaction).

        Cheaper than `compact`, as no base file is rewritten, and makes reading cheaper where logs hold many versions of
        a record. Takes slices with at least `hoodie.log.compaction.blocks.threshold` log blocks.

        Cost: the logs of these slices are read once; two listings of the table.
        """
        call = self._handle.service_call(hudi_options, call="compact_logs", on_progress=on_progress)
        planned = schedule_compaction(call, of_logs=True)
        return _compacted_table([None if planned is None else run_compaction(call, planned)])

    def plan_compaction(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `compact` would schedule now, and what it would leave, and why. Nothing is written.

        Columns: partition_path, file_id, compacts (whether the slice is chosen), reason, base_size (null without a base
        file), logs (how many), log_size. Sizes are in bytes.

        Cost: two listings: of the timeline, and of the table.
        """
        call = self._handle.service_call(hudi_options, call="plan_compaction")
        planned = planned_compaction(call.reloaded())
        columns = (
            "partition_path string, file_id string, compacts bool, reason string, base_size int64, logs int64, "
            "log_size int64"
        )
        rows = (
            (
                *_slice_id(verdict.file_slice),
                compacts,
                verdict.reason,
                *_slice_sizes(verdict.file_slice),
                sum(log.size for log in verdict.file_slice.logs),
            )
            for verdicts, compacts in ((planned.chosen, True), (planned.skipped, False))
            for verdict in verdicts
        )
        return table_of(columns, rows)

    @changes_table
    def cluster(self, *, hudi_options: HudiOptions | None = None, on_progress: OnProgress | None = None) -> pa.Table:
        """Rewrite small files of a partition into files of a good size, sorted if the options say by what.

        Executes the planned clusterings that are not running elsewhere; then removes what dead writers left, as a
        write does, and plans and executes one clustering of what is there now. `hoodie.clustering.plan.strategy.*` say
        which files are put together and how their rows are sorted; `hoodie.clustering.inline*` have no effect. Rows
        keep their commit times, so that `changes` does not show them again. Until the clustering ends, writes to its
        file groups give way to it (`hoodie.clustering.updates.strategy`).

        Returns:
            One row per clustering. Columns: instant; groups (how many, each sorted by itself); replaced (file groups
            before); files (file groups after); rows; bytes (of the new files).

        Raises:
            WriteConflictError: a write has changed files of a plan, which is rolled back then.

        Cost: every file that is clustered is read once, and its rows are written once; two listings of the table, and
        the table lock twice per clustering. A task has the rows of a group, and less than 1 GiB of them in memory; what
        is sorted and does not fit goes through local disk.

        >>> table.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.sort.columns": "fare"}).num_rows
        1
        """
        call = self._handle.service_call(hudi_options, call="cluster", on_progress=on_progress)
        done = [*run_pending_clusterings(call)]
        planned = schedule_clustering(call)
        clustered = [*done, None if planned is None else run_clustering(call, planned)]
        columns = "instant string, groups int64, replaced int64, files int64, rows int64, bytes int64"
        return table_of(columns, (asdict(result) for result in clustered if result is not None))

    def plan_clustering(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `cluster` would plan now, and what it would leave, and why. Nothing is written.

        Columns: partition_path, file_id, clusters (whether the slice is chosen), reason, group (the number of the group
        that it is put into, null if it is not chosen), base_size (in bytes, null without a base file), logs (how many).

        Cost: two listings: of the timeline, and of the table.
        """
        call = self._handle.service_call(hudi_options, call="plan_clustering")
        planned = planned_clustering(call.reloaded())
        columns = (
            "partition_path string, file_id string, clusters bool, reason string, group int64, base_size int64, "
            "logs int64"
        )
        rows = (
            (
                *_slice_id(choice.file_slice),
                choice.group is not None,
                choice.reason,
                choice.group,
                *_slice_sizes(choice.file_slice),
            )
            for choice in (*planned.chosen, *planned.skipped)
        )
        return table_of(columns, rows)

    @changes_table
    def clean(
        self, *, hudi_options: HudiOptions | None = None, on_progress: OnProgress | None = None
    ) -> Cleaned | None:
        """Delete the file slices that no retained state of the table needs.

        Executes cleans that were planned and not completed, then plans one and executes it. The policy of the options
        says which states stay readable (`hoodie.clean.policy`, `hoodie.clean.commits.retained`,
        `hoodie.clean.hours.retained`, `hoodie.clean.fileversions.retained`).

        Returns:
            What the new clean did; None where nothing was to be deleted.

        Raises:
            StorageError: a file could not be deleted. The clean stays planned, and the next one tries again.
            WriteConflictError: a write of the table was rolled back meanwhile, or JVM Hudi restores the table.

        Cost: one read per write since the last clean that this process does not know; a listing of each partition that
        these writes changed; a delete per file; three puts, and the table lock twice.

        >>> table.services.clean(hudi_options={"hoodie.clean.commits.retained": "3"})
        """
        return clean(self._handle.service_call(hudi_options, call="clean", on_progress=on_progress))

    def plan_clean(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `clean` would delete now, and what it would leave, and why. Nothing is written.

        Columns: partition_path, file_id, instant (where the slice begins), deletes (whether its files would go),
        reason, files (how many). Slices of partitions that no write has changed since the last clean are not
        examined; with `hoodie.clean.incremental.enabled=false` all are.

        Cost: as `clean`, without puts, deletes and lock.
        """
        call = self._handle.service_call(hudi_options, call="plan_clean")
        columns = "partition_path string, file_id string, instant string, deletes bool, reason string, files int64"
        rows = (
            (
                *_slice_id(decision.file_slice),
                decision.file_slice.instant_time,
                decision.deletes,
                decision.reason,
                len(decision.paths),
            )
            for decision in planned_clean(call.reloaded()).decisions
        )
        return table_of(columns, rows)

    @changes_table
    def archive(self, *, hudi_options: HudiOptions | None = None) -> Archived | None:
        """Move the oldest completed instants from the active timeline to the archived one.

        Every read and write lists the active timeline, so it should stay short. When it has more completed commits than
        `hoodie.keep.max.commits` (30), the oldest leave until `hoodie.keep.min.commits` (20) remain; more stay where a
        clean has not passed them, where a write or a service is pending, or a savepoint stands. Reads of older states,
        `inspect.history` and incremental reads go on in the archive.

        Returns:
            What was archived; None where nothing may leave the active timeline.

        Raises:
            CorruptDataError: an instant's file is damaged, in a table of version 6, whose archive is made of what these
                files say; nothing is archived.

        Cost: one or two reads and two or three deletes per instant, three puts, a listing, and the table lock. In
        version 6 a read per file of an instant, one put, and a read of the newest archive file.

        >>> table.services.archive(hudi_options={"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"})
        """
        return archive(self._handle.service_call(hudi_options, call="archive"))

    def plan_archive(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """Which instants `archive` would move now, and which not, and why, the oldest first. Nothing is written.

        Columns: instant; action; archives (whether it would be moved); reason.

        Cost: one read per replacement that this process does not know; in a merge-on-read table one per commit since
        the newest compaction; a listing of each partition in which an older write replaced file groups.

        >>> table.services.plan_archive()["archives"].to_pylist()[:1]
        [False]
        """
        call = self._handle.service_call(hudi_options, call="plan_archive")
        judged = judged_instants(call.reloaded())
        rows = (
            (decision.instant.requested_time, decision.instant.action.value, decision.leaves, decision.reason)
            for decision in judged
        )
        return table_of("instant string, action string, archives bool, reason string", rows)

    @changes_table
    def expire_partitions(self, *, hudi_options: HudiOptions | None = None) -> Expired | None:
        """Drop the partitions that are older than `hoodie.partition.ttl.strategy.days.retain` days.

        The age counts from the last change of a partition, or from its creation
        (`hoodie.partition.ttl.management.strategy.type`). Their files stay for readers of older states until a clean
        passes the drop.

        Returns:
            Which partitions were dropped; None where there were none, so always while no number of days is set.

        Raises:
            WriteConflictError: another writer changed one of the partitions meanwhile; nothing was dropped.

        Cost: twice that of `plan_expiry`, without a second listing where the first is remembered; four puts, and the
        table lock twice.

        >>> table.services.expire_partitions(hudi_options={"hoodie.partition.ttl.strategy.days.retain": "90"})
        """
        return expire_partitions(self._handle.service_call(hudi_options, call="expire_partitions"))

    def plan_expiry(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """Which partitions `expire_partitions` would drop now, and which not, and why, the oldest first.

        Columns: partition_path; expires (whether it would be dropped); reason; since (the instant from which its age
        counts; null where it is not known); age (a duration in milliseconds; null where `since` is not a time). A table
        without partitions has no rows.

        Cost: a listing of the table; for the age by creation also one read per partition and per replace commit of the
        active timeline. Nothing is written.
        """
        call = self._handle.service_call(hudi_options, call="plan_expiry")
        columns = "partition_path string, expires bool, reason string, since string, age duration[ms]"
        ages = planned_expiry(call.reloaded())
        return table_of(columns, ((age.partition_path, age.expires, age.reason, age.since, age.age_ms) for age in ages))

    @changes_table
    def schedule(self, kind: ServiceKind = "compaction", *, hudi_options: HudiOptions | None = None) -> str | None:
        """Plan a service on what is there now, for `run` to execute, in this process or another.

        Args:
            kind: "compaction", "log_compaction", "clustering" or "clean".
            hudi_options: see `compact`, `compact_logs`, `cluster` and `clean`.

        Returns:
            The instant of the plan; None where there is nothing to do.

        Cost: a listing of the table, one put, and the table lock; for a log compaction one more listing, and a look
        into the logs.

        >>> instant = table.services.schedule()
        >>> if instant is not None:
        ...     compacted = table.services.run(instant)
        """
        call = self._handle.service_call(hudi_options, call="schedule")
        return service_that_plans(kind)(call.reloaded())

    @changes_table
    def run(
        self,
        instant: str | None = None,
        *,
        only: str | Sequence[str] | None = None,
        hudi_options: HudiOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> pa.Table:
        """Run the services that are due, or execute one plan.

        Without `instant`: rolls dead writers back, executes the pending plans that no process is executing, and then
        runs what is due, in the order of `due()`. The triggers of the options say what is due
        (`hoodie.compact.inline.max.delta.commits`, `hoodie.clean.trigger.max.commits`, `hoodie.keep.max.commits`);
        whether writes run a service themselves makes no difference. A service that fails does not stop the next one:
        the error is in its row.

        With `instant`: executes the plan of this instant, whatever is due. Of several processes that execute one plan,
        one completes it. Errors are raised.

        Args:
            instant: the instant of a pending plan, see `pending`.
            only: the names of the services that may run, see `due`; all if not given.
            hudi_options: the options of the services.
            on_progress: see above.

        Returns:
            A row per run of a service. Columns: service; instant (null for work without one); outcome ("done", "nothing
            to do", "left to another process" or "failed"); files_written, files_deleted, rows, bytes (of the files
            written); seconds; message (why nothing was done, or what failed).

        Raises:
            InvalidRequestError: there is no plan with this instant, or no service with a name in `only`.

        Cost: that of the services; and a listing of the timeline for each of them.

        >>> table.services.run(only="clean")["outcome"].to_pylist()
        ['nothing to do']
        """
        call = self._handle.service_call(hudi_options, call="run", on_progress=on_progress)
        names = None if only is None else checked_names(texts_of(only, "only"))
        if instant is None:
            return _runs_table(run_due(call, only=names))
        if names is not None:
            raise ConfigError("only selects among the services that are due: it has no meaning with an instant")
        return _runs_table([run_plan(call, time_text(instant, "instant"))])

    def due(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `run` would run now, and why. Nothing is written.

        Columns: service (in the order in which they run), due, reason.

        Cost: a listing of the timeline, and for a merge-on-read table a read per commit since its last compaction, and
        a listing of the table where one may be due.

        >>> table.services.due().select(["service", "due"]).num_rows > 0
        True
        """
        rows = due_services(self._handle.service_call(hudi_options, call="due"))
        return table_of(
            "service string, due bool, reason string", ((name, due.is_due, due.reason) for name, due in rows)
        )

    @changes_table
    def wait(self) -> None:
        """Wait until the services of this table that run in the background of this process have ended.

        Options such as `hoodie.clean.async.enabled` send services of a write to the background; the interpreter waits
        for them, too, before it ends. Their failures are warnings of the log `pyhudi`. Cost: no request.

        >>> table.services.wait()
        """
        wait_for_background(self._handle.storage)

    def pending(self) -> pa.Table:
        """The plans that are not completed, oldest first. Cost: one listing of the timeline.

        Columns: instant, kind ("compaction", "log_compaction", "clustering" or "clean"), state ("requested" or
        "inflight"). In table version 6 also one read per pending replace commit, which may be a clustering.
        """
        call = self._handle.service_call(None, call="pending")
        rows = ((plan.requested_time, name, plan.state.name.lower()) for name, plan in pending_plans(call))
        return table_of("instant string, kind string, state string", rows)


def _compacted_table(done: Iterable[Compacted | None]) -> pa.Table:
    columns = "instant string, slices int64, rows int64, updated int64, inserted int64, deleted int64, bytes int64"
    return table_of(columns, (asdict(result) for result in done if result is not None))


def _runs_table(runs: Iterable[ServiceRun]) -> pa.Table:
    columns = (
        "service string, instant string, outcome string, files_written int64, files_deleted int64, rows int64, "
        "bytes int64, seconds double, message string"
    )
    return table_of(columns, ({**asdict(run), "outcome": run.outcome.value} for run in runs))


def _slice_id(file_slice: FileSlice) -> tuple[str, str]:
    return file_slice.partition_path, file_slice.file_id


def _slice_sizes(file_slice: FileSlice) -> tuple[int | None, int]:
    """The size of the base file, and how many logs there are."""
    return file_slice.base.size if file_slice.base else None, len(file_slice.logs)
