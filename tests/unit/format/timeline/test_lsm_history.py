"""The archived timeline: version file, manifest, and Parquet files with their damage."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError
from pyhudi.format.timeline import lsm_history
from pyhudi.format.timeline.lsm_history import (
    HistoryEntry,
    HistoryFile,
    manifest_name,
    parse_history_file,
    parse_manifest,
    parse_manifest_name,
    parse_version_file,
)

PATH = "t/.hoodie/timeline/history/x"
T1, T2 = "20240101000000000", "20240102030405678"
ROWS = [
    {"instantTime": T1, "completionTime": f"{T1}1", "action": "commit", "metadata": b"Obj\x01a", "plan": None},
    {"instantTime": T2, "completionTime": f"{T2}1", "action": "clean", "metadata": None, "plan": b"Obj\x01b"},
]
SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


def history_file(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{**row, "version": 1} for row in rows], schema), out, compression="gzip")
    return out.getvalue()


WHOLE = history_file(ROWS)


def test_instants_of_a_file_parse_in_their_order() -> None:
    assert parse_history_file(WHOLE, path=PATH) == (
        HistoryEntry(T1, f"{T1}1", "commit", b"Obj\x01a"),
        HistoryEntry(T2, f"{T2}1", "clean", None),
    )
    assert parse_history_file(history_file([]), path=PATH) == ()


@pytest.mark.parametrize("missing", ["instantTime", "completionTime", "action"])
def test_instant_without_a_time_or_action_is_refused(missing: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_history_file(history_file([{**ROWS[0], missing: None}]), path=PATH)


@pytest.mark.parametrize("column", ["instantTime", "metadata"])
def test_file_without_a_column_or_with_another_type_is_refused(column: str) -> None:
    rows = [{name: value for name, value in row.items() if name != column} for row in ROWS]
    index = SCHEMA.get_field_index(column)
    for schema in (SCHEMA.remove(index), SCHEMA.set(index, pa.field(column, pa.int64()))):
        filled = [{**row, column: 1} if column in schema.names else row for row in rows]
        with pytest.raises(CorruptDataError) as caught:
            parse_history_file(history_file(filled, schema), path=PATH)
        assert caught.value.context["path"] == PATH


def test_file_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsm_history, "HISTORY_BYTES_MAX", 10)
    with pytest.raises(CorruptDataError, match="too large"):
        parse_history_file(WHOLE, path=PATH)


def test_file_cut_anywhere_is_refused() -> None:
    for size in range(0, len(WHOLE), 7):
        with pytest.raises(CorruptDataError) as caught:
            parse_history_file(WHOLE[:size], path=PATH)
        assert caught.value.context["path"] == PATH


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_file_with_flipped_bytes_gives_entries_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptDataError):
        parse_history_file(bytes(damaged), path=PATH)


def test_version_file_names_the_manifest() -> None:
    assert manifest_name(parse_version_file(b"5", path=PATH)) == "manifest_5"
    assert parse_manifest_name("manifest_5") == 5
    assert [parse_manifest_name(name) for name in ("manifest_", "5", "manifest_x", "_version_")] == [None] * 4
    assert parse_version_file(b"12\n", path=PATH) == 12


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b"1.0", b"\xff", b"9" * 19, b"1" + b" " * 64 + b"2"])
def test_version_file_without_a_number_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError) as caught:
        parse_version_file(data, path=PATH)
    assert caught.value.context["path"] == PATH


def test_manifest_lists_its_files_by_name() -> None:
    names = [f"{T2}_{T2}_0.parquet", f"{T1}_{T2}_1.parquet"]
    data = json.dumps({"files": [{"fileName": name, "fileLen": 9} for name in names]}).encode()
    assert parse_manifest(data, path=PATH) == (
        HistoryFile(names[1], 9, T1, T2, 1),
        HistoryFile(names[0], 9, T2, T2, 0),
    )


@pytest.mark.parametrize(
    "values",
    [
        [],
        {},
        {"files": None},
        {"files": [1]},
        {"files": [{"fileName": f"{T1}_{T2}_0.parquet"}]},
        {"files": [{"fileName": f"{T1}_{T2}_0.parquet", "fileLen": -1}]},
        {"files": [{"fileName": f"../{T1}_{T2}_0.parquet", "fileLen": 1}]},
        {"files": [{"fileName": f"{T1}_{T2}_0.parquet\n", "fileLen": 1}]},
        {"files": [{"fileLen": 1}]},
    ],
    ids=json.dumps,
)
def test_manifest_that_names_something_else_is_refused(values: Any) -> None:
    with pytest.raises(CorruptDataError) as caught:
        parse_manifest(json.dumps(values).encode(), path=PATH)
    assert caught.value.context["path"] == PATH


def test_manifest_cut_anywhere_is_refused() -> None:
    data = json.dumps({"files": [{"fileName": f"{T1}_{T2}_0.parquet", "fileLen": 9}]}).encode()
    for size in range(len(data)):
        with pytest.raises(CorruptDataError):
            parse_manifest(data[:size], path=PATH)


def test_manifest_above_the_limit_or_nested_too_deep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptDataError):
        parse_manifest(b"[" * 100_000, path=PATH)
    monkeypatch.setattr(lsm_history, "MANIFEST_BYTES_MAX", 3)
    with pytest.raises(CorruptDataError, match="too large"):
        parse_manifest(b"[[]]", path=PATH)


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_values_or_a_typed_error(data: bytes) -> None:
    for parse in (parse_version_file, parse_manifest, parse_history_file):
        with contextlib.suppress(CorruptDataError):
            parse(data, path=PATH)
