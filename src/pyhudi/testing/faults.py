"""Store for tests that injects crashes and errors, and records all operations.

storage = FaultStorage(MemoryStorage(), before=at_effect(3, SimulatedCrash()))
with pytest.raises(SimulatedCrash):
    write(storage)                  # dies before its third change of the store
check(storage.inner)                # the state that a later process finds
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, cast

from pyhudi.storage import registry as in_process
from pyhudi.storage.output import Output
from pyhudi.storage.paths import join
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec

Hook = Callable[[str, str], None]
"""A function that is called with the name and the path of an operation. An error that it raises ends the operation."""

EFFECTS = frozenset({"open_output", "close_output", "put", "put_if_absent", "put_if_match", "delete", "delete_folder"})
"""The operations that change the store. `close_output` completes the file that `open_output` began."""


class SimulatedCrash(BaseException):  # not named Error: no code may handle it
    """The process dies here. Not an `Exception`, so that no handler of the tested code catches it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the store."""

    name: str
    path: str

    @property
    def is_effect(self) -> bool:
        """Whether the operation changes the store."""
        return self.name in EFFECTS


def at_effect(number: int, error: BaseException, *, only: Callable[[str, str], bool] | None = None) -> Hook:
    """A hook that raises `error` at the effect of this number, counted from 1. `only` selects the counted effects."""
    count = 0
    guard = threading.Lock()

    def hook(operation: str, path: str) -> None:
        nonlocal count
        if only is not None and not only(operation, path):
            return
        with guard:
            count += 1
            reached = count == number
        if reached:
            raise error

    return hook


class FaultStorage:
    """A wrapper of a store with hooks before and after each change, and a record of all operations.

    After a hook has raised `SimulatedCrash`, the process counts as dead: every later operation, in any thread or
    `finally` block, raises it again and has no effect. Files that are being written stay incomplete. `after` runs when
    the change is done, so that an error in it means that the change succeeded but its answer was lost. Tasks that run
    in this process use the wrapper, too, because its `spec` leads to it.
    """

    def __init__(self, inner: Storage, *, before: Hook | None = None, after: Hook | None = None) -> None:
        self.inner = inner
        self.operations: list[Operation] = []
        self.is_dead = False
        self._before = before
        self._after = after
        self._spec = in_process.register(self)

    def __repr__(self) -> str:
        return f"FaultStorage({self.inner!r})"

    @property
    def effects(self) -> tuple[Operation, ...]:
        """The recorded operations that change the store."""
        return tuple(operation for operation in list(self.operations) if operation.is_effect)

    @property
    def spec(self) -> StorageSpec:
        """The specification from which this process, and no other, finds this wrapper."""
        return self._spec

    @property
    def uri(self) -> str:
        """The URI of the wrapped store."""
        return self.inner.uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        self._record("read", path)
        return self.inner.read(path, offset=offset, length=length)

    def open_input(self, path: str) -> Any:
        """See `Storage.open_input`."""
        self._record("open_input", path)
        return self.inner.open_input(path)

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """See `Storage.open_output`. Closing the file is a separate effect."""
        self._start("open_output", path)
        output = self.inner.open_output(path, durable=durable)
        # Wrapped first: if `_finish` raises, the wrapper leaves the file as it is.
        wrapped = _FaultOutput(self, path, cast("Output", output))
        self._finish("open_output", path)
        return cast("IO[bytes]", wrapped)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """See `Storage.put`."""
        self._start("put", path)
        self.inner.put(path, data, durable=durable)
        self._finish("put", path)

    def creates_exclusively(self) -> bool:
        """See `Storage.creates_exclusively`. Its requests are neither recorded nor passed to hooks."""
        return self.inner.creates_exclusively()

    def put_if_absent(self, path: str, data: bytes) -> None:
        """See `Storage.put_if_absent`."""
        self._start("put_if_absent", path)
        self.inner.put_if_absent(path, data)
        self._finish("put_if_absent", path)

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """See `Storage.put_if_match`."""
        self._start("put_if_match", path)
        tag = self.inner.put_if_match(path, data, etag=etag)
        self._finish("put_if_match", path)
        return tag

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """See `Storage.read_with_etag`."""
        self._record("read_with_etag", path)
        return self.inner.read_with_etag(path)

    def info(self, path: str) -> FileInfo | None:
        """See `Storage.info`."""
        self._record("info", path)
        return self.inner.info(path)

    def wait_for_writer(self, path: str) -> bool:
        """See `Storage.wait_for_writer`."""
        self._record("wait_for_writer", path)
        return self.inner.wait_for_writer(path)

    def list_folder(self, path: str) -> FolderListing:
        """See `Storage.list_folder`."""
        self._record("list_folder", path)
        return self.inner.list_folder(path)

    def list_names(self, path: str) -> tuple[str, ...]:
        """See `Storage.list_names`."""
        self._record("list_names", path)
        return self.inner.list_names(path)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See `Storage.list_recursive`."""
        self._record("list_recursive", path)
        return self.inner.list_recursive(path)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        self._start("delete", path)
        self.inner.delete(path)
        self._finish("delete", path)

    def delete_folder(self, path: str) -> None:
        """See `Storage.delete_folder`."""
        self._start("delete_folder", path)
        self.inner.delete_folder(path)
        self._finish("delete_folder", path)

    def _check_alive(self) -> None:
        if self.is_dead:
            raise SimulatedCrash

    def _record(self, name: str, path: str) -> None:
        self._check_alive()
        self.operations.append(Operation(name, path))

    def _start(self, name: str, path: str) -> None:
        self._record(name, path)
        self._run(self._before, name, path)

    def _finish(self, name: str, path: str) -> None:
        self._run(self._after, name, path)

    def _run(self, hook: Hook | None, name: str, path: str) -> None:
        if hook is None:
            return
        try:
            hook(name, path)
        except SimulatedCrash:
            self.is_dead = True
            raise


class _FaultOutput(Output):
    """An output whose `close` calls the hooks, and which stays incomplete after a crash."""

    def __init__(self, storage: FaultStorage, path: str, inner: Output) -> None:
        self._inner = inner
        super().__init__(join(storage.uri, path))
        self._storage = storage
        self._relative = path

    def _append(self, data: memoryview) -> None:
        self._storage._check_alive()
        self._inner.write(data)

    def _complete(self) -> None:
        self._storage._start("close_output", self._relative)
        self._inner.close()
        self._storage._finish("close_output", self._relative)

    def _remove(self) -> None:
        if self._storage.is_dead:
            self._inner.abandon()
        else:
            self._inner.discard()

    def _release(self) -> None:
        self._inner.abandon()
