"""What the security pages say is so: links lead somewhere, and limits are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "SECURITY.md", ROOT / "docs" / "design" / "threat_model.md")
_LINK = re.compile(r"\]\(([^)#:]+)\)")
_FILE = re.compile(r"`(tests/[a-z_/]+\.py)`")
_LIMIT = re.compile(r"^\| `([a-z_.]+)\.([A-Z_]+)` \| ([0-9]+) \|", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = [page.parent / link for link in _LINK.findall(text)] + [ROOT / file for file in _FILE.findall(text)]
    assert named
    assert [path for path in named if not path.exists()] == []


def test_limits_of_the_threat_model_are_those_of_the_code() -> None:
    limits = _LIMIT.findall(PAGES[1].read_text())
    assert len(limits) > 20
    for module, name, value in limits:
        assert getattr(importlib.import_module(f"pyhudi.{module}"), name) == int(value), f"{module}.{name}"


def test_every_promise_is_linked_to_its_test() -> None:
    promises = re.findall(r"^\| [0-9]+ \|.*$", PAGES[0].read_text(), re.MULTILINE)
    assert len(promises) >= 6
    assert all(re.search(r"\]\(tests/[a-z_/]+\.py\)", promise) for promise in promises)
