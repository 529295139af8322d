"""From the options of the table lock to its keeper, and from its keeper to the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.tables import StepClock, contents, environment, new_table, open_table, rows

import pyhudi
from pyhudi.config.options_locks import BillingMode, LockKind, LockOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.environment import SYSTEM, AcquiredLock, Environment
from pyhudi.errors import ConfigError, LockLostError, LockNotAcquiredError, UnsupportedFeatureError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks import dynamodb, zookeeper
from pyhudi.transaction.locks.dynamodb import DynamoDbLocks, NewTable
from pyhudi.transaction.locks.filesystem import FileSystemLocks
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.open import open_locks
from pyhudi.transaction.locks.storage_based import StorageLocks
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.locks.zookeeper import ZooKeeperLocks

PROVIDER = "hoodie.write.lock.provider"
LOCKS = "org.apache.hudi.client.transaction.lock"
FILE_SYSTEM = {PROVIDER: f"{LOCKS}.FileSystemBasedLockProvider"}
ZOOKEEPER = {
    PROVIDER: "ZookeeperBasedLockProvider",
    "hoodie.write.lock.zookeeper.url": "zk1:2181,zk2:2181",
    "hoodie.write.lock.zookeeper.base_path": "/hudi/",
}
DYNAMODB = {PROVIDER: "DynamoDBBasedLockProvider", "hoodie.write.lock.dynamodb.table": "locks"}


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here talks to ZooKeeper or DynamoDB."""
    monkeypatch.setattr(zookeeper, "check_installed", lambda: None)
    monkeypatch.setattr(dynamodb, "check_installed", lambda: None)


def locks_of(options: dict[str, str]) -> object:
    return open_locks(WriteConfig.from_options(options).locks, table_name="trips")


@pytest.mark.parametrize(
    ("options", "keeper"),
    [
        ({}, None),
        ({PROVIDER: "pyhudi"}, None),
        ({PROVIDER: f"{LOCKS}.InProcessLockProvider"}, InProcessLocks()),
        (FILE_SYSTEM, FileSystemLocks()),
        (
            {
                **FILE_SYSTEM,
                "hoodie.write.lock.filesystem.path": "/locks",
                "hoodie.write.lock.filesystem.expire": "2",
            },
            FileSystemLocks(folder="/locks", expire_ms=120_000),
        ),
        ({PROVIDER: f"{LOCKS}.StorageBasedLockProvider"}, StorageLocks(validity_ms=300_000, renew_ms=30_000)),
        (
            {
                PROVIDER: "StorageBasedLockProvider",
                "hoodie.write.lock.storage.validity.timeout.secs": "60",
                "hoodie.write.lock.storage.heartbeat.poll.secs": "6",
            },
            StorageLocks(validity_ms=60_000, renew_ms=6_000),
        ),
        (
            ZOOKEEPER,
            ZooKeeperLocks(
                hosts="zk1:2181,zk2:2181",
                path="/hudi/trips",
                session_timeout_ms=60_000,
                connection_timeout_ms=15_000,
            ),
        ),
        (
            {
                **ZOOKEEPER,
                "hoodie.write.lock.zookeeper.lock_key": "key",
                "hoodie.write.lock.zookeeper.session_timeout_ms": "5000",
                "hoodie.write.lock.zookeeper.connection_timeout_ms": "700",
            },
            ZooKeeperLocks(
                hosts="zk1:2181,zk2:2181", path="/hudi/key", session_timeout_ms=5_000, connection_timeout_ms=700
            ),
        ),
        (DYNAMODB, DynamoDbLocks(table="locks", key="trips")),
        (
            {
                **DYNAMODB,
                "hoodie.write.lock.dynamodb.partition_key": "key",
                "hoodie.write.lock.dynamodb.region": "eu-north-1",
                "hoodie.write.lock.dynamodb.endpoint_url": "http://127.0.0.1:8000",
                "hoodie.write.lock.dynamodb.billing_mode": "provisioned",
                "hoodie.write.lock.dynamodb.read_capacity": "3",
                "hoodie.write.lock.dynamodb.write_capacity": "2",
                "hoodie.write.lock.dynamodb.table_creation_timeout": "5000",
            },
            DynamoDbLocks(
                table="locks",
                key="key",
                region="eu-north-1",
                endpoint_url="http://127.0.0.1:8000",
                new_table=NewTable(
                    billing=BillingMode.PROVISIONED, read_capacity=3, write_capacity=2, timeout_ms=5_000
                ),
            ),
        ),
    ],
)
def test_options_that_jvm_writers_use_choose_the_keeper_of_the_same_name(options, keeper) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert locks_of(options) == keeper


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({PROVIDER: "ZookeeperBasedLockProvider"}, "zookeeper.url"),
        ({**ZOOKEEPER, "hoodie.write.lock.zookeeper.base_path": "hudi"}, "slash"),
        ({PROVIDER: "DynamoDBBasedLockProvider"}, "dynamodb.table"),
        ({"hoodie.write.lock.storage.validity.timeout.secs": "100"} | {PROVIDER: "StorageBasedLockProvider"}, None),
        ({"hoodie.write.lock.storage.renew.interval.secs": "31"}, "tenth"),
        ({"hoodie.write.lock.filesystem.expire": "-1"}, "at least 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, named) -> None:
    with pytest.raises(ConfigError, match=named or "tenth"):
        WriteConfig.from_options(options)


@pytest.mark.parametrize("name", ["com.acme.Locks", "NoopLockProvider", "ZookeeperBasedImplicitBasePathLockProvider"])
def test_provider_that_is_not_built_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=name):
        WriteConfig.from_options({PROVIDER: name})


