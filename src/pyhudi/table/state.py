"""A table at one moment: its properties and its timeline; and how a table is created."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import AlreadyExistsError, NotFoundError, TableExistsError, TableNotFoundError
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, check_table_properties, format_properties, parse_properties
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import HASHING_METADATA_FOLDER, check_loadable
from pyhudi.table.lister import Lister, StorageLister
from pyhudi.table.newest_writes import NewestWrites, load_newest_writes
from pyhudi.table.timeline import Timeline, comes_once, timeline_of

T = TypeVar("T")

PROPERTIES_PATH = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP_PATH = ".hoodie/hoodie.properties.backup"

LEFT_MARK = ".left"
"""A file that stands in the timeline folder of a table version that the table has left, while its instants go."""

_NEWEST = "newest writes"
LOADS_MAX = 3
"""How often a table is loaded whose version changes meanwhile."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A loaded table. It never changes: `reload` gives a new value.

    `index_definitions`: those that `remembering_definitions` has read; None where each look is to be a new one.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    index_definitions: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    _loaded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def version(self) -> TableVersion:
        """The format version of the table."""
        return self.timeline.version

    @property
    def newest_writes(self) -> NewestWrites:
        """Facts from the newest completed writes. Cost: see `load_newest_writes`, once for this value."""
        return self.once(_NEWEST, lambda: load_newest_writes(self.storage, self.timeline))

    @property
    def has_hashing_metadata(self) -> bool:
        """Whether the table keeps the buckets of a consistent bucket index. Cost: a listing, once for this value."""
        return self.once("hashing metadata", lambda: _has_entries(self.storage, HASHING_METADATA_FOLDER))

    def reload(self) -> TableState:
        """The table as it is now, timeline and properties. Cost: one read and one listing.

        Where the same writes stand, what is known of the newest of them is kept: files of completed writes never
        change. Not of bootstraps alone, whose instants a table that is made anew has again (`comes_once`).
        """
        now, writes = load_table(self.storage), self.timeline.completed_writes
        is_same = now.timeline.completed_writes == writes and any(comes_once(write, self.version) for write in writes)
        if _NEWEST in self._loaded and is_same:
            now._loaded[_NEWEST] = self._loaded[_NEWEST]
        return now

    @property
    def lister(self) -> Lister:
        """What reads and writes ask for the files of the table."""
        return StorageLister(self.storage)

    def with_timeline(self, timeline: Timeline) -> TableState:
        """The same table with another timeline."""
        return TableState(self.storage, self.config, timeline)

    def through(self, storage: Storage) -> TableState:
        """The same table, asked through another object of its store. What one of the two has loaded, both have."""
        same = TableState(storage, self.config, self.timeline, self.index_definitions)
        object.__setattr__(same, "_loaded", self._loaded)
        return same

    def once(self, name: str, load: Callable[[], T]) -> T:
        """Load a value once. Two threads may both load it; neither waits for the other's requests."""
        if name not in self._loaded:
            self._loaded[name] = load()
        found: T = self._loaded[name]
        return found

    def loaded(self, name: str) -> Any:
        """A value that `once` has loaded; None where it has not."""
        return self._loaded.get(name)


def load_table(storage: Storage) -> TableState:
    """Open a table. Cost: one read and one listing; one more read for a table without instants.

    Raises `TableNotFoundError` for a folder that is not a table, `CorruptDataError` for damaged properties and
    `UnsupportedFeatureError` for a table that this release cannot read.
    """
    with naming(storage):
        table = _loaded(storage)
        check_loadable(table)
    return table


def _loaded(storage: Storage) -> TableState:
    stored, table = b"", None
    for _ in range(LOADS_MAX):
        data, path = _read_properties(storage)
        if table is not None and data == stored:
            break
        config = _config_of(data, path)
        version = config.version.in_folders(config.timeline_path, config.history_path)
        names = storage.list_names(version.timeline_folder)
        stored, table = data, TableState(storage, config, timeline_of(version, names))
        if table.timeline.instants and LEFT_MARK not in names:
            break
        # Another process may have changed the version since the properties were read, and be deleting this timeline.
    assert table is not None
    return table


def _has_entries(storage: Storage, folder: str) -> bool:
    """Whether a folder exists and is not empty. Cost: one listing."""
    listing = storage.list_folder(folder)
    return bool(listing.files or listing.folders)


def table_exists(storage: Storage) -> bool:
    """Whether the folder holds a table. Cost: one or two requests.

    Raises `TableNotFoundError` where there is no such bucket. A read says so, unlike a question for the size of a file.
    """
    if storage.info(PROPERTIES_PATH) is not None:
        return True
    try:
        read_at_most(storage, PROPERTIES_BACKUP_PATH, PROPERTIES_BYTES_MAX)
    except NotFoundError as error:
        _check_bucket(storage, error)
        return False
    return True


def create_table(storage: Storage, properties: Mapping[str, str]) -> TableState:
    """Create a table in the folder. Of several creators exactly one succeeds; the others get `TableExistsError`."""
    if storage.info(PROPERTIES_BACKUP_PATH) is not None:
        raise TableExistsError("there is a table in this folder already", path=storage.uri)
    data = format_properties(properties, comment="Properties of a table made by pyhudi")
    try:
        storage.put_if_absent(PROPERTIES_PATH, data)
    except AlreadyExistsError as error:
        raise TableExistsError("there is a table in this folder already", path=storage.uri) from error
    return load_table(storage)


def update_properties(storage: Storage, changes: Mapping[str, str]) -> None:
    """Replace some properties of the table, under the table lock. Readers see either all old or all new values."""
    put_properties(storage, {**_parsed(*_read_properties(storage)), **changes})


def put_properties(storage: Storage, values: Mapping[str, str]) -> None:
    """Replace all properties of the table, under the table lock. Readers see either all old or all new values."""
    storage.put(PROPERTIES_PATH, format_properties(values, comment="Properties saved by pyhudi"))


# A write loads its table several times, and the properties are nearly always the same.
@functools.lru_cache(maxsize=64)
def _config_of(data: bytes, path: str) -> TableConfig:
    return TableConfig.from_properties(_parsed(data, path), path=path)


def _parsed(data: bytes, path: str) -> dict[str, str]:
    values = parse_properties(data, path=path)
    check_table_properties(values, path=path)
    return values


def _read_properties(storage: Storage) -> tuple[bytes, str]:
    """The content of the properties file, or of its backup, with its full path.

    JVM Hudi creates the backup, deletes the file, creates it again, fills it, and deletes the backup. So if neither
    exists, the file is read once more, and an empty file does not count if the other one has content.
    """
    found = None
    while found is None or storage.wait_for_writer(PROPERTIES_PATH):
        for path in (PROPERTIES_PATH, PROPERTIES_BACKUP_PATH, PROPERTIES_PATH):
            try:
                found = read_at_most(storage, path, PROPERTIES_BYTES_MAX), f"{storage.uri}/{path}"
            except NotFoundError as error:
                _check_bucket(storage, error)
                continue
            if found[0]:
                return found
        if found is None:
            raise TableNotFoundError(
                "this folder is not a Hudi table: it has no .hoodie/hoodie.properties; check the path, or create a "
                "table there",
                path=storage.uri,
            )
    return found


def _check_bucket(storage: Storage, error: NotFoundError) -> None:
    """Raises `TableNotFoundError` if there is no file because there is no bucket."""
    if "bucket" in error.context:
        raise TableNotFoundError(
            "there is no such bucket, so no table: check its name, and the endpoint of the store",
            path=storage.uri,
            bucket=error.context["bucket"],
        ) from error
