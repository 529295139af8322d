"""Bootstrap on the public face: checks of a call, and what it becomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.api.handle import TableHandle
from pyhudi.api.rows import engine_of_session
from pyhudi.config.location import table_path
from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.progress import OnProgress
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError
from pyhudi.format.schema.result_tables import table_of
from pyhudi.storage.open import open_storage
from pyhudi.write.bootstrap.copying import KeyCheck
from pyhudi.write.bootstrap.later import copy_new_partitions, plan_new_partitions
from pyhudi.write.bootstrap.plan import PLAN_COLUMNS, BootstrapPlan, ModeOf, plan_bootstrap, with_seconds
from pyhudi.write.bootstrap.run import run_bootstrap
from pyhudi.write.result import WriteResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ModeLike = str | Callable[[str], str]
"""`"metadata_only"`, `"full_record"`, or a function that gives one of them for a partition path."""

CheckKeys = bool | str
"""True: repeated record keys are refused; `"warn"`: a warning tells of them; False: keys are not compared."""


def _key_check(check_keys: CheckKeys) -> KeyCheck:
    if isinstance(check_keys, bool):
        return KeyCheck.REFUSE if check_keys else KeyCheck.NONE
    if check_keys != "warn":
        raise ConfigError("check_keys is True, False or 'warn'", check_keys=check_keys)
    return KeyCheck.WARN


def engine_of(spark: SparkSession | None, on_progress: OnProgress | None = None) -> Engine:
    """What runs the tasks of a bootstrap. Raises `ConfigError` for Spark with `on_progress`."""
    if spark is None:
        return LocalEngine(on_progress=on_progress)
    if on_progress is not None:
        raise ConfigError("on_progress is for bootstraps without spark: Spark shows the progress of its tasks")
    return engine_of_session(spark)


def planned(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    described: Mapping[str, str | None],
    mode: ModeLike,
    hudi_options: HudiOptions | None,
    engine: Engine,
) -> BootstrapPlan:
    """The plan of a bootstrap. `described`: what the table is to be, under Hudi's option names."""
    options, place = _options(path, described, hudi_options)
    config = WriteConfig.from_options(options)
    return plan_bootstrap(
        open_storage(os.fspath(source), options), open_storage(place, options), config, engine, _mode(mode)
    )


def estimated(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    described: Mapping[str, str | None],
    mode: ModeLike,
    hudi_options: HudiOptions | None,
    engine: Engine,
) -> pa.Table:
    """The plan of a bootstrap, with the time that it would take."""
    plan = planned(source, path, described, mode, hudi_options, engine)
    return with_seconds(plan, None, _options(path, described, hudi_options)[0], engine)


def bootstrap(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    described: Mapping[str, str | None],
    mode: ModeLike,
    check_keys: CheckKeys,
    hudi_options: HudiOptions | None,
    engine: Engine,
) -> TableHandle:
    """Make the table, and open it."""
    check = _key_check(check_keys)
    plan = planned(source, path, described, mode, hudi_options, engine)
    options, place = _options(path, described, hudi_options)
    state = run_bootstrap(
        plan, open_storage(place, options), options=options, engine=engine, environment=SYSTEM, check_keys=check
    )
    return TableHandle(state, known_options(hudi_options, call="bootstrap"), engine)


def planned_new_partitions(
    handle: TableHandle, partitions: Sequence[str] | None, hudi_options: HudiOptions | None
) -> BootstrapPlan | None:
    """The plan of copying partitions that came into the source after the bootstrap."""
    options = handle.options_of_call(hudi_options, call="copy_new_partitions")
    if isinstance(partitions, str):
        raise ConfigError("partitions must be a list of partition paths, not a text", partitions=partitions)
    return plan_new_partitions(handle.state.reload(), WriteConfig.from_options(options), handle.engine, partitions)


def estimated_new_partitions(
    handle: TableHandle, partitions: Sequence[str] | None, hudi_options: HudiOptions | None
) -> pa.Table:
    """That plan, with the time that it would take."""
    plan = planned_new_partitions(handle, partitions, hudi_options)
    if plan is None:
        return table_of(PLAN_COLUMNS, ())
    options = handle.options_of_call(hudi_options, call="plan_new_partitions")
    return with_seconds(plan, handle.state.reload(), options, handle.engine)


def bootstrap_partitions(
    handle: TableHandle, partitions: Sequence[str] | None, check_keys: CheckKeys, hudi_options: HudiOptions | None
) -> WriteResult | None:
    """Copy those partitions; None if there are none."""
    check = _key_check(check_keys)
    plan = planned_new_partitions(handle, partitions, hudi_options)
    if plan is None:
        return None
    return copy_new_partitions(
        plan,
        handle.state,
        options=handle.options_of_call(hudi_options, call="copy_new_partitions"),
        engine=handle.engine,
        environment=handle.environment,
        mergers=handle.mergers,
        check_keys=check,
    )


def _options(
    path: str | os.PathLike[str], described: Mapping[str, str | None], hudi_options: HudiOptions | None
) -> tuple[dict[str, str], str]:
    options = known_options(hudi_options, call="bootstrap")
    place = table_path(path, options)
    given = {name: text for name, text in described.items() if text is not None}
    return {"hoodie.table.name": place.rstrip("/").rpartition("/")[2], **given, **options}, place


def _mode(mode: ModeLike) -> ModeOf:
    if callable(mode):
        chosen = mode
        return lambda path: _named(chosen(path))
    return _named(mode)


def _named(mode: object) -> BootstrapMode:
    names = [mode.value for mode in BootstrapMode]
    if mode not in names:
        raise ConfigError(f"mode must be {' or '.join(names)}, or a function that gives one of them", mode=repr(mode))
    return BootstrapMode(mode)
