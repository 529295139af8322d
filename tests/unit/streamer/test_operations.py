"""The operations by which a streamer writes, and the table services beside its rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.ingestions import Landing, ids_in, ingestion, run_until_idle, settings
from tests.support.tables import open_table

from pyhudi.errors import ConfigError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import ingest
from pyhudi.streamer.loop import run_continuously
from pyhudi.streamer.result import StreamerResult

PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "note"}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "id"}


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path / "landing")


def put(landing: Landing, number: int, ids: list[int], note: str = "oslo") -> None:
    lines = "\n".join(f'{{"id": {key}, "note": "{note}"}}' for key in ids)
    landing.put_text(f"{number}.json", lines, ms=1_700_000_000_000 + number)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("INSERT", [1, 2, 2, 3, 9]),
        ("BULK_INSERT", [1, 2, 2, 3, 9]),
        ("UPSERT", [1, 2, 3, 9]),
        ("INSERT_OVERWRITE", [2, 3, 9]),
        ("INSERT_OVERWRITE_TABLE", [2, 3]),
        ("DELETE", [1, 9]),
        ("DELETE_PARTITION", [9]),
    ],
)
def test_batch_is_written_once_by_each_operation_after_batches_of_an_upsert(
    landing: Landing, table_type: str, op: str, wanted: list[int]
):
    storage = MemoryStorage()
    put(landing, 1, [1, 2])
    put(landing, 2, [9], "rome")
    run_until_idle(ingestion(settings(landing, PARTITIONED, op="UPSERT", table_type=table_type), storage))
    put(landing, 3, [2, 3])
    given = ingestion(settings(landing, PARTITIONED, op=op, table_type=table_type), storage)
    assert ingest(given) is not None
    assert ids_in(storage) == wanted
    assert ingest(given) is None
    put(landing, 4, [7], "bonn")
    again = ingestion(settings(landing, PARTITIONED, op="UPSERT", table_type=table_type), storage)
    assert run_until_idle(again) == 1
    assert ids_in(storage) == [*wanted[: wanted.index(9)], 7, 9] if 9 in wanted else [*wanted, 7]


def test_partitions_that_the_table_lacks_are_ignored_and_the_checkpoint_moves_on(landing: Landing):
    storage = MemoryStorage()
    ends = ingestion(settings(landing, PARTITIONED, op="DELETE_PARTITION"), storage)
    put(landing, 2, [1])
    put(landing, 3, [9], "rome")
    upserts = ingestion(settings(landing, PARTITIONED, op="UPSERT"), storage)
    assert run_until_idle(upserts) >= 1
    assert ids_in(storage) == [1, 9]
    put(landing, 4, [5])
    put(landing, 5, [5], "bonn")
    assert run_until_idle(ends) >= 1
    assert ids_in(storage) == [9]
    put(landing, 6, [5], "bonn")
    assert run_until_idle(ends) == 1
    assert ids_in(storage) == [9]


def test_names_of_partitions_to_delete_beside_the_rows_of_batches_are_refused(landing: Landing):
    named = {"hoodie.datasource.write.partitions.to.delete": "rome"}
    with pytest.raises(ConfigError, match="the rows of a batch say which partitions end"):
        settings(landing, PARTITIONED | named, op="DELETE_PARTITION")


def test_compaction_clustering_and_cleaning_run_beside_the_rounds_of_a_continuous_run(landing: Landing):
    beside = {
        **SORTED,
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clustering.async.enabled": "true",
        "hoodie.clustering.async.max.commits": "3",
        "hoodie.clean.commits.retained": "2",
    }
    storage, rounds = MemoryStorage(), 12
    given = settings(landing, beside, op="UPSERT", table_type="mor", continuous=True)
    put(landing, 0, [0, 1, 2])

    def ends(result: StreamerResult, _: int) -> bool:
        new = [100 + result.batches] if result.batches % 4 == 0 else []  # others are updates, which go to logs
        put(landing, result.batches, [result.batches % 3, *new])
        if result.batches % 3 == 0:
            open_table(storage).services.wait()
        return result.batches == rounds

    continuous = StreamerConfig("memory://t/table", continuous=True, post_write_termination=ends)
    result = run_continuously(ingestion(given, storage), continuous)
    assert (result.batches, result.rows) == (rounds, 3 + (rounds - 1) + 2)
    assert ids_in(storage) == [0, 1, 2, 104, 108]
    done = open_table(storage).inspect.timeline()["action"].to_pylist()
    assert {"commit", "deltacommit", "replacecommit", "clean"} <= set(done)


def test_no_round_begins_while_clusterings_are_behind(landing: Landing):
    storage, rounds = MemoryStorage(), 0
    given = settings(landing)
    put(landing, 1, [1])
    assert ingest(ingestion(given, storage)) is not None
    open_table(storage).services.schedule("clustering", hudi_options=SORTED)
    put(landing, 2, [2])

    def ends(result: StreamerResult, _: int) -> bool:
        nonlocal rounds
        rounds += 1
        assert result.batches == 0 or rounds > 2
        if rounds == 2:
            open_table(storage).services.run(only="clustering")
        return result.batches > 0

    waits = StreamerConfig("memory://t/table", continuous=True, max_pending_clustering=1, post_write_termination=ends)
    run_continuously(ingestion(given, storage), waits)
    assert (rounds, ids_in(storage)) == (3, [1, 2])
