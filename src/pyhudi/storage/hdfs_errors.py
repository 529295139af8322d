"""The errors of pyhudi for those of the HDFS client, which names exceptions of the NameNode in its messages."""

from __future__ import annotations

import re

from pyhudi.errors import (
    AlreadyExistsError,
    HudiError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    StorageError,
    UnavailableError,
    UnsupportedFeatureError,
)

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
    return _kind(error, text, remote)(f"cannot {action}", path=path, reason=reason)


def _kind(error: Exception, text: str, remote: re.Match[str] | None) -> type[HudiError]:
    if _NOT_A_FOLDER in text:
        return StorageError
    if isinstance(error, OSError) or _NO_DATANODE in text:
        return UnavailableError
    named = remote or _OF_CLIENT.match(text)
    return _KINDS.get(named.group(1), StorageError) if named else StorageError
