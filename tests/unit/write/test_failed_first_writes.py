"""A first write that fails leaves the folder as it found it, whatever else lies there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import RecordKeyError

OPTIONS = {
    "hoodie.table.name": "outer",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.operation": "bulk_insert",
}
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


def batch(ids: list[int | None], city: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), pa.array([city] * len(ids))], schema=SCHEMA)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a table in it."""
    trips = pyhudi.HudiTable.create(str(tmp_path / "trips"), schema=SCHEMA, record_key="id", partition_by="city")
    trips.insert(pa.Table.from_batches([batch([1], "oslo"), batch([2], "rome")]))
    return tmp_path


def test_first_write_that_is_refused_above_another_table_touches_none_of_its_files(lake: Path) -> None:
    before = files_below(lake)

    with pytest.raises(RecordKeyError):
        pyhudi.save(pa.Table.from_batches([batch([None], "oslo")]), str(lake), hudi_options=OPTIONS)

    assert files_below(lake) == before


def test_first_write_that_fails_halfway_takes_its_own_partitions_away_and_no_others(lake: Path) -> None:
    before = files_below(lake)
    halfway = pa.RecordBatchReader.from_batches(SCHEMA, [batch([3], "wien"), batch([None], "oslo")])

    with pytest.raises(RecordKeyError):
        pyhudi.save(halfway, str(lake), hudi_options=OPTIONS)

    assert files_below(lake) == before


def test_first_write_that_fails_leaves_partition_metadata_that_another_write_made(tmp_path: Path) -> None:
    kept = tmp_path / "wien" / ".hoodie_partition_metadata"
    kept.parent.mkdir()
    kept.write_text("commitTime=20250101000000000\npartitionDepth=1\n")
    halfway = pa.RecordBatchReader.from_batches(SCHEMA, [batch([3], "wien"), batch([None], "oslo")])

    with pytest.raises(RecordKeyError):
        pyhudi.save(halfway, str(tmp_path), hudi_options=OPTIONS)

    assert list(files_below(tmp_path)) == ["wien/.hoodie_partition_metadata"]
