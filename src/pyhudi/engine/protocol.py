"""The interface of an engine, which runs the tasks of a write or a table service.

A task is a module-level function with one frozen, picklable argument. A task may run more than once (retries,
speculation). Therefore the names of its files contain the number of the attempt, and only the files that its result
lists are committed.

How the rows of one record key meet, in a write that looks for stored records, one step after the other:

- With each other. `map_splits` with the arrangement `BY_KEY` gives one split all rows of a key, whatever their
  partition paths. Spark shuffles the input by the key; the local engine takes it as one split. There staging makes one
  row of them, unless the options say otherwise (`tasks/stage.py`). No other split has the key.
- With the stored keys. The index tags staged rows with the file group that has their key (`index/search.py`). Tasks
  over file slices read a few keys from the staged files. Many keys are sent by an `exchange`: to the tasks that search
  the slices, or, with the stored keys, to receivers by their hashes (`index/hash_join.py`). A bucket index does
  without: the hash of a key is its file group.
- With the stored row. An `exchange` sends all rows of a file group to one receiver, which reads that group: tagged rows
  to their file group, new ones where the plan puts them (`tasks/route.py`, `tasks/rewrite_base.py`).

The input is evaluated in the first step alone. All later tasks read what staging has written into exchange files
(`exchange_files.py`), so one that runs again gets the same rows in the same order. A step says which of these files its
tasks read, and whether they write some; the engine brings them, and never by the store of a table. Rows of a bulk
insert, which looks for no stored records, stay where the arrangement of the input puts them. Why so:
`docs/design/decisions/0024-rows-move-through-the-engine.md`.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.config.enums import Arrangement
from pyhudi.engine.exchange_files import ExchangeFolder, TaskFiles
from pyhudi.engine.spilled_rows import SpillSettings

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
TASKS_PER_CORE = 2
"""More tasks than cores, so that one slow file does not leave the other cores idle."""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The identity of one run of a task: the three numbers of Hudi's write token `<partition>-<stage>-<attempt>`."""

    partition: int
    stage: int
    attempt: int

    @classmethod
    def of_only_run(cls, number: int) -> TaskContext:
        """That of the task with this number, by an engine that does not repeat tasks."""
        return cls(partition=number, stage=0, attempt=0)

    @property
    def write_token(self) -> str:
        """The write token in the names of data files."""
        return f"{self.partition}-{self.stage}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class CallbackHosts:
    """The addresses by which tasks in other processes connect to a server in this process.

    Attributes:
        host: the name or address of this machine to which the tasks connect.
        bind_to: the address on which the server listens.
    """

    host: str
    bind_to: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """How an engine distributes the rows of an input over splits.

    Attributes:
        arrangement: the order and grouping of the rows. `BY_KEY` puts all rows of a record key into one split. It goes
            by the text of the key: of several key columns, other values may have the same text (null and "__null__").
        partition_columns: the names of the input's columns that form the partition path.
        key_columns: the names of the input's columns that form the record key.
        key_types: the types that these have in the table, for `BY_KEY`: the text of a key is made of them.
        splits: the number of splits; None: the engine chooses it.
        keeps_order: whether `BY_KEY` gives rows in the order of the input, where it has one: a DataFrame has none.
    """

    arrangement: Arrangement
    partition_columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    key_types: tuple[pa.DataType, ...] = ()
    splits: int | None = None
    keeps_order: bool = False

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """The names of the columns by which rows are put in order; none where they stay as they come."""
        match self.arrangement:
            case Arrangement.GLOBAL_SORT | Arrangement.PARTITION_SORT | Arrangement.PARTITION_PATH_REPARTITION_AND_SORT:
                return self.partition_columns + self.key_columns
            case Arrangement.PARTITION_PATH_REPARTITION:
                return self.partition_columns
            case Arrangement.NONE | Arrangement.BY_KEY:
                return ()


