"""What writers beside those that are killed have in common: `calls_until_stopped`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pyarrow as pa
from tests.chaos.journal import Journal, Work
from tests.chaos.setting import ONCE_AREAS, ONCE_ROWS, Setting, rows_of


def calls_until_stopped(setting: Setting, journal: Journal) -> Iterator[tuple[str, pa.Table]]:
    """Calls that have begun, with their rows, new keys in several partitions: until told to stop (SIGTERM).

    That is listened to from now on, and not from the first call.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def calls() -> Iterator[tuple[str, pa.Table]]:
        while not stop.is_set():
            call = journal.begin(Work.ONCE, rows=ONCE_ROWS)
            areas = {(f"{call}/{n}", ONCE_AREAS[n % len(ONCE_AREAS)]): None for n in range(ONCE_ROWS)}
            yield call, rows_of(call, areas)

    return calls()
