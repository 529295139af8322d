"""What the actors of a simulation share: the objects of one store, the clock, and puts that are still on their way.

A world is a dictionary of immutable values, so that a copy of a prepared table costs microseconds. Its digest is
kept up to date by each change. Digests are for one process: they say whether two runs are at the same point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from pyhudi.storage.protocol import FileInfo, FolderListing, Storage

START_MS = 1_790_000_000_000
"""When every simulation begins, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object. `version` counts the changes of its path, also through deletions: it is the tag of `put_if_match`."""

    data: bytes
    modified_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class LatePut:
    """A put that lands later than its caller was told that it failed. `version`: what must be there; 0: nothing."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(slots=True)
class World:
    """The store and the time. `now_ms` never steps back; `wall_ms` is added to it where actors ask for the date.

    `late`: puts on their way; `landed`: the paths of those that have arrived.
    `exclusive`: whether `put_if_absent` refuses a name that is taken; a store without such a thing overwrites silently.
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
        """Another world in the same state."""
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
        """Create or replace an object; its new version."""
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
        """Size and time of an object."""
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
        """Let the oldest late put reach the store, where its condition still holds; it is what is returned."""
        if not self.late:
            return None
        put = self.late.pop(0)
        found = self.objects.get(put.path)
        if put.version is None or put.version == (0 if found is None else found.version) or not self.exclusive:
            self.set(put.path, put.data)
            self.landed.append(put.path)
        return put


def world_of(storage: Storage) -> World:
    """A world with the objects of another store."""
    world = World()
    for info in storage.list_recursive(""):
        world.set(info.path, storage.read(info.path))
    return world


def stable_digest(lines: Iterable[str]) -> str:
    """A digest that is the same in every process."""
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
