"""`df.write.format("hudi")`: the four save modes over creating a table and writing to it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from pyhudi.config.table_config import check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import (
    ConfigError,
    TableExistsError,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.open import open_storage
from pyhudi.table.state import TableState, load_table, table_exists
from pyhudi.write.bootstrap.by_options import bootstrap_by_options
from pyhudi.write.create import create_for_rows, removed_on_failure
from pyhudi.write.result import WriteResult
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
