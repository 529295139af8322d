"""Recovery, with which every write begins: finish or undo what dead processes left."""

from __future__ import annotations

from pyhudi.environment import Environment
from pyhudi.services.restore.execute import finish_restores
from pyhudi.services.restore.savepoint import remove_dead_savepoints
from pyhudi.services.rollback.rollback import RolledBack, roll_back_failed_writes
from pyhudi.table.state import TableState
from pyhudi.transaction.settings import TransactionSettings


def finish_what_died(table: TableState, settings: TransactionSettings, environment: Environment) -> TableState:
    """Finish restores of pyhudi, and remove savepoints whose making died; the table as it is then.

    Cost: nothing where there are none. Errors: see `finish_restores`.
    """
    table = finish_restores(table, settings, environment)
    return remove_dead_savepoints(table, settings, environment)


def recover(
    table: TableState, settings: TransactionSettings, environment: Environment, *, eager: bool = False
) -> tuple[RolledBack, ...]:
    """Also roll dead writers back; see `roll_back_failed_writes`."""
    table = finish_what_died(table, settings, environment)
    return roll_back_failed_writes(
        table, settings.heartbeat, environment, lock_wait_ms=settings.lock_wait_ms, eager=eager
    )
