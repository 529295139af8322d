"""`ZookeeperBasedLockProvider`: a queue of nodes in ZooKeeper; the writer of the first node holds the table lock.

The layout is that of Curator's `InterProcessMutex`, which JVM Hudi uses (observed with Curator 2.13 and 5.9): below
`<base_path>/<lock_key>` each writer makes an ephemeral sequential node `_c_<uuid>-lock-<number>`; the lowest number
holds the lock, and each of the others watches the one before it. kazoo's own lock names its nodes differently, and
Curator would sort those into the wrong order, so only kazoo's client is used.

A node is deleted with the session of its writer: at once when the writer closes it, or after the session timeout when
the server no longer hears from it. Each acquisition has its own session, as in JVM Hudi.
"""

from __future__ import annotations

import importlib
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyhudi.environment import Clock, Environment
from pyhudi.errors import ConfigError, PermissionDeniedError, UnavailableError
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.waiting import lost, not_acquired

NODE_DATA = b"application_id=pyhudi"
_NUMBER = re.compile(r"lock-(\d+)$")
_LOOK_AGAIN_SECONDS = 1.0
"""How long to wait for ZooKeeper's notice that the node before ours is gone, before looking again."""
_CHECK_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperLocks:
    """A queue at `path`. `hosts` is ZooKeeper's connect string; the timeouts are in milliseconds."""

    hosts: str
    path: str
    session_timeout_ms: int = 60_000
    connection_timeout_ms: int = 15_000

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldNode:
        """See `LockProvider.acquire`. Cost: a connection, about five requests, and two for each writer in front of us.

        A lost connection costs the position in the queue. Raises `UnavailableError` when ZooKeeper
        cannot be reached, `PermissionDeniedError` when it refuses, and `ConfigError` for an invalid address.
        """
        errors = _kazoo("exceptions")
        deadline = environment.clock.monotonic() + wait_ms / 1000
        while True:
            client = self._connected()
            try:
                held = self._queue_up(client, storage, environment, deadline)
            except (errors.ConnectionLoss, errors.SessionExpiredError, errors.ConnectionClosedError) as error:
                close(client)
                if environment.clock.monotonic() >= deadline:
                    raise self._unreachable(error) from error
            except (errors.NoAuthError, errors.AuthFailedError) as error:
                close(client)
                raise PermissionDeniedError(
                    "ZooKeeper refuses to let us keep the table lock", path=self.path
                ) from error
            except errors.KazooException as error:
                close(client)
                raise self._unreachable(error) from error
            except BaseException:
                close(client)
                raise
            else:
                if held is not None:
                    return held
                close(client)
                raise not_acquired(storage, wait_ms)

    def _connected(self) -> Any:
        handlers = _kazoo("handlers.threading")
        try:
            client = _kazoo("client").KazooClient(hosts=self.hosts, timeout=self.session_timeout_ms / 1000)
        except ValueError as error:
            raise ConfigError(
                "this is no address of ZooKeeper; give `host:port`, or several of them separated by commas",
                option="hoodie.write.lock.zookeeper.url",
                value=self.hosts,
            ) from error
        try:
            client.start(timeout=self.connection_timeout_ms / 1000)
        except handlers.KazooTimeoutError as error:
            close(client)
            raise self._unreachable(error) from error
        return client

    def _queue_up(self, client: Any, storage: Storage, environment: Environment, deadline: float) -> HeldNode | None:
        """Create our node and wait until it is the first; None if it is not by the deadline."""
        node = self._enqueue(client, environment.ids.uuid())
        if not self._wait_until_first(client, node.rpartition("/")[2], environment.clock, deadline):
            return None
        # As long as a connection may take; otherwise a commit would wait for a dead server.
        patience = min(self.connection_timeout_ms / 1000, _CHECK_SECONDS_MAX)
        return HeldNode(storage=storage, client=client, node=node, check_seconds=patience)

    def _enqueue(self, client: Any, uuid: str) -> str:
        errors = _kazoo("exceptions")
        prefix = f"{self.path}/_c_{uuid}-lock-"
        while True:
            client.ensure_path(self.path)
            # Curator creates the queue as a container, which ZooKeeper removes when it is empty.
            with suppress(errors.NoNodeError):
                made: str = client.create(prefix, NODE_DATA, ephemeral=True, sequence=True)
                return made

    def _wait_until_first(self, client: Any, name: str, clock: Clock, deadline: float) -> bool:
        errors = _kazoo("exceptions")
        while True:
            queue = in_order(client.get_children(self.path))
            if name not in queue:
                raise errors.SessionExpiredError
            place = queue.index(name)
            if place == 0:
                return True
            gone = threading.Event()
            if client.exists(f"{self.path}/{queue[place - 1]}", watch=lambda _, gone=gone: gone.set()) is None:
                continue
            left = deadline - clock.monotonic()
            if left <= 0:
                return False
            gone.wait(min(left, _LOOK_AGAIN_SECONDS))

    def _unreachable(self, error: Exception) -> UnavailableError:
        reason = str(error) or type(error).__name__
        return UnavailableError("ZooKeeper, which keeps the table lock, failed", path=self.hosts, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """Our node, the first in its queue, and the session that it lives in."""

    storage: Storage
    client: Any
    node: str
    check_seconds: float

    def check_held(self) -> None:
        """See `AcquiredLock.check_held`. Cost: one request, after which the server waits for a whole session timeout.

        A session that ended while this process was paused has taken the node with it.
        """
        errors, handlers = _kazoo("exceptions"), _kazoo("handlers.threading")
        try:
            try:
                stat = self._look()
            except errors.ConnectionLoss:
                # The session may outlive a connection: this waits for the next one.
                stat = self._look()
        except (errors.KazooException, handlers.KazooTimeoutError) as error:
            cause = str(error) or type(error).__name__
            raise lost(self.storage, "ZooKeeper cannot be reached", lock=self.node, cause=cause) from error
        session = self.client.client_id
        if stat is None or session is None or stat.owner_session_id != session[0]:
            raise lost(self.storage, "its session has ended", lock=self.node)

    def _look(self) -> Any:
        return self.client.exists_async(self.node).get(timeout=self.check_seconds)

    def release(self) -> None:
        """See `AcquiredLock.release`. Closes the session, with which the node goes."""
        close(self.client)


def check_installed() -> None:
    """Raise `ConfigError` when kazoo is not installed."""
    _kazoo("client")


def in_order(children: list[str]) -> list[str]:
    """The nodes of writers among the children of a queue, first to last; Curator's and ours alike."""
    numbered = ((found.group(1), name) for name in children if (found := _NUMBER.search(name)))
    return [name for _, name in sorted(numbered)]


def close(client: Any) -> None:
    """End a session; if that fails, it ends by its timeout."""
    with suppress(_kazoo("exceptions").KazooException):
        client.stop()
    with suppress(_kazoo("exceptions").KazooException):
        client.close()


def _kazoo(module: str) -> Any:
    try:
        return importlib.import_module(f"kazoo.{module}")
    except ImportError as error:
        raise ConfigError(
            "the ZooKeeper lock needs kazoo: pip install 'pyhudi[zookeeper]'", option="hoodie.write.lock.provider"
        ) from error
