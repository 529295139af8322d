"""Store in the memory of this process, for tests, the simulator and temporary tables."""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import pyarrow as pa

from pyhudi.errors import AlreadyExistsError, NotFoundError, PreconditionFailedError
from pyhudi.storage import registry as in_process
from pyhudi.storage.output import Output
from pyhudi.storage.paths import check_relative, check_relative_folder, join
from pyhudi.storage.protocol import FileInfo, FolderListing, StorageSpec

_AFTER_SLASH = chr(ord("/") + 1)

_trees_guard = threading.Lock()
_trees: weakref.WeakValueDictionary[str, _Tree] = weakref.WeakValueDictionary()
_named: dict[str, _Tree] = {}
"""Keeps the named stores alive: `_trees` holds only weak references."""


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    modified_ms: int
    version: int


class _Tree:
    """All objects of one store by full path, and their sorted paths. Callers hold `guard` during every call."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.guard = threading.RLock()
        self._clock = clock
        self._objects: dict[str, _Object] = {}
        self._paths: list[str] = []
        self._last_ms = 0
        self._last_version = 0

    def get(self, path: str) -> _Object | None:
        return self._objects.get(path)

    def set(self, path: str, data: bytes) -> _Object:
        # Two changes never get the same time, so that tests can see their order.
        self._last_ms = max(self._clock(), self._last_ms + 1)
        self._last_version += 1
        if path not in self._objects:
            insort(self._paths, path)
        self._objects[path] = _Object(data, self._last_ms, self._last_version)
        return self._objects[path]

    def remove(self, path: str) -> None:
        if self._objects.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)]

    def remove_below(self, prefix: str) -> None:
        first, last = self._range(prefix)
        for path in self._paths[first:last]:
            del self._objects[path]
        del self._paths[first:last]

    def copy(self) -> _Tree:
        copy = _Tree(self._clock)
        copy._objects, copy._paths = dict(self._objects), list(self._paths)
        copy._last_ms, copy._last_version = self._last_ms, self._last_version
        return copy

    def below(self, prefix: str) -> Iterator[tuple[str, _Object]]:
        """The objects whose path starts with `prefix`, which is empty or ends in a slash."""
        first, last = self._range(prefix)
        for path in self._paths[first:last]:
            yield path, self._objects[path]

    def children(self, prefix: str) -> Iterator[tuple[str, _Object | None]]:
        """Path and object of each direct child; a folder has no slash at its end, and None as its object.

        Cost: one binary search per folder.
        """
        index, last = self._range(prefix)
        while index < last:
            path = self._paths[index]
            name, slash, _ = path[len(prefix) :].partition("/")
            if slash:
                yield prefix + name, None
                index = bisect_left(self._paths, prefix + name + _AFTER_SLASH, index)
            else:
                yield path, self._objects[path]
                index += 1

    def _range(self, prefix: str) -> tuple[int, int]:
        if not prefix:
            return 0, len(self._paths)
        return bisect_left(self._paths, prefix), bisect_left(self._paths, prefix[:-1] + _AFTER_SLASH)


class MemoryStorage:
    """A tree of objects in the memory of this process. It is deleted with the last reference to it.

    `clock` returns milliseconds since the epoch for `FileInfo.modified_ms`. Every change gets a later time than the
    change before it, even if the clock stands still. `MemoryStorage.named` returns the stores of `memory://` URIs,
    which exist until the process ends.
    """

    def __init__(self, *, clock: Callable[[], int] | None = None) -> None:
        name = uuid.uuid4().hex
        tree = _Tree(clock or _now_ms)
        with _trees_guard:
            _trees[name] = tree
        self._open(tree, name)

    @classmethod
    def named(cls, name: str, folder: str = "") -> MemoryStorage:
        """The folder of the process-wide store of this name. The first use creates the store."""
        with _trees_guard:
            tree = _trees.get(name)
            if tree is None:
                tree = _trees[name] = _named[name] = _Tree(_now_ms)
        storage = cls.__new__(cls)
        storage._open(tree, name, check_relative_folder(folder))
        return storage

    def copy(self) -> MemoryStorage:
        """A store of its own with the objects that are here now, their times, and this URI, which still opens this one.

        Cost: one look-up table; the data is shared.
        """
        with self._tree.guard:
            tree = self._tree.copy()
        storage = MemoryStorage.__new__(MemoryStorage)
        storage._open(tree, *self._place)
        return storage

    def _open(self, tree: _Tree, name: str, folder: str = "") -> None:
        self._place = (name, folder)
        self._tree = tree
        self._uri = f"memory://{join(name, folder)}"
        self._prefix = f"{folder}/" if folder else ""
        self._spec = in_process.register(self)

    def __repr__(self) -> str:
        return f"MemoryStorage({self._uri!r})"

    @property
    def spec(self) -> StorageSpec:
        """The specification from which this process, and no other, finds this object."""
        return self._spec

    @property
    def uri(self) -> str:
        """`memory://<name>`, followed by the folder in the store, if there is one."""
        return self._uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """A copy of the range."""
        data = self._get(path).data
        return data[offset : None if length is None else offset + length]

    def open_input(self, path: str) -> Any:
        """Reads the stored bytes without a copy."""
        return pa.BufferReader(self._get(path).data)

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:  # noqa: ARG002  # nothing here is durable
        """Collects the pieces; the object appears at `close`."""
        self._refuse_taken(path)
        return cast("IO[bytes]", _MemoryOutput(self, path))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002
        """Keeps a copy of the data. Nothing here is durable."""
        with self._tree.guard:
            self._tree.set(self._key(path), bytes(data))

    def creates_exclusively(self) -> bool:
        """Always: the tree has a lock."""
        return True

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Atomic by the tree's lock."""
        with self._tree.guard:
            self._refuse_taken(path)
            self._tree.set(self._key(path), bytes(data))

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Atomic by the tree's lock. The tag is the number of the change in the tree."""
        with self._tree.guard:
            found = self._tree.get(self._key(path))
            if found is None or str(found.version) != etag:
                raise PreconditionFailedError("another caller changed or removed the object", path=self._full(path))
            return str(self._tree.set(self._key(path), bytes(data)).version)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """The content, and the number of the change that wrote it."""
        found = self._get(path)
        return found.data, str(found.version)

    def info(self, path: str) -> FileInfo | None:
        """One look-up in a dictionary."""
        with self._tree.guard:
            found = self._tree.get(self._key(path))
        return None if found is None else FileInfo(path, len(found.data), found.modified_ms)

    def list_folder(self, path: str) -> FolderListing:
        """Cost: one binary search per child folder, independent of the number of objects below it."""
        files: list[FileInfo] = []
        folders: list[str] = []
        with self._tree.guard:
            for key, found in self._tree.children(self._folder_key(path)):
                child = key[len(self._prefix) :]
                if found is None:
                    folders.append(child)
                else:
                    files.append(FileInfo(child, len(found.data), found.modified_ms))
        # Sorted again: the key `a/x` comes after the key `a-b`, but the folder `a` before the folder `a-b`.
        return FolderListing(tuple(files), tuple(sorted(folders)))

    def wait_for_writer(self, path: str) -> bool:
        """Never: objects are always complete."""
        del path
        return False

    def list_names(self, path: str) -> tuple[str, ...]:
        """As `list_folder`."""
        return tuple(info.name for info in self.list_folder(path).files)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """Cost: proportional to the number of objects below the folder."""
        with self._tree.guard:
            return tuple(
                FileInfo(key[len(self._prefix) :], len(found.data), found.modified_ms)
                for key, found in self._tree.below(self._folder_key(path))
            )

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        with self._tree.guard:
            self._tree.remove(self._key(path))

    def delete_folder(self, path: str) -> None:
        """See `Storage.delete_folder`."""
        with self._tree.guard:
            self._tree.remove_below(self._folder_key(path))

    def _key(self, path: str) -> str:
        return self._prefix + check_relative(path)

    def _folder_key(self, path: str) -> str:
        return f"{self._prefix}{path}/" if check_relative_folder(path) else self._prefix

    def _get(self, path: str) -> _Object:
        with self._tree.guard:
            found = self._tree.get(self._key(path))
        if found is None:
            raise NotFoundError("there is no object at this path", path=self._full(path))
        return found

    def _refuse_taken(self, path: str) -> None:
        with self._tree.guard:
            if self._tree.get(self._key(path)) is not None:
                raise AlreadyExistsError("there is an object at this path already", path=self._full(path))

    def _full(self, path: str) -> str:
        return join(self._uri, path)


class _MemoryOutput(Output):
    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage = storage
        self._pieces: list[bytes] = []
        super().__init__(join(storage.uri, path))
        self._relative = path

    def _append(self, data: memoryview) -> None:
        self._pieces.append(bytes(data))

    def _complete(self) -> None:
        self._storage.put_if_absent(self._relative, b"".join(self._pieces))

    def _remove(self) -> None:
        self._pieces.clear()

    def _release(self) -> None:
        self._pieces.clear()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
