"""A failed write of this process is undone at once, before its error is raised."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import CommitOutcomeUnknownError, HudiError
from pyhudi.services.rollback.rollback import roll_back_own_write
from pyhudi.transaction.transaction import Transaction

_log = logging.getLogger("pyhudi")


@contextmanager
def undone_on_failure(transaction: Transaction) -> Iterator[None]:
    """If the block fails, roll the write back before the error is raised.

    If the outcome of the commit is unknown, nothing is rolled back: the commit may be visible.
    """
    try:
        yield
    except CommitOutcomeUnknownError:
        raise
    except (Exception, KeyboardInterrupt, SystemExit):
        try:
            roll_back_own_write(
                transaction.base,
                transaction.instant_time,
                transaction.environment,
                lock_wait_ms=transaction.settings.lock_wait_ms,
            )
        except HudiError as second:
            _log.warning("a failed write could not be rolled back at once; the next write will do it: %s", second)
        raise
