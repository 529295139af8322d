"""A writer that is real Hudi, beside ours and under the same lock: `run_jvm_writer`."""

from __future__ import annotations

import signal
import threading

from tests.chaos.journal import Journal, Work
from tests.chaos.jvm import write_options
from tests.chaos.setting import CALL_METADATA, ONCE_AREAS, ONCE_ROWS, Setting, rows_of
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

from pyhudi.testing.isolation import Ending

_BESIDE_OTHERS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    # The judge asks every commit of whom it is: none must go to the archive.
    "hoodie.archive.automatic": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.write.lock.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "600",
}


def run_jvm_writer(setting: Setting, name: str) -> None:
    """Upsert new keys in several partitions by real Hudi until told to stop (SIGTERM)."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    oracle = Oracle(RELEASE_OF_TABLE_VERSION[setting.kind.version])
    journal = Journal(setting.folder, name)
    options = {**write_options(setting), **_BESIDE_OTHERS, **setting.options}
    oracle.sql("select 1")  # starts it, which takes a while
    while not stop.is_set():
        call = journal.begin(Work.ONCE, rows=ONCE_ROWS)
        rows = rows_of(call, {(f"{call}/{n}", ONCE_AREAS[n % len(ONCE_AREAS)]): None for n in range(ONCE_ROWS)})
        try:
            # Real Hudi, too, puts options that begin with an underscore into the commit.
            oracle.write(setting.path, rows, {**options, CALL_METADATA: call})
        except OracleError as error:
            why = f"{error} {error.trace}"
            if "ConcurrentModification" in why or "WriteConflict" in why:
                journal.end(call, Ending.FAILED, error="WriteConflictError", why=why[:2000])
            else:
                journal.end(call, Ending.UNKNOWN, error="OracleError", why=why[:2000])
        else:
            journal.end(call, Ending.OK)
    oracle.stop()
