"""Archive files of table version 6: what is written is what is read."""

from __future__ import annotations

import json

import pytest

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.container import encode_container
from pyhudi.format.metadata.avro_schemas import CLEAN_METADATA, CLEAN_PLAN, ROLLBACK_METADATA
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.archived_log import ArchivedInstant, parse_archive_file
from pyhudi.format.timeline.archived_log_writing import (
    INSTANTS_PER_BLOCK,
    archive_file_name,
    archived_state,
    encode_archive_file,
)
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.table_version import V6, V9

TIME = InstantTime("20240101000000000")
REACHED = "20240101000000500"
STAT = WriteStat(
    file_id="f", path="p=1/f.parquet", partition_path="p=1", num_writes=3, num_inserts=3, file_size_in_bytes=435
)
LOG = WriteStat(
    file_id="g", path="p=1/.g.log.1", partition_path="p=1", log_version=1, log_offset=0, base_file="b", log_files=("l",)
)
COMMIT = CommitMetadata(
    operation=WriteOperation.UPSERT, stats_by_partition={"p=1": (STAT, LOG)}, extra={"schema": "{}", "batch": "7"}
)
REPLACEMENT = CommitMetadata(
    operation=WriteOperation.INSERT_OVERWRITE,
    stats_by_partition={"p=1": (STAT,)},
    replaced_file_ids={"p=1": ("old",)},
)
ROLLBACK = {
    "startRollbackTime": TIME,
    "timeTakenInMillis": 1,
    "totalFilesDeleted": 1,
    "commitsRollback": ["20230101000000000"],
    "partitionMetadata": {
        "": {"partitionPath": "", "successDeleteFiles": ["x"], "failedDeleteFiles": [], "rollbackLogFiles": {}}
    },
}
CLEAN = {
    "startCleanTime": TIME,
    "timeTakenInMillis": 1,
    "totalFilesDeleted": 1,
    "earliestCommitToRetain": "",
    "partitionMetadata": {
        "p=1": {
            "partitionPath": "p=1",
            "policy": "KEEP_LATEST_COMMITS",
            "deletePathPatterns": ["f.parquet"],
            "successDeleteFiles": ["f.parquet"],
            "failedDeleteFiles": [],
        }
    },
}


def completed(action: Action) -> Instant:
    return Instant(TIME, action, InstantState.COMPLETED)


def read_back(instant: Instant, data: bytes) -> list[ArchivedInstant]:
    file = encode_archive_file([archived_state(instant, data, REACHED, path="p")], path="p")
    return list(parse_archive_file(file, path="p", details=True))


@pytest.mark.parametrize("version", [V6, V9], ids=str)
@pytest.mark.parametrize(
    ("action", "metadata"),
    [(Action.COMMIT, COMMIT), (Action.DELTA_COMMIT, COMMIT), (Action.REPLACE_COMMIT, REPLACEMENT)],
)
def test_completed_write_reads_back_with_every_field(version, action, metadata):
    [found] = read_back(completed(action), encode_commit_metadata(metadata, version))
    assert (found.instant_time, found.action) == (TIME, action.value)
    assert found.metadata == metadata


def test_replacement_without_replaced_groups_in_json_is_a_replacement():
    body = json.dumps({"partitionToWriteStats": {}, "compacted": False, "extraMetadata": {}}).encode()
    [found] = read_back(completed(Action.REPLACE_COMMIT), body)
    assert found.metadata is not None
    assert found.metadata.replaced_file_ids == {}


def test_rollback_reads_back_with_what_it_rolled_back():
    [found] = read_back(completed(Action.ROLLBACK), encode_container(ROLLBACK_METADATA, ROLLBACK))
    assert found.rolled_back == {"20230101000000000"}


def test_clean_reads_back_with_its_files():
    [found] = read_back(completed(Action.CLEAN), encode_container(CLEAN_METADATA, CLEAN))
    assert found.cleaned == {"p=1/f.parquet"}


def test_restore_is_archived_without_its_content():
    [found] = read_back(completed(Action.RESTORE), b"anything")
    assert (found.action, found.metadata) == ("restore", None)


@pytest.mark.parametrize("action", [Action.COMMIT, Action.REPLACE_COMMIT, Action.CLEAN, Action.COMPACTION])
@pytest.mark.parametrize("state", [InstantState.REQUESTED, InstantState.INFLIGHT])
def test_pending_state_without_content_is_not_a_completed_instant(action, state):
    assert read_back(Instant(TIME, action, state), b"") == []


def test_more_states_than_a_block_holds_all_read_back_in_order():
    body = encode_commit_metadata(COMMIT, V6)
    times = [InstantTime(str(20240101000000000 + n)) for n in range(2 * INSTANTS_PER_BLOCK + 1)]
    states = [
        archived_state(Instant(time, Action.COMMIT, InstantState.COMPLETED), body, REACHED, path="p") for time in times
    ]
    file = encode_archive_file(states, path="p")
    assert file.count(b"#HUDI#") == 3
    assert [found.instant_time for found in parse_archive_file(file, path="p")] == times


def test_empty_completed_write_is_named_as_damaged():
    with pytest.raises(CorruptDataError, match="empty"):
        archived_state(completed(Action.COMMIT), b"", REACHED, path="p")


def test_record_of_another_kind_is_named_as_damaged():
    plan = encode_container(CLEAN_PLAN, {"policy": "x"})
    for action in (Action.CLEAN, Action.COMMIT):
        with pytest.raises(CorruptDataError, match="another record"):
            archived_state(completed(action), plan, REACHED, path="p")


def test_value_of_a_wrong_type_is_named_as_damaged():
    state = archived_state(completed(Action.COMMIT), b'{"operationType": 7}', REACHED, path="p")
    with pytest.raises(CorruptDataError, match="does not fit") as raised:
        encode_archive_file([state], path="archive")
    assert raised.value.context["instant"] == TIME


def test_pending_clustering_by_its_newer_name_is_refused():
    with pytest.raises(UnsupportedFeatureError):
        archived_state(Instant(TIME, Action.CLUSTERING, InstantState.INFLIGHT), b"", REACHED, path="p")


def test_names_of_archive_files_are_those_of_jvm_hudi():
    assert archive_file_name(3) == ".commits_.archive.3_1-0-1"
