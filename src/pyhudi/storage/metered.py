"""A store whose calls are counted: how many, and how many bytes, by what the files are for."""

from __future__ import annotations

import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import IO, Any, Final, cast
from weakref import WeakValueDictionary

from pyhudi.storage.output import Output
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec

_PURPOSES: Final = (
    (".hoodie/metadata/", "metadata_table"),
    (".hoodie/.temp/", "markers"),
    (".hoodie/.heartbeat/", "heartbeats"),
    (".hoodie/.locks/", "locks"),
    (".hoodie/.aux/", "coordination"),
    (".hoodie/timeline/history/", "archive"),
    (".hoodie/archived/", "archive"),
    (".hoodie/", "timeline"),
)


def purpose_of(path: str) -> str:
    """What a file or folder of a table is for."""
    inside = f"{path}/"
    if not inside.startswith(".hoodie/"):
        return "data"
    return next(purpose for folder, purpose in _PURPOSES if inside.startswith(folder))


class Call(StrEnum):
    """The kinds of calls, as object stores name and bill them."""

    PUT = "PUT"
    GET = "GET"
    HEAD = "HEAD"
    LIST = "LIST"
    DELETE = "DELETE"


Totals = Mapping[tuple[str, Call], tuple[int, int]]
"""Calls and bytes by purpose and kind of call."""


class Meter:
    """Calls and bytes by purpose and kind of call. Thread-safe. What it counts is counted in `into`, too."""

    def __init__(self, into: Meter | None = None) -> None:
        self._into = into
        self._guard = threading.Lock()
        self._calls: dict[tuple[str, Call], int] = defaultdict(int)
        self._bytes: dict[tuple[str, Call], int] = defaultdict(int)

    def count(self, kind: Call, path: str, size: int = 0) -> None:
        """Count a call."""
        self.add({(purpose_of(path), kind): (1, size)})

    def add_bytes(self, kind: Call, path: str, size: int) -> None:
        """Count bytes of a call that was counted."""
        self.add({(purpose_of(path), kind): (0, size)})

    def add(self, totals: Totals) -> None:
        """Count what another meter has counted."""
        with self._guard:
            for key, (calls, size) in totals.items():
                self._calls[key] += calls
                self._bytes[key] += size
        if self._into is not None:
            self._into.add(totals)

    def totals(self) -> dict[tuple[str, Call], tuple[int, int]]:
        """Calls and bytes by purpose and kind."""
        with self._guard:
            return {key: (calls, self._bytes[key]) for key, calls in self._calls.items()}

    def calls(self) -> dict[str, dict[str, int]]:
        """Calls by purpose and the name of their kind, without kinds of which there was none."""
        found: dict[str, dict[str, int]] = {}
        for (purpose, kind), (calls, _) in sorted(self.totals().items()):
            found.setdefault(purpose, {})[kind.value] = calls
        return found


_meter_of_step: ContextVar[Meter | None] = ContextVar("meter_of_step", default=None)
_meter_of_task: ContextVar[Meter | None] = ContextVar("meter_of_task", default=None)
"""What counts the calls of the task that this process runs for another one."""


@contextmanager
def counting_workers(meter: Meter) -> Iterator[None]:
    """Count in `meter` what tasks in other processes say that they have called, for steps that run in the block."""
    before = _meter_of_step.set(meter)
    try:
        yield
    finally:
        _meter_of_step.reset(before)


def count_calls_of_task(totals: Totals) -> None:
    """Count what a task in another process has called."""
    meter = _meter_of_step.get()
    if meter is not None:
        meter.add(totals)


def begin_counting_task() -> Meter:
    """A new meter of the task that this process runs for another one."""
    meter = Meter()
    _meter_of_task.set(meter)
    return meter


_METERED: Final = "pyhudi.metered"
_here: WeakValueDictionary[str, MeteredStorage] = WeakValueDictionary()


def itself(storage: Storage) -> Storage:
    """The store without what counts its calls: by it, what is known of a table is remembered."""
    return storage.inner if isinstance(storage, MeteredStorage) else storage


def find_metered(spec: StorageSpec, opened: Callable[[StorageSpec], Storage]) -> Storage | None:
    """The counted store of a specification; None if its calls are not counted.

    In another process than that of the write: the store that is `opened`, whose calls are counted for the task.
    """
    token = spec.options.get(_METERED)
    if token is None:
        return None
    found = _here.get(token)
    if found is not None and token.startswith(f"{os.getpid()}-"):  # a forked child has a copy
        return found
    options = {name: value for name, value in spec.options.items() if name != _METERED}
    return MeteredStorage(opened(StorageSpec(spec.uri, options)), _meter_of_task.get() or Meter())


