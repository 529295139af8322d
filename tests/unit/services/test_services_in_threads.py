"""Compactions, clusterings and cleans in threads of one process, beside a writer and a reader of change data."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import HistoryNotRetainedError, LockNotAcquiredError, WriteConflictError

SEEDS = range(int(os.environ.get("PYHUDI_THREAD_SEEDS", "1")))
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("note", pa.string())])
OPTIONS = {
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.table.cdc.enabled": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "2",
    "hoodie.write.num.retries.on.conflict.failures": "5",
}
ROUNDS = 4
SERVICES: tuple[Callable[[pyhudi.HudiTable], object], ...] = (
    lambda table: table.services.compact(),
    lambda table: table.services.cluster(),
    lambda table: table.services.clean(),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "version"), [("mor", 9), ("cow", 8)])
def test_services_in_threads_lose_no_row_of_a_writer(kind: str, version: int, seed: int, tmp_path: Path) -> None:
    path, chance, ended = str(tmp_path / "t"), random.Random(seed), Event()
    pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type="mor" if kind == "mor" else "cow",
        table_version=version,
        hudi_options=OPTIONS,
    )
    expected: dict[int, str] = {}

    def opened() -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(path, hudi_options=OPTIONS)

    def serve(service: Callable[[pyhudi.HudiTable], object]) -> None:
        while not ended.is_set():
            try:
                service(opened())
            except (WriteConflictError, LockNotAcquiredError):
                continue  # a service gives way to the writer, or to another service

    def write_once(rows: pa.Table) -> bool:
        """Whether the services let the rows through: how often they are in the way depends on the machine."""
        try:
            opened().upsert(rows)
        except (WriteConflictError, LockNotAcquiredError):
            return False
        return True

    def write() -> None:
        try:
            for ts in range(ROUNDS):
                keys = chance.sample(range(8), 4)
                columns = [keys, [f"c{key % 2}" for key in keys], [ts] * 4, [f"{key} at {ts}" for key in keys]]
                while not write_once(pa.table(columns, schema=SCHEMA)):
                    pass
                expected.update({key: f"{key} at {ts}" for key in keys})
        finally:
            ended.set()

    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(serve, service) for service in SERVICES[0 if kind == "mor" else 1 :]]
        write()
        for run in runs:
            run.result()

    table = opened()
    assert sorted(table.scan(["note"]).to_arrow()["note"].to_pylist()) == sorted(expected.values())
    try:
        changes = table.changes(format="cdc_typed").to_arrow().to_pylist()
    except HistoryNotRetainedError:
        return  # the cleans have come this far
    state: dict[int, str] = {}
    for change in changes:
        if change["before"] is not None:
            assert state.pop(change["before"]["id"]) == change["before"]["note"]
        if change["after"] is not None:
            state[change["after"]["id"]] = change["after"]["note"]
    assert state == expected
