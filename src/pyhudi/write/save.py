"""`df.write.format("hudi")`: the four save modes over creating and writing a table, and the operation bootstrap."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pyhudi.config.enums import Arrangement
from pyhudi.config.table_config import check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution, Engine, TaskContext
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import (
    ConfigError,
    TableExistsError,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table, table_exists
from pyhudi.table.timeline import position_of
from pyhudi.write.bootstrap.plan import plan_bootstrap
from pyhudi.write.bootstrap.run import run_bootstrap
from pyhudi.write.create import create_for_rows, removed_on_failure
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.run import write


class SaveMode(enum.Enum):
    """What to do when the folder holds a table already; Spark's four modes."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR_IF_EXISTS = "errorifexists"

    @classmethod
    def parse(cls, text: str) -> SaveMode:
        """The mode that Spark's spelling names; `error` and `default` mean ERROR_IF_EXISTS."""
        name = text.strip().lower() if isinstance(text, str) else None
        if name in ("error", "default"):
            return cls.ERROR_IF_EXISTS
        for mode in cls:
            if mode.value == name:
                return mode
        raise ConfigError("unknown save mode: use append, overwrite, ignore or errorifexists", mode=text)


def save(
    rows: Any,
    path: str,
    *,
    options: Mapping[str, str],
    mode: SaveMode,
    engine: Engine,
    environment: Environment = SYSTEM,
) -> WriteResult | None:
    """Write rows to the table at `path`, and create it first if there is none. None where mode IGNORE finds a table.

    `options` are Hudi's own. OVERWRITE of a table replaces all of its rows, and its columns where the rows do not fit
    them, in one commit; its history stays. Its name, type, keys and partitions stay, too: `ConfigError` for others.
    """
    storage = open_storage(path, options)
    config = WriteConfig.from_options(options)
    if config.operation is WriteOperation.BOOTSTRAP:
        return bootstrap_by_options(
            rows, storage, config=config, options=options, engine=engine, environment=environment
        )
    created = not table_exists(storage) and create_for_rows(rows, storage, config, options, engine)
    if not created and mode is SaveMode.IGNORE:
        return None
    if not created and mode is SaveMode.ERROR_IF_EXISTS:
        raise TableExistsError(
            "there is a table in this folder already: use mode append to add to it, or overwrite to replace its rows",
            path=storage.uri,
        )
    overwrite = mode is SaveMode.OVERWRITE and not created
    if overwrite:
        _check_same_table(config, load_table(storage))
    with removed_on_failure(storage, config, environment, created=created):
        return write(
            rows,
            storage,
            config=config,
            options=options,
            engine=engine,
            environment=environment,
            overwrite=overwrite,
        )


def _check_same_table(config: WriteConfig, table: TableState) -> None:
    """Refuse to overwrite a table with one of other keys, partitions, type or name.

    JVM Hudi deletes the folder and creates a new table: readers fail, and after a crash the rows of both are lost. A
    commit can replace rows and columns at once, but not the properties, which have no versions.
    """
    try:
        check_against_table(config, table.config)
    except ConfigError as error:
        raise ConfigError(
            "mode overwrite replaces the rows and columns of a table in one commit, but not its properties. To create "
            f"another table in this folder, delete the folder first, when no process reads it. {error.message}",
            **error.context,
        ) from error


def bootstrap_by_options(
    rows: Any,
    storage: Storage,
    *,
    config: WriteConfig,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment,
) -> WriteResult:
    """Make the table that the options describe, and return what its last commit did.

    Raises `ConfigError` if no source is named, or if there are rows: they would not be in the table. Otherwise see
    `plan_bootstrap` and `run_bootstrap`.
    """
    if config.bootstrap.source is None:
        raise ConfigError("the operation bootstrap needs a source: set hoodie.bootstrap.base.path")
    _check_no_rows(rows, engine)
    source = open_storage(config.bootstrap.source, options)
    plan = plan_bootstrap(source, storage, config, engine, config.bootstrap.mode_of)
    table = run_bootstrap(plan, storage, options=options, engine=engine, environment=environment)
    last = table.timeline.completed_writes[-1]
    metadata = load_commit_metadata(storage, last, table.version)
    return result_of(metadata, last.requested_time, position_of(last), 0.0)


def _check_no_rows(rows: Any, engine: Engine) -> None:
    if not engine.schema_of(rows).names:
        return
    counts = engine.map_splits(rows, _count, distribution=Distribution(Arrangement.NONE), description="count the rows")
    if sum(counts):
        raise ConfigError(
            "the operation bootstrap takes its rows from hoodie.bootstrap.base.path: write a DataFrame without rows",
            rows=sum(counts),
        )


def _count(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
