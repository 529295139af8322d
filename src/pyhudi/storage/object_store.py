"""Object stores through obstore: S3 and compatible stores, Google Cloud Storage, Azure.

The client repeats a request whose answer got lost. If a conditional put succeeded but its answer was lost, the store
refuses the repetition. Therefore each conditional put stores a unique number in the object's user metadata: after a
refusal the number tells whether the put itself or another writer created the object. The content cannot tell, because
two writers may put the same bytes.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar, cast

import obstore
from obstore import exceptions as obstore_errors

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
from pyhudi.storage.forks import refuse_fork
from pyhudi.storage.meanings import cannot
from pyhudi.storage.output import Output
from pyhudi.storage.paths import check_relative, check_relative_folder, join, parent_of
from pyhudi.storage.protocol import FileInfo, FolderListing, StorageSpec
from pyhudi.storage.ranges import RangedInput
from pyhudi.storage.secrets import redact, secret_values

R = TypeVar("R")

PART_BYTES = 10 * 1024 * 1024
"""Size of an upload's parts. S3 accepts 10,000 parts, so a file has at most 97 GiB."""
TAIL_BYTES = 64 * 1024
"""Bytes read from the end when a file is opened. One request gives the size and the footer of most Parquet files."""
_PROBE_FOLDER = ".hoodie/.aux/.probe"
_DELETE_ROUNDS = 5
_CREATE_ATTEMPTS = 5
_REASON_CHARACTERS_MAX = 500

_PUT_NUMBER = "pyhudi-put"
_STATUS = re.compile(r"status code: (\d{3})")
_NOT_IMPLEMENTED = "<Code>NotImplemented</Code>"
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
"""What the stores of Amazon and those like it, Azure and Google say."""
_NO_ANSWER = re.compile(r"HTTP error|error sending request|timed? ?out|connection|retries", re.IGNORECASE)
_GIVE_CREDENTIALS = ("http://169.254.169.254/", "http://169.254.170.2/", "http://metadata.google.internal/")
"""Where a machine of a cloud gives credentials: the client asks there only if nothing else has any."""
_CLIENT_ERRORS = (obstore_errors.BaseError, ValueError, OSError)


