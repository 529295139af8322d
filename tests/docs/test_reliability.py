"""The page on reliability names tests, files and numbers that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.mutants.catalogue import MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted({*re.findall(r"`(tests/[\w/.]+)::(\w+)`", PAGE)})


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_a_guarantee_names_is_there(path: str, name: str) -> None:
    assert re.search(rf"^ *def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_every_guarantee_names_a_test() -> None:
    guarantees = re.split(r"^\d+\. \*\*", PAGE.partition("## Guarantees")[2], flags=re.MULTILINE)[1:]
    assert len(guarantees) == 13
    assert all("`tests/" in one for one in guarantees)


def test_the_page_tells_how_many_mutants_there_are() -> None:
    assert f"**Mutants.** {len(MUTANTS)} times" in PAGE