@dataclass(frozen=True, slots=True)
class AddressedRows:
    """Some rows, and for each of them the number of the receiver that gets it."""

    rows: pa.RecordBatch
    receivers: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Generic[S, T, R]):
    """A step in two rounds of tasks: those of `senders` address rows, and those of `receivers` get them.

    All rows of an exchange have the same columns.

    Attributes:
        send: runs once for each sender. It must address the same rows in the same order when it runs again.
        senders: the tasks of the first round.
        receive: runs once for each receiver that got rows, over these: in the order of their senders, and of one
            sender in the order in which it sent them, so that it is the same when the task runs again.
        receivers: the tasks of the second round, whose numbers are those in `AddressedRows`.
        sizes: for each receiver the bytes that it reads and writes, rows that it gets included: an estimate.
        sent_bytes: the bytes that all senders read: an estimate.
        spill: how many bytes of rows a process keeps in memory, and where it keeps the others.
        description: names the step in errors.
        files: the exchange files that senders read; with `TaskFiles.writes` receivers write some.
    """

    send: Callable[[TaskContext, S], Iterator[AddressedRows]]
    senders: Sequence[S]
    receive: Callable[[TaskContext, T, Iterator[pa.RecordBatch]], R]
    receivers: Sequence[T]
    sizes: Sequence[int]
    sent_bytes: int
    description: str
    spill: SpillSettings = field(default_factory=SpillSettings)
    files: TaskFiles[S] | None = None


class Engine(Protocol):
    """Runs functions over tasks and over the rows of an input."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that can run at the same time."""
        ...

    @property
    def callback_hosts(self) -> CallbackHosts | None:
        """The addresses by which tasks reach this process; None if all tasks run in this process.

        Raises:
            UnsupportedFeatureError: tasks run in other processes that cannot connect to this one.
        """
        ...

    @property
    def on_one_machine(self) -> bool:
        """Whether all tasks run on this machine, so that a folder of it reaches them all."""
        ...

    def exchange_folder(self, name: str, parent: str | None) -> AbstractContextManager[ExchangeFolder]:
        """A folder for the exchange files of a write, whose `name` no other write has. They go with the block.

        They are on local disks, in a new folder in `parent` (None: the temporary folder) or where the engine keeps
        rows. What a killed process leaves is on its machine.
        """
        ...

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task may run more than once, or go on when the call that began it has returned.

        Where it may, files can exist that no result of a task names. Where it may not, all tasks run in this process,
        and the context of a task, or of a receiver of an exchange, is known before: `TaskContext.of_only_run`.
        """
        ...

    def accepts(self, rows: Any) -> bool:
        """Whether this engine can read `rows` as the input of a write."""
        ...

    def schema_of(self, rows: Any) -> pa.Schema:
        """The Arrow schema of an input. Reads no rows.

        Raises:
            SchemaMismatchError: a column has a type that Hudi cannot store.
        """
        ...

    def map(
        self,
        function: Callable[[TaskContext, T], R],
        tasks: Sequence[T],
        *,
        size_bytes: int,
        description: str,
        files: TaskFiles[T] | None = None,
        in_this_process: bool = False,
    ) -> list[R]:
        """Run the function for each task, and return the results in the order of the tasks.

        `size_bytes` estimates the bytes that all tasks together read and write: an engine may run small work in this
        process. `description` names the step in errors. `files`: the exchange files of the tasks, if they have any.
        `in_this_process`: tasks need what no other process has.

        Raises:
            HudiError: the error of the first task that raised one.
        """
        ...

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
        folder: ExchangeFolder | None = None,
    ) -> list[R]:
        """Run the function once over each split of the input, and return the results in any order.

        `folder`: where the function writes exchange files, if it writes any.
        `distribution` says which rows share a split: with `BY_KEY` those of a record key. All batches of a split have
        the schema `schema_of(rows)`. The function also runs on empty splits.

        Raises:
            HudiError: the error of the first split that raised one.
        """
        ...

    def exchange(self, exchange: Exchange[S, T, R]) -> list[R]:
        """Run both rounds of an exchange. Returns the results of the receivers that got rows, in their order.

        Each row arrives at the one receiver that it is addressed to: rows that are to meet are addressed to the same.
        No receiver runs before all senders have ended. The rows pass through local disk or the engine's own shuffle,
        and never through the store of a table.

        Raises:
            HudiError: the error of the first sender or receiver that raised one. If a sender did, no receiver ran.
        """
        ...

    def thread(self, run: Callable[[], None]) -> threading.Thread:
        """A thread, not started yet, in which the other methods may be called."""
        ...


def spread(weights: Mapping[int, int], parts: int) -> tuple[tuple[int, ...], ...]:
    """Divide numbered items into at most `parts` shares of about equal weight, the heaviest item first."""
    shares: list[tuple[int, int, list[int]]] = [(0, n, []) for n in range(max(1, min(parts, len(weights))))]
    for item, weight in sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])):
        total, number, share = heapq.heappop(shares)
        share.append(item)
        heapq.heappush(shares, (total + weight + 1, number, share))
    return tuple(tuple(sorted(share)) for _, _, share in sorted(shares, key=lambda entry: entry[1]) if share)
