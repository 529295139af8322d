"""Cleans of ours and of JVM Hudi in turn on one table: each goes on from the other's, and executes the other's plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.jvm_tables import every_kind, jvm_options, state
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.cleaning.execute import schedule_clean
from pyhudi.storage.open import open_storage
from pyhudi.table.lister import list_data_files

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


EVERY_TABLE = every_kind(quick=(9, "COPY_ON_WRITE"), thorough=(8, "MERGE_ON_READ"))


def options(table_type: str) -> dict[str, str]:
    compacts = {
        "hoodie.compact.inline": "true" if table_type == "MERGE_ON_READ" else "false",
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    return jvm_options(table_type, **compacts, **{"hoodie.clean.commits.retained": "2"})


KEEPS_ALL_INSTANTS = {"hoodie.keep.min.commits": "50", "hoodie.keep.max.commits": "60"}
"""Options of JVM Hudi's archiver."""


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


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
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
