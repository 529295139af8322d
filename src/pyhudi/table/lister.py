"""Listers: where the file-system view learns which files exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyhudi.format.safe_paths import is_metadata_folder
from pyhudi.storage.protocol import FileInfo, Storage


class Lister(Protocol):
    """Lists the data files of a table. May list files that no completed write names; must list all that one names.

    Rollbacks and the removal of orphans search for files that no commit names, so they always list the store.
    """

    def partition(self, path: str) -> list[FileInfo]:
        """The files of one partition."""
        ...

    def table(self) -> list[FileInfo]:
        """The files of all partitions."""
        ...


@dataclass(frozen=True, slots=True)
class StorageLister:
    """Lists the store itself."""

    storage: Storage

    def partition(self, path: str) -> list[FileInfo]:
        """See `Lister`. Cost: one listing."""
        return list(self.storage.list_folder(path).files)

    def table(self) -> list[FileInfo]:
        """See `Lister`. Cost: see `list_data_files`."""
        return list_data_files(self.storage)


def list_data_files(storage: Storage) -> list[FileInfo]:
    """All files of the store outside the metadata folder. Cost: one recursive listing per top-level folder."""
    root = storage.list_folder("")
    files = list(root.files)
    for folder in root.folders:
        if not is_metadata_folder(folder):
            files.extend(storage.list_recursive(folder))
    return files
