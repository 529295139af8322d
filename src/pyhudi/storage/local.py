"""Store on local disk: the `Storage` protocol by POSIX system calls.

The order of the system calls matters; `docs/design/storage.md` explains it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import pyarrow as pa

from pyhudi.errors import (
    AlreadyExistsError,
    HudiError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageError,
    UnavailableError,
    UnsupportedFeatureError,
)
from pyhudi.storage.known_folders import KnownFolders, sync_folder
from pyhudi.storage.output import Output
from pyhudi.storage.paths import (
    LOCK_NAME,
    check_inside,
    check_relative,
    check_relative_folder,
    checksum_name,
    is_side_file,
    join,
    parent_of,
    temporary_name,
)
from pyhudi.storage.protocol import FileInfo, FolderListing, StorageSpec

T = TypeVar("T")

LOCK_WAIT_SECONDS = 60.0
FOLDER_ATTEMPTS = 5
"""Attempts to create a folder that other processes delete, or to remove a folder that other processes fill."""
_FILLING_MS = 2000
_FILLING_POLL_SECONDS = 0.005

_NOT_A_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
OUT_OF_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says of a full disk, a quota that is used up, and a file as large as the process may make it."""
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class LocalStorage:
    """A folder of a local file system with hard links. Every put creates the folders that it needs."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)  # unlike `realpath`, keeps the caller's symlinks
        self._folders = KnownFolders(self._root)

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def spec(self) -> StorageSpec:
        """The specification of this folder, valid on every machine that mounts it."""
        return StorageSpec(self.uri)

    @property
    def uri(self) -> str:
        """`file:` and the absolute path without percent-encoding, as Hadoop writes it."""
        return f"file:{self._root}"

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Follows a symbolic link whose target is in the table. Cost: one open, one read."""
        target = self._readable(path)
        with self._typed_read_errors("read", path), open(target, "rb", buffering=0) as file:
            file.seek(offset)
            return file.readall() if length is None else _read_up_to(file, length)

    def open_input(self, path: str) -> Any:
        """A file of Arrow, which reads without holding Python's global interpreter lock."""
        target = self._readable(path)
        with self._typed_read_errors("open", path):
            try:
                return pa.OSFile(target, "rb")
            except OSError as error:
                if error.errno is None and os.path.isdir(target):  # what Arrow says of a folder
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from error
                raise

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """Creates the file under its final name at once. Cost: two fsyncs at `close`, of the file and its folder."""
        with self._typed_errors("create", path):
            target, descriptor = self._in_folder_of(path, durable, _create)
            return cast("IO[bytes]", _LocalOutput(self, path, target, descriptor, durable))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Writes a temporary file and renames it to the final name. Cost: two fsyncs."""
        with self._typed_errors("write", path):
            target, temporary = self._in_folder_of(path, durable, lambda target: _stage(target, data, durable))
            self._replace(temporary, target)
            if durable:
                sync_folder(os.path.dirname(target))

    def creates_exclusively(self) -> bool:
        """Always: a hard link is never created over an existing name."""
        return True

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Writes a temporary file and links it to the final name, which fails if the name exists. Cost: two fsyncs."""
        with self._typed_errors("create", path):
            target, temporary = self._in_folder_of(path, True, lambda target: _stage(target, data, True))
            try:
                self._link(temporary, target, path)
                # An earlier file of this name may have been removed without its checksum file.
                _remove_checksum(target)
                sync_folder(os.path.dirname(target))
            finally:
                with suppress(OSError):
                    os.unlink(temporary)

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Compares and replaces under a lock file in the folder. The tag is a hash of the content."""
        target = self._readable(path)
        check_inside(self._root, join(parent_of(path), LOCK_NAME))
        with self._typed_errors("write", path):
            if not Path(target).is_file():  # raises, where `os.path.isfile` takes a denied folder for an empty one
                raise self._precondition_failed(path)
            with self._lock(os.path.dirname(target)):
                try:
                    current = Path(target).read_bytes()
                except FileNotFoundError as error:
                    raise self._precondition_failed(path) from error
                if _tag(current) != etag:
                    raise self._precondition_failed(path)
                self._replace(_stage(target, data, True), target)
                sync_folder(os.path.dirname(target))
        return _tag(data)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """The content and its SHA-256. Equal contents are the same version."""
        data = self.read(path)
        return data, _tag(data)

    def info(self, path: str) -> FileInfo | None:
        """Cost: one stat."""
        target = self._readable(path)
        with self._typed_errors("inspect", path):
            try:
                found = os.stat(target)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return _info(path, found) if stat.S_ISREG(found.st_mode) else None

    def wait_for_writer(self, path: str) -> bool:
        """A file is complete if it was not modified within the last two seconds. Cost: one stat."""
        return wait_while_recent(self.info(path))

    def list_folder(self, path: str) -> FolderListing:
        """Leaves out temporary files, lock files and Hadoop's checksum files. Cost: one stat per file."""
        files: list[FileInfo] = []
        folders: list[str] = []
        self._folders.check(check_relative_folder(path))
        with self._typed_errors("list", path):
            for entry in self._entries(path):
                if entry.is_dir():
                    folders.append(join(path, entry.name))
                elif (found := _file_info(path, entry)) is not None:
                    files.append(found)
        files.sort(key=lambda info: info.path)
        folders.sort()
        return FolderListing(tuple(files), tuple(folders))

    def list_names(self, path: str) -> tuple[str, ...]:
        """Leaves out the same files as `list_folder`. Cost: no stat."""
        self._folders.check(check_relative_folder(path))
        with self._typed_errors("list", path):
            return tuple(sorted([entry.name for entry in self._entries(path) if entry.is_file()]))

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """Follows each symbolic link to a folder once. Cost: one stat per file."""
        files: list[FileInfo] = []
        self._folders.check(check_relative_folder(path))
        pending = [path]
        followed: set[str] = set()
        with self._typed_errors("list", path):
            while pending:
                folder = pending.pop()
                for entry in self._entries(folder):
                    if entry.is_dir():
                        if entry.is_symlink() and not _first_visit(entry.path, followed):
                            continue
                        pending.append(join(folder, entry.name))
                    elif (found := _file_info(folder, entry)) is not None:
                        files.append(found)
        return tuple(sorted(files, key=lambda info: info.path))

    def delete(self, path: str) -> None:
        """Remove the file. A power failure may restore it until the next durable put in its folder."""
        target = self._absolute(check_relative(path))
        self._folders.check(parent_of(path))
        with self._typed_errors("delete", path), suppress(*_NOT_A_FILE):
            _remove_checksum(target)
            os.unlink(target)

    def delete_folder(self, path: str) -> None:
        """Remove the folder with everything in it.

        Files that other processes create in it at the same time are removed, too.

        Raises:
            StorageError: other processes filled the folder faster than it could be removed.
        """
        target = self._absolute(check_relative_folder(path))
        self._folders.check(path)
        self._folders.forget(path)
        with self._typed_errors("delete", path):
            # The root may be a symbolic link of the user's: then its target is removed.
            _remove_tree(target if path else os.path.realpath(target))

    def _absolute(self, path: str) -> str:
        """The absolute path of a file or folder that was checked."""
        return join(self._root, path)

    def _readable(self, path: str) -> str:
        """The absolute path of a file, checked: no symbolic link leads it out of the table."""
        target = self._absolute(check_relative(path))
        self._folders.check(parent_of(path))
        # Raises nothing for a folder without permission: the caller's next step raises a better error.
        if os.path.islink(target):
            check_inside(self._root, path)
        return target

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """The entries of a folder that was checked. Refuses a symbolic link that leads out of the table.

        Leaving out such a link instead could silently leave out data.
        """
        entries = _entries(self._absolute(folder))
        for entry in entries:
            if entry.is_symlink():
                check_inside(self._root, join(folder, entry.name))
        return entries

    def _in_folder_of(self, path: str, durable: bool, act: Callable[[str], T]) -> tuple[str, T]:
        """Create the folder of `path` and run `act` on the absolute path; try again if the folder was removed."""
        target = self._absolute(check_relative(path))
        folder = parent_of(path)
        for _ in range(FOLDER_ATTEMPTS - 1):
            self._folders.admit(folder, durable=durable)
            try:
                return target, act(target)
            except FileNotFoundError:
                self._folders.forget(folder)
        self._folders.admit(folder, durable=durable)
        return target, act(target)

    def _replace(self, temporary: str, target: str) -> None:
        try:
            # Before the replacement: Hadoop reads a file without checksums, but refuses one with wrong checksums.
            _remove_checksum(target)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _link(self, temporary: str, target: str, path: str) -> None:
        try:
            os.link(temporary, target)
        except FileExistsError as error:
            # On NFS the answer to a successful link request may get lost; the repeated request then finds our own file.
            if os.stat(temporary).st_nlink < 2:
                raise AlreadyExistsError("there is a file at this path already", path=self._full(path)) from error
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                raise UnsupportedFeatureError(
                    "this file system has no hard links, which safe commits need: use another file system or an object"
                    " store",
                    path=self._full(path),
                ) from error
            raise

    @contextmanager
    def _lock(self, folder: str) -> Iterator[None]:
        import filelock  # noqa: PLC0415 - reads do without

        lock = filelock.FileLock(join(folder, LOCK_NAME), timeout=LOCK_WAIT_SECONDS)
        try:
            lock.acquire(poll_interval=0.005)
        except filelock.Timeout as error:
            raise UnavailableError("another process holds the lock of this folder", path=folder) from error
        try:
            yield
        finally:
            lock.release()

    def _precondition_failed(self, path: str) -> PreconditionFailedError:
        return PreconditionFailedError("another process changed or removed the file", path=self._full(path))

    def _full(self, path: str) -> str:
        return join(self.uri, path)

    @contextmanager
    def _typed_read_errors(self, action: str, path: str) -> Iterator[None]:
        with self._typed_errors(action, path):
            try:
                yield
            except _NOT_A_FILE as error:
                # As in every other store, a folder is not an object.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error

    @contextmanager
    def _typed_errors(self, action: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _typed_error(error, action, self._full(path)) from error


class _LocalOutput(Output):
    """Writes to the file's final name at once. Readers read a file only after a commit lists it."""

    def __init__(self, storage: LocalStorage, path: str, target: str, descriptor: int, durable: bool) -> None:
        # Set first, because `__del__` needs them even if the rest of the construction fails.
        self._descriptor = descriptor
        self._target = target
        super().__init__(join(storage.uri, path))
        self._durable = durable

    def fileno(self) -> int:
        return self._descriptor

    def _append(self, data: memoryview) -> None:
        try:
            _write_all(self._descriptor, data)
        except OSError as error:
            raise _typed_error(error, "write", self._path) from error

    def _complete(self) -> None:
        try:
            if self._durable:
                os.fsync(self._descriptor)
                sync_folder(os.path.dirname(self._target))
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        except OSError as error:
            raise _typed_error(error, "finish", self._path) from error

    def _remove(self) -> None:
        self._release()
        try:
            _unlink_if_there(self._target)
        except OSError as error:
            raise _typed_error(error, "delete", self._path) from error

    def _release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(descriptor)


def wait_while_recent(info: FileInfo | None) -> bool:
    """Wait some milliseconds if the file was modified within the last two seconds, and return whether it was."""
    if info is None or abs(time.time() * 1000 - info.modified_ms) > _FILLING_MS:
        return False
    time.sleep(_FILLING_POLL_SECONDS)
    return True


def _typed_error(error: OSError, action: str, path: str) -> HudiError:
    """The error of pyhudi for an `OSError`."""
    if error.errno in OUT_OF_SPACE:
        return OutOfSpaceError(f"cannot {action}: the disk is full, or a quota is used up", path=path)
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"cannot {action}: there is no file at this path", path=path)
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _DENIED:
        return PermissionDeniedError(f"cannot {action}: {reason}", path=path)
    if isinstance(error, FileExistsError):
        return AlreadyExistsError("there is a file at this path already", path=path)
    return StorageError(f"cannot {action}: {reason}", path=path)


