"""Pre-commit validators: what they see, what their refusal leaves, and what JVM Hudi's options say."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.options_hooks import EQUALITY, INEQUALITY, SINGLE_RESULT
from pyhudi.errors import ConfigError, UnsupportedFeatureError, ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])
VALIDATORS = "hoodie.precommit.validators"
KINDS = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]


def rows(*ids: int, city: str = "oslo", fare: float = 1.0, ts: int = 1) -> pa.Table:
    count = len(ids)
    columns = {"id": list(ids), "city": [city] * count, "fare": [fare] * count, "ts": [ts] * count}
    return pa.table(columns, schema=SCHEMA)


def table(folder: Path, kind: str = "cow", version: int = 9) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        folder / "rides",
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type=kind,
        hudi_options={"hoodie.write.table.version": str(version)},
    )


def sql(name: str, queries: str) -> dict[str, str]:
    option = {EQUALITY: "equality", INEQUALITY: "inequality", SINGLE_RESULT: "single.value"}[name]
    return {VALIDATORS: f"org.apache.hudi.client.validator.{name}", f"{VALIDATORS}.{option}.sql.queries": queries}


NO_NEGATIVE_FARE = sql(SINGLE_RESULT, "select count(*) from <TABLE_NAME> where fare < 0#0")


def files_of(folder: Path) -> set[str]:
    """All files but those of the timeline."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if not str(path).startswith((".hoodie/timeline", ".hoodie/20"))}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], dict[str, str]]:
    """Options that name a function."""

    def name(function: Callable[..., Any]) -> dict[str, str]:
        module = types.ModuleType("validators_of_a_test")
        module.check = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "validators_of_a_test", module)
        return {VALIDATORS: "validators_of_a_test:check"}

    return name


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_refused_write_leaves_nothing_visible(tmp_path: Path, kind: str, version: int) -> None:
    rides = table(tmp_path, kind, version)
    rides.upsert(rows(1, 2), hudi_options=NO_NEGATIVE_FARE)
    before, timeline = files_of(tmp_path / "rides"), rides.refresh().inspect.history().num_rows

    with pytest.raises(ValidationError, match="0 was expected, and 1 is there"):
        rides.upsert(rows(1, fare=-1.0, ts=2), hudi_options=NO_NEGATIVE_FARE)

    assert files_of(tmp_path / "rides") - before == set() or (kind, version) == ("mor", 6)  # its log has a block undone
    now = rides.refresh()
    assert now.inspect.history().num_rows == timeline
    assert now.scan(["fare"]).to_arrow()["fare"].to_pylist() == [1.0, 1.0]
    rides.upsert(rows(1, fare=3.0, ts=3), hudi_options=NO_NEGATIVE_FARE)
    assert sorted(rides.refresh().scan(["fare"]).to_arrow()["fare"].to_pylist()) == [1.0, 3.0]


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_validator_sees_the_changed_partitions_before_and_after(
    tmp_path: Path, kind: str, version: int, named: Callable[[Callable[..., Any]], dict[str, str]]
) -> None:
    rides = table(tmp_path, kind, version)
    rides.insert(rows(1, 2))
    rides.insert(rows(7, city="rome"))
    seen = []

    def check(before: pa.RecordBatchReader, after: pa.RecordBatchReader) -> None:
        states = (before.read_all(), after.read_all())
        seen.append([sorted(zip(one["id"].to_pylist(), one["fare"].to_pylist(), strict=True)) for one in states])

    rides.upsert(rows(2, 3, fare=5.0, ts=2), hudi_options=named(check))
    rides.delete(rows(1), hudi_options=named(check))
    rides.insert_overwrite(rows(9), hudi_options=named(check))

    assert seen == [
        [[(1, 1.0), (2, 1.0)], [(1, 1.0), (2, 5.0), (3, 5.0)]],
        [[(1, 1.0), (2, 5.0), (3, 5.0)], [(2, 5.0), (3, 5.0)]],
        [[(2, 5.0), (3, 5.0)], [(9, 1.0)]],
    ]


def test_first_write_is_compared_with_no_rows(
    tmp_path: Path, named: Callable[[Callable[..., Any]], dict[str, str]]
) -> None:
    seen = []
    check = named(lambda before, after: seen.append((before.read_all().num_rows, after.read_all().num_rows)))
    table(tmp_path).bulk_insert(rows(1, 2), hudi_options=check)
    assert seen == [(0, 2)]


@pytest.mark.parametrize("answer", [False, "three rows are gone", ValueError("three rows are gone")])
def test_answer_of_a_function_refuses(
    tmp_path: Path, named: Callable[[Callable[..., Any]], dict[str, str]], answer: Any
) -> None:
    def check(before: pa.RecordBatchReader, after: pa.RecordBatchReader) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    rides = table(tmp_path)
    with pytest.raises(ValidationError, match="False" if answer is False else "three rows are gone"):
        rides.upsert(rows(1), hudi_options=named(check))
    assert rides.refresh().scan().count() == 0


def test_equality_and_inequality_compare_both_states(tmp_path: Path) -> None:
    rides = table(tmp_path)
    rides.upsert(rows(1, 2))
    same_keys = sql(EQUALITY, "select id from <TABLE_NAME>;select count(*) from <TABLE_NAME>")
    other_sum = sql(INEQUALITY, "select sum(fare) from <TABLE_NAME>")
    both = same_keys | other_sum | {VALIDATORS: f"{EQUALITY},{INEQUALITY}"}

    rides.upsert(rows(1, fare=4.0, ts=2), hudi_options=both)
    with pytest.raises(ValidationError, match="has changed: select id"):
        rides.upsert(rows(3, ts=3), hudi_options=both)
    with pytest.raises(ValidationError, match="has not changed: select sum"):
        rides.upsert(rows(1, fare=4.0, ts=4), hudi_options=both)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select id from <TABLE_NAME>#1", "must give one value"),
        ("select nonsense from <TABLE_NAME>#1", "DuckDB"),
        ("select max(fare) > 5 from <TABLE_NAME>#true", "true was expected, and false is there"),
        ("select max(city) from <TABLE_NAME> where id > 9#oslo", "oslo was expected, and null is there"),
    ],
)
def test_query_without_the_expected_value_refuses(tmp_path: Path, query: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        table(tmp_path).upsert(rows(1, 2), hudi_options=sql(SINGLE_RESULT, query))


def test_policy_of_a_warning_commits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rides = table(tmp_path)
    with caplog.at_level(logging.WARNING, "pyhudi"):
        rides.upsert(rows(1, fare=-1.0), hudi_options=NO_NEGATIVE_FARE | {f"{VALIDATORS}.failure.policy": "WARN_LOG"})
    assert "would refuse" in caplog.text
    assert rides.refresh().scan().count() == 1


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({VALIDATORS: EQUALITY}, ConfigError, "needs hoodie.precommit.validators.equality.sql.queries"),
        ({VALIDATORS: "org.apache.hudi.client.validator.Other"}, UnsupportedFeatureError, "has no validator"),
        ({VALIDATORS: "no_such_module:check"}, ConfigError, "cannot be imported"),
        (sql(EQUALITY, "select 1"), ConfigError, "TABLE_NAME"),
        (sql(SINGLE_RESULT, "select count(*) from <TABLE_NAME>"), ConfigError, "its result"),
    ],
)
def test_validator_that_cannot_be_asked_is_refused(
    tmp_path: Path, given: dict[str, str], error: type[Exception], match: str
) -> None:
    rides = table(tmp_path)
    with pytest.raises(error, match=match):
        rides.upsert(rows(1), hudi_options=given)
    assert rides.refresh().scan().count() == 0
