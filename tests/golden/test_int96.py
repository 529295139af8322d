"""Tables in which older releases of JVM Hudi stored instants as INT96: written to, merged and compacted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from tests.golden.archives import entries, unpack

import pyhudi

HERE = Path(__file__).parent
ENTRIES = [entry for entry in entries(HERE) if entry["name"].endswith("int96")]
INSTANT = pa.timestamp("us", "UTC")
COLUMNS = ["id", "moment", "nested", "list"]


def end_of(year: int) -> dt.datetime:
    return dt.datetime(year, 12, 31, 23, 59, 59, 999999, dt.UTC)


def row(key: str, moment: dt.datetime | None) -> dict[str, object]:
    return {
        "id": key,
        "moment": moment,
        "nested": {"at": moment, "n": 1},
        "list": None if moment is None else [moment],
    }


@pytest.fixture(params=[entry["name"] for entry in ENTRIES])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pyhudi.HudiTable:
    unpacked = unpack(HERE, [entry for entry in ENTRIES if entry["name"] == request.param], tmp_path)
    return pyhudi.HudiTable.for_path(str(unpacked[request.param] / "table"))


def test_int96_instants_are_merged_updated_and_compacted_as_they_are(table: pyhudi.HudiTable) -> None:
    merged = [row("k0", end_of(2025)), row("k1", end_of(9999)), row("k2", end_of(1600)), row("k3", None)]
    assert table.scan(COLUMNS).to_arrow().sort_by("id").to_pylist() == merged
    late = pa.array([end_of(3000)], INSTANT)
    new = pa.table(
        {
            "id": ["k3"],
            "ts": [9],
            "moment": late,
            "nested": pa.array([{"at": end_of(3000), "n": 1}], pa.struct([("at", INSTANT), ("n", pa.int64())])),
            "list": pa.array([[end_of(3000)]], pa.list_(INSTANT)),
        }
    )

    table.upsert(new)
    table.refresh().services.compact()

    found = table.refresh()
    assert found.inspect.files().column("logs").to_pylist() == [[]]
    assert found.scan(COLUMNS).to_arrow().sort_by("id").to_pylist() == [*merged[:3], row("k3", end_of(3000))]


def test_int96_instants_are_found_by_a_condition(table: pyhudi.HudiTable) -> None:
    found = table.scan(["id"], where=[("moment", "<", end_of(1700))], query_type="read_optimized").to_arrow()

    assert found.column("id").to_pylist() == ["k2"]
