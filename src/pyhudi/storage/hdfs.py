"""Store on HDFS through hdfs-native, a client without a JVM.

HDFS makes a file visible when it is created, and its content later. A process that is killed in between leaves an
empty file, which no other process may write for as long as its lease lasts. Therefore no put creates a file under its
final name: it writes a temporary file, and renames it. The NameNode renames in one step, and refuses a name that
exists unless it is asked to overwrite.

What is durable: the NameNode answers a rename after its journal is synced. `hsync`, which a durable put calls before
the rename, returns when every DataNode of the block's pipeline has synced its replica to its disk. Without it the
replicas are in the memory of their DataNodes, as those of most HDFS clients are. The client has no `hflush`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any, TypeVar, cast

from pyhudi.errors import (
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
    UnsupportedFeatureError,
)
from pyhudi.storage.hdfs_client import CLIENT_ERRORS, HdfsClient, is_away, typed_error
from pyhudi.storage.hdfs_lock import ReplacementLock
from pyhudi.storage.local import wait_while_recent
from pyhudi.storage.output import Output
from pyhudi.storage.paths import (
    LOCK_NAME,
    TEMPORARY_PREFIX,
    check_relative,
    check_relative_folder,
    join,
    parent_of,
    temporary_name,
)
from pyhudi.storage.protocol import FileInfo, FolderListing, StorageSpec
from pyhudi.storage.ranges import RangedInput

R = TypeVar("R")

LITTER_AGE_SECONDS = 24 * 3600
"""Temporary files of this age, by the clock of the NameNode, belong to a process that is dead, and are deleted."""
PUBLISH_SECONDS_MAX = 3600
"""A temporary file of this age that is gone may have been deleted as litter."""
_LOCK_PREFIX = f"{LOCK_NAME}-"


class HdfsStorage:
    """A folder of HDFS. `authority` is the NameNode's host and port, or a name service of the Hadoop configuration.

    Raises:
        ConfigError: hdfs-native is not installed, or the configuration has no such NameNode.
    """

    def __init__(self, *, authority: str, folder: str, options: Mapping[str, str]) -> None:
        self._base = f"/{folder}" if folder else ""
        self._spec = StorageSpec(f"hdfs://{authority}{self._base}", dict(options))
        self._client = HdfsClient(authority, options)
        self._old_temporaries: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        return f"HdfsStorage({self.uri!r})"

    @property
    def spec(self) -> StorageSpec:
        """The URI and the options for another process."""
        return self._spec

    @property
    def uri(self) -> str:
        """The URI as the caller wrote it, which Spark understands, too."""
        return self._spec.uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Cost: one request to the NameNode, and one to a DataNode for each block."""
        reader = self._reader(path)
        try:
            return _range(reader, offset, length)
        except CLIENT_ERRORS:
            # The file was perhaps replaced after the NameNode had told its blocks, which are gone then.
            reader = self._reader(path)
            return self._call("read", path, lambda: _range(reader, offset, length))

    def open_input(self, path: str) -> Any:
        """Cost: one request to the NameNode; later one to a DataNode for each range that is not in memory."""
        reader = self._reader(path)

        def fetch(offset: int, length: int) -> bytes:
            try:
                return _range(reader, offset, length)
            except CLIENT_ERRORS as error:
                if self.info(path) is not None:
                    raise typed_error(error, "read", self._full(path)) from error
                raise NotFoundError("cannot read: the file was deleted", path=self._full(path)) from error

        return RangedInput(fetch, len(reader))

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """Creates the file under its final name at once. Cost: three requests, and one more for each block."""
        name = self._name(path)
        writer = self._call("create", path, lambda: self._client.create(name))
        return cast("IO[bytes]", _HdfsOutput(self, path, writer, durable))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Writes a temporary file and renames it over the final name. Cost: four requests."""
        self._call("write", path, lambda: self._publish(path, data, durable, overwrite=True))

    def creates_exclusively(self) -> bool:
        """Always: the NameNode renames in one step, and never over a file unless it is asked to."""
        return True

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Writes a temporary file and renames it, which fails if the final name exists. Cost: four requests."""
        self._call("create", path, lambda: self._publish(path, data, True, overwrite=False))

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Compares and replaces under a lock (`ReplacementLock`). The tag is a hash of the content.

        Cost: ten requests.
        """
        name = self._name(path)
        lock = ReplacementLock(self._client, name)

        def replace() -> None:
            lock.take(data)
            try:
                if self._tag_of(path) != etag or not (lock.publish() or self._tag_of(path) == _tag(data)):
                    raise PreconditionFailedError("another process changed or removed the file", path=self._full(path))
            finally:
                with suppress(*CLIENT_ERRORS):
                    lock.release()

        self._call("write", path, replace)
        return _tag(data)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """The content and its SHA-256. Equal contents are the same version."""
        data = self.read(path)
        return data, _tag(data)

    def info(self, path: str) -> FileInfo | None:
        """Cost: one request."""
        name = self._name(path)
        try:
            status = self._call("inspect", path, lambda: self._client.status(name))
        except NotFoundError:
            return None
        return None if status.isdir else FileInfo(path, status.length, status.modification_time)

    def wait_for_writer(self, path: str) -> bool:
        """A file is complete if it was not modified within the last two seconds. Cost: one request."""
        return wait_while_recent(self.info(path))

    def list_folder(self, path: str) -> FolderListing:
        """Leaves out temporary files and locks. Cost: one request per thousand children."""
        children = self._children(path)
        files = [self._info(status) for status in children if not status.isdir]
        folders = [self._relative(status.path) for status in children if status.isdir]
        return FolderListing(tuple(sorted(files, key=lambda info: info.path)), tuple(sorted(folders)))

    def list_names(self, path: str) -> tuple[str, ...]:
        """As `list_folder`."""
        return tuple(info.name for info in self.list_folder(path).files)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """Cost: one request per thousand children of each folder."""
        files: list[FileInfo] = []
        pending = [path]
        while pending:
            listing = self.list_folder(pending.pop())
            files += listing.files
            pending += listing.folders
        return tuple(sorted(files, key=lambda info: info.path))

    def delete(self, path: str) -> None:
        """Also removes a folder, if it is empty. Cost: one request."""
        name = self._name(path)
        with suppress(NotFoundError):
            self._call("delete", path, lambda: self._client.delete(name))

    def delete_folder(self, path: str) -> None:
        """Removes the folder in one step. Cost: two requests."""
        name = self._folder_name(path)

        def delete() -> None:
            if self._client.status(name).isdir:
                self._client.delete(name, recursive=True)

        with suppress(NotFoundError):
            self._call("delete", path, delete)

    def _reader(self, path: str) -> Any:
        name = self._name(path)
        return self._call("open", path, lambda: self._client.open(name))

    def _publish(self, path: str, data: bytes, durable: bool, *, overwrite: bool) -> None:
        name = self._name(path)
        started = time.time()
        temporary = f"{parent_of(name)}/{temporary_name()}"
        self._client.write(temporary, data, durable=durable)
        self._delete_litter(parent_of(name), temporary)
        try:
            self._client.rename(temporary, name, overwrite=overwrite)
        except (FileExistsError, FileNotFoundError):
            # Perhaps the answer to the rename was lost, and this is the answer to its repetition.
            if self._client.exists(temporary):
                self._client.delete(temporary)
                raise
            if time.time() - started > PUBLISH_SECONDS_MAX or not self._client.exists(name):
                raise UnavailableError(
                    "the temporary file was deleted by another process", path=self._full(path)
                ) from None
        except CLIENT_ERRORS as error:
            if not is_away(error):
                with suppress(*CLIENT_ERRORS):
                    self._client.delete(temporary)
            raise

    def _tag_of(self, path: str) -> str | None:
        try:
            return self.read_with_etag(path)[1]
        except NotFoundError:
            return None

    def _children(self, path: str) -> list[Any]:
        """What a folder has, but for temporary files and locks. What looks like litter is remembered."""
        name = self._folder_name(path)
        try:
            found = self._call("list", path, lambda: self._client.children(name))
        except NotFoundError:
            return []
        if len(found) == 1 and found[0].path == name:
            return []  # a file, of which HDFS lists itself
        names = [status.path.rpartition("/")[2] for status in found]
        old = [
            status
            for status, child in zip(found, names, strict=True)
            if child.startswith(TEMPORARY_PREFIX) and _is_litter(status, time.time() * 1000)
        ]
        if old:
            self._old_temporaries[name] = old
        hidden = (TEMPORARY_PREFIX, _LOCK_PREFIX)
        return [status for status, child in zip(found, names, strict=True) if not child.startswith(hidden)]

    def _delete_litter(self, folder: str, just_written: str) -> None:
        """Delete the temporary files of dead processes that a listing of the folder has shown.

        Their age is that by the clock of the NameNode, which the file that was just written tells: a machine whose own
        clock is wrong must not delete what a writer is about to publish.
        """
        old = self._old_temporaries.pop(folder, ())
        if not old:
            return
        with suppress(*CLIENT_ERRORS):
            now_ms = self._client.status(just_written).modification_time
            for status in old:
                if _is_litter(status, now_ms):
                    self._client.delete(status.path, recursive=True)

    def _call(self, action: str, path: str, request: Callable[[], R]) -> R:
        try:
            return request()
        except CLIENT_ERRORS as error:
            raise typed_error(error, action, self._full(path)) from error

    def _info(self, status: Any) -> FileInfo:
        return FileInfo(self._relative(status.path), status.length, status.modification_time)

    def _relative(self, name: str) -> str:
        return name[len(self._base) + 1 :]

    def _name(self, path: str) -> str:
        if ":" in check_relative(path):
            raise UnsupportedFeatureError(
                "HDFS has no file with a colon in its name: encode partition values"
                " (hoodie.datasource.write.partitionpath.urlencode)",
                path=self._full(path),
            )
        return f"{self._base}/{path}"

    def _folder_name(self, path: str) -> str:
        return self._name(path) if check_relative_folder(path) else self._base or "/"

    def _full(self, path: str) -> str:
        return join(self.uri, path)


class _HdfsOutput(Output):
    """Writes to the file's final name at once. Readers read a file only after a commit lists it."""

    def __init__(self, storage: HdfsStorage, path: str, writer: Any, durable: bool) -> None:
        self._writer = writer
        self._storage = storage
        super().__init__(join(storage.uri, path))
        self._relative = path
        self._durable = durable

    def _append(self, data: memoryview) -> None:
        self._request("write", lambda: self._writer.write(data))

    def _complete(self) -> None:
        if self._durable and self._position:
            self._request("finish", self._writer.hsync)
        self._request("finish", self._writer.close)
        self._writer = None

    def _remove(self) -> None:
        self._writer = None
        self._storage.delete(self._relative)

    def _release(self) -> None:
        # The file stays as it is; another process may write or rename it when its lease has ended, or delete it.
        self._writer = None

    def _request(self, action: str, request: Callable[[], object]) -> None:
        try:
            request()
        except CLIENT_ERRORS as error:
            raise typed_error(error, action, self._path) from error


def _range(reader: Any, offset: int, length: int | None) -> bytes:
    end = len(reader) if length is None else min(offset + length, len(reader))
    # The client panics if it is asked for bytes past the end.
    return bytes(reader.read_range(offset, end - offset)) if end > offset else b""


def _is_litter(status: Any, now_ms: float) -> bool:
    return bool(now_ms - status.modification_time > LITTER_AGE_SECONDS * 1000)


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
