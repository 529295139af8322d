"""Fragments of the changelog have names that towncrier reads (it ignores others) and are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.pages import ROOT, anchors

FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != ".gitkeep")
TYPES = re.findall(r'\[\[tool\.towncrier\.type\]\]\ndirectory = "(\w+)"', (ROOT / "pyproject.toml").read_text())
CHARACTERS = 450


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_is_named_after_its_subject_and_type(fragment: Path) -> None:
    assert re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(TYPES)})\.md", fragment.name)


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_is_short_and_its_links_hold_in_the_changelog(fragment: Path) -> None:
    text = fragment.read_text(encoding="utf-8")
    assert len(text) <= CHARACTERS
    for path, anchor in re.findall(r"\]\(([^)#:]+)(?:#([^)]*))?\)", text):
        assert (ROOT / path).exists()
        assert not anchor or anchor in anchors(ROOT / path)
