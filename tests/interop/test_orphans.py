"""A file that a task makes after its write was rolled back: JVM Hudi must not show it, whoever archives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import Oracle

import pyhudi

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
}
ARCHIVES_SOON = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.automatic": "false",
}


def row(key: str, value: int) -> pa.Table:
    return pa.table({"id": [key], "p": ["a"], "ts": [value], "v": [value]})


def table_with_orphan(path: Path, version: int) -> Path:
    """A table of two writes, and what a task of a write between them left after it had been rolled back."""
    pyhudi.save(row("first", 1), str(path), hudi_options={**OPTIONS, "hoodie.write.table.version": str(version)})
    table = pyhudi.HudiTable.for_path(str(path))
    dead = table.bulk_insert(row("zombie", 1))  # makes a file group of its own
    (file,) = (path / one for one in table.refresh().inspect.files().column("path").to_pylist() if dead.instant in one)
    content = file.read_bytes()
    table.refresh().recovery.rollback(dead.instant)
    assert not file.exists()
    pyhudi.HudiTable.for_path(str(path)).upsert(row("second", 1))
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(("release", "version"), [("1.2.0", 9), ("0.15.0", 6)])
def test_a_file_that_outlived_its_rollback_is_gone_before_jvm_hudi_archives(
    release: str, version: int, oracle_of: Callable[[str], Oracle], tmp_path: Path
) -> None:
    oracle = oracle_of(release)
    keys: dict[str, set[str]] = {}
    for name, writes_again in (("left", False), ("removed", True)):
        path = tmp_path / name
        orphan = table_with_orphan(path, version)
        if writes_again:
            pyhudi.HudiTable.for_path(str(path)).upsert(row("second", 2))
            assert not orphan.exists()
        for value in range(3, 10):
            oracle.write(path, row("second", value), {**OPTIONS, **ARCHIVES_SOON})
        keys[name] = set(oracle.read(path).column("id").to_pylist())
        mine = set(pyhudi.HudiTable.for_path(str(path)).scan(["id"]).to_arrow().column("id").to_pylist())
        assert mine == {"first", "second"}

    # The first shows what JVM Hudi makes of such a file; else this test would prove nothing.
    assert keys == {"left": {"first", "second", "zombie"}, "removed": {"first", "second"}}
