"""What a round costs stays what it was, however many rounds there were before it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from tests.support.ingestions import ingestion
from tests.support.tables import StepClock, environment, open_table

from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.loop import run_continuously
from pyhudi.streamer.result import StreamerResult
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources.protocol import Pull
from pyhudi.testing.faults import FaultStorage

ROUNDS = 120
CYCLE = 30
"""Rounds after which compaction, cleaning and archiving have all been there as often as before."""


@dataclass(frozen=True)
class Endless:
    """A source with ten rows more in each round, of a hundred keys."""

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull:
        del limit
        number = int(after.text or 0)
        ids = pa.array([(number * 10 + row) % 100 for row in range(10)], pa.int64())
        rows = pa.table({"id": ids, "note": [f"round {number}"] * 10})
        return Pull(reached=Checkpoint(text=str(number + 1)), read=lambda *_: rows, items=10)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.timeout(300)
def test_hundreds_of_rounds_cost_no_more_requests_or_files_than_the_first_ones(table_type: str):
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.streamer.source.dfs.root": "/none",
        "hoodie.datasource.compaction.async.enable": "false",
        "hoodie.compact.inline": "true",
        "hoodie.keep.min.commits": "12",
        "hoodie.keep.max.commits": "15",
        "hoodie.clean.commits.retained": "10",
    }
    config = StreamerConfig(
        "memory://t/table", table_type=table_type, hoodie_conf=options, continuous=True, min_sync_interval_seconds=30
    )
    inner = MemoryStorage()
    storage = FaultStorage(inner)
    streamer = replace(ingestion(settings_of(config), storage, environment(StepClock())), source=Endless())
    requests, files = list[int](), list[int]()

    def ends(result: StreamerResult, idle: int) -> bool:
        assert idle == 0
        if result.batches % CYCLE == 0:
            requests.append(len(storage.operations))
            storage.operations.clear()
            files.append(len(inner.list_recursive("")))
        return result.batches == ROUNDS

    run_continuously(streamer, replace(config, post_write_termination=ends))
    assert max(requests[2:]) <= 1.05 * requests[1]  # the first ones have nothing to clean or to archive yet
    assert max(files[2:]) <= 1.25 * max(files[:2])
    assert open_table(inner).scan().count() == 100
