"""Compaction plans as bytes: against plans of JVM Hudi, round trips, damage, and names that would lead elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, UnsafePathError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import COMPACTION_PLAN, ROLLBACK_PLAN
from pyhudi.format.metadata.compaction import (
    LOG_COMPACTOR,
    CompactionOperation,
    CompactionPlan,
    decode_compaction_plan,
    encode_compaction_plan,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "compaction_plans"
PLAN_OF_HUDI = (GOLDEN / "compaction_1.2.0.avro").read_bytes()
LOG_PLAN_OF_HUDI = (GOLDEN / "log_compaction_1.2.0.avro").read_bytes()
every_plan = pytest.mark.parametrize("plan", [PLAN_OF_HUDI, LOG_PLAN_OF_HUDI], ids=["compaction", "log compaction"])
PATH = "t/.hoodie/timeline/1.compaction.requested"
GROUP = "74b7207f-361d-436a-9c39-44eb947693fb-0"
BASE = f"{GROUP}_0-14-18_20261121153758711.parquet"
LOG = f".{GROUP}_20261121153805198.log.1_0-30-44"

OPERATION = CompactionOperation(
    file_id=GROUP,
    partition_path="p=2024-01-01",
    base_instant_time="20261121153758711",
    delta_files=(LOG,),
    data_file=BASE,
    metrics={"TOTAL_LOG_FILES": 1.0},
)


def embedded_schema(plan: bytes) -> Any:
    """The schema in the header of a container: the JSON object that begins after its key."""
    text = plan[plan.index(b"{") :].decode(errors="replace")
    return json.JSONDecoder().raw_decode(text)[0]


def without_notes(schema: Any) -> Any:
    """A schema without the remarks that mean nothing to a decoder."""
    if isinstance(schema, dict):
        return {key: without_notes(value) for key, value in schema.items() if key != "doc"}
    return [without_notes(value) for value in schema] if isinstance(schema, list) else schema


def body_of(**changes: Any) -> bytes:
    """A plan of one operation, some of whose fields are as given."""
    operation = {
        "baseInstantTime": "1",
        "deltaFilePaths": [LOG],
        "dataFilePath": BASE,
        "fileId": GROUP,
        "partitionPath": "p",
        "metrics": None,
        "bootstrapFilePath": None,
    }
    return encode_container(COMPACTION_PLAN, {"operations": [{**operation, **changes}], "version": 2})


def test_plan_of_jvm_hudi_decodes_to_what_it_planned() -> None:
    plan = decode_compaction_plan(PLAN_OF_HUDI, path=PATH)

    assert not plan.is_log_compaction
    assert (plan.version, plan.compactor_class, plan.preserve_meta, plan.missing_partitions) == (2, None, False, ())
    assert not plan.unknown
    assert [operation.partition_path[-2:] for operation in plan.operations] == ["01", "02", "03"]
    assert plan.operations[0] == dataclasses.replace(
        OPERATION,
        delta_files=(LOG, f".{GROUP}_20261121153815219.log.1_0-46-64"),
        metrics={
            "TOTAL_LOG_FILES": 2.0,
            "TOTAL_LOG_FILES_SIZE": 2734.0,
            "TOTAL_IO_READ_MB": 0.0,
            "TOTAL_IO_WRITE_MB": 0.0,
            "TOTAL_IO_MB": 0.0,
        },
    )


def test_log_compaction_plan_of_jvm_hudi_says_that_it_is_one() -> None:
    plan = decode_compaction_plan(LOG_PLAN_OF_HUDI, path=PATH)

    assert plan.is_log_compaction
    assert plan.preserve_meta
    assert [len(operation.delta_files) for operation in plan.operations] == [3, 2, 2]
    assert all(operation.data_file for operation in plan.operations)


@every_plan
def test_plan_of_ours_is_the_record_of_jvm_hudi(plan: bytes) -> None:
    encoded = encode_compaction_plan(decode_compaction_plan(plan, path=PATH))

    ours, theirs = decode_container(encoded, path=PATH), decode_container(plan, path=PATH)
    assert (ours.name, ours.values) == (theirs.name, theirs.values)


@every_plan
def test_schema_of_ours_is_that_of_jvm_hudi(plan: bytes) -> None:
    assert without_notes(embedded_schema(plan)) == COMPACTION_PLAN


def test_every_field_of_a_plan_survives() -> None:
    bare = CompactionOperation(file_id=GROUP, partition_path="", base_instant_time="1", delta_files=())
    plan = CompactionPlan(
        operations=(dataclasses.replace(OPERATION, bootstrap_file="file:/elsewhere/f.parquet"), bare),
        extra={"a": "b"},
        compactor_class=LOG_COMPACTOR,
        compactor_params={"c": "d"},
        preserve_meta=True,
        missing_partitions=("p=1", "p=2"),
    )

    decoded = decode_compaction_plan(encode_compaction_plan(plan), path=PATH)

    assert decoded == plan
    assert decoded.is_log_compaction


def test_fields_that_a_writer_left_out_are_empty() -> None:
    plan = decode_compaction_plan(encode_container(COMPACTION_PLAN, {"version": None}), path=PATH)
    assert plan == CompactionPlan(operations=(), version=None)
    operation = decode_compaction_plan(
        body_of(deltaFilePaths=None, dataFilePath=None, partitionPath=None), path=PATH
    ).operations[0]
    assert (operation.partition_path, operation.delta_files, operation.data_file) == ("", (), None)
    assert operation.metrics == {}


def test_field_of_a_newer_writer_is_kept_as_unknown() -> None:
    schema = {**COMPACTION_PLAN, "fields": [*COMPACTION_PLAN["fields"], {"name": "priority", "type": "int"}]}
    plan = decode_compaction_plan(encode_container(schema, {"version": 2, "priority": 7}), path=PATH)
    assert plan.unknown == {"priority": 7}


@pytest.mark.parametrize("name", [f"../{BASE}", f"p/{BASE}", f"/{BASE}", "..", ".", f"p\\{BASE}", f"{BASE}\n"])
@pytest.mark.parametrize("field", ["dataFilePath", "deltaFilePaths", "fileId"])
def test_name_with_a_folder_is_refused(field: str, name: str) -> None:
    with pytest.raises(UnsafePathError) as caught:
        decode_compaction_plan(body_of(**{field: [name] if field == "deltaFilePaths" else name}), path=PATH)
    assert caught.value.context["path"] == PATH


@pytest.mark.parametrize("partition", ["..", "a/../b", "/a", "a/", "a//b", "a/./b", "a\\b", "a\x00b"])
def test_partition_outside_of_the_table_is_refused(partition: str) -> None:
    with pytest.raises(UnsafePathError):
        decode_compaction_plan(body_of(partitionPath=partition), path=PATH)


@pytest.mark.parametrize(
    "changes",
    [
        {"fileId": None},
        {"fileId": ""},
        {"baseInstantTime": None},
        {"deltaFilePaths": [BASE]},
        {"dataFilePath": LOG},
        {"dataFilePath": "readme.txt"},
        {"fileId": "another-0"},
    ],
    ids=str,
)
def test_operation_that_cannot_be_executed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode_compaction_plan(body_of(**changes), path=PATH)
    assert caught.value.context["path"] == PATH


def test_metric_that_is_no_number_is_refused() -> None:
    texts = {"name": "metrics", "type": {"type": "map", "values": "string"}}
    operation = COMPACTION_PLAN["fields"][0]["type"][1]["items"]
    fields = [texts if each["name"] == "metrics" else each for each in operation["fields"]]
    operations = {"name": "operations", "type": {"type": "array", "items": {**operation, "fields": fields}}}
    values = {"operations": [{"baseInstantTime": "1", "fileId": GROUP, "metrics": {"TOTAL_IO_MB": "much"}}]}
    data = encode_container({**COMPACTION_PLAN, "fields": [operations]}, values)
    with pytest.raises(CorruptDataError, match="TOTAL_IO_MB"):
        decode_compaction_plan(data, path=PATH)


def test_file_group_named_twice_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="twice"):
        decode_compaction_plan(encode_compaction_plan(CompactionPlan(operations=(OPERATION, OPERATION))), path=PATH)


def test_another_record_is_refused() -> None:
    data = encode_container(ROLLBACK_PLAN, {"version": 1})
    with pytest.raises(CorruptDataError, match="not that of its file name"):
        decode_compaction_plan(data, path=PATH)


def test_body_cut_anywhere_is_refused() -> None:
    for size in range(len(PLAN_OF_HUDI)):
        with pytest.raises(CorruptDataError) as caught:
            decode_compaction_plan(PLAN_OF_HUDI[:size], path=PATH)
        assert caught.value.context["path"] == PATH


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_body_with_flipped_bytes_gives_a_plan_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(PLAN_OF_HUDI)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptDataError, UnsafePathError, UnsupportedFeatureError):
        decode_compaction_plan(bytes(damaged), path=PATH)


@st.composite
def operations(draw: st.DrawFn) -> CompactionOperation:
    file_id = f"{draw(st.uuids())}-{draw(st.integers(0, 99))}"
    logs = draw(st.lists(st.integers(1, 10**6), max_size=4, unique=True))
    return CompactionOperation(
        file_id=file_id,
        partition_path="/".join(draw(st.lists(st.from_regex(r"[a-zé =%-]{1,6}", fullmatch=True), max_size=3))),
        base_instant_time=draw(st.from_regex(r"[0-9]{1,17}", fullmatch=True)),
        delta_files=tuple(f".{file_id}_20240101000000000.log.{version}_0-1-2" for version in sorted(logs)),
        data_file=draw(st.sampled_from([None, f"{file_id}_1-2-3_20240101000000000.parquet"])),
        metrics=draw(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3)),
    )


@given(
    st.lists(operations(), max_size=4, unique_by=lambda each: each.file_id),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.booleans(),
    st.none() | st.lists(st.from_regex(r"[a-zé =%-]{1,6}", fullmatch=True), max_size=2).map(tuple),
)
@settings(max_examples=40, deadline=None)
def test_plan_survives_its_bytes(
    ops: list[CompactionOperation], extra: dict[str, str], is_log: bool, missing: tuple[str, ...] | None
) -> None:
    plan = CompactionPlan(
        operations=tuple(ops),
        extra=extra,
        compactor_class=LOG_COMPACTOR if is_log else None,
        preserve_meta=is_log,
        missing_partitions=missing,
    )
    encoded = encode_compaction_plan(plan)
    assert decode_compaction_plan(encoded, path=PATH) == plan
    assert encode_compaction_plan(plan) == encoded
