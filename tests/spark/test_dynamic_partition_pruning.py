"""Joins on a partition column open the files of the wanted partitions alone, and give the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows

import pyhudi

PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
ADAPTIVE = "spark.sql.adaptive.enabled"
HIVE_STYLE = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
TABLES: dict[str, tuple[str, pa.DataType, list[Any], dict[str, str]]] = {
    "text": ("true", pa.string(), ["a b", "oslo/west", "ä", None], {}),
    "text in hive style": ("false", pa.string(), ["a=b/c%", "Oslo", "oslo", ""], HIVE_STYLE),
    "integers": ("false", pa.int32(), [7, -30, None], HIVE_STYLE),
    "dates": ("true", pa.date32(), [dt.date(2024, 1, 31), dt.date(1999, 12, 31), None], {}),
}
"""Whether execution is adaptive, the type of the partition column, its values, and options."""


@contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    previous = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in previous.items():
            spark.conf.set(name, value)


def fact_table(path: Path, kind: pa.DataType, values: list[Any], **options: str) -> pyhudi.HudiTable:
    """Two rows for each value of the partition column `P`, which is in the middle."""
    schema = pa.schema([("id", pa.int64()), ("P", kind), ("fare", pa.int64())])
    table = pyhudi.HudiTable.create(
        str(path),
        schema=schema,
        record_key="id",
        partition_by="P",
        table_type=options.pop("type", "cow"),
        hudi_options=options,
    )
    numbers = range(2 * len(values))
    table.bulk_insert(pa.table([list(numbers), [*values, *values], list(numbers)], schema=schema))
    return table.refresh()


def dimension(spark: Any, path: Path, kind: pa.DataType, values: list[Any]) -> Any:
    """A row for each value, and its number in column `x`."""
    schema = pa.schema([("key", pa.int64()), ("q", kind), ("x", pa.int64())])
    table = pyhudi.HudiTable.create(str(path), schema=schema, record_key="key")
    numbers = list(range(len(values)))
    table.bulk_insert(pa.table([numbers, values, numbers], schema=schema))
    return spark.read.format("hudi").load(str(path))


def joined(fact: Any, dim: Any, condition: str) -> list[tuple[Any, ...]]:
    rows = fact.join(dim.where(condition), fact["p"] == dim.q).select(fact.id, fact["p"], fact.fare, dim.x)
    return sorted(tuple(row) for row in rows.collect())


def remove_others(root: Path, table: pyhudi.HudiTable, wanted: Any) -> None:
    """Delete the files of all other partitions than that of a value."""
    kept = table.scan(where=[("P", "==", wanted)]).files().column("path").to_pylist()
    for file in {*root.rglob("*.parquet")} - {root / each for each in kept}:
        file.unlink()


@pytest.mark.parametrize("name", TABLES)
def test_join_on_a_partition_column_opens_the_files_of_the_wanted_partitions_alone(
    spark: Any, tmp_path: Path, name: str
) -> None:
    adaptive, kind, values, options = TABLES[name]
    table = fact_table(tmp_path / "fact", kind, values, **options)
    fact = spark.read.format("hudi").load(str(tmp_path / "fact"))
    dim = dimension(spark, tmp_path / "dim", kind, values)
    assert_same_rows(table.scan().to_arrow(), fact.toArrow())
    assert fact.columns[-3:] == ["id", "P", "fare"]
    wanted = [(0, values[0], 0, 0), (len(values), values[0], len(values), 0)]
    with configured(spark, {PRUNING: "false"}):
        everything = joined(fact, dim, "x >= 0")
    assert [row for row in everything if row[3] == 0] == wanted
    assert joined(fact, dim, "x >= 0") == everything

    remove_others(tmp_path / "fact", table, values[0])

    with configured(spark, {ADAPTIVE: adaptive}):
        assert joined(fact, dim, "x = 0") == wanted


def test_join_without_pruning_opens_all_files(spark: Any, tmp_path: Path) -> None:
    _, kind, values, options = TABLES["integers"]
    table = fact_table(tmp_path / "fact", kind, values, **options)
    fact = spark.read.format("hudi").load(str(tmp_path / "fact"))
    dim = dimension(spark, tmp_path / "dim", kind, values)
    remove_others(tmp_path / "fact", table, values[0])

    with configured(spark, {PRUNING: "false"}), pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound"):
        joined(fact, dim, "x = 0")


def test_joins_on_changed_tables_have_the_same_rows_with_and_without_pruning(spark: Any, tmp_path: Path) -> None:
    cities = ["oslo", "rome", "bonn", None]
    options = {"type": "mor", "hoodie.compact.inline": "false"}
    table = fact_table(tmp_path / "fact", pa.string(), cities, **options)
    first = table.inspect.last_write()
    assert first is not None
    changed = pa.table([[0, 2, 9], ["oslo", "bonn", "rome"], [50, 51, 52]], schema=table.schema)
    table.upsert(changed)
    dim = dimension(spark, tmp_path / "dim", pa.string(), cities)
    reads = [
        ({}, [(0, "oslo", 50, 0), (1, "rome", 1, 1), (4, "oslo", 4, 0), (5, "rome", 5, 1), (9, "rome", 52, 1)]),
        (
            {"as.of.instant": str(first.instant)},
            [(0, "oslo", 0, 0), (1, "rome", 1, 1), (4, "oslo", 4, 0), (5, "rome", 5, 1)],
        ),
        (
            {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": str(first.completion_time),
            },
            [(0, "oslo", 50, 0), (9, "rome", 52, 1)],
        ),
        (
            {"hoodie.datasource.query.type": "read_optimized"},
            [(0, "oslo", 0, 0), (1, "rome", 1, 1), (4, "oslo", 4, 0), (5, "rome", 5, 1), (9, "rome", 52, 1)],
        ),
    ]
    for read, expected in reads:
        fact = spark.read.format("hudi").options(**read).load(str(tmp_path / "fact"))
        for pruning in ("true", "false"):
            with configured(spark, {PRUNING: pruning}):
                assert joined(fact, dim, "x < 2") == expected, (read, pruning)


def test_filters_on_partition_columns_are_decided_as_spark_decides_them(spark: Any, tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 1), None]
    fact_table(tmp_path / "fact", pa.date32(), days)
    fact = spark.read.format("hudi").load(str(tmp_path / "fact"))
    conditions = {
        "month(p) = 1": [0, 3],
        "p is null": [2, 5],
        "p is null or p > '2024-01-31'": [1, 2, 4, 5],
        "not p <=> date '2024-02-01'": [0, 2, 3, 5],
        "cast(p as string) like '%-31' or rand() < 0": [0, 3],
        "p = (select max(q) from values (date '2024-01-31') as t(q))": [0, 3],
        "p in (select q from values (date '2024-02-01') as t(q)) and fare > 1": [4],
        "p = '2024-01-31' and fare = 1 or p = '2024-02-01' and fare = 4": [4],
    }
    for condition, expected in conditions.items():
        assert sorted(row.id for row in fact.where(condition).select("id").collect()) == expected, condition
    assert sorted(tuple(row) for row in fact.groupBy("p").count().collect() if row.p) == [(days[0], 2), (days[1], 2)]


def test_record_that_jvm_hudi_left_in_its_old_folder_has_the_value_of_the_folder(spark: Any, tmp_path: Path) -> None:
    """So JVM Hudi shows it, whose global indexes do not move records: the file has the new value."""
    table = fact_table(tmp_path / "fact", pa.string(), ["oslo", "rome"])
    (path,) = table.scan(where=[("P", "==", "oslo")]).files().column("path").to_pylist()
    stored = pq.read_table(tmp_path / "fact" / path, partitioning=None)
    at = stored.column_names.index("P")
    pq.write_table(stored.set_column(at, stored.field(at), pa.array(["oslo", "rome"])), tmp_path / "fact" / path)

    fact = spark.read.format("hudi").load(str(tmp_path / "fact"))

    assert sorted(tuple(row) for row in fact.select("id", "P").collect()) == [
        (0, "oslo"),
        (1, "rome"),
        (2, "oslo"),
        (3, "rome"),
    ]
    assert sorted(row.id for row in fact.where("P = 'oslo'").collect()) == [0, 2]
