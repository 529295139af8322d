"""Protocol of an index: it finds, for staged keys, the file groups and rows that hold them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyhudi.engine.exchange_files import ExchangeFolder, Segment
from pyhudi.engine.protocol import Engine
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.tasks.stage import StagedSplit


class KeyScope(enum.Enum):
    """Where a record key is unique, and what a row of another partition than its stored version does."""

    PARTITION = "partition"
    TABLE_UPDATES_IN_PLACE = "table, updates in place"
    """Global index: the record is updated in the partition that it is in."""
    TABLE_MOVES = "table, moves"
    """Global index: the record is deleted there, and inserted into the partition of the row."""

    @property
    def is_table_wide(self) -> bool:
        """Whether a key may be in any partition, and not only in the one that it is staged for."""
        return self is not KeyScope.PARTITION


@dataclass(frozen=True, slots=True)
class SliceToSearch:
    """A file slice that may hold incoming records. `number` names it in tags.

    `files` has logs only where they decide which keys the slice holds: otherwise its base file has all of them.
    """

    number: int
    files: SliceFiles
    partition_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The staged keys of one write, and how stored ones are compared with them.

    `decided_by_logs`: the groups whose logs may add records or delete some. `ordering_fields` are
    compared where a record would move to another partition, so that a late version does not move it. `keys_repeat`:
    the batch was not combined, so several of its rows may be versions of one record. `key_patterns`: what every stored
    key must fit (`check_stored_keys`). `view`: the table that is searched, and
    `instant_time`: that of the write, above all that the view has; tasks get neither.
    """

    storage: StorageSpec
    folder: ExchangeFolder
    splits: tuple[StagedSplit, ...]
    merging: MergeSettings
    decided_by_logs: Collection[FileGroupId]
    ordering_fields: tuple[str, ...]
    scope: KeyScope
    view: FileSystemView
    instant_time: str
    keys_repeat: bool = False
    key_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a lookup found.

    `slices` in the order of the numbers that tags carry; `segments` of tags by split; `updates`: stored rows that meet
    an incoming one, by slice; `known_rows`: staged rows that are not new records, by (split, partition path).
    `by_record_index`: only the record index was asked, so no row is tagged with a record that it does not have.
    """

    slices: tuple[FileSlice, ...] = ()
    segments: Mapping[int, tuple[Segment, ...]] = field(default_factory=dict)
    updates: Mapping[FileSlice, int] = field(default_factory=dict)
    known_rows: Mapping[tuple[int, str], int] = field(default_factory=dict)
    by_record_index: bool = False

    def with_others(self, others: Tagged) -> Tagged:
        """These tags and those of another search of the same slices for the same rows."""
        segments = {
            split: (*self.segments.get(split, ()), *others.segments.get(split, ()))
            for split in {**self.segments, **others.segments}
        }
        updates = Counter(self.updates) + Counter(others.updates)
        return replace(
            self, segments=segments, updates=updates, known_rows=Counter(self.known_rows) + Counter(others.known_rows)
        )


class Index(Protocol):
    """Finds the file groups of staged keys. Rows without a tag are new records: `write/plan.py` assigns them to files.

    A bucket index is none of these: it computes the file group of every record, stored or new, so that there is nothing
    to look up, and nothing to plan by size (`index/buckets/index.py`, `tasks/place.py`).
    """

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """Search the slices, which are all that may hold the keys. Returns tags, not rows; the table is not changed."""
        ...
