"""Bloom filters that packing has renewed: JVM Hudi finds by them each key that is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.oracle import Oracle
from tests.support.tables import SCHEMA

import pyhudi
from pyhudi.format.bloom import BLOOM_FILTER_KEY, BloomFilterType, parse_bloom_filter

ROWS = 2000


def numbered(count: int, first: int = 0, note: str = "a") -> pa.Table:
    ids = range(first, first + count)
    return pa.table([ids, ["oslo"] * count, [1] * count, [note] * count], schema=SCHEMA)


@pytest.mark.parametrize(("turns", "most"), [(5, "100000"), (1, "500")], ids=["packed", "as large as it may be"])
@pytest.mark.parametrize("release", ["0.15.0", "1.2.0"])
def test_jvm_hudi_finds_all_keys_by_filters_that_packing_has_renewed(
    release: str, turns: int, most: str, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    path, judge = tmp_path / "table", oracle_of(release)
    table = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        name="t",
        table_version={"0.15.0": 6, "1.2.0": 9}[release],
    )
    options = {
        "hoodie.index.bloom.num_entries": "200",
        "hoodie.index.bloom.fpp": "0.001",
        "hoodie.bloom.index.filter.dynamic.max.entries": most,
    }
    each = ROWS // turns
    for turn in range(turns):
        table.refresh().upsert(numbered(each, turn * each), hudi_options=options)
    (file,) = table.refresh().inspect.files().column("path").to_pylist()
    footer = pq.read_metadata(path / file).metadata
    stored = parse_bloom_filter(footer[BLOOM_FILTER_KEY.encode()].decode(), BloomFilterType.DYNAMIC_V0)
    assert stored.row_capacity > 1000
    assert len(stored.rows) <= 2
    assert stored.hashes == (10 if turns > 1 else 2)

    changed = pa.concat_tables([numbered(ROWS, note="b"), numbered(50, ROWS, note="b")])
    described = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.prune.by.ranges": "false",
        "hoodie.metadata.enable": "false",
    }
    judge.write(str(path), changed, described)

    now = table.refresh().scan(["id", "note"]).to_arrow()
    assert sorted(now.column("id").to_pylist()) == list(range(ROWS + 50))
    assert set(now.column("note").to_pylist()) == {"b"}
