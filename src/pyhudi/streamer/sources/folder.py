"""Files in a folder: which ones are new.

JVM Hudi remembers the time of the newest file that it has read, so it loses a file that appears later with that time or
an earlier one: files of one millisecond, a slow upload, a file that was moved into the folder. The checkpoint here is
JVM Hudi's, and beside it the commit keeps the names of the files that were read in the last minutes before it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import ConfigError
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.streamer.checkpoints import Checkpoint

LATE_MS: Final = 600_000
"""A file that appears later than a file so much newer is not looked for."""
NAMES_MAX: Final = 1_000
"""So many names are kept in a commit; more only where more files have the time of the newest one."""
_HIDDEN: Final = (".", "_")
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """What has been read: everything before `since_ms`, and from there on these files, with their times.

    `folder`: the URI of theirs; None where the checkpoint does not say.
    """

    since_ms: int | None
    files: frozenset[tuple[str, int]] = frozenset()
    folder: str | None = None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> ReadFiles:
        """What a checkpoint says. Raises `ConfigError` for one that is none of files."""
        if checkpoint.text is None:
            return cls(since_ms=None)
        try:
            newest_ms = int(checkpoint.text)
        except ValueError as error:
            raise ConfigError(
                "the checkpoint of a source of files is a time in milliseconds", checkpoint=checkpoint.text
            ) from error
        state = checkpoint.state_under("newest")
        if not state:
            return cls(since_ms=newest_ms + 1)  # of JVM Hudi, or given by the user
        files = frozenset((name, time) for name, time in state["files"])
        return cls(since_ms=state["since"], files=files, folder=state.get("folder"))

    def has(self, file: FileInfo) -> bool:
        """Whether the file has been read."""
        if self.since_ms is None:
            return False
        return file.modified_ms < self.since_ms or (file.path, file.modified_ms) in self.files

    def check(self, storage: Storage, found: Sequence[FileInfo]) -> None:
        """Check that these are the files of the folder, which may have another name than before.

        Raises:
            ConfigError: the folder is another one. Its files may be older than those that were read, and be new.
        """
        if not found or self.folder in (None, storage.uri):
            return
        if not any((file.path, file.modified_ms) in self.files for file in found):
            raise ConfigError(
                "the checkpoint is that of another folder, and none of the newest files that were read there is in this"
                " one: give the `checkpoint`, a time in milliseconds, from which its files are new, or read all of them"
                " with a new `ignore_checkpoint`",
                folder=storage.uri,
                read=self.folder,
            )

    def after(self, storage: Storage, files: Sequence[FileInfo]) -> Checkpoint:
        """The checkpoint when these have been read, too."""
        read = {*self.files, *((file.path, file.modified_ms) for file in files)}
        newest_ms = max(time for _, time in read)
        since_ms = max(newest_ms - LATE_MS, self.since_ms if self.since_ms is not None else newest_ms - LATE_MS)
        times = sorted((time for _, time in read if time >= since_ms), reverse=True)
        if len(times) > NAMES_MAX:
            since_ms = min(times[NAMES_MAX] + 1, newest_ms)
        kept = sorted((name, time) for name, time in read if time >= since_ms)
        state = {"newest": newest_ms, "since": since_ms, "files": kept, "folder": storage.uri}
        return Checkpoint(text=str(newest_ms), state=json.dumps(state, separators=(",", ":")))


def new_files(storage: Storage, read: ReadFiles, limit_bytes: int | None) -> list[FileInfo]:
    """The files that have not been read, oldest first and by name, as many as the limit takes, and at least one.

    Empty files are left out. Raises as `ReadFiles.check`. Cost: a listing of all folders.
    """
    found = storage.list_recursive("")
    read.check(storage, found)
    if not found and read.since_ms is None:
        _log.warning("there are no files in %s yet: check hoodie.streamer.source.dfs.root", storage.uri)
    new = [file for file in found if file.size and not _is_hidden(file.path) and not read.has(file)]
    new.sort(key=lambda file: (file.modified_ms, file.path))
    if limit_bytes is None:
        return new
    chosen: list[FileInfo] = []
    total = 0
    for file in new:
        total += file.size
        if chosen and total > limit_bytes:
            break
        chosen.append(file)
    return chosen


def _is_hidden(path: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.split("/"))
