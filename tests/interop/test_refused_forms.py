"""Tables and paths that JVM Hudi itself does not read, or not in full, and that pyhudi refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import Oracle, OracleError

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.read.table_of_path import plan_of_path

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
NAMES_OF_FORMAT = (
    "hoodie.table.base.file.format",
    "hoodie.datasource.write.base.file.format",
    "hoodie.base.file.format",
)
ORC = dict.fromkeys(NAMES_OF_FORMAT, "ORC")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "city": ["a" if one % 2 else "b" for one in ids], "ts": ids})


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_table_of_orc_files_is_refused_and_read_by_jvm_hudi_only_in_part(
    kind: str, oracle_of: Callable[[str], Oracle], tmp_path: Path
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / "t"
    options = {**OPTIONS, **ORC, "hoodie.datasource.write.table.type": kind}
    oracle.write(path, rows(1, 2), {**options, "hoodie.datasource.write.operation": "insert"}, mode="overwrite")
    oracle.write(path, rows(2, 3), {**options, "hoodie.datasource.write.operation": "upsert"})
    assert list(path.rglob("*.orc"))

    with pytest.raises(UnsupportedFeatureError, match="format ORC"):
        pyhudi.HudiTable.for_path(str(path))
    with pytest.raises(UnsupportedFeatureError, match="format ORC"):
        pyhudi.save(rows(4), str(path), hudi_options=OPTIONS)
    with pytest.raises(OracleError, match="OrcAtomicColumnVector"):
        oracle.read(path, {"hoodie.datasource.query.type": "read_optimized"})
    with pytest.raises(OracleError, match="orc format not supported yet"):
        oracle.write(path, rows(5), {**options, "hoodie.datasource.write.operation": "bulk_insert"})


def test_globs_are_refused_by_jvm_hudi_too(oracle_of: Callable[[str], Oracle], tmp_path: Path) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / "t"
    pyhudi.save(rows(1, 2), str(path), hudi_options=OPTIONS)

    for glob in ("*", "*/*", "a/*"):
        with pytest.raises(OracleError, match="Glob paths are not supported"):
            oracle.read(f"{path}/{glob}")
        with pytest.raises(UnsupportedFeatureError, match="globs are not supported"):
            plan_of_path(f"{path}/{glob}", {}, ReadConfig())
