"""Shared state of the actors of a simulation: the objects of one store, the clock, and delayed puts.

A world is a dictionary of immutable values, so that a copy of a prepared table takes microseconds. Each change updates
the digest of the world. Digests are valid in one process: equal digests mean that two runs are in the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from pyhudi.storage.protocol import FileInfo, FolderListing, Storage

START_MS = 1_790_000_000_000
"""The time at which every simulation begins, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object. `version` counts the changes of its path, including deletions. It is the tag for `put_if_match`."""

    data: bytes
    modified_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class LatePut:
    """A put that takes effect after its caller got an error.

    `version` is the condition: the version that must be at the path; 0: no object; None: no condition.
    """

    path: str
    data: bytes
    version: int | None = None


@dataclass(slots=True)
class World:
    """The store and the time.

    Attributes:
        objects: the objects by path.
        versions: the number of changes of each path.
        late: puts that have not taken effect yet.
        landed: the paths of late puts that have taken effect.
        now_ms: the time, which never decreases.
        wall_ms: the offset of the actors' wall clocks from `now_ms`.
        exclusive: whether `put_if_absent` refuses an existing path. If not, it overwrites silently.
        digest: a digest of `objects`.
    """

    objects: dict[str, Stored] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    late: list[LatePut] = field(default_factory=list)
    landed: list[str] = field(default_factory=list)
    now_ms: int = START_MS
    wall_ms: int = 0
    exclusive: bool = True
    digest: int = 0

    def copy(self) -> World:
        """A copy of the world."""
        return World(
            objects=self.objects.copy(),
            versions=self.versions.copy(),
            late=self.late.copy(),
            landed=self.landed.copy(),
            now_ms=self.now_ms,
            wall_ms=self.wall_ms,
            exclusive=self.exclusive,
            digest=self.digest,
        )

    def set(self, path: str, data: bytes) -> int:
        """Create or replace an object, and return its new version."""
        self._forget(path)
        version = self.versions[path] = self.versions.get(path, 0) + 1
        stored = self.objects[path] = Stored(data, self.now_ms, version)
        self.digest ^= hash((path, stored.data, stored.modified_ms, version))
        return version

    def remove(self, path: str) -> None:
        """Delete an object, if there is one."""
        self._forget(path)
        self.objects.pop(path, None)

    def _forget(self, path: str) -> None:
        stored = self.objects.get(path)
        if stored is not None:
            self.digest ^= hash((path, stored.data, stored.modified_ms, stored.version))

    def below(self, folder: str) -> list[str]:
        """The paths below a folder, sorted."""
        prefix = f"{folder}/" if folder else ""
        return sorted(path for path in self.objects if path.startswith(prefix))

    def info(self, path: str) -> FileInfo | None:
        """Size and modification time of an object, or None if there is none."""
        stored = self.objects.get(path)
        return None if stored is None else FileInfo(path, len(stored.data), stored.modified_ms)

    def children(self, folder: str) -> FolderListing:
        """The direct children of a folder."""
        start = len(folder) + 1 if folder else 0
        files: list[FileInfo] = []
        folders: set[str] = set()
        for path in self.below(folder):
            end = path.find("/", start)
            if end >= 0:
                folders.add(path[:end])
            elif (info := self.info(path)) is not None:
                files.append(info)
        return FolderListing(tuple(files), tuple(sorted(folders)))

    def land_late_put(self) -> LatePut | None:
        """Take the oldest late put, apply it if its condition holds, and return it. None if there is no late put."""
        if not self.late:
            return None
        put = self.late.pop(0)
        found = self.objects.get(put.path)
        if put.version is None or put.version == (0 if found is None else found.version) or not self.exclusive:
            self.set(put.path, put.data)
            self.landed.append(put.path)
        return put


def world_of(storage: Storage) -> World:
    """A world with the objects of a store."""
    world = World()
    for info in storage.list_recursive(""):
        world.set(info.path, storage.read(info.path))
    return world


def stable_digest(lines: Iterable[str]) -> str:
    """A digest that is the same in every process."""
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
