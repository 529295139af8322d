"""Every test is in one of the two parts, and the recorded durations name tests that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.parts import RECORDED, DurationRecorder, durations_to_text, read_durations, split_in_parts

_CASES = [
    "a.py::test_one",
    "a.py::test_many[cow]",
    "a.py::test_many[mor]@kafka",
    "b.py::test_other[6]",
    "b.py::test_other[9]",
]


@given(
    st.permutations(_CASES),
    st.dictionaries(st.sampled_from(["a.py::test_one", "a.py::test_many", "b.py::test_other"]), st.floats(0.1, 9)),
)
def test_parts_share_no_case_and_leave_none_out(cases: list[str], seconds: dict[str, float]) -> None:
    quick, long = split_in_parts(cases, seconds)
    assert quick | long == set(_CASES)
    assert not quick & long
    assert split_in_parts(_CASES, seconds) == (quick, long)


def test_test_that_was_not_recorded_is_quick() -> None:
    assert split_in_parts(_CASES, {}) == (set(_CASES), set())


def test_long_test_has_as_many_cases_in_the_quick_part_as_take_its_time() -> None:
    quick, long = split_in_parts(_CASES, {"a.py::test_one": 1.6, "a.py::test_many": 1.4, "b.py::test_other": 0.7})
    assert len(quick & {"a.py::test_many[cow]", "a.py::test_many[mor]@kafka"}) == 1
    assert {"b.py::test_other[6]", "b.py::test_other[9]"} < quick
    assert "a.py::test_one" in long


def test_tests_of_less_time_in_all_their_cases_are_not_recorded() -> None:
    seconds = dict(zip(_CASES, (1.4, 0.8, 1.3, 0.5, 0.6), strict=True))
    assert durations_to_text(seconds) == "1.050\ta.py::test_many\n"


def test_run_that_was_broken_off_leaves_what_was_recorded(tmp_path: Path) -> None:
    recorded = tmp_path / "durations.tsv"
    recorded.write_text("2.000\ta.py::test_many\n")
    DurationRecorder(recorded).pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert recorded.read_text() == "2.000\ta.py::test_many\n"
    DurationRecorder(recorded).pytest_sessionfinish(pytest.ExitCode.OK)
    assert recorded.read_text() == ""


def test_recorded_durations_are_of_tests_that_there_are() -> None:
    gone = [test for test in read_durations() if not _is_there(*test.split("::"))]
    assert not gone, f"make test-durations records them anew: {gone}"


def _is_there(path: str, *names: str) -> bool:
    file = RECORDED.parents[1] / path
    return file.exists() and (names[-1] == "runTest" or names[-1] in file.read_text())
