"""What tables, scans and results show of themselves in a terminal and in a notebook."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.support.hostile_text import HOSTILE, assert_shows_only_text
from tests.support.tables import MOR, SCHEMA, new_table, open_table, rows

import pyhudi
from pyhudi.api.display import bytes_text
from pyhudi.engine.progress import Progress
from pyhudi.errors import ConfigError, StorageError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage


def written() -> MemoryStorage:
    storage = MemoryStorage()
    table = new_table(storage, **MOR)
    table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    table.upsert(rows((1, "oslo", 2, "b")))
    return storage


def test_representation_of_a_table_says_its_kind_and_size_in_one_line() -> None:
    assert repr(open_table(written())) == "HudiTable('t', v9, mor, 2 partitions, 3 files)"


def test_representation_of_a_table_lists_its_files_once() -> None:
    storage = FaultStorage(written())
    table = open_table(storage)
    first = repr(table)
    before = len(storage.operations)

    assert repr(table) == first
    assert len(storage.operations) == before


class StorageThatIsAway(FaultStorage):
    """A store whose listings fail."""

    def list_folder(self, path: str) -> Any:
        raise StorageError("the store is away", path=path)

    list_names = list_recursive = list_folder


def test_representation_of_a_table_whose_store_fails_leaves_the_size_out() -> None:
    handle = open_table(written()).handle
    away = replace(handle, loaded=replace(handle.state, storage=StorageThatIsAway(handle.state.storage)))

    assert repr(pyhudi.HudiTable(away)) == "HudiTable('t', v9, mor)"


def test_table_that_was_shown_goes_through_pickle() -> None:
    table = open_table(written())
    shown = repr(table)

    assert repr(pickle.loads(pickle.dumps(table))) == shown


def test_notebook_shows_a_table_with_escaped_values() -> None:
    table = open_table(written())
    shown: Any = table

    page = shown._repr_html_()

    assert "<caption>t</caption>" in page
    assert "<th>record key</th><td>id</td>" in page
    assert "<th>logs</th><td>1</td>" in page
    assert "&lt;b&gt;" in table.scan(where=[("note", "==", "<b>")])._repr_html_()


def test_notebook_shows_no_text_of_a_table_as_markup() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **{**MOR, "hoodie.table.name": HOSTILE})
    result: Any = table.insert(rows((1, HOSTILE.replace("\x1b", ""), 1, HOSTILE)))
    scan: Any = table.scan(["id", "note"], [("note", "==", HOSTILE)])
    shown: Any = table
    for page in (shown._repr_html_(), scan._repr_html_(), scan.explain()._repr_html_()):
        assert_shows_only_text(page)
    kept: Any = table.savepoints.create(name="x", comment=HOSTILE)
    assert_shows_only_text(kept._repr_html_())
    detail: Any = table.inspect.detail()
    assert_shows_only_text(detail._repr_html_())
    progress: Any = Progress(HOSTILE, 1, 2, 1.0, 1.0)
    assert_shows_only_text(progress._repr_html_())
    assert "<th>inserted</th><td>1</td>" in result._repr_html_()


def test_representation_of_every_result_is_one_line_of_text() -> None:
    table = open_table(written())
    made = [
        table.services.clean(),
        table.inspect.detail(),
        table.inspect.sizes(),
        table.scan(),
    ]
    made += [table.scan().explain(), table.savepoints.create(name="x"), table.watermark(), table.inspect.last_write()]
    assert [one for one in made if "\n" in repr(one)] == []
    assert [type(one).__name__ for one in made if one is not None and not hasattr(one, "_repr_html_")] == []


def test_progress_is_a_bar_in_a_notebook_that_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str, str]] = []

    def show(what: str) -> Any:
        return lambda progress, display_id: shown.append((what, display_id, progress._repr_html_()))

    notebook, display = ModuleType("IPython"), ModuleType("IPython.display")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display, display.update_display = show("new"), show("same")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    for _ in range(2):
        for done in (1, 2, 3):
            pyhudi.show_progress(Progress("merge logs", done, 3, 1.0, 2.0))
    assert [what for what, _, _ in shown] == ["new", "same", "same"] * 2
    assert len({number for _, number, _ in shown[:3]}) == 1
    assert shown[0][1] != shown[3][1]
    assert 'width="33.33"' in shown[0][2]
    assert "merge logs: 3 of 3 tasks, 1.0 s" in shown[2][2]


def test_progress_is_a_line_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for done in (1, 2):
        pyhudi.show_progress(Progress("merge logs", done, 2, 1.0, 2.0))
    first, last = capsys.readouterr().err.removeprefix("\r").split("\r")
    assert first.rstrip(" ") == "merge logs: 1 of 2 tasks, about 2 s left"
    assert last.rstrip(" \n") == "merge logs: 2 of 2 tasks, 1.0 s"
    assert last.endswith("\n")


def test_result_of_a_write_says_what_became_of_its_rows() -> None:
    table = new_table(MemoryStorage())
    table.insert(rows((1, "oslo", 1, "a")))
    result = table.upsert(rows((1, "oslo", 2, "b"), (2, "oslo", 2, "b")))

    assert repr(result).startswith(
        f"WriteResult(upsert {result.instant}: 1 inserted, 1 updated, 0 deleted; files: 1 written, "
    )


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_size_has_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize("table_type", ["mor", "MERGE_ON_READ", "merge_on_read"])
def test_table_type_is_known_by_its_short_and_its_whole_name(table_type: Any, tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path, schema=SCHEMA, record_key="id", table_type=table_type)

    assert table.inspect.detail().type == "MERGE_ON_READ"


def test_other_table_type_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    kind: Any = "heap"
    with pytest.raises(ConfigError, match="COPY_ON_WRITE or MERGE_ON_READ"):
        pyhudi.HudiTable.create(tmp_path, schema=SCHEMA, record_key="id", table_type=kind)
