"""The pages that are written from the code are up to date, and name every public name."""

from __future__ import annotations

import pytest
from tests.support.pages import ROOT

import pyhudi

pytest.importorskip("pyspark")


def test_api_page_is_what_the_docstrings_say() -> None:
    from tools import api_reference

    assert api_reference.main(["--check"]) == 0


@pytest.mark.parametrize("name", [name for name in pyhudi.__all__ if not name.startswith("_")])
def test_api_page_names_every_public_name(name: str) -> None:
    assert f"pyhudi.{name}\n" in (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
