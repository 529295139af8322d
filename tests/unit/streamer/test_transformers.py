"""What becomes of rows before they are written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.ingestions import FIRST_MS, Landing, ids_in, ingestion, run_until_idle, settings
from tests.support.tables import open_table

from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest
from pyhudi.streamer.transformers import RowWise, flattened, transformed, transforms_of

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
SQL = "hoodie.streamer.transformer.sql"


def by_sql(text: str) -> pa.Table:
    return transformed(ROWS, transforms_of("org.apache.hudi.x.SqlQueryBasedTransformer", {SQL: text}))


def test_query_reads_the_rows_of_the_batch():
    found = by_sql("select id + 1 as id, upper(name) as name from <SRC> where id > 1;")
    assert found.to_pylist() == [{"id": 3, "name": "B"}]


def test_query_of_a_file_is_run(tmp_path: Path):
    (tmp_path / "q.sql").write_text("select max(id) as id from <SRC>")
    options = {"hoodie.deltastreamer.transformer.sql.file": str(tmp_path / "q.sql")}
    assert transformed(ROWS, transforms_of("SqlFileBasedTransformer", options)).to_pylist() == [{"id": 2}]


def test_query_that_fails_is_named():
    with pytest.raises(InvalidRequestError, match="no_such"):
        by_sql("select no_such from <SRC>")


@pytest.mark.parametrize("text", ["select 1", "select * from <SRC>; drop table x"])
def test_text_that_is_not_one_query_on_the_rows_is_refused(text: str):
    with pytest.raises(ConfigError, match="one query"):
        by_sql(text)


@pytest.mark.parametrize("name", ["SqlQueryBasedTransformer", "SqlFileBasedTransformer"])
def test_transformer_without_its_option_is_refused(name: str):
    with pytest.raises(ConfigError, match=name):
        transforms_of(name, {})


@pytest.mark.parametrize("name", ["AWSDmsTransformer", "tr1:org.x.FlatteningTransformer2"])
def test_transformer_that_is_not_built_is_refused_by_name(name: str):
    with pytest.raises(UnsupportedFeatureError, match="transformers are"):
        transforms_of(name, {})


CHAIN = "first:SqlQueryBasedTransformer, second:org.x.SqlQueryBasedTransformer"


@pytest.mark.parametrize("older", [False, True], ids=["name", "older name"])
def test_transformers_of_a_chain_have_their_own_options_by_their_ids(older: bool):
    of_first = "hoodie.deltastreamer.transformer.sql.first" if older else f"{SQL}.first"
    options = {of_first: "select id * 10 as id from <SRC>", SQL: "select id + 1 as id from <SRC>"}
    assert transformed(ROWS, transforms_of(CHAIN, options))["id"].to_pylist() == [11, 21]


def test_function_stands_among_transformers_with_ids(tmp_path: Path):
    landing, storage = Landing(tmp_path / "landing"), MemoryStorage()
    landing.put("a", [1, 2])
    options = {
        f"{SQL}.first": "select id * 10 as id, note from <SRC>",
        f"{SQL}.second": "select id + 1 as id, note from <SRC>",
    }
    chain = ["first:SqlQueryBasedTransformer", lambda rows: rows.slice(1), "second:SqlQueryBasedTransformer"]
    run_until_idle(ingestion(settings(landing, options, transformer_class=chain), storage))
    assert ids_in(storage) == [21]


@pytest.mark.parametrize(
    "chain",
    [
        "a:FlatteningTransformer,FlatteningTransformer",
        "a:FlatteningTransformer,a:FlatteningTransformer",
        ":FlatteningTransformer",
        "a:b:FlatteningTransformer",
    ],
)
def test_ids_that_are_those_of_no_chain_are_refused(chain: str):
    with pytest.raises(ConfigError, match="id before a colon"):
        transforms_of(chain, {})


def test_option_of_an_id_that_no_transformer_has_is_refused(tmp_path: Path):
    with pytest.raises(UnsupportedFeatureError, match=r"sql\.third is not built"):
        settings(Landing(tmp_path), {f"{SQL}.third": "select 1"}, transformer_class="a:FlatteningTransformer")


def test_structs_become_columns_with_their_nulls():
    rows = pa.table({"id": [1, 2], "a": [{"b": {"c": 1}, "d": [1]}, None]})
    assert flattened(rows).to_pylist() == [{"id": 1, "a_b_c": 1, "a_d": [1]}, {"id": 2, "a_b_c": None, "a_d": None}]


def test_flattening_that_gives_a_name_twice_is_refused():
    with pytest.raises(InvalidRequestError, match="one name"):
        flattened(pa.table({"a_b": [1], "a": [{"b": 1}]}))


def test_functions_are_run_in_their_order_whatever_rows_they_give():
    def polar(rows: pa.Table) -> Any:
        return pl.DataFrame(rows).with_columns(pl.col("id") * 10)

    found = transformed(ROWS, transforms_of([polar, lambda rows: rows.slice(1), lambda rows: rows.to_batches()[0]], {}))
    assert found["id"].to_pylist() == [20]


def test_row_wise_function_stands_among_others():
    chain = [RowWise(lambda rows: rows.drop(["name"])), lambda rows: rows.slice(1)]
    assert transformed(ROWS, transforms_of(chain, {})).to_pylist() == [{"id": 2}]


def test_query_without_duckdb_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UnsupportedFeatureError, match=r"pyhudi\[duckdb\]"):
        settings(Landing(tmp_path), {SQL: "select * from <SRC>"}, transformer_class="SqlQueryBasedTransformer")


def test_function_that_gives_no_rows_is_refused():
    with pytest.raises(InvalidRequestError, match="must give rows"):
        transformed(ROWS, [lambda _: None])


def test_table_has_the_columns_that_come_out(tmp_path: Path):
    landing, storage = Landing(tmp_path / "landing"), MemoryStorage()
    landing.put("a", [1, 2], ms=FIRST_MS)

    def doubled(rows: pa.Table) -> pa.Table:
        return pa.table({"id": rows["id"], "twice": pc.multiply(rows["id"], 2)})

    run_until_idle(ingestion(settings(landing, transformer_class=doubled), storage))
    assert open_table(storage).schema.names == ["id", "twice"]


def test_batch_of_which_nothing_is_left_moves_the_checkpoint(tmp_path: Path):
    landing, storage = Landing(tmp_path / "landing"), MemoryStorage()
    landing.put("a", [1], ms=FIRST_MS)
    given = settings(landing, transformer_class=lambda rows: rows.filter(pc.greater(rows["id"], 5)))
    batch = ingest(ingestion(given, storage))
    assert batch is not None
    assert ingest(ingestion(given, storage)) is None
    assert ids_in(storage) == []


@pytest.mark.parametrize(
    "query",
    [
        "select *, id * 2 as twice, twice + 1 as more from <SRC>",
        "select id, note, id * 2 as twice, twice + 1 as more from <SRC>",
    ],
    ids=["all columns", "listed columns"],
)
def test_query_is_not_given_columns_that_it_made_in_earlier_batches(tmp_path: Path, query: str):
    landing, storage = Landing(tmp_path / "landing"), MemoryStorage()
    given = ingestion(settings(landing, {SQL: query}, transformer_class="SqlQueryBasedTransformer"), storage)
    landing.put("a", [1], ms=FIRST_MS)
    ingest(given)
    landing.put_text("b", '{"id": 2}', ms=FIRST_MS + 1)
    ingest(given)
    found = open_table(storage).scan(["id", "note", "twice", "more"]).to_arrow().sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "note": "a:1", "twice": 2, "more": 3},
        {"id": 2, "note": None, "twice": 4, "more": 5},
    ]
