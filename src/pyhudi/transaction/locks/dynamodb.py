"""`DynamoDBBasedLockProvider`: one item per table in a table of locks in DynamoDB.

The layout is that of AWS's lock client for Java, which JVM Hudi uses (tested against its version 1.2.0). The item
has, all as strings, `key`; `ownerName`; `leaseDuration` in milliseconds; `recordVersionNumber`, a UUID that changes
with each renewal; `isReleased`, `1` in an item that was released without being deleted. Every change is conditional.

There are no times in the item, so clocks need not agree: a lock may be taken over when its version has been unchanged
for as long as its lease. So waiting for a lock takes at least as long as its lease, as in JVM Hudi.
"""

from __future__ import annotations

import functools
import importlib
import os
import platform
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyhudi.config.options_locks import BillingMode
from pyhudi.environment import Clock, Environment, Timer
from pyhudi.errors import ConfigError, CorruptDataError, PermissionDeniedError, StorageError, UnavailableError
from pyhudi.storage.options import ambient_settings
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.waiting import Lease, lost, wait_for

DEFAULT_REGION = "us-east-1"
POLL_SECONDS = 0.5
REQUEST_SECONDS = 5
ATTEMPTS = 3
_RENEWALS_PER_LEASE = 3
_NAMES = {"#k": "key", "#on": "ownerName", "#ld": "leaseDuration", "#rvn": "recordVersionNumber", "#ir": "isReleased"}
_DENIED = {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """How a table of locks is created, if there is none; `timeout_ms` is how long that may take."""

    billing: BillingMode = BillingMode.PAY_PER_REQUEST
    read_capacity: int = 20
    write_capacity: int = 10
    timeout_ms: int = 600_000

    def request(self, table: str) -> dict[str, Any]:
        """The parameters of `CreateTable`."""
        throughput = {"ReadCapacityUnits": self.read_capacity, "WriteCapacityUnits": self.write_capacity}
        provisioned = {"ProvisionedThroughput": throughput} if self.billing is BillingMode.PROVISIONED else {}
        return {
            "TableName": table,
            "KeySchema": [{"AttributeName": _NAMES["#k"], "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": _NAMES["#k"], "AttributeType": "S"}],
            "BillingMode": self.billing.value,
            **provisioned,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDbLocks:
    """The item of `key` in `table`, leased for `lease_ms` milliseconds and renewed three times as often."""

    table: str
    key: str
    region: str | None = None
    endpoint_url: str | None = None
    new_table: NewTable = NewTable()
    lease_ms: int = 60_000

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldItem:
        """See `LockProvider.acquire`. Cost: one read and one put; one read for each look at a lock that is taken.

        Waits for the lease of a lock that stands, and for `wait_ms` on top: a shorter wait could not tell a dead owner
        from a live one. Raises `UnavailableError` or `PermissionDeniedError` when DynamoDB fails or refuses.
        """
        seen = _Seen(environment.clock)
        owner = f"{platform.node()}{environment.ids.uuid()}"
        client = Client(self.table, self.key, self.region, self.endpoint_url)

        def attempt() -> HeldItem | None:
            return self._attempt(client, storage, environment, owner, seen)

        held = attempt()
        if held is None:
            held = wait_for(attempt, storage, environment, wait_ms=wait_ms + seen.lease_ms, poll_seconds=POLL_SECONDS)
        held.keep_alive()
        return held

    def _attempt(
        self, client: Client, storage: Storage, environment: Environment, owner: str, seen: _Seen
    ) -> HeldItem | None:
        item = self._current(client, environment.clock)
        if item is not None and item.get("ownerName") != owner:
            seen.look(item)
            if not seen.may_be_taken:
                return None
        lease = Lease.beginning_now(environment.clock, self.lease_ms)
        mine = {"ownerName": owner, "leaseDuration": str(self.lease_ms), "recordVersionNumber": environment.ids.uuid()}
        if not client.put(mine, instead_of=item):
            return None
        return HeldItem(storage=storage, environment=environment, client=client, owner=owner, lease=lease)

    def _current(self, client: Client, clock: Clock) -> dict[str, str] | None:
        try:
            return client.get()
        except _NoTableError:
            self._make_table(client, clock)
            return None

    def _make_table(self, client: Client, clock: Clock) -> None:
        deadline = clock.monotonic() + self.new_table.timeout_ms / 1000
        client.make_table(self.new_table)
        while not client.table_is_active():
            if clock.monotonic() >= deadline:
                raise UnavailableError("the table of locks that was made is not ready yet", path=self.table)
            clock.sleep(POLL_SECONDS)


@dataclass(slots=True)
class _Seen:
    """Another writer's item as it was read, and since when it is unchanged, by the monotonic clock."""

    clock: Clock
    version: str | None = None
    lease_ms: int = 0
    is_released: bool = False
    since_seconds: float = 0.0

    def look(self, item: Mapping[str, str]) -> None:
        """Take note of an item that was just read."""
        version = item.get("recordVersionNumber")
        lease = item.get("leaseDuration", "")
        if version is None or not lease.isdecimal():
            raise CorruptDataError("the item of the table lock is damaged; remove it", path=item.get("key"))
        if version != self.version:
            self.version, self.lease_ms, self.since_seconds = version, int(lease), self.clock.monotonic()
        self.is_released = item.get("isReleased") == "1"

    @property
    def may_be_taken(self) -> bool:
        """Whether it was released, or its owner has not renewed it for a whole lease."""
        return self.is_released or (self.clock.monotonic() - self.since_seconds) * 1000 > self.lease_ms


@dataclass(slots=True, kw_only=True)
class HeldItem:
    """The item with an `owner` that is unique per acquisition. A timer renews it, so a mutex guards it."""

    storage: Storage
    environment: Environment
    client: Client
    owner: str
    lease: Lease
    _is_lost: bool = False
    _renewal: Timer | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def check_held(self) -> None:
        """See `AcquiredLock.check_held`. No requests: no writer takes a lease over before its end."""
        with self._guard:
            is_lost, lease = self._is_lost, self.lease
        if is_lost:
            raise lost(self.storage, "another writer took it over", lock=self.client.key)
        if not lease.outlasts_a_commit:
            raise lost(self.storage, "its lease is about to end", remaining_ms=lease.remaining_ms, lock=self.client.key)

    def release(self) -> None:
        """See `AcquiredLock.release`. Cost: one delete.

        If DynamoDB fails, the lease ends by itself; what was done under it remains valid.
        """
        if self._renewal is not None:
            self._renewal.stop()
        with suppress(StorageError):
            self.client.delete(owner=self.owner)

    def keep_alive(self) -> None:
        """From now on, renew the lease."""
        every_seconds = self.lease.duration_ms / _RENEWALS_PER_LEASE / 1000
        name = f"renewal of {self.client.table}/{self.client.key}"
        self._renewal = self.environment.timers.every(every_seconds, self._renew, name=name)

    def _renew(self) -> bool:
        lease = Lease.beginning_now(self.environment.clock, self.lease.duration_ms)
        try:
            is_ours = self.client.renew(
                owner=self.owner, lease_ms=lease.duration_ms, version=self.environment.ids.uuid()
            )
        except StorageError:
            # Two more renewals fit into the lease, and a commit checks what is left of it.
            return True
        with self._guard:
            self._is_lost = not is_ours
            if is_ours:
                self.lease = lease
        return is_ours


class _NoTableError(StorageError):
    """The table of locks does not exist yet."""


@dataclass(frozen=True, slots=True)
class Client:
    """The requests about one item. Each is answered within seconds, or raises `UnavailableError`."""

    table: str
    key: str
    region: str | None
    endpoint_url: str | None

    def get(self) -> dict[str, str] | None:
        """The strings of the item as it is now; None if there is none."""
        answer = self._call("get_item", Key=self._key, ConsistentRead=True)
        assert answer is not None
        item = answer.get("Item")
        return None if item is None else {name: value["S"] for name, value in item.items() if "S" in value}

    def put(self, item: Mapping[str, str], *, instead_of: Mapping[str, str] | None) -> bool:
        """Put an item in place of this version of another one, or of none; False if another version is there."""
        condition, values = "attribute_not_exists(#k)", {}
        if instead_of is not None:
            condition, values = "attribute_exists(#k) AND #rvn = :rvn", {":rvn": instead_of["recordVersionNumber"]}
        written = {**self._key, **{name: {"S": value} for name, value in item.items()}}
        return self._change("put_item", condition, values, Item=written)

    def renew(self, *, owner: str, lease_ms: int, version: str) -> bool:
        """Renew the owner's lease; False when the item is no longer the owner's."""
        values = {":on": owner, ":ld": str(lease_ms), ":new": version}
        update = "SET #ld = :ld, #rvn = :new"
        condition = "attribute_exists(#k) AND #on = :on"
        return self._change("update_item", condition, values, update, Key=self._key, UpdateExpression=update)

    def delete(self, *, owner: str) -> bool:
        """Remove the item; False when it is no longer the owner's."""
        return self._change("delete_item", "attribute_exists(#k) AND #on = :on", {":on": owner}, Key=self._key)

    def make_table(self, new: NewTable) -> None:
        """Create the table of locks, unless another process is creating it."""
        self._call("create_table", expected="ResourceInUseException", **new.request(self.table))

    def table_is_active(self) -> bool:
        """Whether the table can be used."""
        answer = self._call("describe_table")
        assert answer is not None
        return bool(answer["Table"]["TableStatus"] in {"ACTIVE", "UPDATING"})

    @property
    def _key(self) -> dict[str, dict[str, str]]:
        return {_NAMES["#k"]: {"S": self.key}}

    def _change(
        self, operation: str, condition: str, values: Mapping[str, str], update: str = "", **parameters: Any
    ) -> bool:
        used = f"{condition} {update}"
        parameters["ExpressionAttributeNames"] = {short: name for short, name in _NAMES.items() if short in used}
        if values:
            parameters["ExpressionAttributeValues"] = {name: {"S": value} for name, value in values.items()}
        parameters["ConditionExpression"] = condition
        return self._call(operation, expected="ConditionalCheckFailedException", **parameters) is not None

    def _call(self, operation: str, *, expected: str = "", **parameters: Any) -> dict[str, Any] | None:
        """The answer, or None for an error of the expected code."""
        errors = _library("botocore.exceptions")
        try:
            client = _client(self.region, self.endpoint_url, ambient_settings(), os.getpid())
            answer: dict[str, Any] = getattr(client, operation)(**{"TableName": self.table, **parameters})
        except errors.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code == expected:
                return None
            if code in _DENIED:
                _client.cache_clear()  # the next call reads the files of credentials again
            raise self._failed(code, str(error)) from error
        except errors.NoCredentialsError as error:
            _client.cache_clear()
            raise PermissionDeniedError("AWS's tools find no credentials for DynamoDB", path=self.table) from error
        except errors.BotoCoreError as error:
            raise UnavailableError(
                "DynamoDB, which keeps the table lock, cannot be reached", path=self.table, reason=str(error)
            ) from error
        return answer

    def _failed(self, code: str, reason: str) -> StorageError:
        if code == "ResourceNotFoundException":
            return _NoTableError("there is no table of locks", path=self.table)
        kind = PermissionDeniedError if code in _DENIED else UnavailableError
        return kind("DynamoDB, which keeps the table lock, failed", path=self.table, reason=reason)


def check_installed() -> None:
    """Raise `ConfigError` when boto3 is not installed."""
    _library("boto3")


# The process is part of the key because a forked child must not share its parent's connections. A client reads the
# environment, and the files of credentials, when it is made.
@functools.lru_cache(maxsize=16)
def _client(
    region: str | None, endpoint_url: str | None, _environment: frozenset[tuple[str, str]], _process: int
) -> Any:
    """A boto3 client; threads may share it."""
    boto3, config = _library("boto3"), _library("botocore.config")
    session = boto3.session.Session()
    return session.client(
        "dynamodb",
        region_name=region or session.region_name or os.environ.get("AWS_REGION") or DEFAULT_REGION,
        endpoint_url=endpoint_url,
        config=config.Config(
            connect_timeout=REQUEST_SECONDS,
            read_timeout=REQUEST_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        ),
    )


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "the DynamoDB lock needs boto3: pip install 'pyhudi[dynamodb]'", option="hoodie.write.lock.provider"
        ) from error
