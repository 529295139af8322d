"""Listers: where the file-system view learns which files exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.format.safe_paths import is_metadata_folder
from pyhudi.storage.bounded import at_once
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec

FOLDERS_PER_TASK: Final = 100
BYTES_PER_LISTING: Final = 100_000
"""What a listing counts for when an engine asks how large a job is: a request takes as long as reading so much. So
Spark's workers list more than some three hundred folders."""


class Lister(Protocol):
    """Lists the data files of a table. May list files that no completed write names; must list all that one names.

    Rollbacks and the removal of orphans search for files that no commit names, so they always list the store.
    """

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        """The files of some partitions."""
        ...

    def table(self) -> list[FileInfo]:
        """The files of all partitions."""
        ...


@dataclass(frozen=True, slots=True)
class StorageLister:
    """Lists the store itself."""

    storage: Storage

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        """See `Lister`. Cost: one listing for each partition, several at once on object stores."""
        return [info for listing in at_once(self.storage, self.storage.list_folder, paths) for info in listing.files]

    def table(self) -> list[FileInfo]:
        """See `Lister`. Cost: see `list_data_files`."""
        return list_data_files(self.storage)


@dataclass(frozen=True, slots=True)
class EngineLister:
    """Lists the store itself, many folders in tasks of an engine. Only paths, sizes and times reach this process."""

    storage: Storage
    engine: Engine

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        """See `Lister`. Cost: one listing for each partition; for many of them a job."""
        return [info for listing in listings(self.storage, self.engine, paths) for info in listing.files]

    def table(self) -> list[FileInfo]:
        """See `Lister`. Cost: one recursive listing for each top-level folder; for many of them a job."""
        root = self.storage.list_folder("")
        folders = [folder for folder in root.folders if not is_metadata_folder(folder)]
        tasks = [ListTask(self.storage.spec, part) for part in _in_parts(folders)]
        below = self.engine.map(
            list_below, tasks, size_bytes=len(folders) * BYTES_PER_LISTING, description="list the table"
        )
        return [*root.files, *chain.from_iterable(below)]


@dataclass(frozen=True, slots=True)
class ListTask:
    """Folders to list."""

    storage: StorageSpec
    paths: tuple[str, ...]


def listings(storage: Storage, engine: Engine, paths: Sequence[str]) -> list[FolderListing]:
    """The listings of folders, in their order. Cost: one listing for each; for many of them a job of the engine."""
    tasks = [ListTask(storage.spec, part) for part in _in_parts(paths)]
    found = engine.map(list_each, tasks, size_bytes=len(paths) * BYTES_PER_LISTING, description="list folders")
    return list(chain.from_iterable(found))


def list_each(_: TaskContext, task: ListTask) -> list[FolderListing]:
    """The listings of the folders of a task. Cost: one listing for each, several at once on object stores."""
    storage = open_spec(task.storage)
    return at_once(storage, storage.list_folder, task.paths)


def list_below(_: TaskContext, task: ListTask) -> list[FileInfo]:
    """All files below the folders of a task. Cost: a recursive listing for each, several at once on object stores."""
    storage = open_spec(task.storage)
    return list(chain.from_iterable(at_once(storage, storage.list_recursive, task.paths)))


def list_data_files(storage: Storage) -> list[FileInfo]:
    """All files of the store outside the metadata folder. Cost: one recursive listing per top-level folder."""
    root = storage.list_folder("")
    folders = [folder for folder in root.folders if not is_metadata_folder(folder)]
    return [*root.files, *chain.from_iterable(at_once(storage, storage.list_recursive, folders))]


def _in_parts(paths: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(paths[at : at + FOLDERS_PER_TASK]) for at in range(0, len(paths), FOLDERS_PER_TASK))
