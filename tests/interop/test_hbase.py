"""The HBASE index in a real HBase: pyhudi's own promises, and one index with JVM Hudi, which writes it in turn."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.hbase import IDLE_SECONDS, HBase, hbase  # noqa: F401
from tests.support.oracle import REPOSITORY, Oracle, missing_oracle
from tests.support.pages import ROOT, blocks
from tests.support.tables import (
    MOR,
    SCHEMA,
    StepClock,
    contents,
    end_the_process_of,
    environment,
    new_table,
    open_table,
    rows,
)

import pyhudi
from pyhudi.errors import ConfigError, RecordKeyError, StorageError
from pyhudi.index.key_value.stores.hbase import call, table_at
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

pytestmark = pytest.mark.timeout(600)

CITIES = ("oslo", "rome", "bern")
SMALL = {"hoodie.parquet.small.file.limit": "0"}
# The releases that have the index.
VERSIONS = {8: "1.0.2", 6: "0.15.0"}


@pytest.fixture(scope="module")
def judge_of(hbase: HBase) -> Iterator[Callable[[str], Oracle]]:  # noqa: F811
    """JVM Hudi with the settings by which its bundles reach HBase."""
    judges: dict[str, Oracle] = {}

    def get(release: str) -> Oracle:
        if (reason := missing_oracle(release)) is not None:
            pytest.skip(reason)
        return judges.setdefault(release, Oracle(release, hbase.settings))

    yield get
    for judge in judges.values():
        judge.stop()


def ours(hbase: HBase, name: str, **more: str) -> dict[str, str]:  # noqa: F811
    """The options of pyhudi: those of JVM Hudi, and the Thrift server."""
    return {
        "hoodie.index.type": "HBASE",
        "hoodie.index.hbase.store": f"{hbase.server}/entries",
        "hoodie.index.hbase.table": name,
        **SMALL,
        **more,
    }


@pytest.mark.parametrize(
    ("version", "kind", "moves"),
    [
        (8, "cow", False),
        (6, "mor", True),
        *(
            pytest.param(version, kind, moves, marks=pytest.mark.thorough)
            for version, kind, moves in itertools.product((8, 6), ("cow", "mor"), (False, True))
            if (version, kind, moves) not in ((8, "cow", False), (6, "mor", True))
        ),
    ],
)
def test_jvm_hudi_and_pyhudi_in_turn_find_each_others_keys(
    version: int,
    kind: str,
    moves: bool,
    hbase: HBase,  # noqa: F811
    judge_of: Callable[[str], Oracle],
    tmp_path: Path,
) -> None:
    judge, path = judge_of(VERSIONS[version]), str(tmp_path / "table")
    name = hbase.new_table(f"turns_{version}_{kind}_{moves}")
    both = {"hoodie.hbase.index.update.partition.path": str(moves).lower(), **SMALL}
    theirs = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.metadata.enable": "false",
        **hbase.options_of_jvm(name),
        **both,
    }
    mine = {**ours(hbase, name, **both), **(MOR if kind == "mor" else {})}
    dice, expected = random.Random(version), {}

    def batch(turn: int) -> list[tuple[Any, ...]]:
        chosen = []
        for key in dice.sample(range(40), 12):
            home = expected[key][1] if key in expected and not moves else dice.choice(CITIES)
            chosen.append((key, home, turn, f"{turn}"))
        expected.update({row[0]: row for row in chosen})
        return chosen

    judge.write(path, rows(*batch(0)), theirs)
    for turn in range(1, 9):
        if turn % 2:
            table = pyhudi.HudiTable.for_path(path, hudi_options=mine)
            table.upsert(rows(*batch(turn)))
            gone = dice.choice(sorted(expected))
            table.refresh().delete(rows(expected.pop(gone)))
            if turn == 5:
                assert table.refresh().services.cluster().num_rows
        else:
            judge.write(path, rows(*batch(turn)), theirs)
            gone = dice.choice(sorted(expected))
            delete = {**theirs, "hoodie.datasource.write.operation": "delete"}
            judge.write(path, rows(expected.pop(gone)), delete)
        found = pyhudi.HudiTable.for_path(path).scan().to_arrow()
        assert_same_rows(judge.read(path), found, hint=f"version {version}, turn {turn}")
        held = sorted(tuple(row[column] for column in ("id", "city", "ts", "note")) for row in found.to_pylist())
        assert held == sorted(expected.values()), turn
        indexed = {int(key): row["partition_path"].removeprefix("city=") for key, row in hbase.rows(name).items()}
        assert indexed == {key: row[1] for key, row in expected.items()}, turn


def dies(name: str, path: str) -> None:
    if name.startswith("put") and path.endswith("commit") and "requested" not in path:
        raise SimulatedCrash


def test_write_that_dies_leaves_rows_that_count_for_nothing(hbase: HBase) -> None:  # noqa: F811
    name, storage, clock = hbase.new_table("deaths"), MemoryStorage(), StepClock()
    options = ours(hbase, name, **{"hoodie.hbase.index.update.partition.path": "true"})
    new_table(storage, **options)
    opened(storage, options, clock).upsert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    before = hbase.rows(name)

    with pytest.raises(SimulatedCrash):
        opened(FaultStorage(storage, before=dies), options, clock).upsert(
            rows((1, "rome", 2, "b"), (3, "rome", 2, "b"))
        )

    lost = load_table(storage).timeline.pending_writes[-1].requested_time
    after = hbase.rows(name)
    assert after.pop("3")["commit_ts"] == lost
    assert after == before
    end_the_process_of(storage, lost)
    opened(storage, options, clock).upsert(rows((1, "rome", 3, "c"), (3, "bern", 3, "c")))
    assert contents(storage) == {(1, "rome", 3, "c"), (2, "oslo", 1, "a"), (3, "bern", 3, "c")}
    assert places(hbase, name) == {"1": "city=rome", "2": "city=oslo", "3": "city=bern"}


def test_writes_without_the_index_and_clusterings_are_in_the_rows_after_the_next_write(hbase: HBase) -> None:  # noqa: F811
    name, storage, clock = hbase.new_table("others"), MemoryStorage(), StepClock()
    options = ours(hbase, name)
    new_table(storage)
    opened(storage, SMALL, clock).upsert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    opened(storage, options, clock).upsert(rows((3, "rome", 1, "a")))
    assert places(hbase, name) == {"1": "city=oslo", "2": "city=rome", "3": "city=rome"}
    opened(storage, SMALL, clock).services.cluster()
    opened(storage, options, clock).upsert(rows((4, "bern", 1, "a")))

    assert groups_in(hbase, name) == groups_of(storage)
    opened(storage, options, clock).insert_overwrite(rows((5, "rome", 2, "b")))
    opened(storage, options, clock).bulk_insert(rows((6, "rome", 2, "b")))
    opened(storage, options, clock).delete_partition("city=oslo")
    assert places(hbase, name) == {"4": "city=bern", "5": "city=rome", "6": "city=rome"}


def test_example_of_the_page_runs(hbase: HBase, tmp_path: Path) -> None:  # noqa: F811
    [block] = [one for one in blocks(ROOT / "docs" / "indexes.md") if one.tested_by == "tests/interop/test_hbase.py"]
    trips = pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [9.5, 12.0]})
    path, name = str(tmp_path / "trips"), hbase.new_table("trips_index")
    pyhudi.HudiTable.create(path, schema=trips.schema, record_key="id", partition_by="city").upsert(trips)
    names = {"pyhudi": pyhudi, "moved": pa.table({"id": [1], "city": ["rome"], "fare": [10.0]})}

    exec(block.code.replace("thrift://localhost:9090", hbase.server).replace("/tmp/trips", path), names)

    assert (names["result"].updated, names["result"].inserted) == (1, 0)
    assert places(hbase, name) == {"1": "oslo", "2": "rome"}


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_rows_name_no_file_group_that_a_service_has_replaced(hbase: HBase, kind: dict[str, str]) -> None:  # noqa: F811
    # JVM Hudi loses what it writes to a row of a replaced group.
    name, storage, clock = hbase.new_table(f"services_{len(kind)}"), MemoryStorage(), StepClock()
    options = {**ours(hbase, name), **kind, "hoodie.partition.ttl.strategy.days.retain": "1"}
    new_table(storage, **options)
    for key in range(3):
        opened(storage, options, clock).upsert(rows((key, "oslo", 1, "a"), (key + 10, "rome", 1, "a")))
    opened(storage, options, clock).upsert(rows((0, "oslo", 2, "b")))

    assert opened(storage, options, clock).services.cluster().num_rows
    assert len(groups_of(storage)) == 2
    assert groups_in(hbase, name) == groups_of(storage)
    opened(storage, options, clock).delete_partition("city=oslo")
    assert sorted(places(hbase, name)) == ["10", "11", "12"]
    clock.ms += 3 * 86_400_000
    opened(storage, options, clock).services.expire_partitions()
    assert places(hbase, name) == {}


@pytest.mark.parametrize(
    ("table", "family", "reason"),
    [
        ("nowhere", None, "HBase has no table nowhere"),
        ("familiar", "cf", "no column family _s"),
        ("entries", None, "need tables of their own"),
    ],
)
def test_table_of_hbase_that_is_no_index_is_refused_and_nothing_is_written(
    table: str,
    family: str | None,
    reason: str,
    hbase: HBase,  # noqa: F811
) -> None:
    if family is not None:
        hbase.new_table(table, family)
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))

    with pytest.raises(ConfigError, match=reason):
        open_table(storage, **ours(hbase, table)).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_index_of_another_hudi_table_is_refused(hbase: HBase) -> None:  # noqa: F811
    name = hbase.new_table("owned")
    new_table(MemoryStorage(), **ours(hbase, name)).upsert(rows((1, "oslo", 1, "a")))

    with pytest.raises(ConfigError, match="index of another Hudi table"):
        new_table(MemoryStorage(), **ours(hbase, name)).upsert(rows((1, "oslo", 1, "a")))


def test_table_that_is_dropped_while_it_is_used_is_a_typed_error(hbase: HBase) -> None:  # noqa: F811
    name, storage = hbase.new_table("dropped"), MemoryStorage()
    new_table(storage, **ours(hbase, name)).upsert(rows((1, "oslo", 1, "a")))
    hbase.client().delete_table(name, disable=True)

    with pytest.raises(ConfigError, match="HBase has no table dropped"):
        open_table(storage, **ours(hbase, name)).upsert(rows((2, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_table_of_entries_that_is_dropped_is_made_again_by_the_next_write(hbase: HBase) -> None:  # noqa: F811
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"{hbase.server}/short_lived"}
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    open_table(storage, **options).upsert(rows((2, "oslo", 1, "a")))
    hbase.client().delete_table("short_lived", disable=True)

    written = open_table(storage, **options).upsert(rows((1, "rome", 2, "b"), (3, "rome", 2, "b")))

    assert (written.updated, written.inserted) == (1, 1)
    assert hbase.rows("short_lived")


def test_index_that_another_hudi_table_has_taken_meanwhile_is_refused(hbase: HBase) -> None:  # noqa: F811
    name, storage = hbase.new_table("taken"), MemoryStorage()
    new_table(storage, **ours(hbase, name)).upsert(rows((1, "oslo", 1, "a")))
    hbase.client().table("entries").delete(f"krows of {name}".encode())
    new_table(MemoryStorage(), **ours(hbase, name)).upsert(rows((1, "oslo", 1, "a")))

    with pytest.raises(ConfigError, match="index of another Hudi table"):
        open_table(storage, **ours(hbase, name)).upsert(rows((2, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_server_that_speaks_otherwise_is_named(hbase: HBase) -> None:  # noqa: F811
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    for store in (f"{hbase.server}/entries?protocol=compact", f"thrift://127.0.0.1:{hbase.zookeeper_port}/entries"):
        with pytest.raises(StorageError, match="Thrift server"):
            open_table(storage, **{"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": store}).upsert(
                rows((1, "oslo", 2, "b"))
            )
    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_key_that_no_row_can_have_is_refused(hbase: HBase) -> None:  # noqa: F811
    schema = SCHEMA.set(0, pa.field("id", pa.string()))
    name, storage = hbase.new_table("long"), MemoryStorage()
    table = new_table(storage, schema=schema, **ours(hbase, name))
    batch = pa.table([["k" * 40_000], ["oslo"], [1], ["a"]], schema=schema)

    with pytest.raises(RecordKeyError, match="no row of HBase"):
        table.upsert(batch)

    assert new_table(storage=MemoryStorage(), schema=schema).upsert(batch).inserted == 1


def test_connection_that_the_server_closed_is_made_again(hbase: HBase) -> None:  # noqa: F811
    server = table_at(f"{hbase.server}/entries", keys_per_get=10, keys_per_put=10).server
    assert call(server, lambda connection: connection.tables())

    time.sleep(1.5 * IDLE_SECONDS)

    assert call(server, lambda connection: connection.tables())


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_suites_of_all_indexes_and_stores_pass_over_hbase(hbase: HBase) -> None:  # noqa: F811
    files = ("unit/index/test_conformance.py", "unit/index/test_key_stores.py", "spark/test_indexes_on_spark.py")
    command = [sys.executable, "-m", "pytest", "-q", "-k", "HBASE-thrift", *(f"tests/{file}" for file in files)]
    ran = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYHUDI_HBASE": hbase.server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]


def opened(storage: Storage, options: dict[str, str], clock: StepClock) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(clock), **options)


def groups_of(storage: Storage) -> set[str]:
    view = load_view(storage, load_table(storage).timeline)
    return {one.file_id for slices in view.latest.values() for one in slices}


def groups_in(hbase: HBase, name: str) -> set[str]:  # noqa: F811
    return {row["file_name"] for row in hbase.rows(name).values()}


def places(hbase: HBase, name: str) -> dict[str, str]:  # noqa: F811
    return {key: row["partition_path"] for key, row in hbase.rows(name).items()}
