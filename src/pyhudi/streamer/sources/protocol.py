"""`Source`: what the loop of the streamer asks of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import Apart

Rows: TypeAlias = pa.Table | pa.RecordBatchReader
Check: TypeAlias = Callable[[pa.Table], None]
"""Raises `UnreadableError` where one of these records cannot become a row."""
PARTITION: Final = "_hoodie_kafka_source_partition"
COLUMNS_OF_OFFSETS: Final = ("_hoodie_kafka_source_offset", PARTITION, "_hoodie_kafka_source_timestamp")
"""The columns that say which message of a topic a row comes from, as JVM Hudi names them."""


class ReadApart(Protocol):
    """See `Pull.read_apart`."""

    def __call__(
        self, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool, check: Check | None = None
    ) -> Apart:
        """Raises as `Pull.read`."""
        ...


class Part(Protocol):
    """What a task reads alone of a batch: a value that can be pickled, whose rows are the same each time."""

    @property
    def size_bytes(self) -> int:
        """About how much is read."""
        ...

    def batches(
        self, columns: pa.Schema, wanted: pa.Schema | None, stored: pa.Schema | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of the whole batch. `wanted`, `stored`, and errors: as of `Pull.read`."""
        ...

    def read_apart(
        self, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool, check: Check | None = None
    ) -> Apart:
        """The rows, with columns of this part alone, apart from what cannot be read. See `Pull.read_apart`."""
        ...


Tell: TypeAlias = Callable[[Callable[[Any], Any]], list[Any]]
"""Runs a function over each of the parts of a batch, in tasks, and gives what it returns, in their order."""


class Parts(Protocol):
    """A batch in parts, whose rows together are those of `Pull.read`."""

    @property
    def tasks(self) -> Sequence[Part]:
        """The parts."""
        ...

    def columns(self, tell: Tell, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Schema:
        """The columns of the rows that `Pull.read` would give; none where there are no rows. Raises as `Pull.read`.

        Cost: where nothing says them, a read of all parts.
        """
        ...

    def joined(self, schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
        """The columns of the rows of parts that have these, as `Pull.read_apart` joins them. Raises alike."""
        ...

    @property
    def kept(self) -> Any:
        """What an engine keeps of the parts, from which tasks get them; None where they read the source."""
        ...

    @property
    def is_typed_as_a_whole(self) -> bool:
        """Whether a value that is not of the type of the table's column takes the table's types from all parts.

        So it is where `Pull.read` decodes a batch in one go.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What a source has to give after a checkpoint.

    Attributes:
        reached: the checkpoint of the batch; without a text where the source has no places, and everything is new each
            time.
        read: makes the rows; it is given the columns that they must have, None if nothing says that, and those of the
            table, whose types the values get where nothing else says them. It may be called again.
        items: how many files or messages; 0 where only the checkpoint moves.
        read_apart: the same, with what cannot be read apart from the rows. With `fits` a value that is not of the type
            of the table's column cannot be read; nor can a message of a topic for which `check` raises. None for a
            source without records that could fail alone.
        parts: the same rows, in parts that tasks read; None for a source that cannot be read so.
        committed: what is to be done after the commit, as to tell a queue. The commit holds, whatever becomes of it.
        must_be_kept: whether the source would be at another place without this checkpoint, and pass something over.
        behind: how many messages of a topic come after the checkpoint, those of this batch among them; None where the
            source does not count them.
    """

    reached: Checkpoint
    read: Callable[[pa.Schema | None, pa.Schema | None], Rows] = field(repr=False)
    items: int
    read_apart: ReadApart | None = field(default=None, repr=False)
    parts: Parts | None = field(default=None, repr=False)
    committed: Callable[[], None] | None = field(default=None, repr=False)
    must_be_kept: bool = False
    behind: int | None = None


class Source(Protocol):
    """A source of rows. It keeps nothing between calls that a commit does not say."""

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """What comes after a checkpoint; None if that is nothing, and the checkpoint stays what it is.

        `limit`: about how much at most, in bytes for files and in messages for queues; None: all.

        Raises:
            SourceError: the source does not answer, or has something that cannot be read.
            SourceDataLostError: what comes next is not there any more.
        """
        ...