def _create(target: str) -> int:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _remove_checksum(target)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _stage(target: str, data: bytes, durable: bool) -> str:
    """Write the content to a temporary file in the folder of `target`, and return its path."""
    temporary = f"{os.path.dirname(target)}/{temporary_name()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write_all(descriptor, memoryview(data))
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _write_all(descriptor: int, data: memoryview) -> None:
    while data.nbytes:
        data = data[os.write(descriptor, data) :]


def _read_up_to(file: IO[bytes], length: int) -> bytes:
    # `read` allocates the requested length, and callers request more than the expected size to detect larger files.
    length = min(length, max(os.fstat(file.fileno()).st_size - file.tell(), 0))
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _remove_checksum(target: str) -> None:
    # Hadoop refuses to read a file whose checksum file, left by an earlier file of this name, does not match it.
    folder, name = os.path.split(target)
    _unlink_if_there(f"{folder}/{checksum_name(name)}")


def _unlink_if_there(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _remove_tree(folder: str) -> None:
    if os.path.islink(folder):
        _unlink_if_there(folder)
        return
    for attempt in range(FOLDER_ATTEMPTS):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        _remove_tree(entry.path)
                    else:
                        _unlink_if_there(entry.path)
            os.rmdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or attempt == FOLDER_ATTEMPTS - 1:
                raise
        else:
            return


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [
                entry for entry in entries if entry.name[0] != "." or not is_side_file(entry.name) or entry.is_dir()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _file_info(folder: str, entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        found = entry.stat()
    except FileNotFoundError:
        # The file was deleted after the listing, or is a symbolic link without a target.
        return None
    return _info(join(folder, entry.name), found) if stat.S_ISREG(found.st_mode) else None


def _info(path: str, found: os.stat_result) -> FileInfo:
    return FileInfo(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _first_visit(path: str, visited: set[str]) -> bool:
    real = os.path.realpath(path)
    if real in visited:
        return False
    visited.add(real)
    return True


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
