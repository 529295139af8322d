"""The page of the inspector in Chromium: widths, colours, the keyboard, and what a screen reader is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.archiving import AUTOMATIC, updated
from tests.support.browser import CHROMIUM, Page, browser_page
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import open_table

from pyhudi.inspector.facts import collect
from pyhudi.inspector.page import Asked, page

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.timeout(600),  # a browser begins
]

_CONTROLS = (
    "[...document.querySelectorAll('a,summary,input:not([type=hidden]),button,.wide')].filter(e=>e.checkVisibility())"
)
_LOOK = "(s=>[s.outlineStyle,parseFloat(s.outlineWidth)])(getComputedStyle(document.activeElement))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser_page(tmp_path_factory.mktemp("profile")) as shown:
        yield shown


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a table with an archive and a pending write."""
    builder = TableBuilder(9, "mor", has_delete_flag=True).insert(*THREE_ROWS)
    storage = builder.then(lambda table: updated(table.handle.state.storage, 12, **AUTOMATIC)).dead_writer().build()
    facts = collect(open_table(storage), "ts > 3", lambda _: [("ts", ">", 3)])
    written = tmp_path_factory.mktemp("page") / "page.html"
    written.write_text(page(facts, Asked("ts > 3"), answers=True), encoding="utf-8")
    return written


@pytest.fixture
def shown(browser: Page, file: Path) -> Page:
    browser.show(1280)
    browser.open(file.as_uri())
    return browser


@pytest.mark.parametrize("width", [360, 1280])
def test_page_does_not_scroll_sideways(shown: Page, width: int) -> None:
    shown.show(width)
    beyond = "(e=>e.scrollWidth-e.clientWidth)(document.documentElement)"
    assert shown.value(f"[innerWidth, {beyond}]") == [width, 0]
    assert shown.value("[document.images.length, document.querySelectorAll('section').length]") == [0, 8]


def contrast(shown: Page) -> float:
    """The contrast of text and background by the formula of WCAG."""
    luminance = (
        "c=>c.match(/[0-9.]+/g).slice(0,3).map(v=>v/255).map(v=>v<=.04045?v/12.92:((v+.055)/1.055)**2.4)"
        ".reduce((sum,v,i)=>sum+v*[.2126,.7152,.0722][i],0)"
    )
    of = f"(s=>[s.color,s.backgroundColor].map({luminance}))(getComputedStyle(document.body))"
    dark, light = sorted(shown.value(of))
    return float((light + 0.05) / (dark + 0.05))


def test_text_has_contrast_in_light_and_in_dark_colours(shown: Page) -> None:
    backgrounds = []
    for is_dark in (False, True):
        shown.show(1280, is_dark=is_dark)
        assert contrast(shown) > 7
        backgrounds.append(shown.value("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds[0] != backgrounds[1]


def test_every_control_is_reached_by_tab_in_the_order_of_the_page_and_shows_it(shown: Page) -> None:
    controls = shown.value(f"{_CONTROLS}.length")
    reached = []
    for _ in range(controls):
        shown.press("Tab")
        reached.append(shown.value(f"{_CONTROLS}.indexOf(document.activeElement)"))
        style, width = shown.value(_LOOK)
        assert (style, width >= 2) == ("solid", True), reached
    assert reached == list(range(controls))


def test_details_open_by_enter(shown: Page) -> None:
    while shown.value("document.activeElement.tagName") != "SUMMARY":
        shown.press("Tab")
    shown.press("Enter")
    assert shown.value("document.activeElement.parentElement.open")


def test_wide_table_scrolls_by_arrow_keys(shown: Page) -> None:
    shown.show(360)
    wide = "[...document.querySelectorAll('.wide')].find(e=>e.checkVisibility()&&e.scrollWidth>e.clientWidth)"
    shown.value(f"{wide}.focus()")
    shown.value("addEventListener('scroll',e=>{window.went=e.target.scrollLeft},true)")
    shown.press("ArrowRight")
    went = "new Promise(done=>{const look=()=>window.went>0?done(true):setTimeout(look,20);look()})"
    assert shown.value(went)


def test_screen_reader_is_given_a_name_of_every_picture_table_and_section(shown: Page) -> None:
    nodes = shown.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("image", "table", "region", "navigation", "textbox", "button")
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in roles
    ]
    assert {role for role, _ in named} == set(roles), json.dumps(named)
    assert [role for role, name in named if not name.strip()] == []
