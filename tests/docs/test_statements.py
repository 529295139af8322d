"""Statements of pages about the code: what they count, list and name is what the code has."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.support.pages import ROOT

from pyhudi import HudiTable
from pyhudi.api.nouns import Nouns
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.table.features import FEATURES, Use

SOURCE = ROOT / "src" / "pyhudi"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def public_members(of: type) -> set[str]:
    return {name for base in of.__mro__ for name in vars(base) if not name.startswith("_") and base is not object}


def test_page_on_the_public_face_counts_the_members_of_the_table_class() -> None:
    counted = re.search(r"\| members of the table class \| (\d+) \|", text_of("docs/design/public_face.md"))
    members = public_members(HudiTable) - {"handle"}
    assert counted is not None
    assert int(counted[1]) == len(members), sorted(members)


def test_page_on_the_public_face_names_every_noun() -> None:
    rule = text_of("docs/design/public_face.md").partition("1. ")[2].partition(" 2. ")[0]
    assert set(re.findall(r"`table\.(\w+)`", rule)) == {
        name for name, value in vars(Nouns).items() if isinstance(value, property)
    }


@pytest.mark.parametrize("page", ["README.md", "docs/limitations.md"])
def test_page_names_the_versions_that_the_package_declares(page: str) -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    [spark] = [re.findall(r"pyspark>=([\d.]+)", need) for need in PROJECT["optional-dependencies"]["spark"][:1]]
    text = text_of(page)
    assert f"| Python | {classifiers[0]} to {classifiers[-1]} |" in text
    assert re.search(rf"\| Spark[^|]*\| (PySpark )?{re.escape(spark[0])} or newer", text)
    *older, newest = sorted(TABLE_VERSIONS)
    assert re.search(rf"versions (\| )?{', '.join(map(str, older))} and {newest}", text)


def test_each_use_of_the_page_on_features_is_refused_for_some_table() -> None:
    page = (ROOT / "docs" / "table_features.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \*\*([\w ]+)\*\*:", page, re.MULTILINE)
    assert listed == [use.name.lower().replace("_", " ") for use in Use]
    assert {use for feature in FEATURES for use in feature.refused} == set(Use)


def test_each_file_to_touch_is_there() -> None:
    """In a cell a name without a folder stands in the folder of the name before it, or in a folder of that."""
    rows = re.findall(r"^\| (?!you |---)[^|]+\|([^|]+)\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    cells = [re.findall(r"`([\w/<>*.]+(?:/|\.py|\.md))`", cell) for cell in rows]
    lost = []
    for names in cells:
        folders = [SOURCE]
        for name in names:
            pattern = re.sub(r"<\w+>", "*", name)
            found = [place for base in (SOURCE, *folders, ROOT) for place in base.glob(pattern)]
            folders = [place if place.is_dir() else place.parent for place in found] or folders
            lost += [] if found else [name]
    assert len(cells) > 15
    assert lost == []
