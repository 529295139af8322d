"""The Spark examples of docs/mergers.md, and a merger of one's own on Spark's workers."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError

PAGE = (Path(__file__).parents[2] / "docs" / "mergers.md").read_text()
COUNTING, STITCHING = re.findall(r"<!-- tested by tests/spark/\S+ -->\n```python\n(.*?)```", PAGE, re.DOTALL)
(OWN,) = re.findall(r"<!-- my_module.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)
VISITS = "page string, user string, day string, ts long"
BID = "lot long, bidder string, bid long"


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def run(code: str, folder: Path, **names: Any) -> Any:
    exec(code.replace('"/tmp/', f'"{folder}/'), names)
    return names


def test_page_views_and_visitors_with_spark_are_as_the_page_says(spark: Any, tmp_path: Path) -> None:
    seen = [
        [("p1", "ann", "d1", 1), ("p1", "ann", "d1", 2), ("p2", "ann", "d1", 1)],
        [("p1", "ann", "d1", 3), ("p1", "bob", "d1", 3), ("p1", "ann", "d2", 4)],
    ]
    expected = [("d1", "p1", 4, 2), ("d1", "p2", 1, 1), ("d2", "p1", 1, 1)]
    for visits in seen:
        names = run(COUNTING, tmp_path, spark=spark, visits=spark.createDataFrame(visits, VISITS))
    assert rows_of(names["answer"]) == expected

    pyhudi.HudiTable.for_path(str(tmp_path / "visits")).services.compact()
    # The page's code again would add rows: only its query is run.
    query = COUNTING[COUNTING.index("counts =") :]
    names = run(query, tmp_path, spark=spark, F=names["F"])
    assert rows_of(names["answer"]) == expected


def test_streams_of_their_own_columns_are_stitched_with_spark(spark: Any, tmp_path: Path) -> None:
    names_schema, stocks_schema = "id long, _ts1 long, name string, price double", "id long, _ts2 long, stock long"
    for names, stocks in (
        ([(1, 20, "lamp", 9.5), (3, 5, "desk", 80.0)], [(1, 7, 3), (2, 7, 8)]),
        ([(1, 10, "lmap", 9.0), (3, 6, None, 90.0)], [(1, 8, 2)]),
    ):
        found = run(
            STITCHING,
            tmp_path,
            spark=spark,
            names=spark.createDataFrame(names, names_schema),
            stocks=spark.createDataFrame(stocks, stocks_schema),
        )

    assert rows_of(found["wide"]) == [(1, "lamp", 9.5, 2), (2, None, None, 8), (3, None, 90.0, None)]


@pytest.fixture
def own_module(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module here and on the workers."""
    (tmp_path / "my_module.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    spark.sparkContext.addPyFile(str(tmp_path / "my_module.py"))
    return "my_module"


def bid(spark: Any, path: Path, rows: list[tuple[Any, ...]], merger: str, **options: str) -> None:
    (
        spark.createDataFrame(rows, BID)
        .write.format("hudi")
        .option("hoodie.table.name", "bids")
        .option("hoodie.datasource.write.table.type", "MERGE_ON_READ")
        .option("hoodie.datasource.write.recordkey.field", "lot")
        .option("hoodie.write.record.merge.custom.implementation.classes", merger)
        .options(**options)
        .mode("append")
        .save(str(path))
    )


def test_merger_of_ones_own_is_given_by_an_option_to_writes_and_reads(
    spark: Any, tmp_path: Path, own_module: str
) -> None:
    merger, path = f"{own_module}:HighestBid", tmp_path / "bids"
    bid(spark, path, [(1, "ann", 70), (1, "bob", 50), (2, "ann", 1)], merger)
    bid(spark, path, [(1, "cid", 60), (2, "bob", 2)], merger)

    reader = spark.read.format("hudi")
    with pytest.raises(UnsupportedFeatureError, match=r"implementation\.classes.*highest_bid"):
        reader.load(str(path))
    reader = reader.option("hoodie.write.record.merge.custom.implementation.classes", merger)
    assert rows_of(reader.load(str(path)).select("lot", "bidder", "bid")) == [(1, "ann", 70), (2, "bob", 2)]


def test_merger_that_returns_other_records_is_named_across_processes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_module.py").write_text(
        "class Wrong:\n    name = 'wrong'\n    def merge(self, older, newer):\n        return newer.slice(0, 0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spark.sparkContext.addPyFile(str(tmp_path / "wrong_module.py"))
    path = tmp_path / "bids"
    bid(spark, path, [(1, "ann", 70)], "wrong_module:Wrong")

    with pytest.raises(InvalidRequestError, match="wrong"):
        bid(spark, path, [(1, "ann", 70), (1, "bob", 50)], "wrong_module:Wrong")
    assert pyhudi.HudiTable.for_path(str(path)).inspect.history().num_rows == 1


def test_batch_that_a_stream_sends_again_is_written_once(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "bids"
    for _ in range(2):
        bid(
            spark,
            path,
            [(1, "ann", 70)],
            "record_count",
            **{
                "hoodie.record.merge.property.pyhudi.merger.options": "bid",
                "hoodie.write.batch.id": "bids-0:1-2",
            },
        )

    assert pyhudi.HudiTable.for_path(str(path)).scan(["bid"]).to_arrow().to_pylist() == [{"bid": 70}]
