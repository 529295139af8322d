"""The operation bootstrap of `df.write.format("hudi")`: the source comes from the options, not from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pyhudi.config.enums import Arrangement
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution, Engine, TaskContext
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.timeline import position_of
from pyhudi.write.bootstrap.plan import plan_bootstrap
from pyhudi.write.bootstrap.run import run_bootstrap
from pyhudi.write.result import WriteResult, result_of


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
