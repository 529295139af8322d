"""A write whose table another process replaces while its rows are read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import TableNotFoundError, WriteConflictError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
FIRST: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering_fields": "n"}


def make_empty(path: Path, schema: pa.Schema = SCHEMA) -> None:
    pyhudi.HudiTable.create(path, schema=schema, **FIRST)


def make(path: Path, **described: Any) -> None:
    rows = pa.table({"id": [1, 2], "city": ["oslo", "rome"], "n": [5, 5]}, schema=SCHEMA)
    pyhudi.HudiTable.create(path, schema=SCHEMA, **{**FIRST, **described}).upsert(rows)


def upsert_during(path: Path, change: Callable[[], None]) -> None:
    """Upsert rows in two batches, between which the table changes."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[7], ["bern"], [7]], schema=SCHEMA)
        change()
        yield pa.record_batch([[8], ["bern"], [8]], schema=SCHEMA)

    pyhudi.HudiTable.for_path(path).upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))


@pytest.mark.parametrize(
    "described",
    [
        {"record_key": "n"},
        {"partition_by": None},
        {"table_type": "mor"},
        {"ordering_fields": None},
        {"hudi_options": {"hoodie.datasource.write.hive_style_partitioning": "true"}},
    ],
    ids=lambda described: next(iter(described)),
)
def test_table_that_is_made_anew_otherwise_while_rows_are_read_gets_none_of_them(
    tmp_path: Path, described: dict[str, Any]
) -> None:
    path = tmp_path / "t"
    make(path)

    def made_anew() -> None:
        shutil.rmtree(path)
        make(path, **described)

    with pytest.raises(WriteConflictError, match="another table at its path"):
        upsert_during(path, made_anew)

    assert sorted(pyhudi.HudiTable.for_path(path).scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_empty_table_that_is_made_anew_with_other_columns_gets_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make_empty(path)
    other = SCHEMA.append(pa.field("late", pa.string()))

    def made_anew() -> None:
        shutil.rmtree(path)
        make_empty(path, other)

    with pytest.raises(WriteConflictError, match="schema"):
        upsert_during(path, made_anew)

    table = pyhudi.HudiTable.for_path(path)
    assert (table.schema.names, table.scan().to_arrow().num_rows) == (other.names, 0)


def test_table_that_is_made_anew_as_it_was_gets_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)

    def made_anew() -> None:
        shutil.rmtree(path)
        make(path)

    upsert_during(path, made_anew)

    assert sorted(pyhudi.HudiTable.for_path(path).scan().to_arrow()["id"].to_pylist()) == [1, 2, 7, 8]


def test_table_that_is_dropped_while_rows_are_read_is_missed_and_can_be_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)

    with pytest.raises(TableNotFoundError):
        upsert_during(path, lambda: shutil.rmtree(path))

    make(path)
    assert sorted(pyhudi.HudiTable.for_path(path).scan().to_arrow()["id"].to_pylist()) == [1, 2]
