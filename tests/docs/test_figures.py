"""Figures that pages repeat stand in the recorded run that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyhudi.telemetry.prices import dollars_a_month

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"


def run_of(command: str) -> str:
    """What a command has written into the page of benchmarks."""
    page = PAGE.read_text(encoding="utf-8")
    return page.partition(f"<!-- begin: written by `{command}` -->")[2].partition("<!-- end -->")[0]


def test_figure_in_the_readme_is_one_of_the_last_full_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = readme.partition("## How fast")[2].partition("\n## ")[0]
    figures = re.findall(r"(\d+(?:\.\d+)?)\s+times", told)
    measured = set(re.findall(r"\| (\d+(?:\.\d+)?) (?=\|)", run_of("make bench")))
    assert figures
    assert [figure for figure in figures if figure not in measured] == []


def test_dollars_of_commits_are_those_of_their_requests() -> None:
    lines = run_of("python benchmarks/writes_on_s3.py --write-docs").strip().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, _, *measured = table
    assert len(measured) >= 4
    for cells in measured:
        requests = {kind: float(number) for kind, number in zip(head[2:-1], cells[2:-1], strict=True)}
        assert float(cells[-1]) == pytest.approx(dollars_a_month(requests), abs=0.01)


def test_ratios_of_ingestion_are_those_of_the_seconds_beside_them() -> None:
    table = run_of("python benchmarks/ingestion.py --write-docs")
    (theirs,) = re.findall(r"JVM Hudi's upsert .* \| (\d+\.\d) s \|", table)
    ours = re.findall(r"(\d+\.\d+) s: (\d+\.\d+) times as fast", table)
    assert len(ours) >= 2
    for seconds, times in ours:
        assert float(times) == pytest.approx(float(theirs) / float(seconds), rel=0.01)
