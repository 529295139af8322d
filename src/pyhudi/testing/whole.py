"""Whole writes: requests of a simulation through `HudiTable`, Parquet, exchange files and all."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pyhudi.engine.local import LocalEngine
from pyhudi.errors import InvalidRequestError
from pyhudi.format.commit_metadata import WriteOperation
from pyhudi.hudi_table import HudiTable
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import SYSTEM, Environment
from pyhudi.table.state import TableState, load_table
from pyhudi.testing.thin import WRITER, Request
from pyhudi.write.result import WriteResult

SCHEMA = pa.schema([("key", pa.string()), ("part", pa.string()), ("value", pa.string()), ("ts", pa.int64())])
"""The columns of simulated tables, those of thin writes too."""
_OPTIONS = {"hoodie.datasource.write.commitmeta.key.prefix": WRITER[0]}
_ENGINE = LocalEngine(parallelism=1)


def write_whole(
    storage: Storage, environment: Environment, options: Mapping[str, str], request: Request, *, writer: str
) -> WriteResult:
    """Run the request as its operation of `HudiTable`, which raises what it raises."""
    table = HudiTable(load_table(storage), {**options, **_OPTIONS, WRITER: writer}, _ENGINE, environment)
    rows = pa.Table.from_pylist(
        [{"key": key, "part": key[0], "value": value or "", "ts": 1} for key, value in request.values.items()], SCHEMA
    )
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
            raise InvalidRequestError("simulated writers do not do this", operation=request.operation.value)


def read_whole(table: TableState, as_of: str | None) -> list[tuple[str, str]]:
    """All keys and values as `HudiTable.to_arrow` gives them; see `thin.read_rows`."""
    rows = HudiTable(table, {}, _ENGINE, SYSTEM).to_arrow(["key", "value"], as_of=as_of)
    return sorted(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))
