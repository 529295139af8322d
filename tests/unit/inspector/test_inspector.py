"""The inspector: what its page shows, that text stays text, and who may look at it."""

from __future__ import annotations

import http.client
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.inspector.drawing import lanes
from pyhudi.inspector.facts import Moment, collect
from pyhudi.inspector.page import page
from pyhudi.inspector.server import Inspector
from pyhudi.markup import Html, tag

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])
NASTY = '<img src=x onerror="alert(1)">\'&\u202e'


def rows(*ids: int, city: str = "oslo", ts: int = 1, **more: list[Any]) -> pa.Table:
    columns = {"id": list(ids), "city": [city] * len(ids), "fare": [float(one) for one in ids], "ts": [ts] * len(ids)}
    return pa.table(columns | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with compactions, cleans, a new column, and a partition whose name looks like markup."""
    where = tmp_path_factory.mktemp("inspector") / "rides"
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    rides = pyhudi.HudiTable.create(
        where,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type="mor",
        hudi_options=options,
    )
    rides.insert(rows(1, 2))
    rides.insert(rows(3, city=NASTY))
    rides.upsert(rows(1, ts=2))
    rides.upsert(rows(2, ts=3, tip=[1.5]))
    return where


@pytest.fixture(scope="module")
def document(folder: Path) -> str:
    return page(
        collect(pyhudi.HudiTable.for_path(folder), "fare", lambda _: [("fare", ">", 100.0)]), where="fare > 100"
    )


def words_of(document: str) -> str:
    root = ET.fromstring(document.removeprefix("<!doctype html>\n"))
    return " ".join(" ".join(root.find("body").itertext()).split())  # type: ignore[union-attr]


def test_page_shows_writes_services_files_and_columns(document: str) -> None:
    words = words_of(document)
    assert "MERGE_ON_READ, version 9. Record key: id. Partitioned by: city." in words
    assert "writes: 4" in words
    assert "compactions: 1" in words
    assert "+ tip double" in words
    assert "Write amplification: " in words
    assert "delta commits since the last compaction" in words
    assert pyhudi.__version__ in words  # who wrote
    assert "base files 1 of 2" in words  # the other one has no such fare by its statistics


def test_name_that_looks_like_markup_stays_text(document: str) -> None:
    assert "<img" not in document
    assert "\u202e" not in document
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in document
    assert "<script" not in document


def test_document_loads_nothing(document: str) -> None:
    assert "default-src 'none'" in document.replace("&#x27;", "'")
    assert re.findall(r'(?:src|href)="(?!#)', document) == []
    assert "url(" not in document
    assert "@import" not in document


def test_text_is_escaped_wherever_it_stands_but_what_tag_has_made() -> None:
    assert tag("p", "<b>", tag("i", "&"), title='"\n\x1b[31m') == (
        '<p title="&quot;\n\N{REPLACEMENT CHARACTER}[31m">&lt;b&gt;<i>&amp;</i></p>'
    )
    assert isinstance(tag("p"), Html)
    assert not isinstance(tag("p") + "<b>", Html)


def test_table_without_rows_has_a_page(tmp_path: Path) -> None:
    empty = pyhudi.HudiTable.create(tmp_path / "empty", schema=SCHEMA, record_key="id")
    words = words_of(page(collect(empty)))
    assert "There is no instant yet." in words
    assert "There are no files yet." in words


def test_condition_that_is_wrong_is_said_on_the_page(folder: Path) -> None:
    def refuse(text: str) -> Any:
        raise pyhudi.errors.ConfigError("there is no such column", column=text)

    table = pyhudi.HudiTable.for_path(folder)
    assert "there is no such column" in words_of(page(collect(table, "<x> = 1", refuse), where="<x> = 1", asks=True))


def test_hundred_thousand_instants_are_drawn_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [Moment(f"{at:017d}", "commit", "completed", at * 1000, at * 1000 + 400) for at in range(100_000)]
    began = time.process_time()
    drawn = lanes(moments, is_merge_on_read=False)
    assert time.process_time() - began < 2
    assert drawn.count("<rect") <= 250
    assert "writes: 100,000" in drawn


@pytest.fixture
def server() -> Iterator[Inspector]:
    with Inspector(lambda where: f"<p>{len(where)}</p>", "the-token") as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening
        listening.shutdown()


def answer(server: Inspector, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request("GET", path, headers=headers)
    found = connection.getresponse()
    return found.status, dict(found.getheaders()), found.read()


def test_browser_with_the_url_gets_the_page_and_others_do_not(server: Inspector) -> None:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(server.url) as first:
        assert (first.url, first.read()) == (f"http://{server.address}/", b"<p>0</p>")
    with opener.open(f"http://{server.address}/?where=id+%3E+1") as second:
        assert second.read() == b"<p>6</p>"
        assert second.headers["Content-Security-Policy"].startswith("default-src 'none'")

    cookie = {"Cookie": "pyhudi-inspector=the-token"}
    assert answer(server, "/")[0] == 403
    assert answer(server, "/?token=another")[0] == 403
    assert answer(server, "/", Cookie="pyhudi-inspector=another")[0] == 403
    assert answer(server, "/", Host="evil.example:80", **cookie)[0] == 403
    assert answer(server, "/etc/passwd", **cookie)[0] == 404
    assert answer(server, "/", **cookie)[0] == 200


def test_server_listens_on_loopback_alone(server: Inspector) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_command_writes_one_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rides.html"
    assert main(["inspect", str(folder), "--html", str(file), "--where", "fare > 2"]) == 0
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>\n<html")
    assert capsys.readouterr().out == f"written: {file}\n"


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("width", [360, 1280])
def test_browser_shows_the_page_without_scrolling_sideways(document: str, tmp_path: Path, width: int) -> None:
    """In a frame of this width, as a window of Chromium has 500 pixels at least; the page outside measures it."""
    file = tmp_path / "page.html"
    file.write_text(document.replace("default-src", "x-default-src"), encoding="utf-8")
    outside = tmp_path / "outside.html"
    outside.write_text(
        f'<iframe id="f" src="page.html" style="width:{width}px;height:900px;border:0"></iframe><p id="found"></p>'
        "<script>onload=()=>{const d=f.contentDocument;found.textContent="
        "'beyond='+(d.documentElement.scrollWidth-d.documentElement.clientWidth)+' images='+d.images.length"
        "+' sections='+d.querySelectorAll('section').length}</script>"
    )
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", outside.as_uri()],  # type: ignore[list-item]
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert re.findall(r"beyond=-?\d+ images=\d+ sections=\d+", done.stdout) == ["beyond=0 images=0 sections=8"]
