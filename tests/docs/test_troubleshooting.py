"""The page on troubleshooting has a section for each error, by its name."""

from __future__ import annotations

import pickle
import re
import traceback

import pytest
from tests.support.pages import ROOT

from pyhudi import errors


def sections(page: str) -> list[str]:
    """The headings of a page that name an error."""
    return re.findall(r"^### (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)


SECTIONS = sections("docs/troubleshooting.md")
ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.HudiError)]


@pytest.mark.parametrize("name", sorted({*ERRORS} - {"HudiError"}))
def test_each_error_leads_to_its_section(name: str) -> None:
    error = getattr(errors, name)("what happened")

    page, _, anchor = error.page.partition("#")

    assert anchor in {section.lower() for section in sections(page)}
    assert f"see {error.page}" in "".join(traceback.format_exception(error))


def test_error_of_a_class_of_its_own_leads_to_the_section_of_the_nearest_one() -> None:
    class ThrottledError(errors.UnavailableError): ...

    class OtherError(errors.HudiError): ...

    assert ThrottledError("").page == errors.UnavailableError("").page
    assert sections(OtherError("").page)


def test_error_from_another_process_says_once_where_it_leads() -> None:
    error = pickle.loads(pickle.dumps(errors.ConfigError("what happened")))
    assert error.__notes__ == [f"see {error.page}"]


def test_each_section_is_about_an_error() -> None:
    assert {*SECTIONS} <= {*ERRORS}


@pytest.mark.parametrize(
    "name", [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, UserWarning)]
)
def test_each_warning_has_a_line(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
