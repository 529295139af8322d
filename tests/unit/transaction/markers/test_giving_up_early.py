"""Early conflict detection: who gives up has announced nothing, and announces nothing more."""

from __future__ import annotations

import pytest
from tests.support.crashes import COW, opened, rows
from tests.unit.transaction.markers.test_early_detection import EARLY, MARKERS, NAMES, prepared, while_writing

from pyhudi.errors import WriteConflictError
from pyhudi.format.markers import MARKERS_ROOT, Marker, MarkerKind
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.markers import service as service_module
from pyhudi.transaction.markers.early_conflicts import EarlyDetection
from pyhudi.transaction.markers.service import MarkerService


@pytest.mark.parametrize("ours", MARKERS, ids=NAMES)
def test_who_gives_up_early_has_announced_nothing(ours: dict[str, str]) -> None:
    """It looks first: what it announced would make others give up for it, and of two writers none would go on."""
    storage = prepared(COW[2])
    mine = FaultStorage(storage)

    def second() -> None:
        with pytest.raises(WriteConflictError, match="is writing"):
            opened(mine).upsert(rows((2, "oslo", 6, "second")), **ours, **EARLY)

    while_writing(storage, ours, second)

    assert [one.path for one in mine.effects if one.name == "put" and one.path.startswith(MARKERS_ROOT)] == []


def test_after_a_conflict_nothing_is_announced_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: object) -> None:
        monkeypatch.setattr(service_module, "check_groups_are_free", lambda *_: None)
        raise WriteConflictError("another writer is writing the same file groups")

    monkeypatch.setattr(service_module, "check_groups_are_free", conflict)
    detection = EarlyDetection(heartbeat=HeartbeatSettings(), version=table_version(9), known_commits=None)
    storage = MemoryStorage()
    time = "20260101000000001"
    service = MarkerService(storage, time, detection)
    one, other = (Marker(f"city={city}/f{city}-0_0-0-0_{time}.parquet", MarkerKind.MERGE) for city in ("oslo", "rome"))

    for marker in (one, other):
        with pytest.raises(WriteConflictError):
            service.announce([marker], groups_exist=True)

    assert storage.list_recursive(MARKERS_ROOT) == ()
