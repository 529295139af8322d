"""The file-system view takes the files that a lister names, and asks the store for no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.tables import new_table, rows

from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import StorageLister
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage


@dataclass
class KeptListing:
    """Answers from what another lister answered before, as an index of files does."""

    files: list[FileInfo]
    asked: list[str] = field(default_factory=list)

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        self.asked += paths
        return [info for path in paths for info in self.files if info.path.startswith(f"{path}/")]

    def table(self) -> list[FileInfo]:
        self.asked.append("all")
        return self.files


def prepared() -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage).insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "b")))
    return storage


def test_view_of_another_lister_is_that_of_the_store_without_a_listing() -> None:
    storage = prepared()
    kept = KeptListing(StorageLister(storage).table())
    watched = FaultStorage(storage)
    table = load_table(watched)
    before = len(watched.operations)

    view = load_view(table.storage, table.timeline, lister=kept)

    assert view.latest == load_view(storage, table.timeline).latest
    assert kept.asked == ["all"]
    assert not [one for one in watched.operations[before:] if one.name.startswith("list") and "city=" in one.path]


def test_view_of_some_partitions_asks_the_lister_for_these_only() -> None:
    storage = prepared()
    table = load_table(storage)
    kept = KeptListing(StorageLister(storage).table())

    view = load_view(table.storage, table.timeline, ["city=rome"], lister=kept)

    assert kept.asked == ["city=rome"]
    assert set(view.latest) == {"city=rome"}
