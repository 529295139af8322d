"""The example of the paper on bootstraps: `fact_events` becomes `fact_events_hudi`, and takes its first upsert."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.format.bloom import BLOOM_FILTER_KEY, MAX_RECORD_KEY_KEY, MIN_RECORD_KEY_KEY
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.file_slice import FileGroupId

DAYS = ("year=2015/month=12/day=31", "year=2016/month=1/day=1")


def fact_events(folder: Path) -> Path:
    """Two days with files of events whose keys are not in order."""
    for number, day in enumerate(DAYS):
        (folder / day).mkdir(parents=True)
        for file in ("file1", "file2"):
            keys = [f"{number}-{file}-{row}" for row in (3, 1, 2)]
            events = pa.table({"event_id": keys, "what": ["view", "click", None], "seen": [3, 1, 2]})
            pq.write_table(events, folder / day / f"{file}.parquet")
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*.parquet"))}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_example_of_the_paper(tmp_path: Path, table_type: str) -> None:
    source, target = fact_events(tmp_path / "fact_events"), tmp_path / "fact_events_hudi"
    before = hashes(source)

    table = pyhudi.HudiTable.bootstrap(source, target, record_key="event_id", table_type=table_type)

    # The same partitions, and one skeleton with an id of its own for each file: five columns, its rows in their order.
    assert sorted(table.inspect.partitions()["partition_path"].to_pylist()) == sorted(DAYS)
    skeletons = {path: parse_data_file(path.name) for path in target.rglob("*.parquet") if ".hoodie" not in path.parts}
    assert len({name.file_id for name in skeletons.values() if isinstance(name, BaseFileName)}) == 4
    index = load_sources(table.handle.state.storage, DAYS)
    assert len(index) == 4
    for path, name in skeletons.items():
        assert isinstance(name, BaseFileName)
        assert name.instant_time == "00000000000001"
        day = path.parent.relative_to(target).as_posix()
        beside = source / index[FileGroupId(day, name.file_id)].path
        assert beside.parent == source / day
        skeleton, events = pq.ParquetFile(path), pq.read_table(beside, partitioning=None)
        assert skeleton.schema_arrow.names == list(META_COLUMNS)
        rows = skeleton.read()
        # With several partition columns, record keys name their columns.
        keys = [f"event_id:{key}" for key in events["event_id"].to_pylist()]
        assert rows["_hoodie_record_key"].to_pylist() == keys
        assert set(rows["_hoodie_partition_path"].to_pylist()) == {day}
        assert set(rows["_hoodie_file_name"].to_pylist()) == {path.name}
        footer = {key.decode(): value.decode() for key, value in skeleton.metadata.metadata.items()}
        assert (footer[MIN_RECORD_KEY_KEY], footer[MAX_RECORD_KEY_KEY]) == (min(keys), max(keys))
        assert footer[BLOOM_FILTER_KEY]

    # The first upsert: a regular file of the same id, or a log, and the other rows keep the time of the bootstrap.
    late = pa.table(
        {"event_id": ["0-file1-1"], "what": ["buy"], "seen": [9], "year": [2015], "month": [12], "day": [31]}
    )
    written = table.upsert(late.cast(pa.schema([(name, table.schema.field(name).type) for name in late.schema.names])))
    table = table.refresh()
    if table_type == "mor":
        assert table.scan(query_type="read_optimized", where=[("what", "==", "buy")]).count() == 0
        table.services.compact()
        table = table.refresh()
    (changed,) = table.scan(where=[("event_id", "==", "0-file1-1")]).to_arrow().to_pylist()
    assert (changed["what"], changed["_hoodie_commit_time"]) == ("buy", written.instant)
    assert changed["_hoodie_file_name"].partition("_")[0] in {name.file_id for name in skeletons.values() if name}
    others = table.scan(where=[("event_id", "!=", "0-file1-1")]).to_arrow()
    assert set(others["_hoodie_commit_time"].to_pylist()) == {"00000000000001"}
    assert sorted(others["seen"].to_pylist()) == sorted([3, 2, *[3, 1, 2] * 3])
    assert hashes(source) == before
