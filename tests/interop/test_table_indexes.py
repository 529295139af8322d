"""JVM Hudi finds, keeps and drops an index that pyhudi built, and pyhudi goes on with those of JVM Hudi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import Oracle
from tests.support.record_entries import entries_of_index, places_of_records
from tests.support.tables import Row, rows

import pyhudi
from pyhudi.storage.local import LocalStorage

CITIES = ("oslo", "rome")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_record_index_built_here_is_used_kept_and_dropped_by_jvm_hudi(
    kind: str, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    path, judge = tmp_path / "table", oracle_of("1.2.0")
    described = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.metadata.enable": "true",
    }
    table = pyhudi.HudiTable.create(
        path,
        schema=rows().schema,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        name="t",
        table_type=kind,
    )
    expected: dict[int, Row] = {}

    def upsert(*values: Row) -> None:
        table.upsert(rows(*values), hudi_options={"hoodie.index.type": "GLOBAL_SIMPLE"})
        expected.update({row[0]: row for row in values})

    def assert_true() -> None:
        mine = table.refresh().scan().to_arrow()
        assert_same_rows(judge.read(str(path)), mine)
        assert sorted(tuple(row.values()) for row in mine.select(rows().schema.names).to_pylist()) == sorted(
            expected.values()
        )
        assert entries_of_index(LocalStorage(path)) == places_of_records(LocalStorage(path))

    upsert(*((n, CITIES[n % 2], 1, "a") for n in range(20)))
    table.indexes.create("record_index")
    upsert((0, "oslo", 2, "b"), (30, "bern", 1, "a"))
    assert_true()

    theirs = ((3, "rome", 5, "j"), (30, "bern", 5, "j"), (40, "oslo", 5, "j"))
    indexed = {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
    }
    judge.write(str(path), rows(*theirs), {**described, **indexed})
    expected.update({row[0]: row for row in theirs})
    assert_true()
    upsert((40, "rome", 6, "k"), (50, "oslo", 6, "k"))
    table.indexes.refresh("record_index")
    upsert((50, "oslo", 7, "l"))
    assert_true()

    judge.sql(f"create table indexed_{kind} using hudi location '{path}'")
    shown = judge.sql(f"show indexes from indexed_{kind}")
    assert "record_index" in {row["index_name"] for row in shown}
    (found,) = judge.sql(f"select note from indexed_{kind} where id = 50")
    assert found["note"] == "l"
    judge.sql("set hoodie.write.concurrency.mode=optimistic_concurrency_control")
    judge.sql("set hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider")
    judge.sql(f"drop index record_index on indexed_{kind}")
    assert "record_index" not in table.refresh().indexes.list().column("name").to_pylist()
    upsert((50, "oslo", 8, "m"))
    assert_same_rows(judge.read(str(path)), table.refresh().scan().to_arrow())
