"""Every key generator: tables of JVM Hudi, read by us, updated by us, read and updated by it again.

A row that either side does not find by its key and partition path would be there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.compare import assert_same_rows
from tests.interop.key_cases import BY_TIME, BY_VALUE, KEY, PARTITION, KeyCase
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]

GROUPS: Mapping[str, Sequence[KeyCase]] = {"by-time": BY_TIME, "by-value": BY_VALUE}
TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
KEYS = ["_hoodie_record_key", "_hoodie_partition_path"]


def combinations() -> list[Any]:
    """Each group of cases in each version and table type: CI runs version 9, and logs matter there most."""
    marks = {(9, "COPY_ON_WRITE"): [pytest.mark.quick]}
    marks |= {(version, "MERGE_ON_READ"): [pytest.mark.thorough] for version in (6, 8)}
    return [
        pytest.param(version, kind, cases, id=f"v{version}-{kind}-{name}", marks=marks.get((version, kind), []))
        for version in (6, 8, 9)
        for kind in TABLE_TYPES
        for name, cases in GROUPS.items()
    ]


def newer(rows: pa.Table, by: int) -> pa.Table:
    """The next version of each row, which counts whatever the table goes by."""
    for name in ("v", "ts"):
        added = pc.add(rows[name], pa.scalar(by, pa.int64()))
        rows = rows.set_column(rows.schema.get_field_index(name), name, added)
    return rows


@pytest.mark.parametrize(("version", "table_type", "cases"), combinations())
def test_rows_are_found_again_by_either_side(
    version: int, table_type: str, cases: Sequence[KeyCase], tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    for case in cases:
        if oracle.release in case.releases:
            check(oracle, case, table_type, tmp_path / case.name)


def check(oracle: Oracle, case: KeyCase, table_type: str, path: Path) -> None:
    """One table: four writes in turn, each side's rows after each."""
    options = {
        "hoodie.table.name": "t",
        KEY: "id",
        PARTITION: "",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.index.bloom.num_entries": "100",
        **case.options,
    }
    oracle.write(path, case.rows, options)
    _compare(oracle, case, path, case.rows, "written by JVM Hudi")
    keys = _opened(path, options).scan(KEYS).to_arrow()

    result = _opened(path, options).upsert(newer(case.rows, 10))

    assert (result.updated, result.inserted) == (len(case.rows), 0), case.name
    _compare(oracle, case, path, newer(case.rows, 10), "updated by us")
    assert_same_rows(keys, _opened(path, options).scan(KEYS).to_arrow(), hint=case.name)
    oracle.write(path, newer(case.rows, 20), options)
    _compare(oracle, case, path, newer(case.rows, 20), "updated by JVM Hudi")
    assert_same_rows(keys, _opened(path, options).scan(KEYS).to_arrow(), hint=case.name)


def _opened(path: Path, options: Mapping[str, str]) -> pyhudi.HudiTable:
    """The table, with what a table of a CUSTOM key generator, or of version 6, does not say itself."""
    told = {key: value for key, value in options.items() if "timebased" in key or (key == PARTITION and ":" in value)}
    return pyhudi.HudiTable.for_path(str(path), hudi_options=told)


def _compare(oracle: Oracle, case: KeyCase, path: Path, rows: pa.Table, moment: str) -> None:
    ours = pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()
    assert_same_rows(rows, ours.select(rows.schema.names), hint=f"{case.name} {moment}, read by us")
    if oracle.release not in case.unreadable:
        from_path = [name for name, releases in case.from_path.items() if oracle.release in releases]
        theirs = oracle.read(path)
        assert_same_rows(theirs, ours, ignore=from_path, hint=f"{case.name} {moment}, read by JVM Hudi")
