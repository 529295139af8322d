"""Cleans of ours and of JVM Hudi in turn on one table: each goes on from the other's, and executes the other's plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.cleaning.execute import schedule_clean
from pyhudi.storage.open import open_storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState, load_table

OracleOf = Callable[[str], Oracle]
CITIES = ("oslo", "rome", "lima")


def batch(number: int) -> pa.Table:
    """New versions of ten records in two of the three partitions."""
    ids = list(range(10))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": [CITIES[(one + number) % 2] if one < 9 else CITIES[2] for one in ids],
            "v": pa.array([number] * 10, pa.int64()),
            "ts": pa.array([number] * 10, pa.int64()),
        }
    )


def options(table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "true" if table_type == "MERGE_ON_READ" else "false",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "2",
    }


KEEPS_ALL_INSTANTS = {"hoodie.keep.min.commits": "50", "hoodie.keep.max.commits": "60"}
"""Options of JVM Hudi's archiver."""


def state(path: Path) -> TableState:
    return load_table(open_storage(str(path), {}))


def cleans(path: Path) -> dict[str, InstantState]:
    return {one.requested_time: one.state for one in state(path).timeline.instants if one.action is Action.CLEAN}


def data_files(path: Path) -> set[str]:
    return {one.path for one in list_data_files(open_storage(str(path), {})) if ".hoodie" not in one.path}


def check_same(oracle: Oracle, path: Path) -> None:
    """The newest rows and those of each retained commit are the same for both sides."""
    table = pyhudi.HudiTable.for_path(str(path))
    assert_same_rows(oracle.read(path), table.scan().to_arrow(), hint="newest")
    for instant in [one.requested_time for one in state(path).timeline.completed_writes][-2:]:
        expected = oracle.read(path, {"as.of.instant": instant})
        assert_same_rows(expected, table.scan(as_of=instant).to_arrow(), hint=f"as of {instant}")


def combinations() -> list[Any]:
    marks = {(9, "COPY_ON_WRITE"): [pytest.mark.quick], (8, "MERGE_ON_READ"): [pytest.mark.thorough]}
    return [
        pytest.param(version, kind, id=f"v{version}-{kind}", marks=marks.get((version, kind), []))
        for version in (9, 8, 6)
        for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    ]


@pytest.mark.parametrize(("version", "table_type"), combinations())
def test_cleans_in_turn_leave_every_retained_state_to_both_sides(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    theirs = {**given, **KEEPS_ALL_INSTANTS}
    path = tmp_path / "t"
    oracle.write(path, batch(0), theirs)
    for number in range(1, 7):
        pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(number))
    ours = cleans(path)
    assert ours
    assert set(ours.values()) == {InstantState.COMPLETED}
    check_same(oracle, path)

    table = pyhudi.HudiTable.for_path(str(path), hudi_options={**given, "hoodie.clean.automatic": "false"})
    table.upsert(batch(7))
    table.refresh().upsert(batch(8))
    planned = schedule_clean(table.refresh().handle.service_call({}, call="clean"))
    assert planned is not None
    before = data_files(path)
    oracle.write(path, batch(9), theirs)
    assert cleans(path)[planned] is InstantState.COMPLETED
    assert before - data_files(path)
    check_same(oracle, path)

    for number in range(10, 13):
        oracle.write(path, batch(number), theirs)
    for number in range(13, 16):
        pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(number))
    assert set(cleans(path).values()) == {InstantState.COMPLETED}
    check_same(oracle, path)
    files_of_a_group = len(data_files(path)) / 6
    assert files_of_a_group < 6
