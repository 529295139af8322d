"""Copies of tables that JVM Hudi wrote: JVM Hudi and hudi-rs read them as the table, and JVM Hudi goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.neighbours import SharedTable, assert_everybody_sees, batch, file_lock
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

FIRST = [("k0", "p0", 1, "first"), ("k1", "p1", 1, "first"), ("k2", "p0", 1, "first")]
SECOND = [("k0", "p0", 2, "second"), ("k3", "p2", 2, "second")]
THIRD = [("k2", "p0", 3, "third"), ("k4", "p2", 3, "third")]
BEFORE = [*SECOND, ("k2", "p0", 1, "first")]
KINDS = [
    pytest.param(version, kind, id=f"v{version}-{kind}".lower(), marks=pytest.mark.quick if version == 9 else ())
    for version in RELEASE_OF_TABLE_VERSION
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


@pytest.mark.parametrize("newest", [False, True], ids=["copy", "export"])
@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_copy_of_a_table_of_jvm_hudi_is_read_and_written_as_the_table(
    version: int, kind: str, newest: bool, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    table = SharedTable(tmp_path / "t", version, kind, file_lock())
    oracle = oracle_of(table.release)
    table.write_with_jvm(oracle, batch(FIRST), **{"hoodie.metadata.enable": "true"})
    table.write_with_jvm(oracle, batch(SECOND, gone=[("k1", "p1", 2, "gone")]), **{"hoodie.metadata.enable": "true"})
    done = table.open().recovery.copy(tmp_path / "copy", newest=newest)
    assert "files" in done.metadata_partitions
    copy = replace(table, path=tmp_path / "copy")
    assert_everybody_sees(copy, oracle, BEFORE)
    copy.write_with_jvm(oracle, batch(THIRD), **{"hoodie.metadata.enable": "true"})
    assert_everybody_sees(copy, oracle, [*SECOND, *THIRD])
    assert_everybody_sees(table, oracle, BEFORE)
    assert copy.open().inspect.metadata_check().num_rows == 0
