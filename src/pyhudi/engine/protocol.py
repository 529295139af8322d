"""What runs the tasks of a write or a table service: this process, or a Spark cluster.

A task is a module-level function with one frozen, picklable argument. A task may run more than once (retries,
speculation), so its files carry the attempt in their name and only the returned result counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from pyhudi.config.enums import Arrangement

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Which run of which task this is; the three numbers of Hudi's write token `<partition>-<stage>-<attempt>`."""

    partition: int
    stage: int
    attempt: int

    @property
    def write_token(self) -> str:
        """The token that data file names carry."""
        return f"{self.partition}-{self.stage}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class CallbackHosts:
    """How tasks in other processes reach a server in this one.

    `host` is this machine's name as they know it, `bind_to` the address here that the server listens on.
    """

    host: str
    bind_to: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """An arrangement, the columns that it needs by their names in the input, and how many splits it makes.

    `splits` None leaves the number to the engine.
    """

    arrangement: Arrangement
    partition_columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    splits: int | None = None


class Engine(Protocol):
    """Runs functions over tasks and over the rows of an input."""

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""
        ...

    @property
    def callback_hosts(self) -> CallbackHosts | None:
        """How tasks reach this process; None where all of them run in it.

        Raises `UnsupportedFeatureError` where they cannot.
        """
        ...

    def accepts(self, rows: Any) -> bool:
        """Whether this engine can read `rows` as the input of a write."""
        ...

    def schema_of(self, rows: Any) -> pa.Schema:
        """The Arrow schema of an input, without reading its rows."""
        ...

    def map(
        self,
        function: Callable[[TaskContext, T], R],
        tasks: Sequence[T],
        *,
        size_bytes: int,
        description: str,
    ) -> list[R]:
        """The function's results in the order of the tasks.

        `size_bytes` estimates what the tasks read and write together: an engine may run small work in this process.
        """
        ...

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
    ) -> list[R]:
        """Run the function once over each split of the input; results in no particular order.

        A split's batches all have the schema `schema_of(rows)`. The function also runs on empty splits.
        """
        ...
