"""The inspector: what its page shows, that text stays text, and who may look at it."""

from __future__ import annotations

import http.client
import re
import threading
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import open_table

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.inspector.drawing import lanes
from pyhudi.inspector.facts import collect
from pyhudi.inspector.files import partitions_of_names, partitions_of_view
from pyhudi.inspector.lanes import lanes_of
from pyhudi.inspector.page import Asked, page
from pyhudi.inspector.server import Inspector
from pyhudi.inspector.writes import read_newest
from pyhudi.markup import Html, tag
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import view_of
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

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
        collect(pyhudi.HudiTable.for_path(folder), "fare", lambda _: [("fare", ">", 100.0)]), Asked("fare > 100")
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
    assert "there is no such column" in words_of(
        page(collect(table, "<x> = 1", refuse), Asked("<x> = 1"), answers=True)
    )


def minute(number: int) -> InstantTime:
    day, rest = divmod(number, 24 * 60)
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=rest)
    return InstantTime(moment.strftime("%Y%m%d%H%M%S000"))


def test_hundred_thousand_instants_are_drawn_as_few() -> None:
    instants = [
        Instant(minute(at), Action.COMMIT, InstantState.COMPLETED, minute(at + 1)) for at in range(0, 200_000, 2)
    ]
    pending = Instant(minute(200_000), Action.COMMIT, InstantState.INFLIGHT)
    (lane,) = lanes_of([*instants, pending], UTC, is_merge_on_read=False).lanes
    assert (lane.instants, lane.pending) == (100_001, 1)
    assert len(lane.marks) == 251
    assert [mark.count for mark in lane.marks[1:-2]] == [400] * 248

    drawn = lanes(lanes_of(instants[:2], UTC, is_merge_on_read=True))
    assert "compactions: 2" in drawn
    assert "commit 20260101000000000, completed, 60.0 s" in drawn


def with_copies_of_its_write(writes: int) -> Storage:
    """A table with so many writes on its active timeline: one, and copies of its files there under earlier times."""
    storage = TableBuilder(9, "cow").commit(rows=6).build()
    (write,) = load_table(storage).timeline.completed_writes
    for info in storage.list_folder(".hoodie/timeline").files:
        body = storage.read(info.path)
        for at in range(writes - 1):
            path = info.path.replace(write.requested_time, minute(2 * at))
            storage.put(path.replace(str(write.completion_time), minute(2 * at + 1)), body)
    return storage


def test_page_reads_the_newest_writes_alone_however_many_there_are() -> None:
    """Calls do not grow with the timeline; without a clock, as tests of time fail on busy machines."""
    calls = {}
    for writes in (20, 400):
        storage = FaultStorage(with_copies_of_its_write(writes))
        facts = collect(open_table(storage), writes=10)
        calls[writes] = len(storage.operations)
        assert (len(facts.writes), facts.writes_of, facts.is_by_names) == (10, writes, True)
        words = words_of(page(facts, Asked(writes=10), answers=True))
        assert f"The newest 10 of {writes} writes of the timeline" in words
        assert f"Read the newest {min(100, writes)}" in words
        assert "Counted from the names of the files" in words
    assert calls[400] == calls[20]


@pytest.mark.parametrize("builder", [*COW_TABLES, *MOR_TABLES], ids=str)
def test_sizes_by_names_are_those_of_the_view(builder: TableBuilder) -> None:
    storage = builder.commit(rows=9).delta_commit(updates=4).delete((0, "oslo", 1, "x")).dead_writer().build()
    if builder.is_merge_on_read:
        open_table(storage).services.compact()
    state = load_table(storage)
    files = state.lister.table()
    view = partitions_of_view(view_of(storage, state.timeline, files).latest, 10**6)
    assert partitions_of_names(files, state.timeline, (), 10**6) == view
    assert view[0].base_files > 0


def test_writes_with_very_many_files_are_not_read() -> None:
    storage = TableBuilder(9, "cow").commit(rows=6).delta_commit(updates=3).build()
    newest = load_table(storage).timeline.completed_writes[-1]
    (path,) = [
        one.path for one in storage.list_folder(".hoodie/timeline").files if str(newest.completion_time) in one.path
    ]
    body = storage.read(path)
    state = load_table(storage)
    assert [instant for instant, _ in read_newest(state, 2)] == list(state.timeline.completed_writes)
    storage.put(path, body + bytes(40_000))
    assert read_newest(load_table(storage), 2) == []


def test_write_that_is_rolled_back_while_one_looks_is_left_out() -> None:
    storage = TableBuilder(9, "cow").commit(rows=6).delta_commit(updates=3).build()
    looking = open_table(storage)
    open_table(storage).recovery.rollback(load_table(storage).timeline.completed_writes[-1].requested_time)
    facts = collect(looking)
    assert (len(facts.writes), facts.writes_of) == (1, 2)
    assert " 1 write." in words_of(page(collect(open_table(storage))))


@pytest.fixture
def server() -> Iterator[Inspector]:
    with Inspector(lambda asked: f"<p>{asked.where} {asked.writes}</p>", "the-token") as listening:
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
        assert (first.url, first.read()) == (f"http://{server.address}/", b"<p> 200</p>")
    with opener.open(f"http://{server.address}/?where=id+%3E+1&writes=9") as second:
        assert second.read() == b"<p>id > 1 9</p>"
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
