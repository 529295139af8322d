"""Writes of the public face: checks of a call, and the write operation that it becomes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.api.handle import TableHandle
from pyhudi.api.rows import RowsLike, engine_for
from pyhudi.config.location import table_path
from pyhudi.config.option import text_of
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.inputs import opened
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.keys.partition_pattern import PartitionPattern
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.write.result import WriteResult
from pyhudi.write.run import RowsOfTable, write
from pyhudi.write.save import SaveMode
from pyhudi.write.save import save as save_rows

_OPERATION = "hoodie.datasource.write.operation"
_PARTITIONS = "hoodie.datasource.write.partitions.to.delete"


def write_rows(
    handle: TableHandle,
    rows: RowsLike,
    operation: WriteOperation,
    hudi_options: HudiOptions | None,
    *,
    overwritten: PartitionPattern | None = None,
    again: Callable[[], Any] | None = None,
) -> WriteResult:
    """Write rows to an opened table. `overwritten`: partitions that an overwrite replaces even without rows.

    `again`: makes the rows anew where they are computed from the table itself (`RowsOfTable`).
    """
    if rows is None:
        raise InvalidRequestError("there are no rows: None was given", operation=operation.value)
    return _write(handle, rows, operation, hudi_options, overwritten=overwritten, again=again)


def delete_partitions(handle: TableHandle, paths: tuple[str, ...], hudi_options: HudiOptions | None) -> WriteResult:
    """Remove the partitions of these paths."""
    if _PARTITIONS in known_options(hudi_options, call="delete_partition", defaults=handle.options):
        raise ConfigError(f"delete_partition is told the partitions already: leave {_PARTITIONS} out")
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise ConfigError("delete_partition needs the paths of partitions, none of them empty", given=paths)
    return _write(handle, None, WriteOperation.DELETE_PARTITION, hudi_options, partitions=paths)


def truncate(handle: TableHandle, hudi_options: HudiOptions | None) -> WriteResult:
    """Remove all partitions."""
    if _PARTITIONS in known_options(hudi_options, call="truncate", defaults=handle.options):
        raise ConfigError(f"truncate removes all partitions: leave {_PARTITIONS} out")
    return _write(handle, None, WriteOperation.DELETE_PARTITION, hudi_options, partitions=())


def _write(
    handle: TableHandle,
    rows: RowsLike | None,
    operation: WriteOperation,
    hudi_options: HudiOptions | None,
    *,
    partitions: tuple[str, ...] | None = None,
    overwritten: PartitionPattern | None = None,
    again: Callable[[], Any] | None = None,
) -> WriteResult:
    options = handle.options_of_call(hudi_options, call=operation.value)
    named = known_options(hudi_options, call=operation.value, defaults=handle.options).get(_OPERATION)
    if named is not None and text_of(named).lower() != operation.value:
        raise ConfigError(f"this call is an {operation.value}, not an {named}: leave {_OPERATION} out")
    options[_OPERATION] = operation.value
    engine = handle.engine if rows is None or handle.engine.accepts(rows) else engine_for(rows)
    config = replace(WriteConfig.from_options(options), overwritten=overwritten)
    if partitions is not None:  # not as an option's text, which cannot say a comma or a blank
        config = replace(config, what=replace(config.what, partitions_to_delete=partitions))
    given = opened(rows) if isinstance(engine, LocalEngine) else rows
    with handle.changing():
        return write(
            given if again is None else RowsOfTable(again),
            handle.storage,
            config=config,
            options=options,
            engine=engine,
            environment=handle.environment,
            mergers=handle.mergers,
        )


def save(
    rows: RowsLike, path: str | os.PathLike[str], *, hudi_options: HudiOptions, mode: str = "append"
) -> WriteResult | None:
    """Write rows as `df.write.format("hudi").options(…).mode(mode).save(path)` does, from Spark or without it.

    For jobs that are described by Hudi's options alone, and for save modes: the options say the operation, and how the
    table is made when there is none. To work on a table in Python, use `HudiTable`.

    Args:
        rows: Arrow of any library, or a Spark DataFrame.
        path: the table's folder: a path, or a URI of an object store.
        hudi_options: Hudi's options, those of the store among them.
        mode: "append"; "overwrite" (replace the table); "ignore" (write nothing if there is a table), or
            "errorifexists".

    Returns:
        What the write did; None if the mode is "ignore" and there is a table already.

    Raises:
        ConfigError: an option or the mode is not legal, or contradicts the table.
        TableExistsError: the mode is "errorifexists" and there is a table.
        SchemaMismatchError: the rows do not fit the table's columns.

    Cost: that of the operation; for a new table two more puts.

    >>> pyhudi.save(rows, "/tmp/trips", hudi_options={"hoodie.table.name": "trips"}, mode="ignore") is None
    True
    """
    options = known_options(hudi_options, call="save")
    if rows is None:
        raise InvalidRequestError("there are no rows: None was given")
    engine = engine_for(rows)
    return save_rows(
        opened(rows) if isinstance(engine, LocalEngine) else rows,
        table_path(path, options),
        options=options,
        mode=SaveMode.parse(mode),
        engine=engine,
    )
