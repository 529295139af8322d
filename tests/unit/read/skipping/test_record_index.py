"""Reads by record key through the record index: the rows of a full scan, from few files."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, MetadataTableWarning
from pyhudi.format.log.blocks import LogBlock
from pyhudi.io.log.scan import WHOLE_FILE_BYTES_MAX, LogReader
from pyhudi.read.skipping.fixed_values import alternatives_of_where
from pyhudi.read.skipping.record_index import fixed_keys
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

BUILD = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
}


def _table(**options: str) -> pyhudi.HudiTable:
    table = new_table(**BUILD, **options)
    storage = table.handle.state.storage
    for first in range(0, 30, 10):
        table = open_table(storage, **BUILD, **options)
        table.upsert(rows(*((n, ("oslo", "rome", "bern")[n % 3], 1, f"note {n}") for n in range(first, first + 10))))
    open_table(storage, **BUILD, **options).upsert(rows((4, "rome", 2, "newer"), (5, "bern", 2, "newer")))
    return open_table(storage, **options)


def _fixed(table: pyhudi.HudiTable, where: Any) -> Any:
    schema = table.scan().schema
    return fixed_keys(table.handle.state, schema, alternatives_of_where(where, schema))


@pytest.mark.parametrize("options", [{}, MOR], ids=["cow", "mor"])
def test_lookup_gives_the_rows_of_a_scan_and_opens_no_other_files(options: dict[str, str]) -> None:
    table = _table(**options)
    expected = table.scan(["id", "note"]).to_arrow().filter(pc.is_in(pc.field("id"), pa.array([4, 21])))
    storage = FaultStorage(table.handle.state.storage)
    found = open_table(storage, **options).lookup([4, 21, 77], ["id", "note"])
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
    assert found.num_rows == 2
    opened = {one.path for one in storage.operations if one.name == "open_input" and one.path.endswith(".parquet")}
    assert len(opened) == 2


def test_cost_of_a_lookup_does_not_grow_with_the_table() -> None:
    calls = []
    for cities in (2, 40):
        table = new_table(**BUILD)
        table.upsert(rows(*((n, f"c{n}", 1, "x") for n in range(cities))))
        storage = FaultStorage(table.handle.state.storage)
        assert open_table(storage).lookup([1], ["note"]).to_pylist() == [{"note": "x"}]
        assert open_table(storage).lookup([99]).num_rows == 0
        calls.append(sorted(one.name for one in storage.operations))
    assert calls[0] == calls[1]


def test_explain_names_the_index() -> None:
    explanation = _table().scan(where=[("id", "==", 4)]).explain()
    assert explanation.base_files == 1
    assert explanation.indexes[0].index == "record_index"
    assert explanation.indexes[0].file_slices == explanation.base_files_of - 1
    assert "record_index: 8 file slices left out by id" in str(explanation)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ([("id", "in", [1, 2, 3])], {1, 2, 3}),
        ([[("id", "==", 1)], [("id", "==", 29), ("note", "==", "note 29")]], {1, 29}),
        ([("_hoodie_record_key", "==", "7")], {7}),
        ([("id", "==", 7), ("city", "==", "oslo")], set()),
        ([("id", "in", [])], set()),
        ([("id", ">", 27)], {28, 29}),
        ([[("id", "==", 1)], [("city", "==", "nowhere")]], {1}),
    ],
)
def test_conditions_give_the_same_rows_with_and_without_the_index(where: Any, ids: set[int]) -> None:
    table = _table()
    assert {*table.scan(["id"], where).to_arrow().column("id").to_pylist()} == ids


def test_time_travel_does_not_ask_the_index() -> None:
    table = _table()
    first = table.handle.state.timeline.completed_writes[0].requested_time
    before = table.scan(["note"], [("id", "==", 4)], as_of=first)
    assert before.to_arrow().column("note").to_pylist() == ["note 4"]
    assert all(one.index != "record_index" for one in before.explain().indexes)


def test_without_an_index_lookup_reads_as_a_scan_does() -> None:
    table = new_table()
    table.upsert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "b")))
    assert open_table(table.handle.state.storage).lookup([2], ["id", "city"]).to_pylist() == [{"id": 2, "city": "rome"}]


def test_a_damaged_index_gives_all_rows() -> None:
    table = _table()
    storage = table.handle.state.storage
    for info in storage.list_recursive(".hoodie/metadata/record_index"):
        if info.size > 200:
            storage.put(info.path, storage.read(info.path)[:-700] + bytes(700))
    scan = open_table(storage).scan(["id"], [("id", "==", 4)])
    with pytest.warns(MetadataTableWarning, match=r"indexes\.refresh\('record_index'\)"):
        assert scan.to_arrow().num_rows == 1
    assert "cannot be read" in str(scan.explain().indexes[0].note)


def test_composite_keys_need_a_value_for_each_column() -> None:
    table = new_table(**BUILD, **{"hoodie.datasource.write.recordkey.field": "id,note"})
    table.upsert(rows(*((n, "oslo", 1, note) for n, note in itertools.product(range(3), "ab"))))
    table = open_table(table.handle.state.storage)
    assert table.lookup([(1, "a"), (2, "b"), (2, "c")], ["id", "note"]).num_rows == 2
    assert _fixed(table, [("id", "==", 1)]) is None
    assert table.scan(where=[("id", "==", 1)]).to_arrow().num_rows == 2
    with pytest.raises(ConfigError, match="tuple of their values"):
        table.lookup([1])


def test_keys_whose_text_is_not_their_value_are_not_looked_up() -> None:
    schema = pa.schema([("id", pa.timestamp("us")), ("city", pa.string()), ("ts", pa.int64())])
    table = new_table(schema=schema, **BUILD)
    moment = dt.datetime(2024, 1, 1, 12)
    table.upsert(pa.table({"id": [moment], "city": ["a"], "ts": [1]}, schema=schema))
    table = open_table(table.handle.state.storage)
    assert _fixed(table, [("id", "==", moment)]) is None
    assert table.lookup([moment]).num_rows == 1


@pytest.mark.parametrize("key", ["abc", 2, None])
def test_one_key_is_not_a_list_of_keys(key: Any) -> None:
    with pytest.raises(ConfigError, match="not one key"):
        new_table(MemoryStorage()).lookup(key)


@pytest.mark.parametrize(
    ("key", "keys", "types"),
    [
        ("id", ["1"], "id is int64"),
        ("id", [None], "id is int64"),
        ("id,note", [("1", 2)], "id is int64, note is string"),
    ],
)
def test_keys_of_another_type_are_refused_with_the_types_of_the_columns(key: str, keys: list[Any], types: str) -> None:
    table = new_table(MemoryStorage(), **{"hoodie.datasource.write.recordkey.field": key})
    with pytest.raises(ConfigError, match="keys must have the types of") as raised:
        table.lookup(keys)
    assert raised.value.message.endswith(f"the key columns: {types}")


def test_lookup_in_a_large_log_reads_the_blocks_with_the_keys_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    options = {**BUILD, "hoodie.metadata.record.index.min.filegroup.count": "1"}
    table = pyhudi.HudiTable.create(str(tmp_path), schema=schema, record_key="id", hudi_options=options)
    numbers = range(60_000)
    keys = [hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest() for number in numbers]
    table.bulk_insert(pa.table([keys, numbers], schema=schema))
    large: list[int] = []
    real = LogReader.content

    def noted(self: LogReader, block: LogBlock) -> pa.Buffer:
        large.extend([block.content_size] if block.content_size > WHOLE_FILE_BYTES_MAX else [])
        return real(self, block)

    monkeypatch.setattr(LogReader, "content", noted)
    wanted = [keys[17], keys[59_999], "none"]
    found = table.refresh().lookup(wanted, ["n"])

    assert sorted(found["n"].to_pylist()) == [17, 59_999]
    assert not large
    assert table.refresh().lookup(keys[:1000]).num_rows == 1000
    assert large


KINDS_OF_INDEX = {
    "record": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"},
}


@pytest.mark.parametrize("index", [*KINDS_OF_INDEX])
def test_value_that_no_key_can_have_hides_no_other_key_of_the_condition(index: str, tmp_path: Path) -> None:
    schema = pa.schema([("code", pa.string()), ("n", pa.int64())])
    options = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.enable": "true", **KINDS_OF_INDEX[index]}
    table = pyhudi.HudiTable.create(tmp_path, schema=schema, record_key="code", hudi_options=options)
    for n, code in enumerate("abc"):
        table.refresh().upsert(pa.table({"code": [code], "n": [n]}, schema), hudi_options=options)
    table = table.refresh()

    def found(where: Any) -> list[int]:
        return sorted(table.scan(["n"], where=where).to_arrow()["n"].to_pylist())

    assert found([("code", "in", ["", "a"])]) == [0]
    assert found([("code", "in", ["b", "", "a", "zz"])]) == [0, 1]
    assert found([("code", "in", [""])]) == []
    assert sorted(table.lookup(["", "c", "a"])["n"].to_pylist()) == [0, 2]

    source = pa.table({"code": ["", "a", "b"]}, pa.schema([("code", pa.string())]))
    update = table.merge(source, on=["code"]).when_matched_update(set={"n": pc.add(pc.field("target.n"), 10)})
    assert update.execute(hudi_options=options).updated == 2
    assert sorted(table.refresh().scan(["n"]).to_arrow()["n"].to_pylist()) == [2, 10, 11]


def test_number_that_is_too_large_for_a_key_finds_nothing_and_hides_no_other_key(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int64())])
    options = {"hoodie.metadata.enable": "true", **KINDS_OF_INDEX["record"]}
    table = pyhudi.HudiTable.create(tmp_path, schema=schema, record_key="id", hudi_options=options)
    table.upsert(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}, schema), hudi_options=options)
    table = table.refresh()

    assert table.scan(["n"], where=[("id", "==", 2**31)]).to_arrow().num_rows == 0
    assert sorted(table.lookup([2**40, 3, 2**31, 1])["n"].to_pylist()) == [1, 3]
