"""What a process can do that was forked: no request that never ends, and no lock that nobody releases."""

from __future__ import annotations

import os
import signal
import warnings
from contextlib import ExitStack
from pathlib import Path

from obstore.store import MemoryStore
from tests.support.tables import contents, environment, new_table, open_table, rows

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.index.key_value import in_memory
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.table import written_files
from pyhudi.telemetry import metrics
from pyhudi.transaction import heartbeat
from pyhudi.transaction.locks import in_process


def test_forked_child_of_a_process_that_used_an_object_store_is_refused_by_name() -> None:
    storage = ObjectStorage(MemoryStore(), uri="s3://bucket/t", prefix="t", options={})
    assert storage.info("x") is None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork while threads run, which is what this is about
        child = os.fork()
    if child == 0:
        outcome = 1
        try:
            storage.info("x")
        except UnsupportedFeatureError as error:
            outcome = 7 if "forked" in str(error) else 2
        finally:
            os._exit(outcome)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_forked_child_does_not_wait_for_what_threads_of_its_parent_held(tmp_path: Path) -> None:
    storage, row = LocalStorage(str(tmp_path)), (1, "oslo", 1, "a")
    new_table(storage)
    mutex = in_process.InProcessLocks().acquire(storage, environment(), wait_ms=1000)
    guards = (written_files._kept_guard, in_process._mutexes_guard, in_memory._tables_guard, metrics._guard)

    with ExitStack() as held, warnings.catch_warnings():
        for guard in guards:
            held.enter_context(guard)
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            outcome = 1
            try:
                options = {"hoodie.index.type": "INMEMORY", "hoodie.metrics.on": "true"}
                for _ in range(2):
                    open_table(storage, **options, **{"hoodie.metrics.reporter.type": "INMEMORY"}).upsert(rows(row))
                outcome = 7 if contents(storage) == {row} else 2
            finally:
                os._exit(outcome)
    mutex.release()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_forked_child_does_not_take_itself_for_its_parent() -> None:
    heartbeat._this_process()
    heartbeat._process_table()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        kept = (heartbeat._this_process.cache_info().currsize, heartbeat._process_table.cache_info().currsize)
        os._exit(7 if kept == (0, 0) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
