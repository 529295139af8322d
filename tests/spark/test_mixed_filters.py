"""Filters that join a partition column and another one by `or` leave files out, in all forms of queries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.spark.reads import file_index
from pyhudi.spark.reads.jvm_objects import FileToRead, Jvm

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.int64())])
FILES = 8
MIXED = "city = 'c1' or fare = 13"
QUERIES: dict[str, tuple[Callable[[Any, Any], Any], list[int]]] = {
    "rows": (lambda _, rows: ids(rows.where(MIXED)), [2]),
    "count": (lambda _, rows: rows.where(MIXED).count(), [2]),
    "join": (lambda _, rows: ids(rows.where(MIXED).join(rows.where("fare < 2").select("id"), "id")), [1, 2]),
    "union": (lambda _, rows: ids(rows.where(MIXED).unionAll(rows.where("city = 'c2' or fare > 9"))), [2, 4]),
    "subquery": (
        lambda spark, rows: spark.sql(
            f"select count(*), (select max(fare) from {{rows}} where {MIXED}) from {{rows}} "
            "where city = 'c0' or fare = 5",
            rows=rows,
        ).collect(),
        [2, 2],
    ),
    "and a part that is not known": (lambda _, rows: ids(rows.where(f"({MIXED}) and hash(id) is not null")), [2]),
    "or a part that is not known": (lambda _, rows: ids(rows.where(f"{MIXED} or hash(id) = 0")), [FILES]),
    "cached": (lambda _, rows: kept(rows.where(MIXED)), [FILES]),
    "not executed by a query": (lambda _, rows: rows.where(MIXED).rdd.count(), [FILES]),
}


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows.select("id").collect())


def kept(rows: Any) -> list[int]:
    rows.cache()
    try:
        return ids(rows)
    finally:
        rows.unpersist()


@pytest.fixture
def answers(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each answer to Spark has."""
    assert file_index.is_possible(spark)  # tries with a file of its own, once
    found: list[int] = []
    real = Jvm.file_statuses

    def noted(self: Jvm, groups: list[list[FileToRead]]) -> Any:
        found.append(sum(map(len, groups)))
        return real(self, groups)

    monkeypatch.setattr(Jvm, "file_statuses", noted)
    return found


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Any:
    """Eight files, each of one city and two fares."""
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    numbers = range(2 * FILES)
    table.bulk_insert(pa.table([numbers, [f"c{number // 2}" for number in numbers], numbers], schema=SCHEMA))
    return spark.read.format("hudi").load(str(tmp_path / "t"))


@pytest.mark.parametrize("form", QUERIES)
def test_filter_of_partition_or_other_column_leaves_files_out_of_each_form_of_query(
    spark: Any, rows: Any, answers: list[int], form: str
) -> None:
    ask, files = QUERIES[form]

    pruned = ask(spark, rows)

    assert sorted(answers) == files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_index, "filter_of_asking_scan", lambda _: None)
        assert pruned == ask(spark, rows)


def test_random_filters_of_partitions_and_other_columns_give_the_rows_that_all_files_give(
    spark: Any, rows: Any, answers: list[int]
) -> None:
    chance = random.Random(11)

    def one() -> str:
        number = chance.randrange(2 * FILES)
        return chance.choice(
            [f"city = 'c{number // 2}'", f"city > 'c{number // 2}'", f"fare = {number}", f"fare < {number}", "id = 3"]
        )

    conditions = [
        f"({one()} {chance.choice(['and', 'or'])} {one()}) {chance.choice(['and', 'or', 'and not', 'or not'])} {one()}"
        for _ in range(6)
    ]
    pruned = [ids(rows.where(condition)) for condition in conditions]

    assert sum(answers) < FILES * len(conditions)
    plain = spark.createDataFrame(rows.select("id", "city", "fare").collect())
    for condition, found in zip(conditions, pruned, strict=True):
        assert found == ids(plain.where(condition)), condition
