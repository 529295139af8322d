"""Tables on a real HDFS that JVM Hudi and pyhudi write in turn; after each write both see the same rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.hdfs import Hdfs, hdfs
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

__all__ = ["hdfs"]
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int32()), ("note", pa.string())])
KINDS = [
    pytest.param(
        version, table_type, id=f"v{version}-{table_type}".lower(), marks=() if version == 9 else pytest.mark.thorough
    )
    for version in RELEASE_OF_TABLE_VERSION
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


def rows(*ids: str, ts: int, note: str) -> pa.Table:
    return pa.table(
        [list(ids), [f"c{int(key[1:]) % 2}" for key in ids], [ts] * len(ids), [note] * len(ids)], schema=SCHEMA
    )


@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_table_on_hdfs_is_written_in_turn_and_read_by_both(
    version: int, table_type: str, hdfs: Hdfs, oracle_of: Callable[[str], Oracle]
) -> None:
    oracle, root = oracle_of(RELEASE_OF_TABLE_VERSION[version]), hdfs.new_root()
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": str(version),
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.compact.inline": "false",
        # 0.15.0 reads HFiles by classes of HBase that were made for Hadoop 2, and fails on the HDFS of Hadoop 3.
        "hoodie.metadata.enable": str(version > 6).lower(),
    }

    def assert_both_see(*expected: tuple[str, str]) -> None:
        ours = pyhudi.HudiTable.for_path(root).scan().to_arrow()
        assert sorted(zip(ours["id"].to_pylist(), ours["note"].to_pylist(), strict=True)) == sorted(expected)
        assert_same_rows(oracle.read(root, {"hoodie.metadata.enable": options["hoodie.metadata.enable"]}), ours)

    table = pyhudi.HudiTable.create(root, schema=SCHEMA, hudi_options=options)
    table.insert(rows("k1", "k2", "k3", ts=1, note="ours"))
    assert_both_see(("k1", "ours"), ("k2", "ours"), ("k3", "ours"))
    jvm_options = {**options, "hoodie.datasource.write.operation": "upsert"}
    oracle.write(root, rows("k2", "k4", ts=2, note="theirs"), jvm_options)
    assert_both_see(("k1", "ours"), ("k2", "theirs"), ("k3", "ours"), ("k4", "theirs"))
    table = pyhudi.HudiTable.for_path(root, hudi_options=options)
    table.upsert(rows("k3", "k4", ts=3, note="ours again"))
    table.delete(rows("k1", ts=4, note="").select(["id", "city"]))
    if table_type == "MERGE_ON_READ":
        assert table.services.compact() is not None
    assert_both_see(("k2", "theirs"), ("k3", "ours again"), ("k4", "ours again"))
    oracle.write(root, rows("k1", "k3", ts=5, note="theirs again"), jvm_options)
    assert_both_see(("k1", "theirs again"), ("k2", "theirs"), ("k3", "theirs again"), ("k4", "ours again"))
