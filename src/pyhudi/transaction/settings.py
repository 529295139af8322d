"""What transactions need of the options: how long they wait, how they show that they live, and which lock they take."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyhudi.config.options_locks import LockKind
from pyhudi.config.write_config import WriteConfig
from pyhudi.environment import Environment
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.locks.open import open_locks

_LOCKS_OF_HUDI_0_15 = frozenset({LockKind.FILE_SYSTEM, LockKind.ZOOKEEPER, LockKind.DYNAMODB})
_SETTLING_MS = 2000
"""Real Hudi 0.15 was seen to announce a write up to 0.66 s after it took its time, in a JVM that had just begun, and up
to 0.27 s else; it loads the timeline right then. (A longer wait would give others more time to be first.)"""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How long to wait for the table lock, in milliseconds, and how the heartbeat is kept.

    `settling_ms`: in table version 6, the age at which a write may be completed; see `_let_earlier_writes_begin`.
    """

    lock_wait_ms: int = 60_000
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    settling_ms: int = 0


def transaction_settings(config: WriteConfig) -> TransactionSettings:
    """The settings of a transaction as the options give them."""
    concurrency = config.concurrency
    heartbeat = HeartbeatSettings(concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerable_misses)
    is_shared = config.locks.provider in _LOCKS_OF_HUDI_0_15
    return TransactionSettings(concurrency.lock_wait_ms, heartbeat, _SETTLING_MS if is_shared else 0)


def locking(environment: Environment, config: WriteConfig, table_name: str) -> Environment:
    """The environment with the keeper of the table lock that the options name; one that is there already stays."""
    if environment.locks is not None:
        return environment
    return replace(environment, locks=open_locks(config.locks, table_name=table_name))
