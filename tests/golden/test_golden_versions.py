"""Tables of JVM Hudi with an archived timeline, taken to the other versions: every answer about history stays."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.archives import entries, unpack
from tests.interop.compare import assert_same_rows

import pyhudi
from pyhudi.errors import HistoryNotRetainedError, HudiError

HERE = Path(__file__).parent
ARCHIVED = [entry for entry in entries(HERE) if entry["name"].endswith("-archived")]
HISTORY = ["instant", "action", "operation", "inserted", "updated", "deleted", "files", "bytes"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tables with an archive, by name."""
    return unpack(HERE, ARCHIVED, tmp_path_factory.mktemp("golden-versions"))


def asked(path: Path) -> dict[str, Any]:
    """The history, the rows of now and of each moment that can be read, and all changes."""
    table = pyhudi.HudiTable.for_path(str(path))
    told = table.inspect.history().select(HISTORY).to_pylist()
    answers: dict[str, Any] = {"history": sorted(told, key=lambda row: row["instant"])}
    answers |= {"now": table.scan().to_arrow(), "changes": table.changes().to_arrow()}
    for row in told:
        try:
            answers[row["instant"]] = table.scan(as_of=row["instant"]).to_arrow()
        except HistoryNotRetainedError:
            answers[row["instant"]] = None
    return answers


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_answers_about_history_stay_through_all_versions(name: str, tables: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(tables[name] / "table", path)
    before = asked(path)
    assert any(found is None for found in before.values())
    start = pyhudi.HudiTable.for_path(str(path)).handle.state.version.number
    for to in {6: (8, 9, 6), 8: (9, 6, 8), 9: (6, 9, 8)}[start]:
        alter = pyhudi.HudiTable.for_path(str(path)).alter
        present = pyhudi.HudiTable.for_path(str(path)).handle.state.version.number
        try:
            (alter.upgrade if to > present else alter.downgrade)(to)
        except HudiError as error:
            raise AssertionError(f"{present} to {to}: {error}") from error
        after = asked(path)
        assert after.keys() == before.keys()
        for asked_for, expected in before.items():
            hint = f"{present} to {to}: {asked_for}"
            if isinstance(expected, pa.Table) and isinstance(after[asked_for], pa.Table):
                assert_same_rows(expected, after[asked_for], hint=hint)
            else:
                assert after[asked_for] == expected, hint
