"""No file with a row that Spark's filter keeps is left out: random filters over tables of all types.

Spark says once which filters each file has rows for; what the planner would be told for each filter must have them all.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

import pyhudi
from pyhudi.read.skipping.predicates import AllOf
from pyhudi.spark.reads import parquet_files
from pyhudi.spark.reads.catalyst import predicate_of
from pyhudi.spark.reads.file_index import IndexedFiles

UTC = dt.UTC
FILTERS = 60
OLDER = [
    ("id", pa.int64()),
    ("city", pa.string()),
    ("n", pa.int32()),
    ("day", pa.date32()),
    ("s", pa.string()),
    ("x", pa.float64()),
    ("y", pa.float32()),
    ("price", pa.decimal128(9, 2)),
    ("at", pa.timestamp("us", "UTC")),
    ("local", pa.timestamp("us")),
    ("flag", pa.bool_()),
]
NEWER = [*OLDER, ("late", pa.int64()), ("kind", pa.string())]
VALUES: dict[str, list[Any]] = {
    "city": ["oslo", "rome", "são paulo", "Oslo"],
    "n": [-3, 0, 7, 11],
    "day": [dt.date(1582, 10, 1), dt.date(1969, 12, 31), dt.date(2024, 1, 31), dt.date(2024, 2, 29)],
    "s": ["", "a", "ab", "b%", "é", "\uffff", "\U00010000", None],
    "x": [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 5.0, None],
    "y": [math.nan, 0.1, -0.0, 3.5, None],
    "price": [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999.99"), None],
    "at": [dt.datetime(2024, 11, 3, hour, 30, tzinfo=UTC) for hour in (4, 5, 6, 7)] + [None],
    "local": [dt.datetime(1890, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 1, 2), None],
    "flag": [True, False, None],
    "late": [1, 1 << 40, None],
    "kind": ["x", "y", None],
}
TESTS = ["=", "!=", "<", "<=", ">", ">=", "<=>"]


def batch(chance: random.Random, first: int, columns: list[tuple[str, pa.DataType]]) -> pa.Table:
    """Some rows, whose values are near to each other, so that files differ."""
    near = {name: chance.sample(values, 2) for name, values in VALUES.items()}
    for name in ("city", "n", "day"):
        near[name] = VALUES[name]
    ids = range(first, first + 12)
    values = {name: [chance.choice(near[name]) for _ in ids] for name, _ in columns[1:]}
    return pa.table({"id": ids, **values}, schema=pa.schema(columns))


def literal(name: str, value: Any) -> str:
    match value:
        case None:
            return "null"
        case dt.datetime():
            zone = "timestamp" if value.tzinfo else "timestamp_ntz"
            return f"{zone}'{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"date'{value}'"
        case float():
            return f"{'float' if name == 'y' else 'double'}('{value}')"
        case str():
            return f"'{value}'"
    return str(value)


def one_test(chance: random.Random) -> str:
    name = chance.choice(list(VALUES))
    value = literal(name, chance.choice(VALUES[name]))
    several = ", ".join(literal(name, each) for each in chance.choices(VALUES[name], k=3))
    forms = [
        *(f"{name} {chance.choice(TESTS)} {value}" for _ in range(4)),
        *(f"{name} in ({several})", f"{name} not in ({several})", f"{name} is null", f"{name} is not null"),
        f"{value} {chance.choice(TESTS)} {name}",
    ]
    if name in ("city", "s", "kind"):
        forms += [f"{name} like '{prefix}'" for prefix in ("a%", "%o", "%o%", "o%o", "é%")]
        forms += [f"upper({name}) = {value}", f"length({name}) > 2"]
    return "flag" if name == "flag" and chance.random() < 0.3 else chance.choice(forms)


def filter_text(chance: random.Random, depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.3:
        return one_test(chance)
    left, right = filter_text(chance, depth - 1), filter_text(chance, depth - 1)
    return chance.choice(
        [f"({left}) and ({right})", f"({left}) and ({right})", f"({left}) or ({right})", f"not ({left})"]
    )


def optimized(rows: Any, text: str) -> list[Any]:
    """The filters of a query as the optimizer leaves them; none where it knows the answer."""
    node, found = rows.where(text)._jdf.queryExecution().optimizedPlan(), []
    while node.children().length():
        if node.nodeName() == "Filter":
            found.append(node.condition())
        node = node.children().head()
    return found


@pytest.fixture
def relations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[IndexedFiles]]:
    made: list[IndexedFiles] = []
    real = parquet_files.indexed_rows

    def noted(spark: Any, files: IndexedFiles, options: Any) -> Any:
        made.append(files)
        return real(spark, files, options)

    monkeypatch.setattr(parquet_files, "indexed_rows", noted)
    return made


@pytest.mark.parametrize(
    ("partition_by", "options"),
    [
        (["city", "n"], {}),
        (["city", "n"], {"hoodie.metadata.index.column.stats.enable": "true"}),
        (["day"], {"hoodie.datasource.write.hive_style_partitioning": "true"}),
        ([], {}),
    ],
    ids=["city and n", "city and n, with statistics", "day=", "no partitions"],
)
def test_files_with_rows_for_a_filter_are_never_left_out(
    spark: Any, tmp_path: Path, relations: list[IndexedFiles], partition_by: list[str], options: dict[str, str]
) -> None:
    chance = random.Random(",".join(partition_by))
    path = str(tmp_path / "t")
    table = pyhudi.HudiTable.create(
        path, schema=pa.schema(OLDER), record_key="id", partition_by=partition_by or None, hudi_options=options
    )
    for number, columns in enumerate([OLDER, OLDER, NEWER, NEWER]):
        table.refresh().bulk_insert(batch(chance, 100 * number, columns))
    rows = spark.read.format("hudi").load(path)
    (files,) = relations
    texts = [filter_text(chance) for _ in range(FILTERS)]

    by_file = rows.groupBy(sql.col("_metadata.file_path").alias("path")).agg(
        *[sql.max(sql.coalesce(sql.expr(text), sql.lit(False))).alias(str(at)) for at, text in enumerate(texts)]
    )
    matches = {row["path"].rpartition("/")[2]: row for row in by_file.collect()}

    left_out = 0
    names = [file.uri.rpartition("/")[2] for file in files.files]
    assert set(names) == set(matches)
    for at, text in enumerate(texts):
        filters = optimized(rows, text)
        predicate = predicate_of(filters, files.schema) if filters else AllOf(())
        kept = {names[number] for number in files.matching(predicate)}
        assert {name for name in names if matches[name][str(at)]} <= kept, text
        left_out += len(names) - len(kept)
    assert left_out > len(names) * FILTERS / 10
