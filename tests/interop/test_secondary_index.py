"""Secondary indexes that JVM Hudi made and both engines keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.format.metadata_table.keys import split_secondary_keys
from pyhudi.format.metadata_table.schema import SECONDARY_INDEX_COLUMN
from pyhudi.metadata_table.lookup import all_records
from pyhudi.metadata_table.state import load_metadata_state

SCHEMA: Final = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
LOCK: Final = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
TABLE: Final = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.write.lock.provider": LOCK,
}
NAMES: Final = ("plain", "a$b", "x\\y", "", None, "é\ue000", "\U0001f600")


@pytest.mark.parametrize(
    ("version", "kind"),
    [pytest.param(9, "COPY_ON_WRITE", marks=pytest.mark.quick), (9, "MERGE_ON_READ"), (8, "MERGE_ON_READ")],
)
def test_the_index_is_the_projection_of_the_table_whoever_writes(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, version: int, kind: str
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    theirs = {**TABLE, "hoodie.datasource.write.table.type": kind, "hoodie.datasource.write.operation": "upsert"}
    ours = {name: value for name, value in TABLE.items() if name != "hoodie.write.lock.provider"}
    name = f"si_{version}_{kind.lower()}"
    oracle.write(path, _rows(range(30), ts=1), theirs, mode="overwrite")
    oracle.sql(f"create table {name} using hudi location '{path}'")
    oracle.sql(f"set hoodie.write.lock.provider={LOCK}")
    oracle.sql(f"create index by_name on {name} (name)")
    _check(path, nulls=version == 9)
    for turn in range(2):
        ours_now = pyhudi.HudiTable.for_path(str(path), hudi_options={**ours, "hoodie.index.type": "RECORD_INDEX"})
        ours_now.upsert(_rows(range(20, 40), ts=10 + turn, shift=turn + 1))
        ours_now.refresh().delete(_rows(range(turn, turn + 3), ts=20).select(["id", "p"]))
        ours_now.refresh().services.cluster(
            hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "100000000"}
        )
        _check(path, nulls=version == 9)
        oracle.write(path, _rows(range(35, 45), ts=30 + turn, shift=turn + 3), theirs)
        _check(path, nulls=version == 9)
    oracle.sql(f"refresh table {name}")
    everything = pyhudi.HudiTable.for_path(str(path)).scan(["id", "name"]).to_arrow().to_pylist()
    for wanted in ("plain", "", "é\ue000"):
        answer = oracle.sql(f"select id from {name} where name = '{wanted}'")
        assert {row["id"] for row in answer} == {row["id"] for row in everything if row["name"] == wanted}


def _check(path: Path, *, nulls: bool) -> None:
    """Compare the entries with the rows of the table. `nulls`: rows without a value have entries, too."""
    table = pyhudi.HudiTable.for_path(str(path))
    state = load_metadata_state(table.handle.state)
    (name,) = (name for name in table.handle.state.config.metadata_partitions if name.startswith("secondary_index"))
    entries = []
    for part in all_records(state, name, SECONDARY_INDEX_COLUMN):
        values, keys = split_secondary_keys(part.column("key").combine_chunks(), path=name)
        entries += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    rows = table.scan(["_hoodie_record_key", "name"]).to_arrow().to_pylist()
    expected = [(row["_hoodie_record_key"], row["name"]) for row in rows if nulls or row["name"] is not None]
    assert sorted(entries, key=repr) == sorted(expected, key=repr)


def _rows(numbers: range, *, ts: int, shift: int = 0) -> pa.Table:
    columns = [
        [f"k${number:03}" for number in numbers],
        [f"p{number % 3}" for number in numbers],
        [ts] * len(numbers),
        [NAMES[(number + shift) % len(NAMES)] for number in numbers],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
