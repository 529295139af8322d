"""Folders of a store on local disk that are known to be in it, to be there, and to survive a power failure."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Final

from pyhudi.storage.paths import check_inside, join, parent_of

FOLDERS_MAX: Final = 100_000


class KnownFolders:
    """Cache of the folders below a root that are known to lie inside it, to exist, and to survive a power failure.

    The cache saves these checks for every file but the first of a folder, as long as the path leads to the folder that
    was checked: others may remove it, make it anew, or put a symbolic link there. So one system call is left.
    """

    def __init__(self, root: str) -> None:
        """`root`: that of the store, which may be a symbolic link itself."""
        self._root = root
        self._guard = threading.Lock()
        self._inside: dict[str, tuple[int, int]] = {}
        self._existing: set[str] = set()
        self._synced: set[str] = set()

    def check(self, folder: str) -> None:
        """Raise `UnsafePathError` if a symbolic link leads the folder out of the root."""
        found, known = _folder_at(join(self._root, folder)), self._inside.get(folder)
        if found is not None and found == known:
            return
        if known is not None:
            self.forget(folder)
        check_inside(self._root, folder)
        if found is not None:
            with self._guard:
                if len(self._inside) >= FOLDERS_MAX:
                    # All: another folder at the path of one that is known without its inode would not be noticed.
                    self._inside.clear()
                    self._existing.clear()
                    self._synced.clear()
                self._inside[folder] = found

    def admit(self, folder: str, *, durable: bool) -> None:
        """Check the folder and create it if necessary. With `durable`, it survives a power failure from now on."""
        self.check(folder)
        if folder in (self._synced if durable else self._existing):
            return
        path = Path(self._root, folder)
        missing = _missing_folders(path) if durable else []
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            # A different type, because callers take `FileExistsError` to mean that their own file exists.
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        if durable:
            for parent in self._parents_to_sync(path, folder, missing):
                sync_folder(str(parent))
        self._remember(folder, self._existing, *([self._synced] if durable else []))
        self.check(folder)  # from here on another folder at the path is noticed

    def forget(self, folder: str) -> None:
        """Drop the cache entries of the folder, and of all folders above and below it."""
        with self._guard:
            for known in (self._existing, self._synced):
                known.difference_update([path for path in known if _related(path, folder)])
            self._inside = {path: found for path, found in self._inside.items() if not _related(path, folder)}

    def _remember(self, folder: str, *kinds: set[str]) -> None:
        with self._guard:
            for known in kinds:
                if len(known) >= FOLDERS_MAX:
                    known.clear()
                known.add(folder)

    def _parents_to_sync(self, path: Path, folder: str, missing: list[Path]) -> list[Path]:
        parents = {created.parent: None for created in missing}
        while folder:
            path = path.parent
            parents[path] = None
            folder = parent_of(folder)
            if folder in self._synced:
                break
        return list(parents)


def sync_folder(folder: str) -> None:
    """Let the names in a folder survive a power failure. Cost: one fsync."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse to sync a folder, because their changes to folders are durable at once.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _folder_at(path: str) -> tuple[int, int] | None:
    """Which folder a path leads to; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _related(one: str, other: str) -> bool:
    return not one or not other or f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _missing_folders(path: Path) -> list[Path]:
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    return missing
