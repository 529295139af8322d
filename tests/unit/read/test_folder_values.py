"""Which values of partition columns the folders of files tell exactly."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import new_table, open_table

from pyhudi.config.read_config import ReadConfig
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.spark.reads import parquet_files
from pyhudi.spark.reads.parquet_files import values_of_folders
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table


def written(kind: pa.DataType, values: Sequence[Any], *, partition_by: str = "p", **more: str) -> MemoryStorage:
    """A table with a row in each partition, each in a write of its own."""
    storage = MemoryStorage()
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("p", kind), ("q", pa.int32())])
    options: dict[str, Any] = {"hoodie.datasource.write.partitionpath.field": partition_by, **more}
    new_table(storage, schema=schema, **options)
    for number, value in enumerate(values):
        rows = pa.table([[number], [0], pa.array([value], kind), pa.array([number % 2], pa.int32())], schema=schema)
        open_table(storage, **{**options, "hoodie.parquet.small.file.limit": "0"}).insert(rows)
    return storage


def planned(storage: MemoryStorage) -> ScanPlan:
    return plan_table_scan(load_table(storage), ReadConfig.from_options({}))


def known(storage: MemoryStorage) -> dict[str, list[Any]]:
    plan = planned(storage)
    return {name: sorted(values, key=repr) for name, values in values_of_folders(plan, plan.slices).items()}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["oslo", "São Paulo", "north/west", "7", "007"]),
        (pa.string(), ["oslo", None]),
        (pa.string(), ["oslo", ""]),
        (pa.string(), [None, ""]),
        (pa.int32(), [7, -30, 0, None]),
        (pa.int64(), [2**62]),
        (pa.date32(), [dt.date(1999, 12, 31), None]),
    ],
    ids=str,
)
def test_texts_integers_and_dates_are_told_with_their_nulls(kind: pa.DataType, values: list[Any]) -> None:
    assert known(written(kind, values)) == {"p": sorted(values, key=repr)}


def test_each_column_of_several_is_told() -> None:
    assert known(written(pa.string(), ["oslo", "rome"], partition_by="p,q")) == {"p": ["oslo", "rome"], "q": [0, 1]}


def test_nulls_and_empty_texts_in_one_file_are_not_told() -> None:
    storage = written(pa.string(), ["oslo"])
    table = open_table(storage)
    rows = pa.table([[8, 9], [0, 0], ["", None], [0, 0]], schema=table.schema)
    table.insert(rows)

    assert known(storage) == {}


def test_too_many_files_of_nulls_and_empty_texts_are_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = written(pa.string(), [None, ""])
    monkeypatch.setattr(parquet_files, "FOOTERS_OF_NULLS_MAX", 1)

    assert known(storage) == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int32(), "007"),
        (pa.int32(), "+7"),
        (pa.int32(), "x"),
        (pa.int8(), "300"),
        (pa.date32(), "2024-1-31"),
        (pa.date32(), "1899-12-31"),
        (pa.date32(), "19700"),
        (pa.float64(), "1.0"),
        (pa.bool_(), "true"),
    ],
    ids=str,
)
def test_texts_that_may_stand_for_another_value_are_not_told(kind: pa.DataType, text: str) -> None:
    plan = planned(written(pa.string(), ["oslo"]))
    schema = pa.schema([field.with_type(kind) if field.name == "p" else field for field in plan.schema])
    slices = [replace(one, partition_values=(("p", text),)) for one in plan.slices]

    assert values_of_folders(replace(plan, schema=schema), slices) == {}


def test_values_that_the_path_does_not_have_are_not_told() -> None:
    plan = planned(written(pa.string(), ["oslo", "rome"]))
    first, second = plan.slices

    assert values_of_folders(plan, [first, replace(second, partition_values=())]) == {}
    assert values_of_folders(plan, []) == {}


def test_columns_with_one_name_but_for_its_case_are_not_told() -> None:
    plan = planned(written(pa.string(), ["oslo"]))

    assert values_of_folders(replace(plan, schema=plan.schema.append(pa.field("P", pa.int64()))), plan.slices) == {}


def test_key_generators_that_make_other_texts_are_not_asked() -> None:
    by_time = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy",
    }
    assert planned(written(pa.int64(), [0], **by_time)).folder_columns == ()
    mixed = {**by_time, "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"}
    assert planned(written(pa.int64(), [0], partition_by="p:TIMESTAMP,q:SIMPLE", **mixed)).folder_columns == ("q",)
