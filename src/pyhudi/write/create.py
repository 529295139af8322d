"""Creating a table, for rows or without any, and removing one whose first write failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pyhudi.config.table_config import new_table_properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    TableExistsError,
    TableNotFoundError,
)
from pyhudi.format.keys.generator import key_generator_from_table
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE, decode_partition_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.properties import table_checksum
from pyhudi.format.safe_paths import METADATA_FOLDER
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.timeline.instant import Action
from pyhudi.merge.mergers import merger_to_properties
from pyhudi.merge.rules import Merger
from pyhudi.merge.table_rules import merger_of_new_table
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.plain_partitions import warn_of_plain_partitions
from pyhudi.table.schema import CREATE_SCHEMA_KEY, TableSchema
from pyhudi.table.state import TableState, create_table, load_table, table_exists
from pyhudi.table.timeline import load_rollback_plan
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.settings import equipped
from pyhudi.write.job import check_columns, check_merger

_IN_A_TABLE = f"/{METADATA_FOLDER}/"


def create_for_rows(
    rows: Any, storage: Storage, config: WriteConfig, options: Mapping[str, str], engine: Engine
) -> bool:
    """Create the table that the options describe, after checking that the rows have its columns.

    False where another process created a table in the folder at the same moment. Its columns are those of its first
    commit. Raises `TableNotFoundError` where the operation deletes, and what `create_for_schema` raises.
    """
    if config.operation in (WriteOperation.DELETE, WriteOperation.DELETE_PARTITION):
        raise TableNotFoundError("there is no table to delete from in this folder; check the path", path=storage.uri)
    properties = table_properties(config)
    _checked(engine.schema_of(rows), properties, config, options)
    try:
        create_table(storage, properties)
    except TableExistsError:
        return False
    warn_of_plain_partitions(storage)
    return True


def create_for_schema(
    schema: pa.Schema, storage: Storage, config: WriteConfig, options: Mapping[str, str], merger: Merger | None = None
) -> TableState:
    """Create the table that the options describe, with these columns and without rows.

    `merger`: how it merges records, unless the options say so. Raises `TableExistsError`, and `ConfigError` where the
    table has no name or the schema lacks a column that the options name.
    """
    properties = table_properties(config, merger)
    columns = _checked(schema, properties, config, options)
    check_merger(merger or merger_of_new_table(config.merging), columns)
    table_schema = TableSchema.from_arrow(columns, table_name=properties["hoodie.table.name"])
    table = create_table(storage, {**properties, CREATE_SCHEMA_KEY: table_schema.avro})
    warn_of_plain_partitions(storage)
    return table


def _checked(
    schema: pa.Schema, properties: Mapping[str, str], config: WriteConfig, options: Mapping[str, str]
) -> pa.Schema:
    """The schema in canonical types, if it has the columns that a table with these properties needs."""
    columns = normalise(schema)
    keys = key_generator_from_table(properties, config.new_table_version, options)
    check_columns(columns, keys, config.table.ordering_fields or ())
    return columns


def table_properties(config: WriteConfig, merger: Merger | None = None) -> dict[str, str]:
    """The properties of a new table; `ConfigError` when it has no name.

    `merger`: how it merges records, unless the options say so.
    """
    if config.table.name is None:
        raise ConfigError("a new table needs a name: set hoodie.table.name")
    checksum = table_checksum(config.table.database or "", config.table.name)
    if merger is None:
        merger = merger_of_new_table(config.merging)
    return new_table_properties(
        config, checksum=checksum, merger=None if merger is None else merger_to_properties(merger)
    )


@contextmanager
def removed_on_failure(
    storage: Storage, config: WriteConfig, environment: Environment, *, created: bool
) -> Iterator[None]:
    """Remove the table again where this call `created` it and its first write, the block, fails."""
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit):
        if created:
            remove_unused(storage, config, environment)
        raise


def remove_unused(storage: Storage, config: WriteConfig, environment: Environment) -> None:
    """Remove the metadata of a table and of its partitions, unless a write was completed or is pending.

    Another process may have removed it.
    """
    environment = equipped(environment, config, config.table.name or "", storage.uri)
    with table_lock(storage, environment, wait_ms=config.concurrency.lock_wait_ms):
        if not table_exists(storage):
            return
        table = load_table(storage)
        if not table.timeline.completed_writes and not table.timeline.pending_writes:
            for path in _partitions_made(table):
                storage.delete(path)
            storage.delete_folder(METADATA_FOLDER)


def _partitions_made(table: TableState) -> list[str]:
    """The partition metadata files that writes left which were rolled back.

    The folder may have held whole tables before this one: their files are not touched. Cost: nothing where no write
    had begun; otherwise one read per rollback, a listing of the folder, and one read per partition.
    """
    storage, timeline = table.storage, table.timeline
    rollbacks = [instant for instant in timeline.instants if instant.action is Action.ROLLBACK]
    rolled_back = {load_rollback_plan(storage, instant, timeline.version).instant_time for instant in rollbacks}
    if not rolled_back:
        return []
    files = list_data_files(storage)
    other_tables = {info.path.partition(_IN_A_TABLE)[0] for info in files if _IN_A_TABLE in info.path}
    return [
        info.path
        for info in files
        if info.name == PARTITION_METADATA_FILE
        and not any(info.path.startswith(f"{folder}/") for folder in other_tables)
        and _made_by(storage, info.path) in rolled_back
    ]


def _made_by(storage: Storage, path: str) -> str | None:
    """The write that a partition metadata file names; None where its content is of another form than Hudi's."""
    try:
        return decode_partition_metadata(storage.read(path), path=path).instant_time
    except CorruptDataError:
        return None
