"""Checkpoints of the streamer in tables that JVM Hudi writes, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.ingestions import FIRST_MS, Landing
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
import pyhudi.streamer

OracleOf = Callable[[str], Oracle]
V1, V2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"


@pytest.mark.parametrize(("version", "key"), [(6, V1), (8, V2), (9, V1)])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_streamer_goes_on_after_commits_of_jvm_hudi_and_keeps_its_checkpoint_among_them(
    oracle_of: OracleOf, tmp_path: Path, version: int, key: str, table_type: str
):
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path, landing = tmp_path / "t", Landing(tmp_path / "landing")
    for number in range(4):
        landing.put(f"f{number}", [number], ms=FIRST_MS + number)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.write.table.version": str(version),
        "hoodie.metadata.enable": "false",  # checkpoints are in commits alone
    }
    row = pa.table({"id": pa.array([100], pa.int64()), "note": ["of JVM Hudi"]})
    # As HoodieStreamer leaves the table after it has read the files f0 and f1.
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": key.partition(".")[0] + "."}
    oracle.write(path, row, {**options, **prefix, key: str(FIRST_MS + 1)})

    def ingest() -> pyhudi.streamer.StreamerResult:
        return pyhudi.streamer.run(
            path,
            op="INSERT",
            source_limit=1,
            hoodie_conf={"hoodie.streamer.source.dfs.root": str(landing.folder)},
        )

    assert ingest().items == 1
    oracle.write(path, row, options)
    assert ingest().items == 1
    assert ingest().items == 0
    expected = [2, 3, 100]
    assert sorted(pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist()) == expected
    assert sorted(oracle.read(path)["id"].to_pylist()) == expected
