"""Two parts of the tests: `make test` runs what is quick, `make test-long` the rest. Together they are all tests.

A test is long if all its cases (its parameters) take a second and a half. Of a long test the quick part runs as many
cases as take that long, chosen by their names, so that together they meet every kind and version of table. How long a
case takes was recorded (`make test-durations`); a test is quick until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from zlib import crc32

import pytest

RECORDED = Path(__file__).parents[1] / "durations.tsv"
_LONG = 1.5


def split_in_parts(cases: Iterable[str], seconds_of_a_case: Mapping[str, float]) -> tuple[set[str], set[str]]:
    """The node ids of the quick part, and of the long part. Tests without seconds are quick."""
    by_test = defaultdict(list)
    for case in cases:
        by_test[name_of_test(case)].append(case)
    quick: set[str] = set()
    for test, its_cases in by_test.items():
        budget = int(_LONG / seconds_of_a_case[test]) if test in seconds_of_a_case else len(its_cases)
        quick.update(sorted(its_cases, key=lambda case: crc32(case.encode()))[:budget])
    return quick, {case for its_cases in by_test.values() for case in its_cases} - quick


def name_of_test(case: str) -> str:
    """The node id without the case (`[cow]`) and the group (`@kafka`)."""
    return case.partition("[")[0].partition("@")[0]


def read_durations() -> dict[str, float]:
    """Seconds of one case of each long test."""
    lines = (line.split("\t") for line in RECORDED.read_text().splitlines())
    return {test: float(seconds) for seconds, test in lines}


class DurationRecorder:
    """A plugin that writes down which tests are long. It belongs into the process that hears of all tests."""

    def __init__(self, path: Path = RECORDED) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":  # what is set up serves other tests, too
            self._seconds[report.nodeid] = report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # a run that was broken off knows a part
            self._path.write_text(durations_to_text(self._seconds))


def durations_to_text(seconds_of_cases: Mapping[str, float]) -> str:
    """A line for each long test, by name: the mean seconds of its cases, a tabulator, its name."""
    by_test = defaultdict(list)
    for case, seconds in seconds_of_cases.items():
        by_test[name_of_test(case)].append(seconds)
    return "".join(
        f"{sum(seconds) / len(seconds):.3f}\t{test}\n"
        for test, seconds in sorted(by_test.items())
        if sum(seconds) >= _LONG
    )
