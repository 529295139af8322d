"""`table.services`: compaction, at once or in two steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Literal

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, time_text
from pyhudi.api.handle import TableHandle
from pyhudi.errors import ConfigError
from pyhudi.format.timeline.instant import Action
from pyhudi.services.compaction.execute import Compacted, run_compaction, run_pending_compactions
from pyhudi.services.compaction.plan import PlannedCompaction
from pyhudi.services.compaction.schedule import planned_compaction, schedule_compaction

ServiceKind = Literal["compaction", "log_compaction"]
_KINDS: tuple[ServiceKind, ...] = ("compaction", "log_compaction")


@dataclass(frozen=True)
class Services:
    """The table services of a table, run on the table as it is now. `HudiTable.services` makes it.

    They change no answer of a reader, may die at any moment, and run beside writers. All of them raise
    `InvalidRequestError` for a copy-on-write table, and `ConfigError` for an option that is not legal; those that write
    also `LockNotAcquiredError`, and `CorruptDataError` for damaged logs or plans.

    The methods that execute return an Arrow table with one row per compaction. Columns: instant; slices (how many file
    slices were compacted); rows (of the files written); updated, inserted, deleted (records, by the logs); bytes.
    """

    _handle: TableHandle = field(repr=False)

    def compact(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
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
        call = self._handle.service_call(hudi_options, call="compact")
        done = [*run_pending_compactions(call)]
        planned = schedule_compaction(call)
        return _result([*done, None if planned is None else run_compaction(call, planned)])

    def compact_logs(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """Merge the logs of file slices that have many of them into one log per slice (a log compaction).

        Cheaper than `compact`, as no base file is rewritten, and makes reading cheaper where logs hold many versions of
        a record. Takes slices with at least `hoodie.log.compaction.blocks.threshold` log blocks.

        Cost: the logs of these slices are read once; two listings of the table.
        """
        call = self._handle.service_call(hudi_options, call="compact_logs")
        planned = schedule_compaction(call, of_logs=True)
        return _result([None if planned is None else run_compaction(call, planned)])

    def plan_compaction(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `compact` would schedule now, and what it would leave, and why. Nothing is written.

        Columns: partition_path, file_id, compacts (whether the slice is chosen), reason, base_size (null without a base
        file), logs (how many), log_size. Sizes are in bytes.

        Cost: two listings: of the timeline, and of the table.
        """
        call = self._handle.service_call(hudi_options, call="plan_compaction")
        return _plan_table(planned_compaction(call.reloaded()))

    def schedule(self, kind: ServiceKind = "compaction", *, hudi_options: HudiOptions | None = None) -> str | None:
        """Plan a compaction of what is there now, for `run` to execute, in this process or another.

        Args:
            kind: "compaction" or "log_compaction".
            hudi_options: see `compact` and `compact_logs`.

        Returns:
            The instant of the plan; None where there is nothing to compact.

        Cost: a listing of the table, one put, and the table lock; for a log compaction one more listing, and a look
        into the logs.

        >>> instant = table.services.schedule()
        >>> if instant is not None:
        ...     compacted = table.services.run(instant)
        """
        if kind not in _KINDS:
            raise ConfigError('the kind of service must be "compaction" or "log_compaction"', kind=kind)
        call = self._handle.service_call(hudi_options, call="schedule")
        return schedule_compaction(call, of_logs=kind == "log_compaction")

    def run(self, instant: str, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """Execute the plan of this instant; of several processes that execute one plan, one completes it.

        Returns one row; none where another process is executing the plan, or has completed it. Raises
        `InvalidRequestError` for an instant that is no planned compaction.

        Cost: every file of the plan is read once, and what it becomes is written once; the table lock twice.
        """
        call = self._handle.service_call(hudi_options, call="run")
        return _result([run_compaction(call, time_text(instant, "instant"))])

    def pending(self) -> pa.Table:
        """The plans that are not completed, oldest first. Cost: one listing of the timeline.

        Columns: instant, kind ("compaction" or "log_compaction"), state ("requested" or "inflight").
        """
        rows = [
            {
                "instant": plan.requested_time,
                "kind": "log_compaction" if plan.action is Action.LOG_COMPACTION else "compaction",
                "state": plan.state.name.lower(),
            }
            for plan in self._handle.state.reload().timeline.pending_compactions
        ]
        return pa.Table.from_pylist(rows, schema=_PENDING_SCHEMA)


def _result(done: Iterable[Compacted | None]) -> pa.Table:
    return pa.Table.from_pylist([asdict(one) for one in done if one is not None], schema=_COMPACTED_SCHEMA)


def _plan_table(planned: PlannedCompaction) -> pa.Table:
    rows = [
        {
            "partition_path": verdict.file_slice.partition_path,
            "file_id": verdict.file_slice.file_id,
            "compacts": compacts,
            "reason": verdict.reason,
            "base_size": verdict.file_slice.base.size if verdict.file_slice.base else None,
            "logs": len(verdict.file_slice.logs),
            "log_size": sum(log.size for log in verdict.file_slice.logs),
        }
        for verdicts, compacts in ((planned.chosen, True), (planned.skipped, False))
        for verdict in verdicts
    ]
    return pa.Table.from_pylist(rows, schema=_PLAN_SCHEMA)


_COMPACTED_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("slices", pa.int64()),
        ("rows", pa.int64()),
        ("updated", pa.int64()),
        ("inserted", pa.int64()),
        ("deleted", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_PLAN_SCHEMA = pa.schema(
    [
        ("partition_path", pa.string()),
        ("file_id", pa.string()),
        ("compacts", pa.bool_()),
        ("reason", pa.string()),
        ("base_size", pa.int64()),
        ("logs", pa.int64()),
        ("log_size", pa.int64()),
    ]
)
_PENDING_SCHEMA = pa.schema([("instant", pa.string()), ("kind", pa.string()), ("state", pa.string())])
