"""Rollback of writes with markers of either kind: crashes while they are made, stores that fail (rows 9, 10, 11)."""

from __future__ import annotations

import pytest
from tests.support.crashes import (
    BEFORE,
    COW,
    MOR,
    assert_nothing_left_over,
    copied,
    crash_images,
    crashed,
    effects_of,
    opened,
    prepared,
    rows,
)
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents

import pyhudi
from pyhudi.errors import UnavailableError
from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

MARKERS = ["DIRECT", "TIMELINE_SERVER_BASED"]
AFTER = {(1, "oslo", 3, "c"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (9, "rome", 2, "b"), (7, "bern", 2, "b")}


def upsert(markers: str):
    def act(table: pyhudi.HudiTable) -> None:
        changed = rows((1, "oslo", 3, "c"), (9, "rome", 2, "b"), (7, "bern", 2, "b"))
        table.upsert(changed, hudi_options={"hoodie.write.markers.type": markers})

    return act


def recover(table: pyhudi.HudiTable) -> None:
    opened(table.handle.state.storage, later=True).recovery.roll_back_failed_writes()


def killed_before_its_commit(kind: TableBuilder, markers: str) -> MemoryStorage:
    """All data files and markers of a dead write are there."""
    image = prepared(kind)
    effects = effects_of(image, upsert(markers))
    (commit,) = [number for number, effect in enumerate(effects, start=1) if effect.path.endswith("commit")]
    found = crashed(image, upsert(markers), commit)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", [COW[2], MOR[0], MOR[2]], ids=str)
def test_write_with_a_service_killed_at_any_effect_is_rolled_back(kind: TableBuilder) -> None:
    for where, image in crash_images(prepared(kind), upsert("TIMELINE_SERVER_BASED")):
        found = contents(image)
        assert found == AFTER if where == "at the end" else found in (BEFORE, AFTER), where

        recover(opened(image))

        assert contents(image) == found, where
        assert_nothing_left_over(image, [".hoodie/.temp", ".hoodie/.heartbeat"])


@pytest.mark.parametrize("missing", ["MARKERS.type", "MARKERS0", "both"])
@pytest.mark.parametrize("kind", [COW[2], MOR[0]], ids=str)
def test_marker_folder_with_a_file_missing_is_rolled_back(kind: TableBuilder, missing: str) -> None:
    image = killed_before_its_commit(kind, "TIMELINE_SERVER_BASED")
    for info in image.list_recursive(".hoodie/.temp"):
        if missing in (info.name, "both"):
            image.delete(info.path)

    recover(opened(image))

    assert contents(image) == BEFORE
    assert_nothing_left_over(image, [".hoodie/.temp", ".hoodie/.heartbeat"])


def own_files(storage: MemoryStorage, instant_time: str) -> list[str]:
    names = ((info.path, parse_data_file(info.name)) for info in list_data_files(storage))
    return [path for path, name in names if name is not None and name.instant_time == instant_time]


@pytest.mark.parametrize("kind", [COW[2], MOR[0], MOR[2]], ids=str)
@pytest.mark.parametrize("markers", MARKERS)
def test_store_that_fails_at_any_read_of_a_rollback_fails_it_loudly_and_the_next_try_ends_it(
    kind: TableBuilder, markers: str
) -> None:
    image = killed_before_its_commit(kind, markers)
    (dead,) = load_table(image).timeline.pending_writes
    counting = FaultStorage(copied(image))
    recover(opened(counting))
    reads = [one for one in counting.operations if not one.is_effect]
    assert any(".hoodie/.temp" in one.path for one in reads)
    for number in range(len(reads)):
        inner = copied(image)
        failing = FailingReads(inner, number)
        try:
            recover(opened(failing))
        except UnavailableError:
            assert failing.has_failed
        else:
            # Only a read that nothing hangs on may be survived.
            assert not own_files(inner, dead.requested_time), reads[number]

        recover(opened(inner))

        assert contents(inner) == BEFORE, reads[number]
        assert not own_files(inner, dead.requested_time), reads[number]
        assert_nothing_left_over(inner, [".hoodie/.temp", ".hoodie/.heartbeat"])


@pytest.mark.parametrize("markers", MARKERS)
def test_markers_that_cannot_be_read_never_count_as_none(markers: str) -> None:
    image = killed_before_its_commit(MOR[0], markers)
    failing = FailingReads(image, 0, below=".hoodie/.temp")

    with pytest.raises(UnavailableError):
        recover(opened(failing))

    assert len(load_table(image).timeline.pending_writes) == 1
    assert not load_table(image).timeline.pending_rollbacks


class FailingReads(FaultStorage):
    """Fails one reading operation, counted from 0 among those below a folder."""

    def __init__(self, inner: MemoryStorage, number: int, *, below: str = "") -> None:
        super().__init__(inner)
        self._left, self._below = number, below
        self.has_failed = False

    def _record(self, name: str, path: str) -> None:
        super()._record(name, path)
        if self.operations[-1].is_effect or not path.startswith(self._below) or self.has_failed:
            return
        self._left -= 1
        if self._left < 0:
            self.has_failed = True
            raise UnavailableError("the store does not answer", path=path)


@pytest.mark.parametrize("kind", [COW[2], MOR[0]], ids=str)
def test_rollback_killed_at_any_effect_is_finished_with_the_markers_of_a_service(kind: TableBuilder) -> None:
    image = killed_before_its_commit(kind, "TIMELINE_SERVER_BASED")
    for where, again in crash_images(image, recover):
        recover(opened(again))

        assert contents(again) == BEFORE, where
        assert_nothing_left_over(again, [".hoodie/.temp", ".hoodie/.heartbeat"])


def test_markers_of_both_kinds_in_one_folder_are_read() -> None:
    from pyhudi.format.markers import Marker, MarkerKind, encode_markers_file, marker_path
    from pyhudi.transaction.markers.reading import load_markers

    storage, time = MemoryStorage(), "20240102030405678"
    one, other = (Marker(f"p={n}/a-{n}_0-1-2_{time}.parquet", MarkerKind.CREATE) for n in range(2))
    storage.put(marker_path(time, one), b"")
    storage.put(f".hoodie/.temp/{time}/MARKERS7", encode_markers_file([other]))

    assert load_markers(storage, time) == {one.data_path, other.data_path}