class ObjectStorage:
    """The objects of one bucket below a prefix. `store` is the obstore client of the whole bucket."""

    def __init__(self, store: Any, *, uri: str, prefix: str, options: Mapping[str, str]) -> None:
        self._client = store
        self._uri = uri
        self._prefix = f"{prefix}/" if prefix else ""
        self._spec = StorageSpec(uri, dict(options))
        self._is_exclusive: bool | None = None

    def __repr__(self) -> str:
        return f"ObjectStorage({self._uri!r})"

    @property
    def _store(self) -> Any:
        """The client, for a request."""
        refuse_fork("obstore", self._uri)
        return self._client

    @property
    def spec(self) -> StorageSpec:
        """The URI and the options, including credentials, for another process; see `StorageSpec`."""
        return self._spec

    @property
    def uri(self) -> str:
        """The URI as the caller wrote it, because Spark may know only one of `s3://` and `s3a://`."""
        return self._uri

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Cost: one request; two for a range that starts at or past the end, or is empty."""
        key = self._key(path)
        if offset == 0 and length is None:
            return self._call("read", path, lambda: bytes(obstore.get(self._store, key).bytes()))
        try:
            if length == 0:
                return self._nothing_from(path)
            if length is None:
                options = {"range": {"offset": offset}}
                return self._call("read", path, lambda: bytes(obstore.get(self._store, key, options=options).bytes()))
            return self.read_range(path, offset, length)
        except StorageError:
            # The store refuses a range that starts at or past the end.
            info = self.info(path)
            if info is None or info.size > offset:
                raise
            return b""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """The bytes of a range that must lie inside the object. Cost: one request."""
        key = self._key(path)
        return self._call("read", path, lambda: bytes(obstore.get_range(self._store, key, start=offset, length=length)))

    def open_input(self, path: str) -> IO[bytes]:
        """Cost: one request, for the size and the last 64 KiB; later one for each range that is not in memory."""
        size, tail = self._size_and_tail(path)
        return cast("IO[bytes]", RangedInput(functools.partial(self.read_range, path), size, tail))

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:  # noqa: ARG002  # always durable
        """The object is not visible before `close`. Cost: one request up to 10 MiB, else one per part and two more."""
        key = self._key(path)
        writer = self._call("create", path, lambda: obstore.open_writer(self._store, key, buffer_size=PART_BYTES))
        return cast("IO[bytes]", _ObjectOutput(self, path, writer))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002
        """Cost: one request."""
        key = self._key(path)
        self._call("write", path, lambda: obstore.put(self._store, key, data, use_multipart=False))

    def creates_exclusively(self) -> bool:
        """Whether the store refuses to create an existing object. The first call tries it with a probe object.

        Some stores with S3's protocol refuse conditional puts, others ignore the condition and overwrite. On such a
        store `put_if_absent` first checks for the object and then puts it, so that two concurrent callers may both
        succeed. Cost: four requests the first time.
        """
        if self._is_exclusive is None:
            path = f"{_PROBE_FOLDER}/{uuid.uuid4()}"
            key = self._key(path)
            try:
                for number in ("first", "second"):
                    self._call("create", path, functools.partial(self._conditional_put, key, b"", number, "create"))
                self._is_exclusive = False
            except AlreadyExistsError:
                self._is_exclusive = True
            except UnsupportedFeatureError:
                self._is_exclusive = False
            finally:
                self.delete(path)
        return self._is_exclusive

    def put_if_absent(self, path: str, data: bytes) -> None:
        """See also `creates_exclusively`. Cost: one request, and one more if it is refused or its answer is lost."""
        if self._is_exclusive is not False:
            try:
                self._create(path, data)
            except UnsupportedFeatureError:
                self._is_exclusive = False
            else:
                return
        if self.info(path) is not None:
            raise AlreadyExistsError("there is an object at this path already", path=self._full(path))
        self.put(path, data)

    def _create(self, path: str, data: bytes) -> None:
        key = self._key(path)
        number = uuid.uuid4().hex
        for _ in range(_CREATE_ATTEMPTS):
            try:
                self._call("create", path, lambda: self._conditional_put(key, data, number, "create"))
            except (AlreadyExistsError, UnavailableError) as error:
                refusal = error
            else:
                return
            found = self._version_of(path)
            if found is not None and found.number == number:
                return
            if found is not None:
                raise AlreadyExistsError("there is an object at this path already", path=self._full(path))
            if isinstance(refusal, UnavailableError):
                raise refusal
            # The store refused because of a concurrent request (S3's 409), which then failed.
        raise UnavailableError(
            "the store refuses to create this object, although it does not exist: try again", path=self._full(path)
        )

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Cost: one request, and one more if it is refused or its answer is lost."""
        key = self._key(path)
        number = uuid.uuid4().hex
        condition = _Version.parse(etag).condition
        try:
            return self._call("write", path, lambda: self._conditional_put(key, data, number, condition)).tag
        except (PreconditionFailedError, NotFoundError, AlreadyExistsError, UnavailableError) as error:
            refusal = error
        found = self._version_of(path)
        if found is not None and found.number == number:
            return found.tag
        if isinstance(refusal, UnavailableError):
            raise refusal
        raise PreconditionFailedError("another process changed or removed the object", path=self._full(path))

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """Cost: one request."""
        key = self._key(path)

        def get() -> tuple[bytes, str]:
            result = obstore.get(self._store, key)
            return bytes(result.bytes()), _Version.of(result.meta).tag

        return self._call("read", path, get)

    def info(self, path: str) -> FileInfo | None:
        """`modified_ms` has whole seconds here, but milliseconds in a listing. Cost: one request."""
        key = self._key(path)
        try:
            return self._info(self._call("inspect", path, lambda: obstore.head(self._store, key)))
        except NotFoundError:
            return None

    def list_folder(self, path: str) -> FolderListing:
        """Cost: one request per thousand children."""
        prefix = self._folder_key(path)
        found = self._call("list", path, lambda: obstore.list_with_delimiter(self._store, prefix))
        files = [self._info(info) for info in found["objects"] if info["path"] != prefix]
        folders = [self._relative(info) for info in found["common_prefixes"]]
        return FolderListing(tuple(sorted(files, key=lambda info: info.path)), tuple(sorted(folders)))

    def wait_for_writer(self, path: str) -> bool:
        """Never: objects are always complete."""
        del path
        return False

    def list_names(self, path: str) -> tuple[str, ...]:
        """As `list_folder`."""
        return tuple(info.name for info in self.list_folder(path).files)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """Cost: one request per thousand objects."""
        prefix = self._folder_key(path)
        found = [self._info(info) for info in self._list_all(path) if info["path"] != prefix]
        # Other clients mark a folder by an empty object with the folder's name.
        folders = _folders_of(info.path for info in found)
        files = [info for info in found if info.size > 0 or info.path not in folders]
        return tuple(sorted(files, key=lambda info: info.path))

    def delete(self, path: str) -> None:
        """Cost: one request."""
        key = self._key(path)
        try:
            self._call("delete", path, lambda: obstore.delete(self._store, key))
        except NotFoundError:
            # Google Cloud Storage and Azure report a missing object, S3 does not.
            return

    def delete_folder(self, path: str) -> None:
        """Cost: a listing, and one request per batch of deletions; repeated while other processes add objects.

        Raises:
            StorageError: other processes add objects faster than they can be deleted.
        """
        for _ in range(_DELETE_ROUNDS):
            keys = [info["path"] for info in self._list_all(path)]
            if not keys:
                return
            with suppress(NotFoundError):
                self._delete_all(path, keys)
        if self._list_all(path):
            raise StorageError(
                "other processes add objects to the folder faster than they can be deleted: stop them, and try again",
                path=self._full(path),
            )

    def failure(self, error: Exception, action: str, path: str) -> HudiError:
        """The error of pyhudi for an error of the client, without credentials.

        The client's error must not become its cause or context: its text may quote requests with credentials.
        """
        text = str(error).partition("\n\nDebug source")[0]
        reason = " ".join(redact(text, secret_values(self._spec.options)).split())[:_REASON_CHARACTERS_MAX]
        status = _STATUS.search(text)
        kind = _kind_of(error, int(status.group(1)) if status else None, text)
        if kind is NotFoundError and any(code in text for code in _NO_BUCKET):
            bucket = self._uri.partition("://")[2].partition("/")[0].partition("@")[0]
            return NotFoundError("there is no such bucket", bucket=bucket, path=self._full(path), reason=reason)
        message = cannot(action, kind)
        if any(address in text for address in _GIVE_CREDENTIALS):
            message = (
                f"cannot {action}: no credentials are in the options or the environment, and the machine gives none"
            )
        return kind(message, path=self._full(path), reason=reason)

    def _call(self, action: str, path: str, request: Callable[[], R]) -> R:
        try:
            return request()
        except _CLIENT_ERRORS as error:
            failure = self.failure(error, action, path)
        # Not raised in the `except` block: the client's error would be its context.
        raise failure

    def _conditional_put(self, key: str, data: bytes, number: str, mode: Any) -> _Version:
        result = obstore.put(self._store, key, data, mode=mode, attributes={_PUT_NUMBER: number}, use_multipart=False)
        return _Version(result["e_tag"], result["version"], number)

    def _version_of(self, path: str) -> _Version | None:
        key = self._key(path)
        try:
            found = self._call("inspect", path, lambda: obstore.get(self._store, key, options={"head": True}))
        except NotFoundError:
            return None
        return _Version(found.meta["e_tag"], found.meta["version"], found.attributes.get(_PUT_NUMBER))

    def _delete_all(self, path: str, keys: list[str]) -> None:
        self._call("delete", path, lambda: obstore.delete(self._store, keys))

    def _list_all(self, path: str) -> list[dict[str, Any]]:
        prefix = self._folder_key(path)
        return self._call("list", path, lambda: list(obstore.list(self._store, prefix).collect()))

    def _size_and_tail(self, path: str) -> tuple[int, bytes]:
        key = self._key(path)

        def get() -> tuple[int, bytes]:
            result = obstore.get(self._store, key, options={"range": {"suffix": TAIL_BYTES}})
            return result.meta["size"], bytes(result.bytes())

        try:
            return self._call("open", path, get)
        except NotFoundError:
            raise
        except (StorageError, UnsupportedFeatureError):
            # An empty object has no last bytes, and Azure does not support requests for the last bytes.
            info = self.info(path)
            if info is None:
                raise
            return info.size, b""

    def _nothing_from(self, path: str) -> bytes:
        if self.info(path) is None:
            raise NotFoundError("cannot read", path=self._full(path))
        return b""

    def _info(self, meta: Mapping[str, Any]) -> FileInfo:
        # Not computed from a float, which is not exact in milliseconds.
        modified = meta["last_modified"]
        modified_ms = int(modified.timestamp()) * 1000 + modified.microsecond // 1000
        return FileInfo(self._relative(meta["path"]), meta["size"], modified_ms)

    def _relative(self, key: str) -> str:
        return key[len(self._prefix) :]

    def _key(self, path: str) -> str:
        return self._prefix + check_relative(path)

    def _folder_key(self, path: str) -> str:
        return (self._prefix + check_relative_folder(path)).rstrip("/")

    def _full(self, path: str) -> str:
        return join(self._uri, path)


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of an object: the store's names of it, and the number of pyhudi's conditional put that wrote it."""

    e_tag: str | None
    version: str | None
    number: str | None = None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> _Version:
        return cls(meta["e_tag"], meta["version"])

    @classmethod
    def parse(cls, tag: str) -> _Version:
        version, _, e_tag = tag.partition(" ")
        return cls(e_tag or None, version or None)

    @property
    def tag(self) -> str:
        """S3 and Azure compare the entity tag, Google Cloud Storage the version."""
        return f"{self.version or ''} {self.e_tag or ''}"

    @property
    def condition(self) -> dict[str, str]:
        known = {"e_tag": self.e_tag, "version": self.version}
        return {name: value for name, value in known.items() if value is not None}


class _ObjectOutput(Output):
    """An upload in parts. `close` creates the object from them."""

    def __init__(self, storage: ObjectStorage, path: str, writer: Any) -> None:
        self._writer = writer
        self._storage = storage
        super().__init__(join(storage.uri, path))
        self._relative = path

    def _append(self, data: memoryview) -> None:
        # A copy, because the client may still be sending the data when the caller changes the buffer.
        self._request("write", lambda: self._writer.write(bytes(data)))

    def _complete(self) -> None:
        self._request("finish", self._writer.close)
        self._writer = None

    def _remove(self) -> None:
        # Parts that cannot be removed now stay invisible; a lifecycle rule of the bucket can remove them later.
        with suppress(HudiError):
            self._request("give up", lambda: self._writer.__exit__(RuntimeError, RuntimeError(), None))
        self._writer = None

    def _release(self) -> None:
        self._writer = None

    def _request(self, action: str, request: Callable[[], object]) -> None:
        try:
            request()
        except _CLIENT_ERRORS as error:
            failure = self._storage.failure(error, action, self._relative)
        else:
            return
        raise failure


def _kind_of(error: Exception, status: int | None, text: str) -> type[HudiError]:
    by_type: tuple[tuple[type[Exception], type[HudiError]], ...] = (
        (FileNotFoundError, NotFoundError),
        (obstore_errors.AlreadyExistsError, AlreadyExistsError),
        (obstore_errors.PreconditionError, PreconditionFailedError),
        (obstore_errors.PermissionDeniedError, PermissionDeniedError),
        (obstore_errors.UnauthenticatedError, PermissionDeniedError),
        (obstore_errors.NotSupportedError, UnsupportedFeatureError),
    )
    for theirs, ours in by_type:
        if isinstance(error, theirs):
            return ours
    if status == 501 or _NOT_IMPLEMENTED in text:
        return UnsupportedFeatureError
    # Listings and deletions raise the same error type for all failures.
    if status is None:
        return UnavailableError if _NO_ANSWER.search(text) else StorageError
    by_status: dict[int, type[HudiError]] = {
        401: PermissionDeniedError,
        403: PermissionDeniedError,
        404: NotFoundError,
        408: UnavailableError,
        412: PreconditionFailedError,
        429: UnavailableError,
        507: OutOfSpaceError,
    }
    return by_status.get(status, UnavailableError if status >= 500 else StorageError)


def _folders_of(paths: Iterable[str]) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        folder = parent_of(path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = parent_of(folder)
    return folders
