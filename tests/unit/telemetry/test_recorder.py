"""What a recorder keeps of the stores whose calls are counted."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from pyhudi.errors import NotFoundError
from pyhudi.events import TimelineLoaded
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.metered import Call, Meter, MeteredStorage, begin_counting_task, counted_here, itself
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.telemetry.recorder import Recorder


def test_calls_of_a_store_are_counted_for_the_write_and_for_the_recorder(tmp_path: Path) -> None:
    recorder, store = Recorder(), LocalStorage(str(tmp_path))
    recorder.observer("t", store.uri, counts_conflicts=False)(TimelineLoaded(instants=()))
    for _ in range(2):
        counted = MeteredStorage(store, Meter(recorder.meter_of(store.uri)))
        counted.put("city=oslo/rows", b"12")
        counted.info("city=oslo/rows")
        counted.read("city=oslo/rows")
        counted.list_names(".hoodie/timeline")
        counted.delete("city=oslo/rows")
        assert counted.meter.calls() == {
            "data": {"PUT": 1, "HEAD": 1, "GET": 1, "DELETE": 1},
            "timeline": {"LIST": 1},
        }

    values = recorder.values()
    assert values["t.storage.data.write.requests"] == 2
    assert values["t.storage.data.write.bytes"] == 4
    assert values["t.storage.data.read.requests"] == 4
    assert values["t.storage.timeline.list.requests"] == 2


def test_task_opens_the_counted_store_and_one_in_another_process_a_store_of_its_own(tmp_path: Path) -> None:
    counted = MeteredStorage(LocalStorage(str(tmp_path)), Meter())
    assert open_spec(counted.spec) is counted

    of_other = StorageSpec(counted.spec.uri, {name: f"0-{token}" for name, token in counted.spec.options.items()})
    meter = begin_counting_task()
    opened = open_spec(of_other)
    opened.put("city=oslo/rows", b"12")

    assert meter.totals() == {("data", Call.PUT): (1, 2)}
    assert counted.meter.totals() == {}
    assert itself(open_spec(of_other)) is itself(opened)


def test_reads_of_a_file_that_is_not_there_are_counted() -> None:
    counted = MeteredStorage(MemoryStorage(), Meter())

    for read in (counted.read, counted.read_with_etag):
        with pytest.raises(NotFoundError):
            read("city=oslo/rows")

    assert counted.meter.totals() == {("data", Call.GET): (2, 0)}


def test_store_that_is_counted_for_a_read_counts_for_the_write_around_it() -> None:
    written = MeteredStorage(MemoryStorage(), Meter())
    counted = counted_here(written)

    counted.put("city=oslo/rows", b"12")

    assert written.meter.calls() == counted.meter.calls() == {"data": {"PUT": 1}}
    assert counted.spec == written.spec
    assert itself(counted) is itself(written)


def test_counted_store_is_let_go_with_its_write(tmp_path: Path) -> None:
    counted = MeteredStorage(LocalStorage(str(tmp_path)), Meter())
    spec, gone = counted.spec, weakref.ref(counted)
    del counted
    gc.collect()
    assert gone() is None
    assert open_spec(spec).uri == spec.uri
