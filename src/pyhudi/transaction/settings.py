"""Settings of a transaction from the options: lock wait, heartbeat, and lock provider."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyhudi.config.options_clustering import ConflictStrategy, UpdateStrategy
from pyhudi.config.options_locks import LockKind
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.spilled_rows import SpillSettings, spill_settings
from pyhudi.environment import Environment
from pyhudi.events import all_of, ignore
from pyhudi.metadata_table.partitions.protocol import MetadataPartition
from pyhudi.metadata_table.requested_indexes import asked_indexes
from pyhudi.storage.metered import Meter, MeteredStorage
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.locks.open import open_locks

_LOCKS_OF_HUDI_0_15 = frozenset({LockKind.FILE_SYSTEM, LockKind.ZOOKEEPER, LockKind.DYNAMODB})
_SETTLING_MS = 2000
"""JVM Hudi 0.15 put its requested instant, and loaded the timeline, up to 0.66 s after it took its instant time in a
JVM that had just started, and up to 0.27 s otherwise (measured)."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How long to wait for the table lock, in milliseconds, and how the heartbeat is kept.

    `settling_ms`: in table version 6, the age at which a write may be completed; see `_let_earlier_writes_begin`.
    `passes_clusterings`: a write goes on beside a planned clustering of its file groups, and the clustering gives way.
    `rolls_back_clusterings`: a write rolls it back, unless it is running. `metadata_table`: True creates one where
    there is none, False drops it, None keeps what is there. `indexes`: the
    partitions of it that are built where they are not there. `carried_keys`: the keys of commit metadata that a commit
    carries along from the newest of `carried_from` commits. `spill`: the memory and the folder for records of indexes.
    """

    lock_wait_ms: int = 60_000
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    settling_ms: int = 0
    passes_clusterings: bool = False
    rolls_back_clusterings: bool = False
    metadata_table: bool | None = None
    indexes: tuple[MetadataPartition, ...] = ()
    carried_keys: tuple[str, ...] = ()
    carried_from: int = 10
    spill: SpillSettings = field(default_factory=SpillSettings)


def transaction_settings(config: WriteConfig) -> TransactionSettings:
    """The settings of a transaction as the options give them."""
    concurrency = config.concurrency
    heartbeat = HeartbeatSettings(concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerable_misses)
    is_shared = config.locks.provider in _LOCKS_OF_HUDI_0_15
    return TransactionSettings(
        concurrency.lock_wait_ms,
        heartbeat,
        _SETTLING_MS if is_shared else 0,
        passes_clusterings=config.clustering.conflict_strategy is ConflictStrategy.PREFER_WRITER,
        rolls_back_clusterings=config.clustering.update_strategy is UpdateStrategy.ALLOW,
        metadata_table=config.metadata_table.enabled,
        indexes=asked_indexes(config.metadata_table, config.record_index),
        carried_keys=concurrency.carried_keys,
        carried_from=concurrency.carried_from,
        spill=spill_settings(config.memory),
    )


def metered(storage: Storage, config: WriteConfig) -> MeteredStorage:
    """The store, whose calls are counted from now on, and in the metrics if there are any."""
    if not config.metrics.enabled:
        return MeteredStorage(storage, Meter())
    from pyhudi.telemetry.metrics import recorder_of

    return MeteredStorage(storage, Meter(recorder_of(config.metrics).meter_of(storage.uri)))


def equipped(environment: Environment, config: WriteConfig, table_name: str, base_path: str) -> Environment:
    """The environment with the lock provider that the options name, unless it has one already, and with observers."""
    if environment.locks is None:
        environment = replace(environment, locks=open_locks(config.locks, table_name=table_name))
    if environment.observe is not ignore:
        return environment
    observers = []
    if config.metrics.enabled:
        from pyhudi.telemetry.metrics import metrics_observer

        observers.append(metrics_observer(config.metrics, table_name, base_path))
    if config.callbacks.enabled:
        from pyhudi.hooks.callbacks import callback_observer

        observers.append(callback_observer(config.callbacks, table_name))
    return replace(environment, observe=all_of(observers)) if observers else environment
