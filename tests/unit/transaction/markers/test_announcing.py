"""Direct markers: those of many files are put together, and each before its file is begun."""

from __future__ import annotations

import threading

import pytest
from obstore.store import MemoryStore

from pyhudi.errors import StorageError
from pyhudi.format.markers import Marker, MarkerKind, marker_path
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.transaction.markers.announcing import DIRECT_MARKERS, create_markers

T = "20260101000000000"
MARKERS = [Marker(f"p={number}/f{number}-0_0-0-0_{T}.parquet", MarkerKind.CREATE) for number in range(40)]


class Store(ObjectStorage):
    """Waits in each put until `meeting` puts run; fails at the paths in `broken`."""

    def __init__(self, meeting: int = 1, broken: frozenset[str] = frozenset()) -> None:
        super().__init__(MemoryStore(), uri="s3://bucket/t", prefix="t", options={})
        self._barrier, self._broken = threading.Barrier(meeting, timeout=100), broken

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._barrier.wait()
        if path in self._broken:
            raise StorageError("the store is away", path=path)
        super().put(path, data, durable=durable)


def test_markers_of_many_files_are_put_at_once_on_an_object_store() -> None:
    storage = Store(meeting=8)

    create_markers(storage, T, DIRECT_MARKERS, MARKERS, groups_exist=False)

    assert all(storage.info(marker_path(T, marker)) is not None for marker in MARKERS)


def test_one_marker_that_cannot_be_put_stops_the_task() -> None:
    storage = Store(broken=frozenset({marker_path(T, MARKERS[33])}))

    with pytest.raises(StorageError, match="the store is away"):
        create_markers(storage, T, DIRECT_MARKERS, MARKERS, groups_exist=False)
