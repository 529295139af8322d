"""Intents to commit that come and go while they are read."""

from __future__ import annotations

from typing import Any

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.intents import Intent, intent_path, put_intent, standing_intents


def test_an_intent_that_goes_while_it_is_read_hides_no_other_one() -> None:
    inner = MemoryStorage()
    metadata = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={})
    for instant_time in ("20260101000000001", "20260101000000002"):
        put_intent(inner, Intent(instant_time, metadata, UniqueKeys.NOWHERE), table_version(9))

    class StoreThatWithdrawsAnIntent(FaultStorage):
        def read(self, path: str, **part: Any) -> bytes:
            self.inner.delete(intent_path("20260101000000001"))
            return super().read(path, **part)

    found = standing_intents(StoreThatWithdrawsAnIntent(inner), besides="")

    assert [one.instant_time for one in found] == ["20260101000000002"]
