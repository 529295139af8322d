"""Rollbacks that are archived still say what became of the write that they took away."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import archive_file_of_version_6
from tests.support.crashes import rows
from tests.support.table_builder import every_version
from tests.support.tables import new_table, open_table

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.records import encode_avro_records
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.metadata.rollback import RollbackMetadata, encode_rollback_metadata
from pyhudi.format.timeline.archived_log import ArchivedInstant, parse_archive_file
from pyhudi.storage.memory import MemoryStorage

DEAD = "20240101000000000"
ROLLBACK = "20240101000000001"
DONE = "20240101000000002"


def archive_of_version_6() -> bytes:
    """A write that never ended, its rollback, and a write, state by state and out of order."""
    entries = [
        {"commitTime": DONE, "actionType": "commit", "actionState": "COMPLETED", "hoodieRollbackMetadata": None},
        {"commitTime": DEAD, "actionType": "commit", "actionState": "INFLIGHT", "hoodieRollbackMetadata": None},
        {
            "commitTime": ROLLBACK,
            "actionType": "rollback",
            "actionState": "COMPLETED",
            "hoodieRollbackMetadata": {"commitsRollback": [DEAD]},
        },
    ]
    return archive_file_of_version_6(entries)


def archive(storage: MemoryStorage, version: int) -> None:
    if version == 6:
        storage.put(".hoodie/archived/.commits_.archive.1_1-0-1", archive_of_version_6())
        return
    metadata = encode_rollback_metadata(
        RollbackMetadata(start_time=ROLLBACK, time_taken_ms=1, instant_time=DEAD, action="commit")
    )
    times, actions = [ROLLBACK, DONE], ["rollback", "commit"]
    columns = {"instantTime": times, "completionTime": times, "action": actions, "metadata": [metadata, b"x"]}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    folder, name = ".hoodie/timeline/history", f"{ROLLBACK}_{DONE}_0.parquet"
    storage.put(f"{folder}/{name}", data)
    manifest = {"files": [{"fileName": name, "fileLen": len(data)}]}
    storage.put(f"{folder}/manifest_1", json.dumps(manifest).encode())
    storage.put(f"{folder}/_version_", b"1")


@every_version
def test_a_write_whose_rollback_is_archived_was_rolled_back(version: int) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version).insert(rows((1, "oslo", 1, "a")).drop_columns(["_hoodie_is_deleted"]))
    archive(storage, version)
    table = open_table(storage)

    assert table.recovery.outcome_of(DEAD) == "rolled back"
    assert table.recovery.outcome_of(ROLLBACK) == "committed"
    assert table.recovery.outcome_of(DONE) == "committed"
    assert table.recovery.outcome_of("20240101000000003") == "unknown"


def test_only_completed_instants_are_taken_from_an_archive() -> None:
    assert list(parse_archive_file(archive_of_version_6(), path="a")) == [
        ArchivedInstant(DONE, "commit"),
        ArchivedInstant(ROLLBACK, "rollback", frozenset({DEAD})),
    ]


def test_an_archive_that_was_cut_off_anywhere_is_damage() -> None:
    data = archive_of_version_6()
    block = len(data) - data.rfind(b"#HUDI#")
    for cut in range(1, block, 7):
        with pytest.raises(CorruptDataError):
            list(parse_archive_file(data[:-cut], path="a"))


def test_an_archive_of_something_else_is_damage() -> None:
    avro = json.dumps({"type": "record", "name": "r", "fields": [{"name": "commitTime", "type": "string"}]})
    batch = pa.RecordBatch.from_pylist(
        [{"commitTime": DONE}], pa.schema([pa.field("commitTime", pa.string(), nullable=False)])
    )
    headers = {BlockHeader.SCHEMA: avro, BlockHeader.INSTANT_TIME: "0"}
    data = b"".join(encode_block(BlockType.AVRO_DATA, headers, encode_avro_records(batch, avro)))
    with pytest.raises(CorruptDataError, match="records that are not instants"):
        list(parse_archive_file(data, path="a"))
    headers = {BlockHeader.INSTANT_TIME: "0"}
    with pytest.raises(CorruptDataError, match="without instants"):
        list(parse_archive_file(b"".join(encode_block(BlockType.DELETE, headers, b"x")), path="a"))
