"""`table.recovery`: what became of a write, and how to undo one."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi.api.arguments import time_text
from pyhudi.api.handle import TableHandle
from pyhudi.config.write_config import WriteConfig
from pyhudi.services.rollback.execute import RolledBack
from pyhudi.services.rollback.rollback import roll_back, roll_back_failed_writes
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.transaction.settings import locking, transaction_settings


@dataclass(frozen=True)
class Recovery:
    """Undoing writes, and finding out what became of them. `HudiTable.recovery` makes it."""

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

    def rollback(self, instant: str) -> RolledBack:
        """Undo the newest completed write, a pending write, or a compaction that is planned and not running.

        Readers see all of a write or nothing of it, at any moment.

        Raises:
            InvalidRequestError: there is no such write, or it has been built on: by a later write, a pending plan, a
                savepoint or a cleaner. Nothing was changed.
            WriteConflictError: JVM Hudi may be rolling it back, or it was completed at this moment.

        Cost: the table lock, some listings of the timeline, one of each partition that the write changed, a delete per
        file that it wrote, and three puts.
        """
        handle = self._handle
        config = WriteConfig.from_options(handle.options)
        environment = locking(handle.environment, config, handle.state.config.name)
        return roll_back(handle.state, time_text(instant, "instant"), transaction_settings(config), environment)

    def roll_back_failed_writes(self, *, eager: bool = False) -> tuple[RolledBack, ...]:
        """Remove what writers left behind that died; every write begins with this by itself.

        Args:
            eager: also roll back pending writes that have no heartbeat, as a single-writer JVM Hudi makes them. Only
                when no other process is writing.

        Returns:
            What was rolled back; empty where nothing was left.

        Raises `UnsupportedFeatureError` for a table that pyhudi must not write to, and `CorruptDataError` for a damaged
        rollback plan. Cost: one read and two listings where nothing is left, and a read per living writer; else as
        `rollback`.
        """
        handle = self._handle
        config = WriteConfig.from_options(handle.options)
        settings = transaction_settings(config)
        return roll_back_failed_writes(
            handle.state.reload(),
            settings.heartbeat,
            locking(handle.environment, config, handle.state.config.name),
            lock_wait_ms=settings.lock_wait_ms,
            eager=eager,
        )
