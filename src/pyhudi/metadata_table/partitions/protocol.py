"""A partition of the metadata table: everything that commits need to keep one.

One module for each partition has a subclass of `MetadataPartition`, as `files.py` does; `maintained.py` lists them. A
partition that is not listed makes the table unwritable (`pyhudi.table.metadata_partitions`).

Records on their way into the metadata table are batches of `records_schema(table version, payload column)`, as
`make_records` makes them (`pyhudi.format.metadata_table.records`), in any order, each key once in a commit. A record
whose payload is null is removed: it becomes an entry of a delete block. A type of record that has a mark of deletion
(`isDeleted`) uses that mark instead, as JVM Hudi does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine.protocol import Engine
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.environment import Environment
from pyhudi.errors import InternalError
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState


@dataclass(frozen=True, slots=True)
class Source:
    """Where a partition finds what the change does not say.

    Attributes:
        table: the table, with the state that the change is applied to: the action itself is still pending in it.
        environment: the clock and the ids.
        spill: how much memory the records of an index may take, and the folder for more.
        engine: runs tasks. None where no tasks can run; then a partition reads what it needs itself.
    """

    table: TableState
    environment: Environment
    spill: SpillSettings
    engine: Engine | None = None

    @property
    def storage(self) -> Storage:
        """The store of the table; paths in the metadata table begin with `.hoodie/metadata/`."""
        return self.table.storage


@dataclass(frozen=True, kw_only=True)
class MetadataPartition(ABC):
    """One partition of the metadata table: `files`, an index, or statistics. Picklable.

    Attributes:
        name: the name of its folder, as `hoodie.table.metadata.partitions` has it: `files`, `secondary_index_by_city`.
        payload: the payload column of its records (`pyhudi.format.metadata_table.schema`).
        file_groups: how many file groups it gets when it is built, unless `new_file_groups` counts them.
    """

    name: str
    payload: str
    file_groups: int = 1

    @property
    def file_id_prefix(self) -> str:
        """What its file ids begin with, `-` included: `files-`, of which `files-0000-0` is the first."""
        return self.name.replace("_", "-") + "-"

    def new_file_groups(self, source: Source) -> int:
        """How many file groups the partition gets when it is built. Later it keeps them: their number places keys."""
        del source
        return self.file_groups

    def hashed(self, keys: pa.Array) -> pa.Array:
        """What of each key decides its file group (`file_group_of`): the key itself, but in secondary indexes."""
        return keys

    def follows(self, change: Change) -> bool:
        """Whether the partition can say what holds after a change without being built again.

        If not, it is dropped before the change, with a warning. Statistics of files can follow all changes; an index of
        records cannot follow one that `undoes` a write: it would have to know what was there before. Cost: nothing.
        """
        return change.undoes is None

    @abstractmethod
    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """All records of the table as it is now, of completed writes only, in batches.

        Called under the table lock; of the files in the store, those count that a completed write made. Each key occurs
        once. Memory: a batch; what is written of them is gathered by file group.
        """

    @abstractmethod
    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """The records that make the partition say what holds after a change, in batches.

        They are merged into those that are there: a record that an action does not touch is not named. Applied twice,
        they must say the same. Called under the table lock, so it reads little: what is large belongs to
        `LargePartition.write_ahead`. What the partition cannot follow it says by `follows`.
        """


class LargePartition(MetadataPartition):
    """A partition whose records are too many for the driver: its tasks write them, before the table lock is taken."""

    @abstractmethod
    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """Write the records of a change to the logs of the metadata table, by tasks of the engine.

        Called without the lock, when the data files are written and before the write commits. The logs have the instant
        of the write and are invisible until it commits; a task writes the log of one file group with
        `pyhudi.metadata_table.file_group.write_log`, at most once per group and attempt. Returns the stats of the logs
        that count. Only in table versions with completion times; in version 6 `records_of` is called instead.
        `records_of` is also called for a change of which nothing was written ahead: a service, or a retry.
        """

    @abstractmethod
    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """Write the base files of all file groups, by tasks, in place of `initial_records`.

        A task writes the base file of one group with `pyhudi.metadata_table.file_group.write_base_of_pieces`, or one
        of few records with `write_base`.
        """


class PlacedPartition(LargePartition):
    """A partition whose file groups belong to partitions of the table, so that a key alone places no record.

    `initial_records` and `records_of` are not called: it writes its files itself, with and without an engine.
    """

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Never called."""
        del source
        raise InternalError("the records of this index are placed by partitions", index=self.name)

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """Never called."""
        del change, source
        raise InternalError("the records of this index are placed by partitions", index=self.name)

    @property
    @abstractmethod
    def definition(self) -> IndexDefinition:
        """Its definition, which says that it is one of this kind."""

    @abstractmethod
    def initial_file_ids(self, source: Source) -> tuple[str, ...]:
        """The ids of its first file groups, ascending."""

    @abstractmethod
    def with_groups(
        self, change: Change, source: Source, target: GroupTarget, *, first_instant: str | None = None
    ) -> GroupTarget:
        """The target with file groups for partitions of the table that have none yet, which are made at once.

        They count from then on, whatever becomes of the change. `first_instant`: the instant of the first logs of new
        groups while the partition is built, which they go with if the build is given up.
        """

    @abstractmethod
    def write_on_driver(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """Write the logs of a change without tasks, under the table lock: nothing was written ahead."""
