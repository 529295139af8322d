"""Every column type, there and back, and through a rewrite of the file by the other side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import ALL_META, assert_same_rows
from tests.interop.parties import HudiRs, JvmHudi, Pyhudi
from tests.interop.zoo import VERSIONS, jvm_options, new_version, stored, zoo
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]

WRITES = ("bulk_insert", "insert")


def after_update(table: pa.Table) -> pa.Table:
    """What an upsert of `new_version(table, 0)` leaves."""
    return stored(pa.concat_tables([new_version(table, 0), table.slice(1)]))


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("version", VERSIONS)
def test_types_written_by_jvm_hudi_are_read_and_rewritten_by_us(
    version: int, operation: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    rows, path = zoo(shorts=operation != "bulk_insert"), tmp_path / "zoo"
    oracle.write(path, rows, jvm_options(operation))

    assert_same_rows(oracle.read(path), Pyhudi().read(path), hint="as written")
    assert_same_rows(stored(rows), Pyhudi().read(path), ignore=ALL_META, hint="as given")

    pyhudi.HudiTable.for_path(str(path)).upsert(new_version(rows, 0))
    for reader in (JvmHudi(oracle), Pyhudi(), HudiRs()):
        assert_same_rows(after_update(rows), reader.read(path), ignore=ALL_META, hint=f"rewritten, read by {reader}")


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("version", VERSIONS)
def test_types_written_by_us_are_read_and_rewritten_by_jvm_hudi(
    version: int, operation: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    rows, path = zoo(), tmp_path / "zoo"
    table = pyhudi.HudiTable.create(
        str(path), schema=rows.schema, record_key="id", ordering_fields="ts", name="zoo", table_version=version
    )
    getattr(table, operation)(rows)
    for reader in (JvmHudi(oracle), Pyhudi(), HudiRs()):
        assert_same_rows(stored(rows), reader.read(path), ignore=ALL_META, hint=f"as written, read by {reader}")

    oracle.write(path, new_version(rows, 0), jvm_options("upsert"))
    for reader in (JvmHudi(oracle), Pyhudi(), HudiRs()):
        assert_same_rows(after_update(rows), reader.read(path), ignore=ALL_META, hint=f"rewritten, read by {reader}")
