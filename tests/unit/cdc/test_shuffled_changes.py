"""The table that is made of shuffled change data equals the table of the database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.change_data import KINDS, Database

import pyhudi
from pyhudi.cdc import flatten, table_options


def stored_rows(table: pyhudi.HudiTable | None) -> Callable[[pa.Table], pa.Table]:
    """The rows of a table with some ids."""

    def rows(keys: pa.Table) -> pa.Table:
        if table is None:
            return keys.slice(0, 0)
        return table.scan(where=[("id", "in", keys["id"].to_pylist())]).to_arrow()

    return rows


def write(path: Path, kind: str, rows: pa.Table) -> pyhudi.HudiTable:
    options = {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        **table_options(kind),
    }
    pyhudi.save(rows, path, hudi_options=options)
    return pyhudi.HudiTable.for_path(path)


def data_of(rows: pa.Table) -> list[dict[str, Any]]:
    columns = [name for name in rows.column_names if not name.startswith("_") and name != "db_shard_source_partition"]
    return sorted(rows.select(columns).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([7, 60]))
def test_table_of_changes_shuffled_within_batches_equals_the_source(
    tmp_path_factory: pytest.TempPathFactory, kind: str, seed: int, size: int
) -> None:
    database, path, table = Database(kind, seed), tmp_path_factory.mktemp("t") / "table", None
    for _ in range(60):
        database.change()
    for batch in database.in_batches(size):
        table = write(path, kind, flatten(batch, keys=["id"], stored=stored_rows(table)))
    assert table is not None
    assert data_of(table.scan().to_arrow()) == [database.rows[key] for key in sorted(database.rows)]
