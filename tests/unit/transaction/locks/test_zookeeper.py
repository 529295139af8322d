"""The queue of ZookeeperBasedLockProvider, on a real ZooKeeper."""

from __future__ import annotations

import importlib
import re
import secrets
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lock_processes import count_together, holder, taken_over_while_paused
from tests.support.ports import free_port
from tests.support.zookeeper import ZooKeeper, running, zookeeper

from pyhudi.environment import SYSTEM
from pyhudi.errors import (
    ConfigError,
    LockLostError,
    LockNotAcquiredError,
    PermissionDeniedError,
    UnavailableError,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transaction.locks.zookeeper import ZooKeeperLocks, check_installed, close, in_order

__all__ = ["zookeeper"]
SESSION_MS = 5_000


def locks_of(server: ZooKeeper, *, session_timeout_ms: int = SESSION_MS) -> ZooKeeperLocks:
    """The lock of a table that no other test has."""
    path = f"/hudi/{secrets.token_hex(4)}/trips"
    return ZooKeeperLocks(
        hosts=server.hosts, path=path, session_timeout_ms=session_timeout_ms, connection_timeout_ms=10_000
    )


@pytest.fixture
def locks(zookeeper: ZooKeeper) -> ZooKeeperLocks:
    return locks_of(zookeeper)


@pytest.fixture
def client(zookeeper: ZooKeeper, locks: ZooKeeperLocks) -> Iterator[object]:
    """Somebody else's connection."""
    client = locks._connected()
    yield client
    close(client)


def test_queue_is_in_the_order_of_curator() -> None:
    queue = ["_c_b-lock-0000000010", "_c_a-lock-0000000011", "_c_lock-9-lock-0000000009", "lock-0000000012", "leases"]

    assert in_order(queue) == [
        "_c_lock-9-lock-0000000009",
        "_c_b-lock-0000000010",
        "_c_a-lock-0000000011",
        "lock-0000000012",
    ]


def test_lock_is_an_ephemeral_node_named_as_by_curator_and_goes_when_it_is_given_back(locks, client) -> None:
    lock = locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)

    lock.check_held()
    (name,) = client.get_children(locks.path)
    assert re.fullmatch(r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-\d{10}", name)
    data, stat = client.get(f"{locks.path}/{name}")
    assert data == b"application_id=pyhudi"
    assert stat.ephemeralOwner == lock.client.client_id[0]
    lock.release()
    assert client.get_children(locks.path) == []


def test_node_of_the_jvm_keeps_us_out_until_it_goes(locks, client) -> None:
    client.ensure_path(locks.path)
    theirs = client.create(f"{locks.path}/_c_00000000-lock-", b"10.0.0.1", ephemeral=True, sequence=True)

    with pytest.raises(LockNotAcquiredError):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=200)
    assert client.get_children(locks.path) == [theirs.rpartition("/")[2]]

    threading.Timer(0.3, client.delete, [theirs]).start()
    locks.acquire(MemoryStorage(), SYSTEM, wait_ms=60_000).release()


def test_lock_of_a_killed_process_goes_with_its_session(locks) -> None:
    with holder("memory://t", {}, locks), pytest.raises(LockNotAcquiredError):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)
    locks.acquire(MemoryStorage(), SYSTEM, wait_ms=60_000).release()


def test_two_processes_in_a_queue_are_never_in_at_once(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    locks = locks_of(zookeeper, session_timeout_ms=10_000)

    assert count_together("memory://t", {}, locks, tmp_path / "counter", rounds=4) == 8


def test_holder_that_pauses_past_its_session_is_told(locks) -> None:
    assert not taken_over_while_paused("memory://t", {}, locks, act=lambda lock: lock.check_held())


def test_removed_node_is_no_lock(locks, client) -> None:
    lock = locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)
    client.delete(lock.node)

    with pytest.raises(LockLostError, match="session"):
        lock.check_held()
    lock.release()


def test_connection_that_is_lost_and_made_again_within_the_session_keeps_the_lock(zookeeper) -> None:
    lock = locks_of(zookeeper, session_timeout_ms=20_000).acquire(MemoryStorage(), SYSTEM, wait_ms=0)

    lock.client._connection._socket.shutdown(2)

    lock.check_held()
    lock.release()


def test_server_that_dies_loses_the_lock_before_the_commit_and_cannot_be_waited_for(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        locks = ZooKeeperLocks(
            hosts=server.hosts, path="/hudi/t", session_timeout_ms=5_000, connection_timeout_ms=5_000
        )
        lock = locks.acquire(MemoryStorage(), SYSTEM, wait_ms=10_000)
        server.process.kill()
        server.process.wait()

        with pytest.raises(LockLostError, match="cannot be reached"):
            lock.check_held()
        lock.release()
        with pytest.raises(UnavailableError, match="ZooKeeper"):
            locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)


def test_queue_that_we_may_not_stand_in_is_a_typed_error(locks, client) -> None:
    security = pytest.importorskip("kazoo.security")
    client.ensure_path(locks.path)
    client.set_acls(locks.path, [security.make_acl("world", "anyone", read=True)])

    with pytest.raises(PermissionDeniedError, match="ZooKeeper"):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)


def test_address_without_a_server_is_a_typed_error() -> None:
    pytest.importorskip("kazoo")
    locks = ZooKeeperLocks(hosts=f"127.0.0.1:{free_port()}", path="/hudi/t", connection_timeout_ms=300)

    with pytest.raises(UnavailableError, match="ZooKeeper"):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)


def test_malformed_address_is_a_typed_error() -> None:
    pytest.importorskip("kazoo")

    with pytest.raises(ConfigError, match="address"):
        ZooKeeperLocks(hosts="zk:port", path="/hudi/t").acquire(MemoryStorage(), SYSTEM, wait_ms=0)


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kazoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    importlib.invalidate_caches()

    with pytest.raises(ConfigError, match=r"pyhudi\[zookeeper\]"):
        check_installed()
