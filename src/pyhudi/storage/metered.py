"""A store whose calls are counted: how many, and how many bytes, by what the files are for."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import IO, Any, Final, cast

from pyhudi.storage import registry as in_process
from pyhudi.storage.output import Output
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec

_PURPOSES: Final = (
    (".hoodie/metadata/", "metadata_table"),
    (".hoodie/.temp/", "markers"),
    (".hoodie/.heartbeat/", "heartbeats"),
    (".hoodie/.locks/", "locks"),
    (".hoodie/.aux/.exchange/", "exchange"),
    (".hoodie/.aux/", "coordination"),
    (".hoodie/timeline/history/", "archive"),
    (".hoodie/archived/", "archive"),
    (".hoodie/", "timeline"),
)


def purpose_of(path: str) -> str:
    """What a file or folder of a table is for."""
    inside = f"{path}/"
    return next((purpose for folder, purpose in _PURPOSES if inside.startswith(folder)), "data")


class Meter:
    """Calls and bytes by purpose and kind of call. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._calls: dict[tuple[str, str], int] = defaultdict(int)
        self._bytes: dict[tuple[str, str], int] = defaultdict(int)

    def count(self, kind: str, path: str, size: int = 0) -> None:
        """Count a call of a kind: read, write, list or delete."""
        key = (purpose_of(path), kind)
        with self._guard:
            self._calls[key] += 1
            self._bytes[key] += size

    def add_bytes(self, kind: str, path: str, size: int) -> None:
        """Count bytes of a call that was counted."""
        with self._guard:
            self._bytes[purpose_of(path), kind] += size

    def totals(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Calls and bytes by purpose and kind."""
        with self._guard:
            return {key: (calls, self._bytes[key]) for key, calls in self._calls.items()}


class MeteredStorage:
    """A wrapper of a store that counts its calls.

    `meters_tasks`: tasks that open the store by its `spec` are counted, too; they all have to run in this process.
    """

    def __init__(self, inner: Storage, meter: Meter, *, meters_tasks: bool) -> None:
        self.inner = inner
        self.meter = meter
        self._spec = in_process.register(self, inner.spec.options) if meters_tasks else inner.spec

    def __repr__(self) -> str:
        return f"MeteredStorage({self.inner!r})"

    @property
    def spec(self) -> StorageSpec:
        """The specification of this wrapper, or of the wrapped store if tasks are not counted."""
        return self._spec

    @property
    def uri(self) -> str:
        """The URI of the wrapped store."""
        return self.inner.uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        data = self.inner.read(path, offset=offset, length=length)
        self.meter.count("read", path, len(data))
        return data

    def open_input(self, path: str) -> Any:
        """See `Storage.open_input`. Counted as one call, as Arrow reads the bytes by itself."""
        self.meter.count("read", path)
        return self.inner.open_input(path)

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """See `Storage.open_output`."""
        self.meter.count("write", path)
        output = cast("Output", self.inner.open_output(path, durable=durable))
        return cast("IO[bytes]", _MeteredOutput(output, self.meter, path))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """See `Storage.put`."""
        self.meter.count("write", path, len(data))
        self.inner.put(path, data, durable=durable)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """See `Storage.put_if_absent`."""
        self.meter.count("write", path, len(data))
        self.inner.put_if_absent(path, data)

    def creates_exclusively(self) -> bool:
        """See `Storage.creates_exclusively`. Its requests are not counted."""
        return self.inner.creates_exclusively()

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """See `Storage.put_if_match`."""
        self.meter.count("write", path, len(data))
        return self.inner.put_if_match(path, data, etag=etag)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """See `Storage.read_with_etag`."""
        data, tag = self.inner.read_with_etag(path)
        self.meter.count("read", path, len(data))
        return data, tag

    def info(self, path: str) -> FileInfo | None:
        """See `Storage.info`."""
        self.meter.count("read", path)
        return self.inner.info(path)

    def wait_for_writer(self, path: str) -> bool:
        """See `Storage.wait_for_writer`."""
        self.meter.count("read", path)
        return self.inner.wait_for_writer(path)

    def list_folder(self, path: str) -> FolderListing:
        """See `Storage.list_folder`."""
        self.meter.count("list", path)
        return self.inner.list_folder(path)

    def list_names(self, path: str) -> tuple[str, ...]:
        """See `Storage.list_names`."""
        self.meter.count("list", path)
        return self.inner.list_names(path)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See `Storage.list_recursive`."""
        self.meter.count("list", path)
        return self.inner.list_recursive(path)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        self.meter.count("delete", path)
        self.inner.delete(path)

    def delete_folder(self, path: str) -> None:
        """See `Storage.delete_folder`."""
        self.meter.count("delete", path)
        self.inner.delete_folder(path)


class _MeteredOutput(Output):
    """An output that counts the bytes written to it."""

    def __init__(self, inner: Output, meter: Meter, relative: str) -> None:
        self._inner = inner
        super().__init__(relative)
        self._meter = meter

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)
        self._meter.add_bytes("write", self._path, data.nbytes)

    def _complete(self) -> None:
        self._inner.close()

    def _remove(self) -> None:
        self._inner.discard()

    def _release(self) -> None:
        self._inner.abandon()