def counted_here(storage: Storage) -> MeteredStorage:
    """The store, whose calls through this object are counted, and by its own meter, too, if it has one.

    Tasks open the store as given: a specification that is handed on, to Spark or as the key of a cache, stays the same.
    """
    into = storage.meter if isinstance(storage, MeteredStorage) else None
    return MeteredStorage(storage, Meter(into), spec=storage.spec)


class MeteredStorage:
    """A wrapper of a store that counts its calls, also those of tasks that open the store by its `spec`.

    `spec`: by what tasks open another store instead, whose calls are not counted here.
    """

    def __init__(self, inner: Storage, meter: Meter, *, spec: StorageSpec | None = None) -> None:
        self.inner = itself(inner)
        self.meter = meter
        self._spec = self._announced() if spec is None else spec

    def _announced(self) -> StorageSpec:
        """A specification by which tasks find this wrapper."""
        token = f"{os.getpid()}-{uuid.uuid4().hex}"
        _here[token] = self
        return StorageSpec(self.inner.spec.uri, {**self.inner.spec.options, _METERED: token})

    def __repr__(self) -> str:
        return f"MeteredStorage({self.inner!r})"

    @property
    def spec(self) -> StorageSpec:
        """The specification by which tasks open this wrapper, or in other processes one of their own; see the class."""
        return self._spec

    @property
    def uri(self) -> str:
        """The URI of the wrapped store."""
        return self.inner.uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        data = b""
        try:
            data = self.inner.read(path, offset=offset, length=length)
        finally:  # a file that is not there was asked for, too
            self.meter.count(Call.GET, path, len(data))
        return data

    def open_input(self, path: str) -> Any:
        """See `Storage.open_input`. Counted as one call, as Arrow reads the bytes by itself."""
        self.meter.count(Call.GET, path)
        return self.inner.open_input(path)

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """See `Storage.open_output`."""
        self.meter.count(Call.PUT, path)
        output = cast("Output", self.inner.open_output(path, durable=durable))
        return cast("IO[bytes]", _MeteredOutput(output, self.meter, path))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """See `Storage.put`."""
        self.meter.count(Call.PUT, path, len(data))
        self.inner.put(path, data, durable=durable)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """See `Storage.put_if_absent`."""
        self.meter.count(Call.PUT, path, len(data))
        self.inner.put_if_absent(path, data)

    def creates_exclusively(self) -> bool:
        """See `Storage.creates_exclusively`. Its requests are not counted."""
        return self.inner.creates_exclusively()

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """See `Storage.put_if_match`."""
        self.meter.count(Call.PUT, path, len(data))
        return self.inner.put_if_match(path, data, etag=etag)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """See `Storage.read_with_etag`."""
        data, tag = b"", ""
        try:
            data, tag = self.inner.read_with_etag(path)
        finally:
            self.meter.count(Call.GET, path, len(data))
        return data, tag

    def info(self, path: str) -> FileInfo | None:
        """See `Storage.info`."""
        self.meter.count(Call.HEAD, path)
        return self.inner.info(path)

    def wait_for_writer(self, path: str) -> bool:
        """See `Storage.wait_for_writer`."""
        self.meter.count(Call.HEAD, path)
        return self.inner.wait_for_writer(path)

    def list_folder(self, path: str) -> FolderListing:
        """See `Storage.list_folder`."""
        self.meter.count(Call.LIST, path)
        return self.inner.list_folder(path)

    def list_names(self, path: str) -> tuple[str, ...]:
        """See `Storage.list_names`."""
        self.meter.count(Call.LIST, path)
        return self.inner.list_names(path)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See `Storage.list_recursive`."""
        self.meter.count(Call.LIST, path)
        return self.inner.list_recursive(path)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        self.meter.count(Call.DELETE, path)
        self.inner.delete(path)

    def delete_folder(self, path: str) -> None:
        """See `Storage.delete_folder`."""
        self.meter.count(Call.DELETE, path)
        self.inner.delete_folder(path)


class _MeteredOutput(Output):
    """An output that counts the bytes written to it."""

    def __init__(self, inner: Output, meter: Meter, relative: str) -> None:
        self._inner = inner
        super().__init__(relative)
        self._meter = meter

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)
        self._meter.add_bytes(Call.PUT, self._path, data.nbytes)

    def _complete(self) -> None:
        self._inner.close()

    def _remove(self) -> None:
        self._inner.discard()

    def _release(self) -> None:
        self._inner.abandon()
