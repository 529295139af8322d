"""The parts of a batch, over which tasks of Spark run functions, and of which they make rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.streamer.sources.protocol import Parts

if TYPE_CHECKING:
    from pyhudi.spark.engine import SparkEngine
    from pyhudi.spark.kept import KeptOfTaker
    from pyhudi.spark.parts import PartsOfRows

R = TypeVar("R")
_COLUMNS = "read the columns of a batch"


class SizedPart(Protocol):
    """A part, or what says more of one, as functions over it take it."""

    @property
    def size_bytes(self) -> int:
        """See `Part.size_bytes`."""
        ...


@dataclass(frozen=True, slots=True)
class BatchTasks:
    """Parts of a batch. `kept`: what Spark keeps of them; None where they are read from the source."""

    engine: SparkEngine
    parts: Sequence[SizedPart] = ()
    kept: KeptOfTaker | None = None

    @classmethod
    def of(cls, engine: SparkEngine, parts: Parts) -> BatchTasks:
        """All parts of a batch."""
        return cls(engine, tuple(parts.tasks), parts.kept)

    def with_parts(self, parts: Sequence[SizedPart]) -> BatchTasks:
        """The same of other parts, or of some of them."""
        return replace(self, parts=tuple(parts))

    def tell(self, function: Callable[[Any], R]) -> list[R]:
        """See `Tell`. Cost: a job of Spark; none where little of a source is read, which this process does then."""
        if self.kept is not None:
            return self.kept.told(self.parts, self._readers(), function, _COLUMNS)
        size = sum(part.size_bytes for part in self.parts)
        run = functools.partial(_told_by, function)
        return self.engine.map(run, self.parts, size_bytes=size, description=_COLUMNS)

    def rows(self, read: Callable[[Any], Iterator[pa.RecordBatch]], columns: pa.Schema) -> PartsOfRows[SizedPart]:
        """The rows that a function yields of the parts, which have these columns. Cost: none."""
        from pyhudi.spark.parts import PartsOfRows  # noqa: PLC0415 - PySpark is an extra

        return PartsOfRows(read, self.parts, [part.size_bytes for part in self.parts], columns, self.kept)

    def _readers(self) -> int:
        """As many tasks of Spark as there are parts, up to two for each core."""
        return min(len(self.parts), 2 * self.engine.parallelism)


def _told_by(function: Callable[[Any], R], context: TaskContext, part: SizedPart) -> R:
    del context
    return function(part)
