"""The client of HDFS, which repeats requests whose answer it did not get; and the errors of pyhudi for those of it.

hdfs-native waits for a NameNode that refuses connections, but reports a connection that breaks while a request is on
its way. Whether the NameNode has done what the request asked for is not known then. What is repeated here must
therefore be safe to repeat: `rename` of a file whose name no other process has is, if its caller looks where the file
is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pyhudi.errors import (
    AlreadyExistsError,
    ConfigError,
    HudiError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    StorageError,
    UnavailableError,
    UnsupportedFeatureError,
)
from pyhudi.storage.forks import refuse_fork
from pyhudi.storage.meanings import cannot

R = TypeVar("R")

CLIENT_ERRORS = (OSError, RuntimeError, ValueError)
"""What the client raises. Its errors have no types of their own: an exception of the NameNode is a RuntimeError."""
DEFAULT_PORT = 8020
WAITS: Mapping[str, str] = {
    "dfs.client.failover.max.attempts": "10",
    "dfs.client.failover.sleep.max.millis": "5000",
}
"""How long the client waits for a NameNode that refuses connections: half a minute."""
REPEAT_SECONDS = 30.0
_REPEAT_AFTER_SECONDS = 0.1
_ANSWERS = (FileExistsError, FileNotFoundError, IsADirectoryError)
_AWAY = re.compile("refused|lookup address", re.IGNORECASE)
_NO_NAMENODE = "No NameNode hosts found"
_LIBRARY = "hdfs-native"
_REASON_CHARACTERS_MAX = 300
_REMOTE = re.compile(r'^(?:Fatal)?RPCError\("(?:[\w.]*[.$])?(\w+)", "')
_OF_CLIENT = re.compile(r"^(\w+)(?:\(|$)")
_NOT_A_FOLDER = "(is not a directory)"
_NOT_A_FILE = (_NOT_A_FOLDER, "PathIsNotEmptyDirectoryException")
_NO_DATANODE = "could only be written to"
_KINDS: dict[str, type[HudiError]] = {
    # of the NameNode
    "AccessControlException": PermissionDeniedError,
    "AuthorizationException": PermissionDeniedError,
    "InvalidToken": PermissionDeniedError,
    "SaslException": PermissionDeniedError,
    "SafeModeException": UnavailableError,
    "StandbyException": UnavailableError,
    "RetriableException": UnavailableError,
    "DSQuotaExceededException": OutOfSpaceError,
    "NSQuotaExceededException": OutOfSpaceError,
    "QuotaByStorageTypeExceededException": OutOfSpaceError,
    # of the client itself
    "SASLError": PermissionDeniedError,
    "GSSAPIError": PermissionDeniedError,
    "NoSASLMechanism": PermissionDeniedError,
    "UnsupportedFeature": UnsupportedFeatureError,
    "UnsupportedErasureCodingPolicy": UnsupportedFeatureError,
    "DataTransferError": UnavailableError,
    "BlocksNotFound": UnavailableError,
}
_LOOKS = frozenset({"read", "open", "inspect", "list", "delete"})


class HdfsClient:
    """hdfs-native's client of one NameNode or name service, for absolute paths. Raises what that client raises."""

    def __init__(self, authority: str, options: Mapping[str, str]) -> None:
        self._authority = authority
        self._client = _connect(authority, options)

    @property
    def _inner(self) -> Any:
        refuse_fork(_LIBRARY, f"hdfs://{self._authority}")
        return self._client

    def status(self, name: str) -> Any:
        """The status of a file or folder; raises `FileNotFoundError`."""
        return _repeated(lambda: self._inner.get_file_info(name))

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder."""
        try:
            self.status(name)
        except FileNotFoundError:
            return False
        return True

    def children(self, name: str) -> list[Any]:
        """The status of each child of a folder; of a file, that of itself."""
        return _repeated(lambda: list(self._inner.list_status(name)))

    def open(self, name: str) -> Any:
        """A reader of a file, which knows its blocks."""
        return _repeated(lambda: self._inner.read(name))

    def create(self, name: str) -> Any:
        """A writer of a new file, whose folders are created with it. Not repeated."""
        return self._inner.create(name)

    def delete(self, name: str, *, recursive: bool = False) -> None:
        """Remove a file or folder, if there is one."""
        _repeated(lambda: self._inner.delete(name, recursive))

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Move a file or folder in one step.

        `FileExistsError` and `FileNotFoundError` may be the answers to a repetition: look if `source` is still there.
        """
        _repeated(lambda: self._inner.rename(source, target, overwrite))

    def write(self, name: str, data: bytes, *, durable: bool) -> None:
        """Write a file whose name no other process has.

        A failed attempt is deleted, and repeated if its answer was lost.
        """
        deadline = time.monotonic() + REPEAT_SECONDS
        while True:
            try:
                self._write(name, data, durable)
            except CLIENT_ERRORS as error:
                if is_away(error):
                    raise
                with suppress(*CLIENT_ERRORS):
                    self.delete(name)
                # A file of this name is our own, of an attempt whose answer was lost.
                is_lost = isinstance(error, FileExistsError) or _is_lost(error)
                if not is_lost or time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(_REPEAT_AFTER_SECONDS)

    def _write(self, name: str, data: bytes, durable: bool) -> None:
        writer = self.create(name)
        if data:
            writer.write(data)
            if durable:
                writer.hsync()
        writer.close()


