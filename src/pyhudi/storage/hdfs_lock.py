"""Replacement of a file of HDFS by one of several writers, and of none that was slow.

HDFS can rename, but cannot compare before it does. So a writer first takes a lock: the folder `.pyhudi-lock-<file>`,
which it renames into its place with the new content in it, under a name that no other process uses. To publish is to
rename this very file over the old one. Whoever breaks the lock of a writer that is dead, or only slow, deletes that
file first: then the slow writer's rename fails, and changes nothing.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress

from pyhudi.errors import UnavailableError
from pyhudi.storage.hdfs_client import CLIENT_ERRORS, HdfsClient
from pyhudi.storage.paths import LOCK_NAME, temporary_name

WAIT_SECONDS = 60.0
BREAK_SECONDS = 5.0
"""A lock that the same writer holds for so long is broken. Its holder only compares, and renames."""
_POLL_SECONDS = 0.01


class ReplacementLock:
    """The lock of one attempt to replace the file at the absolute path `name`. Raises the errors of the client."""

    def __init__(self, client: HdfsClient, name: str) -> None:
        folder, _, file = name.rpartition("/")
        self._client = client
        self._name = name
        self._lock = f"{folder}/{LOCK_NAME}-{file}"
        self._staging = f"{folder}/{temporary_name()}"
        self._own = uuid.uuid4().hex

    def take(self, data: bytes) -> None:
        """Hold the lock, with the new content in it.

        Raises:
            UnavailableError: other writers hold it for a minute.
        """
        self._client.write(f"{self._staging}/{self._own}", data, durable=True)
        holders: list[str] | None = None
        now = since = time.monotonic()
        deadline = now + WAIT_SECONDS
        while not self._try():
            found = self._holders()
            if self._own in found:  # the answer to our rename was lost
                return
            if found != holders:
                holders, since = found, now
            if not found or now - since > BREAK_SECONDS:
                self._break(found)
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            if now > deadline:
                self._client.delete(self._staging, recursive=True)
                raise UnavailableError("other writers hold the lock of this file", path=self._lock)

    def publish(self) -> bool:
        """Replace the file by the new content, if the lock is still held; return whether it was."""
        try:
            self._client.rename(f"{self._lock}/{self._own}", self._name, overwrite=True)
        except FileNotFoundError:
            return False
        return True

    def release(self) -> None:
        """Give the lock back, published or not."""
        self._break([self._own])

    def _try(self) -> bool:
        try:
            self._client.rename(self._staging, self._lock, overwrite=False)
        except (FileExistsError, FileNotFoundError):
            return False
        return True

    def _holders(self) -> list[str]:
        try:
            return [status.path.rpartition("/")[2] for status in self._client.children(self._lock)]
        except FileNotFoundError:
            return []

    def _break(self, holders: list[str]) -> None:
        for holder in holders:
            self._client.delete(f"{self._lock}/{holder}")
        # Not empty if another writer has taken it meanwhile.
        with suppress(*CLIENT_ERRORS):
            self._client.delete(self._lock)
