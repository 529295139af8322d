"""What a recorder keeps of the stores that it counts."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from pyhudi.events import TimelineLoaded
from pyhudi.storage.local import LocalStorage
from pyhudi.telemetry.recorder import STORES_MAX, Recorder


def test_tasks_in_other_processes_open_the_store_itself_after_tasks_of_this_one_were_counted(tmp_path: Path) -> None:
    recorder, store = Recorder(), LocalStorage(str(tmp_path))

    counted = recorder.metered(store, meters_tasks=True)
    for_workers = recorder.metered(store, meters_tasks=False)

    assert counted.spec != store.spec
    assert for_workers.spec == store.spec


def test_store_has_one_wrapper_as_long_as_it_is_in_use(tmp_path: Path) -> None:
    recorder, store = Recorder(), LocalStorage(str(tmp_path))
    assert recorder.metered(store, meters_tasks=True) is recorder.metered(store, meters_tasks=True)


def test_stores_of_a_process_that_opens_many_are_let_go_and_their_calls_stay_counted(tmp_path: Path) -> None:
    recorder = Recorder()
    opened = []
    for _ in range(STORES_MAX + 50):
        store = LocalStorage(str(tmp_path))
        opened.append(weakref.ref(store))
        recorder.metered(store, meters_tasks=False).put("city=oslo/rows", b"12")
        recorder.observer("t", store.uri, counts_conflicts=False)(TimelineLoaded(instants=()))
    del store
    gc.collect()

    assert sum(each() is not None for each in opened) == STORES_MAX
    values = recorder.values()
    assert values["t.storage.data.write.requests"] == STORES_MAX + 50
    assert values["t.storage.data.write.bytes"] == 2 * (STORES_MAX + 50)
