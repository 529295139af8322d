"""Requests of replace commits, rollback plans and rollback metadata, against those of Hudi's own classes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, InternalError, UnsafePathError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA, ROLLBACK_METADATA, ROLLBACK_PLAN
from pyhudi.format.metadata.clustering import ClusteredSlice, ClusteringGroup, ClusteringPlan
from pyhudi.format.metadata.replace import (
    RequestedReplaceMetadata,
    decode_requested_replace_metadata,
    encode_requested_replace_metadata,
    requested_replace,
)
from pyhudi.format.metadata.rollback import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from pyhudi.format.metadata.write_operation import WriteOperation

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata"
PATH = "t/.hoodie/timeline/1.rollback"
SECOND = "20240102030405678"
FILE = f"/t/p=1/f-0_0-1-2_{SECOND}.parquet"

# The same as in TimelineGolden.java.
PLAN = RollbackPlan(
    instant_time=SECOND,
    action="commit",
    requests=(
        RollbackRequest(partition_path="p=1", file_id="f-0", latest_base_instant=SECOND, files_to_be_deleted=(FILE,)),
    ),
    is_ours=False,
)
METADATA = RollbackMetadata(
    start_time="20240102030406000",
    time_taken_ms=12,
    instant_time=SECOND,
    action="commit",
    partitions={"p=1": RollbackPartition(partition_path="p=1", deleted=(FILE,))},
)
CLUSTERING = RequestedReplaceMetadata(
    operation=WriteOperation.CLUSTER,
    extra={},
    version=1,
    plan=ClusteringPlan(
        groups=(
            ClusteringGroup(
                slices=(
                    ClusteredSlice(
                        partition_path="p=1", file_id="f-0", data_file="f-0_0-0-0_20240101000000000.parquet"
                    ),
                ),
                output_files=1,
                metrics={"TOTAL_IO_MB": 2.0},
            ),
        ),
        keeps_meta=True,
    ),
)

DECODERS: dict[str, Callable[..., Any]] = {
    "rollback_plan.avro": decode_rollback_plan,
    "rollback.avro": decode_rollback_metadata,
    "overwrite_requested.avro": decode_requested_replace_metadata,
    "clustering_requested.avro": decode_requested_replace_metadata,
}
every_body = pytest.mark.parametrize("name", DECODERS)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rollback_plan.avro", PLAN),
        ("rollback.avro", METADATA),
        ("overwrite_requested.avro", RequestedReplaceMetadata()),
        ("clustering_requested.avro", CLUSTERING),
    ],
)
def test_body_of_a_real_writer_decodes_to_what_it_wrote(name: str, expected: Any) -> None:
    decoded = DECODERS[name](golden(name), path=PATH)
    assert decoded == expected
    assert not decoded.unknown


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("rollback_plan.avro", encode_rollback_plan(PLAN)),
        ("rollback.avro", encode_rollback_metadata(METADATA)),
        (
            "overwrite_requested.avro",
            encode_requested_replace_metadata(requested_replace(WriteOperation.INSERT_OVERWRITE_TABLE)),
        ),
        ("clustering_requested.avro", encode_requested_replace_metadata(CLUSTERING, table_uri="file:/t")),
    ],
)
def test_body_of_ours_is_the_record_of_a_real_writer(name: str, encoded: bytes) -> None:
    theirs = decode_container(golden(name), path=PATH)
    ours = decode_container(encoded, path=PATH)
    assert (ours.name, ours.values) == (theirs.name, theirs.values)


def test_request_of_delete_partition_names_the_operation() -> None:
    encoded = encode_requested_replace_metadata(requested_replace(WriteOperation.DELETE_PARTITION))
    assert decode_container(encoded, path=PATH).values == {
        "operationType": "DELETE_PARTITION",
        "clusteringPlan": None,
        "extraMetadata": {},
        "version": 1,
    }
    assert decode_requested_replace_metadata(encoded, path=PATH) == requested_replace(WriteOperation.DELETE_PARTITION)


def test_request_of_an_unknown_operation_decodes_as_unknown() -> None:
    data = encode_container(REQUESTED_REPLACE_METADATA, {"operationType": "TELEPORT"})
    assert decode_requested_replace_metadata(data, path=PATH).operation is WriteOperation.UNKNOWN


def test_clustering_plan_without_the_path_of_its_table_is_not_written() -> None:
    with pytest.raises(InternalError):
        encode_requested_replace_metadata(CLUSTERING)


def test_clustering_of_a_group_without_id_is_refused() -> None:
    plan = {"inputGroups": [{"slices": [{"fileId": None, "partitionPath": "p"}]}]}
    data = encode_container(REQUESTED_REPLACE_METADATA, {"clusteringPlan": plan})
    with pytest.raises(CorruptDataError, match="fileId"):
        decode_requested_replace_metadata(data, path=PATH)


@pytest.mark.parametrize("is_ours", [True, False])
def test_every_field_of_a_rollback_survives(is_ours: bool) -> None:
    request = dataclasses.replace(PLAN.requests[0], log_blocks_to_be_deleted={"/t/log": 105})
    plan = dataclasses.replace(PLAN, requests=(request, RollbackRequest(partition_path="")), is_ours=is_ours)
    assert decode_rollback_plan(encode_rollback_plan(plan), path=PATH) == plan
    partition = RollbackPartition(
        partition_path="p=1",
        deleted=(FILE, "b"),
        failed=("c",),
        rollback_log_files={"d": 105},
        log_files_from_failed_commit={"e": 1},
    )
    metadata = dataclasses.replace(METADATA, partitions={"p=1": partition})
    assert decode_rollback_metadata(encode_rollback_metadata(metadata), path=PATH) == metadata
    assert decode_container(encode_rollback_metadata(metadata), path=PATH).values["totalFilesDeleted"] == 2


@pytest.mark.parametrize("instant", [None, {"commitTime": "", "action": ""}])
def test_plan_without_an_instant_is_refused(instant: dict[str, str] | None) -> None:
    data = encode_container(ROLLBACK_PLAN, {"instantToRollback": instant})
    if instant is None:
        with pytest.raises(CorruptDataError, match="instantToRollback"):
            decode_rollback_plan(data, path=PATH)
    else:
        with pytest.raises(UnsafePathError, match="is empty"):
            decode_rollback_plan(data, path=PATH)


@pytest.mark.parametrize("times", [[], ["1", "2"]])
def test_metadata_of_none_or_several_instants_is_refused(times: list[str]) -> None:
    values = {**decode_container(golden("rollback.avro"), path=PATH).values, "commitsRollback": times}
    with pytest.raises(CorruptDataError, match="commitsRollback"):
        decode_rollback_metadata(encode_container(ROLLBACK_METADATA, values), path=PATH)


def test_metadata_of_an_older_writer_has_no_action() -> None:
    values = {**decode_container(golden("rollback.avro"), path=PATH).values, "instantsRollback": []}
    decoded = decode_rollback_metadata(encode_container(ROLLBACK_METADATA, values), path=PATH)
    assert (decoded.instant_time, decoded.action) == (SECOND, "")


@every_body
def test_another_record_is_refused(name: str) -> None:
    other = "commit_v9.avro"
    with pytest.raises(CorruptDataError, match="the record in the file is not"):
        DECODERS[name](golden(other), path=PATH)


@every_body
def test_body_cut_anywhere_is_refused(name: str) -> None:
    data = golden(name)
    for size in range(len(data)):
        with pytest.raises(CorruptDataError) as caught:
            DECODERS[name](data[:size], path=PATH)
        assert caught.value.context["path"] == PATH


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_body_with_flipped_bytes_gives_a_value_or_a_typed_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DECODERS)))
    damaged = bytearray(golden(name))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptDataError, UnsafePathError, UnsupportedFeatureError):
        DECODERS[name](bytes(damaged), path=PATH)


@given(st.binary(max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_bytes_are_refused(data: bytes) -> None:
    for decode in DECODERS.values():
        with pytest.raises(CorruptDataError):
            decode(data, path=PATH)
