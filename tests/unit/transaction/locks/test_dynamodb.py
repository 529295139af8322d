"""The item of DynamoDBBasedLockProvider, on moto's DynamoDB."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.dynamodb import CREDENTIALS, DynamoDb, dynamodb, dynamodb_server
from tests.support.lock_processes import count_together, holder, taken_over_while_paused
from tests.support.ports import free_port
from tests.support.tables import ClockOfTimers, StepClock, environment
from tests.support.timers import HandMovedTimers

from pyhudi.config.options_locks import BillingMode
from pyhudi.environment import SYSTEM
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    LockLostError,
    LockNotAcquiredError,
    PermissionDeniedError,
    UnavailableError,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transaction.locks.dynamodb import DynamoDbLocks, NewTable, check_installed

__all__ = ["dynamodb", "dynamodb_server"]
TABLE = "locks"
#: An item that AWS's client for Java could have written.
OF_JVM = {"ownerName": "host-1", "leaseDuration": "60000", "recordVersionNumber": "v1"}


@pytest.fixture
def locks(dynamodb: DynamoDb) -> DynamoDbLocks:
    """The lock of a table that no other test has."""
    return DynamoDbLocks(table=TABLE, key=secrets.token_hex(4), endpoint_url=dynamodb.endpoint, lease_ms=4_000)


@pytest.fixture
def aws(locks: DynamoDbLocks) -> Any:
    """AWS's own client; the table of locks is there."""
    locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0).release()
    boto3 = pytest.importorskip("boto3")
    return boto3.client("dynamodb", region_name="us-east-1", endpoint_url=locks.endpoint_url)


@pytest.fixture
def item_of(aws: Any, locks: DynamoDbLocks) -> Callable[[], dict[str, Any] | None]:
    def get() -> dict[str, Any] | None:
        found: dict[str, Any] | None = aws.get_item(TableName=TABLE, Key={"key": {"S": locks.key}}).get("Item")
        return found

    return get


def put(aws: Any, locks: DynamoDbLocks, item: dict[str, str]) -> None:
    aws.put_item(TableName=TABLE, Item={name: {"S": value} for name, value in {"key": locks.key, **item}.items()})


def test_item_has_the_strings_of_the_client_for_java_and_goes_when_it_is_given_back(locks, item_of) -> None:
    lock = locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)

    lock.check_held()
    item = item_of()
    assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
    assert item["key"] == {"S": locks.key}
    assert item["leaseDuration"] == {"S": "4000"}
    assert all(list(value) == ["S"] for value in item.values())
    lock.release()
    assert item_of() is None


def test_renewal_changes_the_version_and_keeps_the_owner(locks, item_of) -> None:
    timers = HandMovedTimers()
    lock = locks.acquire(MemoryStorage(), replace(SYSTEM, timers=timers), wait_ms=0)
    before = item_of()
    assert timers.fire() == [True]
    after = item_of()

    assert after["ownerName"] == before["ownerName"]
    assert after["recordVersionNumber"] != before["recordVersionNumber"]
    lock.check_held()
    lock.release()
    assert item_of() is None


def test_lock_that_is_renewed_keeps_others_out_for_longer_than_its_lease(locks, aws) -> None:
    clock = ClockOfTimers()
    lock = locks.acquire(MemoryStorage(), replace(environment(clock), timers=clock.timers), wait_ms=0)

    with pytest.raises(LockNotAcquiredError):
        locks.acquire(MemoryStorage(), environment(clock), wait_ms=3 * locks.lease_ms)
    lock.check_held()
    lock.release()


def test_lock_of_a_dead_jvm_is_taken_over_when_its_version_stood_still_for_its_lease(locks, aws, item_of) -> None:
    put(aws, locks, OF_JVM)
    clock = StepClock()
    began = clock.ms

    lock = locks.acquire(MemoryStorage(), environment(clock), wait_ms=5_000)

    assert 60_000 < clock.ms - began < 61_500
    assert item_of()["ownerName"]["S"] != "host-1"
    lock.release()


