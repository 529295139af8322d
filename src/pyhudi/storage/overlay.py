"""A store as it will be with some more small files: a commit is read through it before readers can see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import pyarrow as pa

from pyhudi.errors import InternalError
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec


class OverlayStorage:
    """A view of a store, to read alone, in which `added` files lie over those of the store, by path."""

    def __init__(self, inner: Storage, added: Mapping[str, bytes]) -> None:
        self._inner = inner
        self._added = dict(added)

    @property
    def spec(self) -> StorageSpec:
        """The specification of the store, without the added files."""
        return self._inner.spec

    @property
    def uri(self) -> str:
        """The URI of the store."""
        return self._inner.uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        if path not in self._added:
            return self._inner.read(path, offset=offset, length=length)
        return self._added[path][offset:][:length]

    def open_input(self, path: str) -> Any:
        """See `Storage.open_input`."""
        return pa.BufferReader(self._added[path]) if path in self._added else self._inner.open_input(path)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """See `Storage.read_with_etag`."""
        return self._inner.read_with_etag(path)

    def info(self, path: str) -> FileInfo | None:
        """See `Storage.info`."""
        return self._info(path) if path in self._added else self._inner.info(path)

    def wait_for_writer(self, path: str) -> bool:
        """See `Storage.wait_for_writer`."""
        return path not in self._added and self._inner.wait_for_writer(path)

    def list_folder(self, path: str) -> FolderListing:
        """See `Storage.list_folder`."""
        found = self._inner.list_folder(path)
        added = [self._info(added_path) for added_path in self._added if added_path.rpartition("/")[0] == path]
        files = {info.path: info for info in (*found.files, *added)}
        return FolderListing(tuple(files[file_path] for file_path in sorted(files)), found.folders)

    def list_names(self, path: str) -> tuple[str, ...]:
        """See `Storage.list_names`."""
        added = {added_path.rpartition("/")[2] for added_path in self._added if added_path.rpartition("/")[0] == path}
        return tuple(sorted({*self._inner.list_names(path), *added}))

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See `Storage.list_recursive`."""
        added = [
            self._info(added_path) for added_path in self._added if added_path.startswith(f"{path}/" if path else "")
        ]
        files = {info.path: info for info in (*self._inner.list_recursive(path), *added)}
        return tuple(files[name] for name in sorted(files))

    def creates_exclusively(self) -> bool:
        """See `Storage.creates_exclusively`."""
        return self._inner.creates_exclusively()

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """Nothing is written through this view."""
        raise self._error("open_output", path, durable)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Nothing is written through this view."""
        raise self._error("put", path, data, durable)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Nothing is written through this view."""
        raise self._error("put_if_absent", path, data)

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Nothing is written through this view."""
        raise self._error("put_if_match", path, data, etag)

    def delete(self, path: str) -> None:
        """Nothing is written through this view."""
        raise self._error("delete", path)

    def delete_folder(self, path: str) -> None:
        """Nothing is written through this view."""
        raise self._error("delete_folder", path)

    def _info(self, path: str) -> FileInfo:
        return FileInfo(path, len(self._added[path]), 0)

    def _error(self, call: str, path: str, *_: object) -> InternalError:
        return InternalError("a view of a store was written to", call=call, path=path)