def test_every_kind_of_lock_has_a_keeper() -> None:
    options = LockOptions(zookeeper_url="z", zookeeper_base_path="/z", dynamodb_table="t")

    keepers = {kind: open_locks(replace(options, provider=kind), table_name="t") for kind in LockKind}

    assert [kind for kind, keeper in keepers.items() if keeper is None] == [LockKind.BUILT_IN]


# -- the table --------------------------------------------------------------------------------------------------------


def local_table(root: Path, *, version: int = 9, **options: str) -> pyhudi.HudiTable:
    new_table(LocalStorage(root), version=version)
    return pyhudi.HudiTable.for_path(str(root), hudi_options={**FILE_SYSTEM, **options})


@pytest.mark.parametrize("version", [6, 9])
def test_every_write_holds_the_lock_of_the_options_and_gives_it_back(tmp_path: Path, version: int) -> None:
    table = local_table(tmp_path, version=version)

    table.upsert(rows((1, "oslo", 1, "")))

    assert not (tmp_path / ".hoodie" / "lock").exists()
    assert contents(LocalStorage(tmp_path)) == {(1, "oslo", 1, "")}


def upsert(table: pyhudi.HudiTable, _: Path) -> None:
    table.upsert(rows((2, "oslo", 1, "")))


def roll_back(table: pyhudi.HudiTable, _: Path) -> None:
    last = table.refresh().inspect.last_write()
    assert last is not None
    table.recovery.rollback(last.instant)


def recover(table: pyhudi.HudiTable, root: Path) -> None:
    (root / ".hoodie" / "timeline" / "20200101000000000.commit.requested").write_bytes(b"")
    table.recovery.roll_back_failed_writes(eager=True)


@pytest.mark.parametrize("write", [upsert, roll_back, recover])
def test_write_while_the_jvm_holds_its_lock_waits_and_changes_nothing(
    tmp_path: Path, write: Callable[[pyhudi.HudiTable, Path], None]
) -> None:
    table = local_table(tmp_path, **{"hoodie.write.lock.wait_time_ms": "100"})
    table.upsert(rows((1, "oslo", 1, "")))
    (tmp_path / ".hoodie" / "lock").write_bytes(b"")

    with pytest.raises(LockNotAcquiredError):
        write(table, tmp_path)

    assert contents(LocalStorage(tmp_path)) == {(1, "oslo", 1, "")}


@dataclass
class Stub:
    """A keeper whose lock is lost at the given check."""

    lost_at: int = 0
    checks: int = 0
    held: int = 0

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> AcquiredLock:  # noqa: ARG002
        self.held += 1
        return self

    def check_held(self) -> None:
        self.checks += 1
        if self.checks == self.lost_at:
            raise LockLostError("lost")

    def release(self) -> None:
        self.held -= 1


def test_lock_that_is_lost_before_the_commit_leaves_nothing_visible() -> None:
    storage = MemoryStorage()
    new_table(storage)
    begun_and_committed = Stub()
    open_table(storage, env=replace(environment(StepClock()), locks=begun_and_committed)).upsert(
        rows((1, "oslo", 1, ""))
    )
    assert begun_and_committed.checks == 3  # before the first put, before the last one, and after it

    keeper = Stub(lost_at=2)
    with pytest.raises(LockLostError):
        open_table(storage, env=replace(environment(StepClock(1_790_000_100_000)), locks=keeper)).upsert(
            rows((2, "oslo", 1, ""))
        )

    assert contents(storage) == {(1, "oslo", 1, "")}
    assert keeper.held == 0


def test_lock_is_given_back_when_what_is_done_under_it_fails() -> None:
    keeper = Stub()

    with (
        pytest.raises(ZeroDivisionError, match="1"),
        table_lock(MemoryStorage(), replace(SYSTEM, locks=keeper), wait_ms=0),
    ):
        raise ZeroDivisionError(keeper.held)

    assert keeper.held == 0


def test_writers_of_different_settings_are_kept_apart_on_local_disk(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)

    with (
        table_lock(storage, SYSTEM, wait_ms=0),
        pytest.raises(LockNotAcquiredError),
        table_lock(storage, replace(SYSTEM, locks=FileSystemLocks()), wait_ms=50),
    ):
        pass
