"""Figures that pages repeat stand in the recorded run that they come from."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_figure_in_the_readme_is_one_of_the_last_full_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = readme.partition("## How fast")[2].partition("\n## ")[0]
    figures = re.findall(r"(\d+(?:\.\d+)?)\s+times", told)
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    run = page.partition("<!-- begin: written by `make bench` -->")[2].partition("<!-- end -->")[0]
    measured = set(re.findall(r"\| (\d+(?:\.\d+)?) (?=\|)", run))
    assert figures
    assert [figure for figure in figures if figure not in measured] == []
