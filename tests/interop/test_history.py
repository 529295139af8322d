"""The past of a table that JVM Hudi cleans: pyhudi's answers beside the states that were, and beside JVM Hudi's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.deviations import BEGIN_IS_INCLUDED
from tests.interop.history_life import (
    BEGIN,
    LIVES,
    answered_by,
    as_of_options,
    changes_options,
    check_history,
    live,
    read_by_arrow,
    rows_of,
)
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.errors import HistoryNotSettledError

OracleOf = Callable[[str], Oracle]


@pytest.mark.parametrize(
    "life",
    [pytest.param(life, marks=[pytest.mark.thorough]) if life not in ("dropped", "merged") else life for life in LIVES],
)
@pytest.mark.parametrize("version", [6, 8, pytest.param(9, marks=pytest.mark.quick)])
def test_history_is_given_whole_or_refused_and_where_jvm_hudi_answers_the_same(
    version: int, life: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    history = live(oracle, path, life)
    read = read_by_arrow(path)

    refused = check_history(path, history, read)

    assert rows_of(oracle.read(path)) == history.states[-1].rows
    positions = sorted(history.positions.values())
    steps = [changes_options(begin, end) for begin, end in zip(positions[-3:], positions[-2:], strict=False)]
    for question in [*map(as_of_options, sorted(history.positions)[-2:]), *steps]:
        if BEGIN in question and oracle.release in BEGIN_IS_INCLUDED:
            continue
        answer = answered_by(oracle, path, question)
        if answer is not None:
            assert question not in refused
            assert rows_of(read(question)) == answer


@pytest.mark.parametrize("version", [6, pytest.param(9, marks=pytest.mark.quick)])
def test_time_travel_over_a_pending_write_is_refused_by_both(version: int, tmp_path: Path, oracle_of: OracleOf) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    history = live(oracle, path, "cleaned")
    last = max(history.positions)
    folder = path / ".hoodie" / ("timeline" if version > 6 else "")
    for state in ("commit.requested", "inflight"):
        (folder / f"{int(last) - 1}.{state}").touch()

    assert answered_by(oracle, path, as_of_options(last)) is None
    with pytest.raises(HistoryNotSettledError):
        read_by_arrow(path)(as_of_options(last))
    assert pyhudi.HudiTable.for_path(str(path)).scan().to_arrow().num_rows == len(history.states[-1].rows)
