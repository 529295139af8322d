"""Commands that look at rows: `sample`, `query`, `lookup`, `changes`, `diff`, `explain`; and `stats`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.commands.conditions import conditions_of

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])


def rows(*values: tuple[int, str, float, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Three rides in two cities, of which one became dearer and one was deleted."""
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city", ordering_fields="ts"
    )
    table.insert(rows((1, "oslo", 9.5, 1), (2, "rome", 7.0, 1)))
    table.upsert(rows((2, "rome", 8.0, 2), (3, "rome", 5.5, 2)))
    table.delete(rows((1, "oslo", 0.0, 3)).select(["id", "city"]))
    return str(tmp_path / "t")


def instants(path: str) -> list[str]:
    return pyhudi.HudiTable.for_path(path).inspect.timeline()["instant"].to_pylist()


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], [2, 3]),
        (["--where", "fare > 6"], [2]),
        (["--where", "city in oslo,rome", "--where", "id != 2"], [3]),
        (["--where", "city='rome'"], [2, 3]),
        (["--where", "city not in (rome)"], []),
        (["--limit", "0"], []),
    ],
)
def test_sample_gives_rows_that_meet_all_conditions(
    path: str, arguments: list[str], ids: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(["sample", path, *arguments], capsys)
    assert sorted(row["id"] for row in found) == ids
    assert all(set(row) == set(SCHEMA.names) for row in found)


def test_sample_of_an_earlier_moment_has_the_rows_of_then(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(["sample", path, "--as-of", instants(path)[0], "--columns", "id, fare"], capsys)
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "fare": 9.5}, {"id": 2, "fare": 7.0}]


@pytest.mark.parametrize("condition", ["fare", "fare > much", "nothing = 1", "fare ~ 1"])
@pytest.mark.parametrize("command", ["sample", "explain", "changes"])
def test_condition_that_is_none_is_refused(
    command: str, condition: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, path, "--where", condition]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("city = 'rome' and fare > 3", "repeat --where"),
        ("city = rome AND fare > 3", "repeat --where"),
        ("city in ('rome', 'oslo') or id = 1", "pyhudi query"),
        ("city is null", "ask for nulls by pyhudi query"),
        ("city = NULL", "ask for nulls by pyhudi query"),
        ("city = 'rome", "quote is not closed"),
    ],
)
@pytest.mark.parametrize("command", ["sample", "export"])
def test_what_is_no_single_comparison_is_refused_with_what_to_do(
    command: str, condition: str, hint: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = [str(tmp_path / "out")] if command == "export" else []
    assert main([command, path, *target, "--where", condition]) == 2
    assert hint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("condition", "value"),
    [("city = 'Trinidad and Tobago'", "Trinidad and Tobago"), ('city = "O\'Higgins"', "O'Higgins")],
)
def test_quoted_value_may_have_any_word(condition: str, value: str) -> None:
    assert conditions_of([condition], SCHEMA) == [("city", "==", value)]


def test_items_of_a_list_may_have_commas_in_quotes() -> None:
    assert conditions_of(["city in ('a, b', c)"], SCHEMA) == [("city", "in", ["a, b", "c"])]


def test_condition_on_a_time_without_its_offset_says_how_to_write_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    pyhudi.HudiTable.create(tmp_path, schema=schema, record_key="id")
    assert main(["sample", str(tmp_path), "--where", "at > 2026-01-31"]) == 2
    assert "say its offset, such as 2026-01-31T10:00:00Z" in capsys.readouterr().err


