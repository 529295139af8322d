"""The page on troubleshooting has a section for each error, by its name."""

from __future__ import annotations

import re

import pytest
from tests.support.pages import ROOT

from pyhudi import errors

SECTIONS = re.findall(r"^### (\w+)$", (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.HudiError)]


@pytest.mark.parametrize("name", sorted({*ERRORS} - {"HudiError", "InvalidRequestError"}))
def test_each_error_has_a_section(name: str) -> None:
    assert name in SECTIONS


def test_each_section_is_about_an_error() -> None:
    assert {*SECTIONS} <= {*ERRORS}


@pytest.mark.parametrize(
    "name", [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, UserWarning)]
)
def test_each_warning_has_a_line(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
