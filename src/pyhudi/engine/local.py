"""Engine without Spark: tasks run in threads of this process, inputs are Arrow.

Arrow releases the interpreter lock while it reads, merges and writes, so threads use all cores.

Rows of one record key are in one split because `BY_KEY` takes the whole input as one. Those of a receiver are sorted
out in memory, or beyond its limit in a file of this machine (`exchange.py`).
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.enums import Arrangement
from pyhudi.config.option import OptionWarning
from pyhudi.engine.exchange import RowsByReceiver, shared
from pyhudi.engine.exchange_files import ExchangeFolder, TaskFiles
from pyhudi.engine.progress import OnProgress, ProgressOfStep
from pyhudi.engine.protocol import Distribution, Exchange, TaskContext
from pyhudi.engine.spilled_rows import temporary_folder
from pyhudi.format.pieces import cuts, in_pieces, row_bytes, take_rows
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.storage.local import LocalStorage
from pyhudi.telemetry.tracing import span

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

ROWS_PER_SPLIT_MIN = 100_000
"""The smallest number of rows for which another split saves more than it costs."""
BATCH_ROWS = 65_536
_SORTED_PIECE_BYTES: Final = 16 << 20


def default_parallelism() -> int:
    """The number of cores of this machine."""
    return max(1, os.cpu_count() or 1)


@dataclass(frozen=True)
class LocalEngine:
    """Runs tasks in `parallelism` threads. With one thread their order is deterministic.

    `on_progress` is told of each task that ends, if it is given.
    """

    parallelism: int = field(default_factory=default_parallelism)
    on_progress: OnProgress | None = None

    @property
    def callback_hosts(self) -> None:
        """None: all tasks run in this process."""
        return None

    @property
    def on_one_machine(self) -> bool:
        """See `Engine.on_one_machine`."""
        return True

    @property
    def repeats_tasks(self) -> bool:
        """False: each task runs once, and all have ended when a call returns or raises."""
        return False

    @contextmanager
    def exchange_folder(self, name: str, parent: str | None) -> Iterator[ExchangeFolder]:
        """See `Engine.exchange_folder`."""
        with temporary_folder(parent) as folder:
            # A process keeps the stores open that it has used, so all writes share that of the parent.
            yield ExchangeFolder(LocalStorage(folder.parent).spec, f"{folder.name}/{name}")

    def accepts(self, rows: Any) -> bool:
        """Whether the input is Arrow, or exports an Arrow stream (`__arrow_c_stream__`: polars, pandas, duckdb).

        Spark's DataFrames are refused. They export such a stream, too, but it would load all rows into this process.
        """
        if type(rows).__module__.startswith("pyspark."):
            return False
        return isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or hasattr(rows, "__arrow_c_stream__")

    def schema_of(self, rows: Any) -> pa.Schema:
        """The schema of the input."""
        schema = rows.schema if hasattr(rows, "schema") and isinstance(rows.schema, pa.Schema) else None
        return schema if schema is not None else as_table(rows).schema

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
        """The function's results in the order of the tasks."""
        del size_bytes, files, in_this_process
        contexts = [TaskContext.of_only_run(number) for number in range(len(tasks))]
        with span(description, tasks=len(tasks)):
            return self._run(self._counted(function, len(tasks), description), contexts, list(tasks))

    def _counted(
        self, function: Callable[[TaskContext, T], R], tasks: int, description: str
    ) -> Callable[[TaskContext, T], R]:
        """The function, whose calls `on_progress` is told of."""
        if self.on_progress is None:
            return function
        progress = ProgressOfStep(description, tasks, self.on_progress)

        def counted(context: TaskContext, task: T) -> R:
            result = function(context, task)
            progress.task_ended()
            return result

        return counted

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
        folder: ExchangeFolder | None = None,
    ) -> list[R]:
        """Run the function over contiguous parts of the input. An arrangement with an order sorts the input first.

        A reader whose rows stay as they come is one split, and is not loaded into memory as a whole. Memory: the other
        inputs once, and if they are sorted their sort columns and 16 bytes per row.
        """
        del folder
        with span(description):
            return self._map_splits(rows, function, distribution)

    def _map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        distribution: Distribution,
    ) -> list[R]:
        names = distribution.sort_columns
        if isinstance(rows, pa.RecordBatchReader) and not names:
            if (distribution.splits or 0) > 1:
                _warn_of_one_split()
            return [function(TaskContext.of_only_run(0), _bounded(rows))]
        table = as_table(rows)
        # Arrow cannot sort by columns of some types, nor reorder them.
        table = align(table, normalise(table.schema)) if names else table
        count = 1 if distribution.arrangement is Arrangement.BY_KEY else self._split_count(table, distribution)
        if (distribution.splits or 0) > count:
            _warn_of_one_split()
        size = -(-table.num_rows // count) if table.num_rows else 1
        contexts = [TaskContext.of_only_run(n) for n in range(count)]
        if names:
            order, sizes = _order(table, names), row_bytes(table)
            parts = [order[n * size : (n + 1) * size] for n in range(count)]
            return self._run(function, contexts, [_in_order(table, part, sizes[part]) for part in parts])
        splits = [table.slice(n * size, size) for n in range(count)]
        return self._run(function, contexts, [_bounded(split.to_batches(BATCH_ROWS)) for split in splits])

    def exchange(self, exchange: Exchange[S, T, R]) -> list[R]:
        """See `Engine.exchange`. Memory: the limit of `exchange.spill` for all rows together."""
        senders, receivers = exchange.senders, exchange.receivers
        spill = shared(exchange.spill, len(senders))
        with ExitStack() as files:

            def gather(context: TaskContext, sender: S) -> RowsByReceiver:
                rows = files.enter_context(RowsByReceiver(spill))
                for addressed in exchange.send(context, sender):
                    rows.add(addressed)
                rows.close()
                return rows

            sent = self.map(
                gather, senders, size_bytes=exchange.sent_bytes, description=f"sort rows, to {exchange.description}"
            )
            parts: dict[int, list[RowsByReceiver]] = defaultdict(list)
            for rows in sent:
                for receiver in rows.receivers:
                    parts[receiver].append(rows)

            def receive(context: TaskContext, receiver: int) -> R:
                batches = chain.from_iterable(rows.rows_of(receiver) for rows in parts[receiver])
                return exchange.receive(replace(context, partition=receiver), receivers[receiver], batches)

            return self.map(receive, sorted(parts), size_bytes=sum(exchange.sizes), description=exchange.description)

    def thread(self, run: Callable[[], None]) -> threading.Thread:
        """See `Engine.thread`."""
        return threading.Thread(target=run, name="pyhudi services")

    def _split_count(self, table: pa.Table, distribution: Distribution) -> int:
        if distribution.splits:
            return distribution.splits
        return max(1, min(self.parallelism, int(table.num_rows) // ROWS_PER_SPLIT_MIN))

    def _run(
        self, function: Callable[[TaskContext, Any], R], contexts: list[TaskContext], inputs: list[Any]
    ) -> list[R]:
        if len(inputs) <= 1 or self.parallelism == 1:
            return [function(context, item) for context, item in zip(contexts, inputs, strict=True)]
        with ThreadPoolExecutor(max_workers=self.parallelism) as pool:
            return list(pool.map(function, contexts, inputs))


def _warn_of_one_split() -> None:
    """Warn that an option's number of splits has no effect on a stream, or on rows that are arranged by key."""
    warnings.warn(
        "the option for the shuffle parallelism has no effect here: without Spark a stream is one split, and so are the"
        " rows of an upsert or delete",
        OptionWarning,
        stacklevel=3,
    )


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from in_pieces(batch)


def as_table(rows: Any) -> pa.Table:
    """Any accepted input as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    return pa.table(rows)


def _order(table: pa.Table, names: Sequence[str]) -> npt.NDArray[np.int64]:
    keys = pa.table({str(n): _column(table, name) for n, name in enumerate(names)})
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return np.asarray(order, dtype=np.int64)


def _in_order(table: pa.Table, order: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Rows by their numbers, in pieces: a sorted copy of all rows would take as much memory as these."""
    for start, end in cuts(sizes, _SORTED_PIECE_BYTES):
        yield take_rows(table, order[start:end])


def _column(table: pa.Table, path: str) -> pa.ChunkedArray:
    """A column by its name, or by the dotted path of a nested one."""
    if path in table.column_names:
        return table.column(path)
    top, *nested = path.split(".")
    return pc.struct_field(table.column(top), nested)
