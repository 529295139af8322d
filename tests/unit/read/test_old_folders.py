"""Records whose file has another partition value than their folder, as JVM Hudi leaves them: reads show the folder's.

JVM Hudi 1.0.2 and 1.2.0 do so in all reads, with and without logs, where a global index does not move records.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
CITIES = [f"c{number}" for number in range(9)]
WHERES: dict[str, tuple[Any, list[int]]] = {
    "its folder": ([("city", "==", "c0")], [0, 9]),
    "the value in the file": ([("city", "==", "c1")], [1, 10]),
    "neither": ([("city", "in", ["c0", "x"])], [0, 9]),
    "another column": ([("n", "==", 0)], [0]),
    "a key": ([("id", "in", [0, 1])], [0, 1]),
    "or": ([[("city", "==", "c0")], [("n", "==", 5)]], [0, 5, 9]),
    "not": ([("city", "!=", "c1"), ("n", "<", 3)], [0, 2]),
    "an expression": (pc.field("city") == "c0", [0, 9]),
    "all": (None, list(range(18))),
}


@pytest.fixture(scope="module", params=["cow", "mor", "cow, statistics"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pyhudi.HudiTable:
    """Nine partitions of two rows; both rows in the folder of `c0` say that they are of `c1`."""
    path = tmp_path_factory.mktemp("t")
    kind, _, statistics = request.param.partition(", ")
    options = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false"}
    table = pyhudi.HudiTable.create(
        str(path), schema=SCHEMA, record_key="id", partition_by="city", table_type=kind, hudi_options=options
    )
    numbers = range(18)
    table.insert(pa.table([numbers, CITIES * 2, numbers], schema=SCHEMA))
    (file,) = (path / "c0").glob("*.parquet")
    stored = pq.read_table(file, partitioning=None)
    at = stored.column_names.index("city")
    pq.write_table(stored.set_column(at, stored.field(at), pa.array(["c1", "c1"])), file)
    if kind == "mor":
        table.refresh().upsert(pa.table([[9], ["c0"], [9]], schema=SCHEMA))
    if statistics:
        for name, columns in (("column_stats", ["city", "n"]), ("partition_stats", None), ("record_index", None)):
            table.refresh().indexes.create(name, **({} if columns is None else {"columns": columns}))
    return table.refresh()


@pytest.mark.parametrize("columns", [None, ["id"], ["city", "id"]])
@pytest.mark.parametrize("where", WHERES)
def test_record_in_an_old_folder_has_the_value_of_the_folder_for_reads_and_conditions(
    table: pyhudi.HudiTable, where: str, columns: list[str] | None
) -> None:
    condition, expected = WHERES[where]

    found = table.scan(columns, where=condition).to_arrow().to_pylist()

    assert sorted(row["id"] for row in found) == expected
    assert all(row["city"] == CITIES[row["id"] % 9] for row in found if "city" in row)
    assert table.scan(where=condition).count() == len(expected)


def test_record_in_an_old_folder_is_looked_up_with_the_value_of_the_folder(table: pyhudi.HudiTable) -> None:
    assert sorted(table.lookup([0, 1], ["id", "city"]).to_pylist(), key=repr) == [
        {"id": 0, "city": "c0"},
        {"id": 1, "city": "c1"},
    ]


def test_columns_of_the_folder_alone_have_all_rows(table: pyhudi.HudiTable) -> None:
    assert sorted(table.scan(["city"]).to_arrow()["city"].to_pylist()) == sorted(CITIES * 2)
