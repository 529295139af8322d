"""Commit metadata in both encodings, against the bodies that Hudi's own classes wrote."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, UnsafePathError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata import commit as commit_metadata
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA, ROLLBACK_PLAN
from pyhudi.format.metadata.commit import (
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import V6, V8, V9, TableVersion

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata"
PATH = "t/.hoodie/timeline/1.commit"
FIRST, SECOND = "20240101000000000", "20240102030405678"

# The same as in TimelineGolden.java.
CREATED = WriteStat(
    file_id="f-0",
    path=f"p=1/f-0_0-1-2_{SECOND}.parquet",
    partition_path="p=1",
    num_writes=3,
    num_inserts=3,
    total_write_bytes=9,
    file_size_in_bytes=9,
    runtime_stats=RuntimeStats(total_create_time=5),
    cdc_stats={f"p=1/.f-0_{SECOND}.log.1_0-1-2.cdc": 7},
)
APPENDED = WriteStat(
    file_id="g-0",
    path=f"p=2/.g-0_{SECOND}.log.1_0-0-0",
    partition_path="p=2",
    prev_commit=FIRST,
    num_writes=2,
    num_update_writes=2,
    log_version=1,
    log_offset=0,
    base_file=f"g-0_0-0-0_{FIRST}.parquet",
    log_files=(f".g-0_{SECOND}.log.1_0-0-0",),
)
COMMIT = CommitMetadata(
    operation=WriteOperation.UPSERT,
    stats_by_partition={"p=2": (APPENDED,), "p=1": (CREATED,)},
    extra={"schema": '{"type":"record"}'},
)
REPLACE = dataclasses.replace(COMMIT, operation=WriteOperation.INSERT_OVERWRITE, replaced_file_ids={"p=1": ("old-0",)})
CASES = [
    ("commit_v6.json", COMMIT, V6),
    ("replacecommit_v6.json", REPLACE, V6),
    ("commit_v9.avro", COMMIT, V9),
    ("replacecommit_v9.avro", REPLACE, V9),
]
FULL = WriteStat(
    **{
        field.name: 1 + number
        for number, field in enumerate(dataclasses.fields(WriteStat))
        if field.type in ("int", "int | None")
    },
    file_id="f",
    path="p/f",
    partition_path="p",
    prev_commit=None,
    prev_base_file="b",
    cdc_stats={"c": 1},
    runtime_stats=RuntimeStats(total_scan_time=1, total_create_time=2, total_upsert_time=3),
    temp_path="t",
    base_file="b",
    log_files=("l",),
)  # type: ignore[arg-type]

every_case = pytest.mark.parametrize(("name", "metadata", "version"), CASES, ids=[case[0] for case in CASES])
every_version = pytest.mark.parametrize("version", [V6, V8, V9], ids=lambda version: f"v{version.number}")


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def decode(values: dict[str, Any]) -> CommitMetadata:
    return decode_commit_metadata(json.dumps(values).encode(), path=PATH)


@every_case
def test_body_of_a_real_writer_decodes_to_what_it_wrote(
    name: str, metadata: CommitMetadata, version: TableVersion
) -> None:
    decoded = decode_commit_metadata(golden(name), path=PATH)
    assert decoded == metadata
    assert not decoded.unknown
    assert not any(stat.unknown for stats in decoded.stats_by_partition.values() for stat in stats)


@every_case
def test_body_of_ours_has_the_fields_of_a_real_writer(
    name: str, metadata: CommitMetadata, version: TableVersion
) -> None:
    ours, theirs = encode_commit_metadata(metadata, version), golden(name)
    if version is V6:
        assert json.loads(ours) == json.loads(theirs)
        return
    decoded, expected = decode_container(ours, path=PATH), decode_container(theirs, path=PATH)
    assert (decoded.name, decoded.values) == (expected.name, expected.values)


@every_version
def test_metadata_encoded_then_decoded_is_the_same(version: TableVersion) -> None:
    for metadata in (COMMIT, REPLACE, dataclasses.replace(REPLACE, replaced_file_ids={})):
        assert decode_commit_metadata(encode_commit_metadata(metadata, version), path=PATH) == metadata


def test_every_field_of_a_stat_survives_in_avro() -> None:
    metadata = CommitMetadata(
        operation=WriteOperation.COMPACT, stats_by_partition={"p": (FULL,)}, compacted=True, extra={}
    )
    assert decode_commit_metadata(encode_commit_metadata(metadata, V9), path=PATH) == metadata


def test_fields_that_0_15_does_not_know_stay_out_of_json() -> None:
    metadata = CommitMetadata(operation=WriteOperation.COMPACT, stats_by_partition={"p": (FULL,)})
    (stat,) = json.loads(encode_commit_metadata(metadata, V6))["partitionToWriteStats"]["p"]
    assert not {"prevBaseFile", "totalLogReadTimeMs", "totalLogFiles", "numUpdates"} & stat.keys()
    decoded = decode_commit_metadata(encode_commit_metadata(metadata, V6), path=PATH).stats_by_partition["p"][0]
    unsaid = {"prev_base_file": None, "total_log_read_time_ms": 0, "total_log_files": None, "num_updates": 0}
    assert decoded == dataclasses.replace(FULL, **unsaid)


@every_version
@pytest.mark.parametrize("operation", WriteOperation)
def test_operation_survives(operation: WriteOperation, version: TableVersion) -> None:
    metadata = CommitMetadata(operation=operation, stats_by_partition={})
    assert decode_commit_metadata(encode_commit_metadata(metadata, version), path=PATH) == metadata


@every_version
def test_workload_profile_without_a_path_survives(version: TableVersion) -> None:
    profile = CommitMetadata(
        operation=WriteOperation.UPSERT,
        stats_by_partition={"": (WriteStat(file_id="", num_inserts=3), WriteStat(file_id="f", prev_commit=FIRST))},
    )
    encoded = encode_commit_metadata(profile, version)
    decoded = decode_commit_metadata(encoded, path=PATH)
    assert decoded == profile
    values = json.loads(encoded) if version is V6 else decode_container(encoded, path=PATH).values
    assert [stat["path"] for stat in values["partitionToWriteStats"][""]] == [None, None]
    assert (decoded.paths(), decoded.file_groups()) == (frozenset(), {("", "f")})


def test_groups_paths_and_schema_are_taken_from_the_stats() -> None:
    assert COMMIT.file_groups() == {("p=1", "f-0"), ("p=2", "g-0")}
    assert COMMIT.paths() == {CREATED.path, APPENDED.path, f"p=1/.f-0_{SECOND}.log.1_0-1-2.cdc"}
    assert COMMIT.schema == '{"type":"record"}'
    assert dataclasses.replace(COMMIT, extra={}).schema is None


def test_minimal_stat_of_a_foreign_writer_decodes() -> None:
    decoded = decode({"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f.parquet"}]}, "extraMetadata": None})
    expected = WriteStat(file_id="f", path="p/f.parquet", partition_path="p", prev_commit=None)
    assert decoded == CommitMetadata(operation=WriteOperation.UNKNOWN, stats_by_partition={"p": (expected,)})


def test_fields_of_newer_writers_are_kept_in_both_encodings() -> None:
    stat = {"fileId": "f", "future": [1]}
    decoded = decode({"partitionToWriteStats": {"p": [stat]}, "operationType": "TELEPORT", "later": {"a": 1}})
    assert decoded.operation is WriteOperation.UNKNOWN
    assert decoded.unknown == {"later": {"a": 1}, "operationType": "TELEPORT"}
    assert decoded.stats_by_partition["p"][0].unknown == {"future": [1]}
    schema = {**COMMIT_METADATA, "fields": [*COMMIT_METADATA["fields"], {"name": "later", "type": "long"}]}
    assert decode_commit_metadata(encode_container(schema, {"later": 7}), path=PATH).unknown == {"later": 7}


def test_null_in_the_extra_metadata_of_json_is_no_entry() -> None:
    assert decode({"extraMetadata": {"a": None, "b": "c"}}).extra == {"b": "c"}


def test_empty_body_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="empty") as caught:
        decode_commit_metadata(b"", path=PATH)
    assert caught.value.context["path"] == PATH


@pytest.mark.parametrize("name", ["commit_v6.json", "replacecommit_v6.json", "commit_v9.avro"])
def test_body_cut_anywhere_is_refused(name: str) -> None:
    data = golden(name)
    for size in range(len(data)):
        with pytest.raises(CorruptDataError) as caught:
            decode_commit_metadata(data[:size], path=PATH)
        assert caught.value.context["path"] == PATH


@pytest.mark.parametrize(
    "values",
    [
        [],
        {"partitionToWriteStats": []},
        {"partitionToWriteStats": {"p": {}}},
        {"partitionToWriteStats": {"p": ["x"]}},
        {"partitionToWriteStats": {"p": [{"fileId": 1}]}},
        {"partitionToWriteStats": {"p": [{"numWrites": "1"}]}},
        {"partitionToWriteStats": {"p": [{"numWrites": True}]}},
        {"partitionToWriteStats": {"p": [{"numWrites": 1.0}]}},
        {"partitionToWriteStats": {"p": [{"logFiles": [1]}]}},
        {"partitionToWriteStats": {"p": [{"cdcStats": {"c": "1"}}]}},
        {"partitionToWriteStats": {"p": [{"runtimeStats": 1}]}},
        {"partitionToReplaceFileIds": {"p": "f"}},
        {"partitionToReplaceFileIds": {"p": [None]}},
        {"extraMetadata": {"schema": {}}},
        {"compacted": 1},
        {"operationType": 1},
    ],
    ids=json.dumps,
)
def test_field_of_the_wrong_type_is_refused(values: Any) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode(values)
    assert caught.value.context["path"] == PATH


def test_another_record_is_refused_by_its_name() -> None:
    with pytest.raises(CorruptDataError, match="HoodieRollbackPlan"):
        decode_commit_metadata(encode_container(ROLLBACK_PLAN, {}), path=PATH)


def test_json_that_is_nested_too_deep_or_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptDataError):
        decode_commit_metadata(b"[" * 100_000, path=PATH)
    monkeypatch.setattr(commit_metadata, "JSON_BYTES_MAX", 1)
    with pytest.raises(CorruptDataError, match="too large"):
        decode_commit_metadata(b"{}", path=PATH)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_body_with_flipped_bytes_gives_metadata_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(golden(data.draw(st.sampled_from([case[0] for case in CASES]))))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    decode_or_typed_error(bytes(damaged))


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_metadata_or_a_typed_error(data: bytes) -> None:
    decode_or_typed_error(data)
    decode_or_typed_error(b"{" + data)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["partitionToWriteStats", "extraMetadata", "p", "fileId"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_json_values)
@settings(max_examples=60, deadline=None)
def test_any_json_gives_metadata_or_a_typed_error(values: Any) -> None:
    decode_or_typed_error(json.dumps(values).encode())
    decode_or_typed_error(json.dumps({"partitionToWriteStats": values}).encode())


def decode_or_typed_error(data: bytes) -> None:
    with contextlib.suppress(CorruptDataError, UnsafePathError, UnsupportedFeatureError):
        decode_commit_metadata(data, path=PATH)


def test_metadata_crosses_process_borders() -> None:
    assert pickle.loads(pickle.dumps(COMMIT)) == COMMIT
