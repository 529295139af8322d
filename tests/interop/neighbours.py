"""One table that JVM Hudi and we share: the same options on both sides, one lock, rows that say who wrote them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.parties import HudiRs
from tests.interop.shapes import EVENT_TIME_PAYLOAD
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.tables import rehandled
from tests.support.zookeeper import ZooKeeper

import pyhudi
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

#: The ordering column is not a long: with one, 1.0.2 cannot read a log in which a key follows its deletion.
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int32()),
        ("says", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
COLUMNS = ("id", "part", "ts", "says")
LOCK_PACKAGE = "org.apache.hudi.client.transaction.lock"
FILE_SYSTEM = f"{LOCK_PACKAGE}.FileSystemBasedLockProvider"
ZOOKEEPER = f"{LOCK_PACKAGE}.ZookeeperBasedLockProvider"

#: What the documents tell JVM Hudi's writers of a shared table to set, besides the lock; by its old name, too.
LAZY = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
#: What JVM Hudi does unless it is told of other writers; by its old name, too.
ALONE = {
    "hoodie.write.concurrency.mode": "SINGLE_WRITER",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.cleaner.policy.failed.writes": "EAGER",
}
#: JVM Hudi waits for five seconds between two attempts to get the lock.
ASK_OFTEN = {
    "hoodie.write.lock.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "600",
}
EVERY_TABLE = [
    pytest.param(version, kind, id=f"v{version}-{kind}".lower(), marks=pytest.mark.thorough if version == 8 else ())
    for version in RELEASE_OF_TABLE_VERSION
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
]
OracleOf = Callable[[str], Oracle]
Row = tuple[str, str, int, str]
WAIT_SECONDS = 120
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table of a version and kind at a path; `options` are what both sides are given besides."""

    path: Path
    version: int
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def release(self) -> str:
        return RELEASE_OF_TABLE_VERSION[self.version]

    def write_with_jvm(self, oracle: Oracle, rows: pa.Table, **more: str) -> None:
        options = {**self._options(), **LAZY, **ASK_OFTEN, "hoodie.metadata.enable": "false", **self.options, **more}
        if self.version == 6:
            del options["hoodie.write.table.version"]  # 0.15.0 does not know it
        oracle.write(self.path, rows, options)

    def write_with_us(self, rows: pa.Table, **more: str) -> None:
        pyhudi.save(rows, str(self.path), hudi_options={**self._options(), **self.options, **more}, mode="append")

    def write_with_us_slowly(self, rows: pa.Table, seconds: float) -> None:
        """An upsert that rests when it has looked its keys up: then another writer may come in between."""

        def rest(operation: str, path: str) -> None:
            if operation == "put_if_absent" and path.endswith(".inflight"):
                time.sleep(seconds)

        opened = self.open()
        store = FaultStorage(LocalStorage(self.path), before=rest)
        rehandled(opened, loaded=load_table(store)).upsert(rows)

    def open(self, **more: str) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(str(self.path), hudi_options={**self.options, **more})

    def rows_of_ours(self) -> list[Row]:
        return sorted_rows(self.open().scan().to_arrow())

    def _options(self) -> dict[str, str]:
        by_event_time = {
            "hoodie.datasource.write.payload.class": EVENT_TIME_PAYLOAD,
            "hoodie.compaction.payload.class": EVENT_TIME_PAYLOAD,
        }
        return {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.write.table.version": str(self.version),
            "hoodie.index.bloom.num_entries": "100",
            **(by_event_time if self.version == 6 else {}),
        }


def file_lock() -> dict[str, str]:
    return {"hoodie.write.lock.provider": FILE_SYSTEM}


def zookeeper_lock(server: ZooKeeper) -> dict[str, str]:
    place = {"url": server.hosts, "base_path": "/hudi", "lock_key": secrets.token_hex(4)}
    named = {f"hoodie.write.lock.zookeeper.{name}": value for name, value in place.items()}
    return {"hoodie.write.lock.provider": ZOOKEEPER, **named}


def batch(rows: Iterable[Row], gone: Iterable[Row] = ()) -> pa.Table:
    """Rows to upsert, and rows whose keys are to be deleted."""
    columns = list(zip(*[*((*row, False) for row in rows), *((*row, True) for row in gone)], strict=True))
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def written_alone(table: SharedTable, oracle_of: OracleOf, *batches: Iterable[Row]) -> Oracle:
    """The JVM Hudi of the table's version, when it has written these rows as the only writer."""
    oracle = oracle_of(table.release)
    for rows in batches:
        table.write_with_jvm(oracle, batch(rows), **ALONE)
    return oracle


def sorted_rows(table: pa.Table) -> list[Row]:
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    return sorted(zip(*columns, strict=True))


def newest(*batches: list[Row]) -> list[Row]:
    return list({row[0]: row for rows in batches for row in rows}.values())


def in_flight(table: SharedTable) -> list[str]:
    """The instants of the writes that have begun and are not completed."""
    pending = load_table(LocalStorage(table.path)).timeline.pending_writes
    return [str(instant.requested_time) for instant in pending if instant.state is InstantState.INFLIGHT]


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def let_heartbeats_expire(path: Path) -> None:
    """As if an hour had passed: only the files' times tell how old a heartbeat, or a mark without one, is."""
    long_ago = time.time() - 3600
    for file in (path / ".hoodie").rglob("*"):
        os.utime(file, (long_ago, long_ago))


def assert_everybody_sees(table: SharedTable, oracle: Oracle, expected: Iterable[Row], hint: str = "") -> None:
    """We, JVM Hudi and hudi-rs must give exactly these rows; a key that is there twice is a row too many."""
    rows = sorted(expected)
    readers = {"pyhudi": table.open().scan().to_arrow, "hudi-rs": lambda: HudiRs().read(table.path)}
    readers[f"Hudi {oracle.release}"] = lambda: oracle.read(table.path)
    for name, read in readers.items():
        found = sorted_rows(read())
        assert found == rows, f"{hint}: {name} misses {set(rows) - set(found)}, has more {set(found) - set(rows)}"


def assert_nothing_left_over(table: SharedTable) -> None:
    """No write is pending, and every data file is of a write that was completed; older ones than the timeline aside."""
    storage = LocalStorage(table.path)
    timeline = load_table(storage).timeline
    assert not timeline.pending_writes
    assert not timeline.pending_rollbacks
    times = {info.path: str(name.instant_time) for info, name in _data_files(storage)}
    assert not [p for p, at in times.items() if not timeline.is_committed(at) and not timeline.starts_after(at)]


def _data_files(storage: LocalStorage) -> Iterator[tuple[FileInfo, BaseFileName | LogFileName]]:
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if name is not None:
            yield info, name