def test_query_of_another_table_name_says_what_the_table_is_called(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", path, "select * from rides"]) == 2
    assert "the table is called t" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("select city, sum(fare) as fare from t group by city", [{"city": "rome", "fare": 13.5}]),
        ("select count(*) as n from t", [{"n": 2}]),
        ("select count(*) as n from (select distinct city from t)", [{"n": 1}]),
        ("select a.id from t a join t b on a.id = b.id where b.fare > 6", [{"id": 2}]),
        ("with q as (select id, fare from t) select id from q order by id", [{"id": 2}, {"id": 3}]),
        ("select 1 as one", [{"one": 1}]),
        ("pivot t on id using sum(fare) group by city", [{"city": "rome", "2": 8.0, "3": 5.5}]),
        ("select 1; select count(*) as n from t where fare > 6", [{"n": 1}]),
        ("select id, _hoodie_partition_path as p from t where id = 3", [{"id": 3, "p": "rome"}]),
    ],
)
def test_query_answers_in_sql(
    sql: str, answer: list[dict[str, Any]], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(["query", path, sql], capsys) == answer


def test_query_of_all_columns_has_their_values(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = told(["query", path, "select * from t where fare > 6"], capsys)
    assert {name: row[name] for name in SCHEMA.names} == {"id": 2, "city": "rome", "fare": 8.0, "ts": 2}
    assert row["_hoodie_record_key"] == "2"


def test_query_reads_only_the_columns_that_it_needs(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    scan = pyhudi.HudiTable.scan
    monkeypatch.setattr(
        pyhudi.HudiTable,
        "scan",
        lambda table, columns=None, *a, **b: asked.append(columns) or scan(table, columns, *a, **b),
    )
    told(["query", path, "select sum(fare) from t where city = 'rome'"], capsys)
    assert asked == [None, ["city", "fare"]]


@pytest.mark.parametrize("sql", ["select x from t", "selec 1", ""])
def test_query_that_is_none_is_refused(sql: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", path, sql]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_query_without_duckdb_says_what_to_install(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["query", path, "select 1"]) == 2
    assert "pip install 'pyhudi[duckdb]'" in capsys.readouterr().err


def test_query_with_more_rows_than_the_limit_notes_it(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", path, "select id from t", "--limit", "1"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err == "the first 1 rows; --limit N gives more\n"


def test_lookup_gives_the_rows_of_keys_and_fails_for_none(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["lookup", path, "2", "7", "--columns", "id,fare"], capsys) == [{"id": 2, "fare": 8.0}]
    assert main(["lookup", path, "1"]) == 1
    assert main(["lookup", path, "two"]) == 2


def test_lookup_in_a_table_that_generates_its_keys_is_refused(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA)
    table.insert(rows((1, "oslo", 1.0, 1)))
    assert main(["lookup", str(tmp_path / "t"), "1"]) == 2


def test_schema_names_the_place_of_each_column(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["column"]: (row["key"], row["partition"], row["ordering"]) for row in told(["schema", path], capsys)}
    nothing = (None, None, None)
    assert found == {"id": (1, None, None), "city": (None, 1, None), "fare": nothing, "ts": (None, None, 1)}


def test_lookup_by_a_key_of_several_columns_takes_hudis_own_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key=["city", "id"])
    table.insert(rows((1, "os,lo:x", 1.0, 1), (2, "rome", 2.0, 1)))
    (found,) = told(["lookup", str(tmp_path / "t"), "city:os,lo:x,id:1"], capsys)
    assert found["fare"] == 1.0
    assert main(["lookup", str(tmp_path / "t"), "1"]) == 2
    assert "city:VALUE,id:VALUE" in capsys.readouterr().err


def test_changes_since_a_write_are_those_of_later_writes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = pyhudi.HudiTable.for_path(path).inspect.history()["completion_time"].to_pylist()[-1]
    found = told(["changes", path, "--since", first], capsys)
    assert sorted((row["id"], row["fare"]) for row in found) == [(2, 8.0), (3, 5.5)]


def test_captured_changes_have_the_rows_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = {"hoodie.table.cdc.enabled": "true"}
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", hudi_options=capture)
    table.insert(rows((1, "oslo", 9.5, 1)))
    table.upsert(rows((1, "oslo", 8.0, 2)))
    found = told(["changes", str(tmp_path / "t"), "--cdc"], capsys)
    assert [row["op"] for row in found] == ["i", "u"]
    assert json.loads(found[1]["before"])["fare"] == 9.5
    assert "_hoodie_record_key" in json.loads(found[0]["after"])


def test_change_data_for_eyes_shows_keys_and_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, key = {"hoodie.table.cdc.enabled": "true"}, ["id", "city"]
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key=key, partition_by="city", hudi_options=capture
    )
    table.insert(rows((1, "oslo", 9.5, 1)))
    table.upsert(rows((1, "oslo", 8.0, 1)))
    table.delete(rows((1, "oslo", 8.0, 1)))

    assert main(["changes", str(tmp_path / "t"), "--cdc", "--limit", "2"]) == 0
    said = capsys.readouterr()
    lines = [line.split(maxsplit=3) for line in said.out.splitlines()]
    assert lines[0] == ["op", "time", "key", "change"]
    assert [[op, key, change] for op, _, key, change in lines[1:]] == [
        ["i", "id:1,city:oslo", "id=1, city=oslo, fare=9.5, ts=1"],
        ["u", "id:1,city:oslo", "fare: 9.5 -> 8.0"],
    ]
    assert said.err == "the first 2 rows; --limit N gives more\n"
    assert main(["changes", str(tmp_path / "t"), "--cdc"]) == 0
    op, _, key, change = capsys.readouterr().out.splitlines()[3].split(maxsplit=3)
    assert (op, key, change) == ("d", "id:1,city:oslo", "id=1, city=oslo, fare=8.0, ts=1")


def test_changes_without_capture_are_refused_as_change_data(path: str) -> None:
    assert main(["changes", path, "--cdc"]) == 2


def test_diff_shows_only_the_columns_that_changed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", path, instants(path)[0]]) == 0
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        ["d", "1", "oslo", "id=1, city=oslo, fare=9.5, ts=1"],
        ["u", "2", "rome", "fare: 7.0 -> 8.0, ts: 1 -> 2"],
        ["i", "3", "rome", "id=3, city=rome, fare=5.5, ts=2"],
    ]


def test_diff_of_a_moment_with_itself_is_empty(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["diff", path, instants(path)[0], instants(path)[0]], capsys) == []


def test_explain_says_what_is_left_out_in_words_and_as_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", path, "--where", "city = rome", "--as-of", instants(path)[0]]
    assert main(arguments) == 0
    assert "partitions: 1 of 2" in capsys.readouterr().out
    assert told(arguments, capsys)["partitions_left_out"] == ["oslo"]


def test_stats_have_sizes_and_the_cost_of_writes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(["stats", path], capsys)
    assert (found["file_groups"], found["small_files"], found["partitions"]) == (2, 2, 2)
    assert len(found["of_writes"]) == found["writes"] == 3
    assert found["write_amplification"] >= 1
    assert main(["stats", path]) == 0
    assert "write amplification" in capsys.readouterr().out
    assert {row["max"] for row in told(["stats", path, "--columns", "fare"], capsys)} == {None, "8.0"}


def test_explain_hints_at_logs_small_files_and_unsorted_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfilled = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key="id", table_type="mor", hudi_options=unfilled
    )
    for number in range(50):
        table.bulk_insert(rows((number, "oslo", 1.0, 1)))
    first = told(["explain", str(tmp_path / "t"), "--where", "city = oslo"], capsys)["hints"]
    assert [hint.split(": pyhudi ")[1].split()[0] for hint in first] == ["cluster", "cluster"]
    assert first[0].endswith("hoodie.clustering.plan.strategy.sort.columns=city")
    assert told(["explain", str(tmp_path / "t"), "--where", "city = rome"], capsys)["hints"] == [first[1]]
    for fare in range(3):
        table.upsert(rows(*((number, "oslo", float(fare), 2) for number in range(50))))
    (hint, _) = told(["explain", str(tmp_path / "t")], capsys)["hints"]
    assert hint.startswith("3 logs are merged into each file slice")
    assert main(hint.split(": pyhudi ")[1].split()) == 0