def _connect(authority: str, options: Mapping[str, str]) -> Any:
    try:
        from hdfs_native import Client  # noqa: PLC0415  # an extra
    except ImportError:
        raise ConfigError("tables on HDFS need hdfs-native: pip install 'pyhudi[hdfs]'", package=_LIBRARY) from None
    refuse_fork(_LIBRARY, f"hdfs://{authority}")
    settings = {**WAITS, **{name: value for name, value in options.items() if name.startswith("dfs.")}}
    try:
        return Client(f"hdfs://{authority}", settings)
    except CLIENT_ERRORS as error:
        if _NO_NAMENODE in str(error) and authority and ":" not in authority:
            # No name service, so it is a host, which listens on Hadoop's port.
            return Client(f"hdfs://{authority}:{DEFAULT_PORT}", settings)
        raise ConfigError(
            "the client of HDFS cannot be made: give host and port of the NameNode, or the options of the name service"
            " (dfs.ha.namenodes.… and dfs.namenode.rpc-address.…, or HADOOP_CONF_DIR)",
            authority=authority,
            reason=str(error),
        ) from error


def is_away(error: Exception) -> bool:
    """Whether the NameNode let no connection be made, for as long as the client waits for it."""
    return isinstance(error, OSError) and _AWAY.search(str(error)) is not None


def _is_lost(error: Exception) -> bool:
    """Whether a connection broke before the answer came."""
    return isinstance(error, OSError) and not isinstance(error, _ANSWERS) and not is_away(error)


def _repeated(request: Callable[[], R]) -> R:
    deadline = time.monotonic() + REPEAT_SECONDS
    while True:
        try:
            return request()
        except OSError as error:
            if not _is_lost(error) or time.monotonic() > deadline:
                raise
        time.sleep(_REPEAT_AFTER_SECONDS)


def typed_error(error: Exception, action: str, path: str) -> HudiError:
    """The error of pyhudi for an error of the client, without the stack trace of the NameNode."""
    text = str(error)
    remote = _REMOTE.match(text)
    # Inside of the message of a RuntimeError line ends are escaped.
    said = text[remote.end() :] if remote else text
    reason = re.split(r"\n|\\n", said, maxsplit=1)[0].replace('\\"', '"')[:_REASON_CHARACTERS_MAX]
    if isinstance(error, FileExistsError):
        return AlreadyExistsError("there is a file at this path already", path=path)
    if isinstance(error, (FileNotFoundError, IsADirectoryError)) or (
        action in _LOOKS and any(name in text for name in _NOT_A_FILE)
    ):
        return NotFoundError(f"cannot {action}: there is no file at this path", path=path, reason=reason)
    kind = _kind(error, text, remote)
    return kind(cannot(action, kind), path=path, reason=reason)


def _kind(error: Exception, text: str, remote: re.Match[str] | None) -> type[HudiError]:
    if _NOT_A_FOLDER in text:
        return StorageError
    if isinstance(error, OSError) or _NO_DATANODE in text:
        return UnavailableError
    named = remote or _OF_CLIENT.match(text)
    return _KINDS.get(named.group(1), StorageError) if named else StorageError
