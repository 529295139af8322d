"""Whole writes: the requests of a simulation, executed by `HudiTable` with Parquet and exchange files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyhudi.api.handle import TableHandle
from pyhudi.api.hudi_table import HudiTable
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Exchange, TaskContext
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState, load_table
from pyhudi.testing.simulation.computed_writes import rows_of_keys
from pyhudi.testing.simulation.key_value_writes import WRITER, Attempt, Request, TaskLostError
from pyhudi.write.result import WriteResult

SCHEMA = pa.schema([("key", pa.string()), ("part", pa.string()), ("value", pa.string()), ("ts", pa.int64())])
"""The columns of simulated tables, for whole writes and for thin writes."""
_OPTIONS = {"hoodie.datasource.write.commitmeta.key.prefix": WRITER[0]}
_ENGINE = LocalEngine(parallelism=1)


@dataclass(frozen=True)
class _OutlivedEngine(LocalEngine):
    """Collects a second attempt of each task that writes data files, for another process; see `Request`."""

    parallelism: int = 1
    attempts: list[Attempt] = field(default_factory=list)
    is_abandoned: bool = False

    @property
    def repeats_tasks(self) -> bool:
        """See `Engine.repeats_tasks`."""
        return True

    def map(self, function: Any, tasks: Sequence[Any], **how: Any) -> list[Any]:
        """See `Engine.map`."""
        if tasks and hasattr(tasks[0], "target"):
            self._collect(function, [(task,) for task in tasks])
        return super().map(function, tasks, **how)

    def exchange(self, exchange: Exchange[Any, Any, Any]) -> list[Any]:
        """See `Engine.exchange`."""

        def receive(context: TaskContext, task: Any, rows: Sequence[pa.RecordBatch]) -> Any:
            return exchange.receive(context, task, iter(rows))

        arrived = super().exchange(replace(exchange, receive=_keep))
        self._collect(receive, arrived)
        return super().map(
            lambda context, given: receive(context, *given),
            arrived,
            size_bytes=sum(exchange.sizes),
            description=exchange.description,
        )

    def _collect(self, function: Any, given: Sequence[tuple[Any, ...]]) -> None:
        """Collect an attempt of the function for each task and what else it is given, unless the tasks are lost."""

        def run(storage: Storage) -> None:
            for number, (task, *others) in enumerate(given):
                mine = replace(task, target=replace(task.target, storage=storage.spec))
                function(TaskContext(partition=number, stage=0, attempt=1), mine, *others)

        self.attempts.append(run)
        if self.is_abandoned:
            raise TaskLostError("the engine lost a task: the simulation's request asked for it")


def _keep(_: TaskContext, task: Any, batches: Iterator[pa.RecordBatch]) -> tuple[Any, list[pa.RecordBatch]]:
    """The rows of a task, which are read twice."""
    return task, list(batches)


def write_whole(
    storage: Storage,
    environment: Environment,
    options: Mapping[str, str],
    request: Request,
    attempts: list[Attempt],
    *,
    writer: str,
) -> WriteResult:
    """Run the request by the method of `HudiTable` for its operation, and return its result.

    `attempts` collects attempts of tasks for which the write does not wait.

    Raises:
        HudiError: as the method of `HudiTable`.
    """
    engine = _OutlivedEngine(attempts=attempts, is_abandoned=request.is_abandoned) if request.is_outlived else _ENGINE
    table = HudiTable(TableHandle(load_table(storage), {**options, **_OPTIONS, WRITER: writer}, engine, environment))
    if request.computed is not None:
        return request.computed.run(table)
    schema = table.schema if table.handle.state.config.cdc_enabled else SCHEMA
    rows = rows_of_keys(request.values, schema)
    match request.operation:
        case WriteOperation.UPSERT:
            return table.upsert(rows)
        case WriteOperation.INSERT:
            return table.insert(rows)
        case WriteOperation.DELETE:
            return table.delete(rows)
        case WriteOperation.DELETE_PARTITION:
            return table.delete_partition(request.replaces)
        case WriteOperation.INSERT_OVERWRITE:
            return table.insert_overwrite(rows)
        case _:
            raise InvalidRequestError("simulated writers do not support this", operation=request.operation.value)


def read_whole(table: TableState, as_of: str | None) -> list[tuple[str, str]]:
    """All keys and values of the table, by `HudiTable.scan`, now or as of an instant time; sorted."""
    rows = HudiTable(TableHandle(table, {}, _ENGINE, SYSTEM)).scan(["key", "value"], as_of=as_of).to_arrow()
    return sorted(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))
