"""Links of pages lead somewhere, and the files that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.pages import ROOT, anchors, name_of, pages

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_FOLDERS = "benchmarks|docs|examples|src|tests|tools"
_NAMED = re.compile(rf"`((?:(?:{_FOLDERS})/[\w./-]+)|(?:[a-z_]+/)+[a-z_]+\.py)(?:::\w+)?`")


def links(page: Path) -> list[str]:
    """The targets of links within the repository."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    lost = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """A path below `src/pyhudi` may be named from there on, as `write/staged.py`."""
    named = set(_NAMED.findall(page.read_text(encoding="utf-8")))
    bases = (ROOT, ROOT / "src", ROOT / "src" / "pyhudi")
    assert sorted(name for name in named if not any((base / name).exists() for base in bases)) == []


@pytest.mark.parametrize("page", [page for page in pages() if name_of(page).startswith("docs/")], ids=name_of)
def test_page_can_be_reached_from_the_map(page: Path) -> None:
    reached, open_ = set(), [ROOT / "docs" / "index.md"]
    while open_:
        current = open_.pop()
        if current not in reached and current.suffix == ".md" and current.exists():
            reached.add(current)
            open_ += [(current.parent / link.partition("#")[0]).resolve() for link in links(current)]
    assert page in reached


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_page_has_no_marks_of_a_merge_conflict(page: Path) -> None:
    assert not re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(encoding="utf-8"), re.MULTILINE)


PLACES = [*pages(), *sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".ci" / "run", ROOT / ".pre-commit-config.yaml"]


@pytest.mark.parametrize("place", PLACES, ids=name_of)
def test_make_targets_that_are_named_are_there(place: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(
        r"(?:`|^\s*|run: |- |entry: )make ((?:[a-z]+(?:-[a-z]+)*(?: |`|$))+)", place.read_text(), re.MULTILINE
    )
    assert {target for one in named for target in one.strip("` ").split()} <= targets


RIDDLES = (
    "real hudi",
    "nobody",
    "somebody",
    "anybody",
    "taken back",
    "takes back",
    "out of use",
    "pass over",
    "passed over",
)
GENERATED = ("docs/reference/options.md", "docs/reference/api.md")


@pytest.mark.parametrize("page", [page for page in pages() if name_of(page) not in GENERATED], ids=name_of)
def test_page_names_its_actors_and_uses_the_words_of_the_field(page: Path) -> None:
    """What stands in their place is in the glossary; tables that code prints follow the words of the code."""
    text = re.sub(r"<!-- the table of conflicts -->.*?\n\n", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = [word for word in RIDDLES if re.search(rf"\b{word}\b", " ".join(text.lower().split()))]
    assert found == []
