"""The error table: an ordinary table that takes the records of a source that cannot become rows.

It is written before the commit of the batch. If the process dies between the two, the batch is read again, and so are
its failed records: the table has them by their places in the source, so that each is there once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.config.enums import ErrorTableFailure
from pyhudi.config.location import table_path
from pyhudi.config.options_streamer import ErrorTableOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError, HudiError, SourceError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.storage.open import open_storage
from pyhudi.storage.options import select_storage_options
from pyhudi.storage.paths import lie_in_each_other
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.schemas import group_of
from pyhudi.streamer.sources.apart import RECORD, Apart, FailedRecord
from pyhudi.table.state import table_exists
from pyhudi.write.create import create_for_rows, removed_on_failure
from pyhudi.write.run import write

_KEY: Final = "error_id"
ERROR_ROWS: Final = pa.schema(
    [
        pa.field(_KEY, pa.string(), nullable=False),
        pa.field("target", pa.string()),
        pa.field("source", pa.string()),
        pa.field("position", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
        pa.field("_corrupt_record", pa.binary()),
    ]
)
"""The columns of an error table."""
_PASSED_ON: Final = ("hoodie.write.lock.", "hoodie.write.concurrency.", "hoodie.write.table.version")
NO_ROW: Final = "RECORD_CREATION"
"""JVM Hudi's name for the reason of a row that cannot be in the table."""
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTable:
    """The error table of a streamer of the table `target`. `options`: of its writes, with credentials."""

    storage: Storage
    target: str
    settings: ErrorTableOptions
    options: Mapping[str, str] = field(repr=False)


def error_table_of(target: str, options: Mapping[str, str]) -> ErrorTable | None:
    """The error table that the options of a streamer ask for; None if they do not. Raises `ConfigError`. Cost: none."""
    settings = group_of(ErrorTableOptions, options)
    if not settings.is_enabled:
        return None
    if settings.path is None:
        raise ConfigError("an error table needs hoodie.errortable.base.path, its folder")
    path = table_path(settings.path, {})
    storage = open_storage(path, options)
    if lie_in_each_other(storage.uri, open_storage(target, options).uri):
        raise ConfigError(
            "the error table is a table of its own, and must not lie in its target, nor that in it: give it another"
            " folder",
            path=storage.uri,
            target=target,
        )
    passed_on = {name: text for name, text in options.items() if name.startswith(_PASSED_ON)}
    return ErrorTable(
        storage=storage,
        target=target,
        settings=settings,
        options={
            **select_storage_options(options),
            **passed_on,
            "hoodie.table.name": settings.name or path.rstrip("/").rpartition("/")[2],
            "hoodie.datasource.write.recordkey.field": _KEY,
        },
    )


def without_key_or_value(
    rows: pa.Table, keys: KeyGenerator, stored: pa.Schema | None
) -> tuple[pa.Table, list[FailedRecord], pa.Table]:
    """The rows with a record key, and with values where columns cannot be null; why others failed, and these.

    A transformer may have dropped the column `RECORD`: then nothing says where a row comes from, and all rows stay.
    """
    if RECORD not in rows.column_names:
        return rows, [], rows.slice(0, 0)
    fields = () if stored is None else without_meta_columns(stored)
    required = [column.name for column in fields if not column.nullable]
    for column in fields:
        if column.name not in rows.column_names and column.name in (*required, *keys.record_key_fields):
            rows = rows.append_column(column.with_nullable(True), pa.nulls(rows.num_rows, column.type))
    reasons = {f"column {name} is null, and cannot be": rows[name].is_null().to_numpy() for name in required}
    parts = [keys.rows_without_key(batch) for batch in rows.to_batches()]
    reasons["the record key is null or empty"] = np.concatenate(parts) if parts else np.array([], bool)
    reason_of = np.full(rows.num_rows, None, object)
    for reason, mask in reasons.items():
        reason_of[mask] = reason
    is_failed = np.logical_or.reduce(list(reasons.values()))
    lost = rows.filter(pa.array(is_failed))
    failed = [
        FailedRecord(number, NO_ROW, reason)
        for number, reason in zip(lost[RECORD].to_pylist(), reason_of[is_failed], strict=True)
    ]
    return rows.filter(pa.array(~is_failed)), failed, lost


def error_rows(target: str, apart: Apart, failed: Sequence[FailedRecord], lost: pa.Table) -> pa.Table:
    """The rows of the error table for records that failed on their way into the table `target`.

    `lost`: the rows that some of these had become; a record without a text is kept as the JSON of its row. A file that
    cannot be read as a whole is kept by its name.
    """
    texts = as_json(lost)
    ids, columns = [], []
    for record, origin in zip(failed, apart.origins([record.number for record in failed]), strict=True):
        payload = texts.get(record.number) if origin.payload is None else origin.payload
        ids.append(f"{target}|{origin.id}")
        columns.append((target, origin.source, origin.position, record.kind, record.reason, payload))
    arrays = [ids, *zip(*columns, strict=True)] if columns else [[] for _ in ERROR_ROWS]
    return pa.table(
        [pa.array(values, column.type) for values, column in zip(arrays, ERROR_ROWS, strict=True)], schema=ERROR_ROWS
    )


def as_json(rows: pa.Table) -> dict[int, bytes]:
    """Rows as JSON, by the numbers of their records."""
    return {row.pop(RECORD): json.dumps(row, default=str, ensure_ascii=False).encode() for row in rows.to_pylist()}


def write_errors(table: ErrorTable, rows: Any, count: int, engine: Engine, environment: Environment) -> None:
    """Write rows into the error table, which is created if it is not there; what it has of them is replaced.

    `rows`: of a kind that the engine accepts; there are `count`. Raises as a write, unless the failure strategy is
    LOG_ERROR; and `SourceError` where they come out of a source that fails. Cost: that of an upsert, and none without
    rows.
    """
    if not count:
        return
    try:
        _write(table, rows, engine, environment)
    except SourceError:  # of tasks that read the rows: it is not the error table that fails
        raise
    except HudiError:
        if table.settings.on_failure is ErrorTableFailure.ROLLBACK_COMMIT:
            raise
        _log.exception("%d records that failed are lost, as the error table cannot be written", count)


def _write(table: ErrorTable, rows: Any, engine: Engine, environment: Environment) -> None:
    config = WriteConfig.from_options(table.options)
    created = not table_exists(table.storage) and create_for_rows(rows, table.storage, config, table.options, engine)
    with removed_on_failure(table.storage, config, environment, created=created):
        write(rows, table.storage, config=config, options=table.options, engine=engine, environment=environment)
