"""Bootstraps of folders of Parquet files into any store, at set times."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.tables import LATER_MS, StepClock, environment, open_table

import pyhudi
from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.write.bootstrap.plan import ModeOf, plan_bootstrap
from pyhudi.write.bootstrap.run import run_bootstrap

_ONE_THREAD = LocalEngine(1)


def bootstrap(
    source: Path,
    storage: Storage,
    *,
    later: bool = False,
    mode: ModeOf = BootstrapMode.METADATA_ONLY,
    options: Mapping[str, str] = MappingProxyType({}),
    engine: LocalEngine = _ONE_THREAD,
) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.write.lock.wait_time_ms": "20",
        **options,
    }
    config = WriteConfig.from_options(options)
    plan = plan_bootstrap(LocalStorage(source), storage, config, engine, mode)
    clock = StepClock(LATER_MS) if later else StepClock()
    run_bootstrap(plan, storage, options=options, engine=engine, environment=environment(clock))


def copy_city_b(path: str) -> BootstrapMode:
    """Both modes in one bootstrap."""
    return BootstrapMode.FULL_RECORD if path == "city=b" else BootstrapMode.METADATA_ONLY


def count_rows(storage: Storage) -> int:
    return open_table(storage).scan().to_arrow().num_rows


def bootstrapped_anew(path: Path, folder: Path, rows: pa.Table, *, city: str, version: int) -> pyhudi.HudiTable:
    """A table at `path`, in place of any other, over a folder of `folder` with these rows of a city."""
    shutil.rmtree(path, ignore_errors=True)
    (folder / city / f"city={city}").mkdir(parents=True)
    pq.write_table(rows, folder / city / f"city={city}" / "rows.parquet")
    return pyhudi.HudiTable.bootstrap(
        folder / city, path, record_key="id", partition_by="city", name="trips", table_version=version
    )


def put_bootstrap_instant(storage: Storage, **metadata: str) -> None:
    """Let a table of version 6 have one instant, that of a bootstrap by JVM Hudi with these extra metadata."""
    for info in storage.list_folder(".hoodie").files:
        if info.name.partition(".")[0].isdigit():
            storage.delete(info.path)
    for state in (".requested", ".inflight", ""):
        storage.put(f".hoodie/{FULL_RECORD_INSTANT}.commit{state}", json.dumps({"extraMetadata": metadata}).encode())
