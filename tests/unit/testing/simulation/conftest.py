"""Says at the end of a test run how many schedules were explored."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.getreports("passed")
    counts = [value for report in passed for name, value in report.user_properties if name == "schedules"]
    if counts:
        terminalreporter.write_line(f"simulator: {sum(counts):,} schedules in {len(counts)} explorations")
