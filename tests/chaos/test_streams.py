"""Whether the judge of `make chaos-streams` sees what is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.chaos import streams

import pyhudi


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), ["oslo"] * len(ids), [0] * len(ids)], schema=streams.SCHEMA)


def tables(folder: Path) -> list[pyhudi.HudiTable]:
    return [
        pyhudi.HudiTable.create(folder / name, schema=streams.SCHEMA, record_key="id", partition_by="city")
        for name in ("source", "copy")
    ]


def test_the_judge_of_streams_sees_rows_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    source, copy = tables(tmp_path)
    source.insert(rows(1, 2, 3))
    for name, batch in (("q/0", rows(1)), ("q/1", rows(2, 2)), ("p/2", rows(9))):
        copy.refresh().bulk_insert(batch, hudi_options={"hoodie.write.batch.id": name})
    found = " ".join(streams.problems_of(tmp_path))
    for says in ("too few: (3,", "too many: (2,", "too many: (9,", "changed its id"):
        assert says in found


def test_the_judge_of_streams_sees_a_micro_batch_that_was_written_twice(tmp_path: Path) -> None:
    source, copy = tables(tmp_path)
    source.insert(rows(1))
    for _ in range(2):
        # As the extra metadata of a commit, which nobody checks.
        copy.refresh().upsert(rows(1), hudi_options={streams.BATCH_ID_METADATA: "q/0"})
    assert streams.problems_of(tmp_path) == ["written twice: q/0"]
