"""Transformers of a streamer on Spark: the table is that of a run without it, where the two engines agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as sql
from tests.support.spark_streamers import ROOT_OF_FILES, check_equal, put, run, stored

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.streamer import RowWise

pytestmark = pytest.mark.timeout(300)
SQL = "hoodie.streamer.transformer.sql"


def doubled(rows: pa.Table) -> pa.Table:
    return rows.append_column("twice", pc.multiply(rows["id"], 2))


CHAINS: dict[str, tuple[Any, dict[str, str]]] = {
    "query": ("SqlQueryBasedTransformer", {SQL: "SELECT *, id * 2 AS twice, 1.5 AS rate, 'x' AS kind FROM <SRC>"}),
    "types": (
        "SqlQueryBasedTransformer",
        {SQL: "SELECT id, max(ts) AS ts, count(*) AS n, id > 1 AS m, CAST(id AS INT) AS i FROM <SRC> GROUP BY id"},
    ),
    "listed columns": ("SqlQueryBasedTransformer", {SQL: "SELECT id, ts, id * 2 AS twice, twice + 1 AS n FROM <SRC>"}),
    "chain with ids": (
        "a:SqlQueryBasedTransformer,f:FlatteningTransformer,b:org.x.SqlQueryBasedTransformer",
        {
            f"{SQL}.a": "SELECT * FROM <SRC> WHERE id < 9",
            f"{SQL}.b": "SELECT *, upper(author_name) AS name FROM <SRC> r",
        },
    ),
    "flattening": ("FlatteningTransformer", {}),
    "functions": ([RowWise(doubled), "FlatteningTransformer"], {}),
    "functions after a query": (
        ["SqlQueryBasedTransformer", RowWise(doubled)],
        {SQL: "SELECT id, ts, author FROM <SRC>"},
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_transformers_give_the_table_of_a_run_without_spark(spark: Any, tmp_path: Path, chain: str) -> None:
    transformers, options = CHAINS[chain]
    given: dict[str, Any] = {"transformer_class": transformers, "table_type": "mor"}
    options = {**options, ROOT_OF_FILES: str(tmp_path / "landing")}
    put(
        tmp_path / "landing",
        "1.json",
        [{"id": 1, "ts": 1, "author": {"name": "a"}}, {"id": 2, "ts": 1, "author": None}],
    )
    put(tmp_path / "landing", "2.json", [{"id": 3, "ts": 1, "author": {"name": None, "age": 7}}])
    assert len(check_equal(spark, tmp_path, "JsonDFSSource", options, **given)) == 3
    put(tmp_path / "landing", "3.json", [{"id": 2, "ts": 2, "author": {"name": "b"}}, {"id": 4, "ts": 1}])
    rows = check_equal(spark, tmp_path, "JsonDFSSource", options, **given)
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert [row.get("twice", 2 * row["id"]) for row in rows] == [2, 4, 6, 8]


def test_days_of_a_query_are_those_of_utc_and_columns_may_be_null(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "day.sql").write_text("SELECT id, ts, CAST(ts AS DATE) AS day FROM <SRC>;")
    options = {
        ROOT_OF_FILES: str(tmp_path / "landing"),
        "hoodie.streamer.transformer.sql.file": str(tmp_path / "day.sql"),
        "hoodie.write.table.version": "8",
    }
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": "2023-11-14T01:13:20Z"}])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC"))])
    given = {"schema": schema, "transformer_class": "SqlFileBasedTransformer"}
    (row,) = check_equal(spark, tmp_path, "JsonDFSSource", options, **given)
    assert str(row["day"]) == "2023-11-14"
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert not [table for table in spark.catalog.listTables() if table.name.startswith("source_rows")]


def test_function_is_given_a_dataframe_without_what_it_made_in_earlier_batches(spark: Any, tmp_path: Path) -> None:
    def named(rows: Any) -> Any:
        assert "kind" not in rows.columns
        return rows.withColumn("kind", sql.concat(sql.lit("k"), "id"))

    options = {ROOT_OF_FILES: str(tmp_path / "landing")}
    for number in (1, 2):
        put(tmp_path / "landing", f"{number}.json", [{"id": number, "ts": 1}])
        assert run(tmp_path / "t", "JsonDFSSource", options, spark=spark, transformer_class=named).rows == 1
    assert [row["kind"] for row in stored(tmp_path / "t")[1]] == ["k1", "k2"]


def test_column_that_a_query_makes_is_given_to_it_where_the_source_has_values(spark: Any, tmp_path: Path) -> None:
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), SQL: "SELECT id, ts, 7 AS kind FROM <SRC>"}
    for number in (1, 2):
        put(tmp_path / "landing", f"{number}.json", [{"id": number, "ts": 1, "kind": 5}])
        given = {"transformer_class": "SqlQueryBasedTransformer"}
        rows = check_equal(spark, tmp_path, "JsonDFSSource", options, **given)
    assert [row["kind"] for row in rows] == [7, 7]


def test_batch_of_which_nothing_is_left_moves_the_checkpoint_on_spark(spark: Any, tmp_path: Path) -> None:
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), SQL: "SELECT * FROM <SRC> WHERE id > 5"}
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}])
    given = {"transformer_class": "SqlQueryBasedTransformer", "op": "INSERT"}
    assert check_equal(spark, tmp_path, "JsonDFSSource", options, **given) == []
    assert run(tmp_path / "on_spark", "JsonDFSSource", options, spark=spark, **given).batches == 0


def test_query_reads_a_table_of_hudi_and_a_view_of_the_session(spark: Any, tmp_path: Path) -> None:
    names = pa.table({"id": [1], "name": ["one"]})
    pyhudi.save(
        names,
        tmp_path / "names",
        hudi_options={"hoodie.table.name": "n", "hoodie.datasource.write.recordkey.field": "id"},
    )
    spark.read.format("hudi").load(str(tmp_path / "names")).createOrReplaceTempView("names_of_ids")
    query = "SELECT s.*, n.name FROM <SRC> s LEFT JOIN names_of_ids n ON s.id = n.id"
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), SQL: query}
    run(tmp_path / "t", "JsonDFSSource", options, spark=spark, transformer_class="SqlQueryBasedTransformer")
    assert [row["name"] for row in stored(tmp_path / "t")[1]] == ["one", None]


def changing(rows: pa.Table) -> pa.Table:
    return rows if not rows.num_rows else rows.append_column("more", rows["id"])


@pytest.mark.parametrize(
    ("transformer", "says"),
    [
        ("SqlQueryBasedTransformer", "no_such"),
        (lambda _: pa.table({"id": [1]}), "must give one"),
        (RowWise(changing), "the same columns for all rows"),
        (["SqlQueryBasedTransformer", RowWise(lambda _: None)], "no_such"),
        ([RowWise(doubled), RowWise(lambda _: None)], "must give rows"),
    ],
    ids=["query", "function", "row-wise", "query before others", "no rows"],
)
def test_transformer_that_fails_on_spark_is_an_error_and_nothing_is_written(
    spark: Any, tmp_path: Path, transformer: Any, says: str
) -> None:
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), SQL: "SELECT no_such FROM <SRC>"}
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}])
    with pytest.raises(InvalidRequestError, match=says):
        run(tmp_path / "t", "JsonDFSSource", options, spark=spark, transformer_class=transformer)
    assert not (tmp_path / "t" / ".hoodie").exists()