def test_lock_that_is_renewed_meanwhile_is_not_taken_over(locks, aws, item_of) -> None:
    put(aws, locks, OF_JVM)

    class Clock(StepClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            put(aws, locks, {**OF_JVM, "recordVersionNumber": f"v{self.ms // 20_000}"})

    with pytest.raises(LockNotAcquiredError):
        locks.acquire(MemoryStorage(), environment(Clock()), wait_ms=5_000)
    assert item_of()["ownerName"]["S"] == "host-1"


def test_item_that_was_given_back_without_being_deleted_is_taken_at_once(locks, aws, item_of) -> None:
    put(aws, locks, {**OF_JVM, "isReleased": "1"})

    clock = StepClock()
    began = clock.ms

    lock = locks.acquire(MemoryStorage(), environment(clock), wait_ms=0)

    assert clock.ms - began < 100
    assert "isReleased" not in item_of()
    lock.release()


def test_lock_taken_by_another_is_lost_and_stays_with_it(locks, aws, item_of) -> None:
    timers = HandMovedTimers()
    lock = locks.acquire(MemoryStorage(), replace(SYSTEM, timers=timers), wait_ms=0)
    put(aws, locks, OF_JVM)
    assert timers.fire() == [False]

    with pytest.raises(LockLostError, match="took it over"):
        lock.check_held()
    lock.release()
    assert item_of()["ownerName"]["S"] == "host-1"


def test_lease_is_lost_before_it_ends(locks) -> None:
    clock = StepClock()
    lock = locks.acquire(MemoryStorage(), environment(clock), wait_ms=0)

    clock.ms += 2_900
    lock.check_held()
    clock.ms += 200
    with pytest.raises(LockLostError, match="about to end"):
        lock.check_held()
    lock.release()


@pytest.mark.parametrize("missing", ["leaseDuration", "recordVersionNumber"])
def test_damaged_item_is_named(locks, aws, missing: str) -> None:
    put(aws, locks, {name: value for name, value in OF_JVM.items() if name != missing})

    with pytest.raises(CorruptDataError, match="lock"):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)


def test_two_processes_with_an_item_are_never_in_at_once(locks, tmp_path: Path) -> None:
    assert count_together("memory://t", {}, locks, tmp_path / "counter", rounds=2) == 4


def test_holder_that_pauses_past_its_lease_is_told(locks) -> None:
    slow_machine = replace(locks, lease_ms=8_000)
    assert not taken_over_while_paused("memory://t", {}, slow_machine, act=lambda lock: lock.check_held())


def test_lock_of_a_killed_process_ends_with_its_lease(locks) -> None:
    with holder("memory://t", {}, locks):
        pass
    locks.acquire(MemoryStorage(), SYSTEM, wait_ms=10_000).release()


def test_table_of_locks_is_made_as_the_options_say(dynamodb: DynamoDb, aws: Any) -> None:
    new = NewTable(billing=BillingMode.PROVISIONED, read_capacity=3, write_capacity=2)
    locks = DynamoDbLocks(table="provisioned", key="t", endpoint_url=dynamodb.endpoint, new_table=new)

    locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0).release()

    made = aws.describe_table(TableName="provisioned")["Table"]
    assert made["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
    assert made["AttributeDefinitions"] == [{"AttributeName": "key", "AttributeType": "S"}]
    assert (
        made["ProvisionedThroughput"]["ReadCapacityUnits"],
        made["ProvisionedThroughput"]["WriteCapacityUnits"],
    ) == (3, 2)


def test_address_without_a_server_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    locks = DynamoDbLocks(table=TABLE, key="t", endpoint_url=f"http://127.0.0.1:{free_port()}")

    with pytest.raises(UnavailableError, match="DynamoDB"):
        locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)


class _OfNewKeysOnly(BaseHTTPRequestHandler):
    """Takes a lock for requests that the key `new` has signed; other keys have expired."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        is_new = "Credential=new/" in self.headers["authorization"]
        body = b"{}" if is_new else b'{"__type": "com.amazon.coral.service#ExpiredTokenException"}'
        self.send_response(200 if is_new else 400)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.mark.parametrize("place", ["environment", "file"])
def test_call_after_expired_credentials_takes_those_that_are_there_by_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    pytest.importorskip("boto3")
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def give(key: str) -> None:
        if place == "environment":
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        else:
            file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")

    with ThreadingHTTPServer(("127.0.0.1", free_port()), _OfNewKeysOnly) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        locks = DynamoDbLocks(table=TABLE, key="t", endpoint_url=f"http://127.0.0.1:{server.server_port}")
        try:
            give("old")
            with pytest.raises(PermissionDeniedError):
                locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0)
            give("new")
            locks.acquire(MemoryStorage(), SYSTEM, wait_ms=0).release()
        finally:
            server.shutdown()


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(ConfigError, match=r"pyhudi\[dynamodb\]"):
        check_installed()
