"""The lock provider that the options name."""

from __future__ import annotations

from pyhudi.config.options_locks import LockKind, LockOptions
from pyhudi.environment import LockProvider
from pyhudi.transaction.locks import dynamodb, zookeeper
from pyhudi.transaction.locks.dynamodb import DynamoDbLocks, NewTable
from pyhudi.transaction.locks.filesystem import FileSystemLocks
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.storage_based import StorageLocks
from pyhudi.transaction.locks.zookeeper import ZooKeeperLocks


def open_locks(options: LockOptions, *, table_name: str) -> LockProvider | None:
    """The lock provider for the table of this name; None stands for the built-in lock (`Environment.locks`).

    Expects options that `lock_problems` finds nothing in. Opens no connection yet. Raises `ConfigError` when a library
    that the provider needs is not installed.
    """
    match options.provider:
        case LockKind.BUILT_IN:
            return None
        case LockKind.IN_PROCESS:
            return InProcessLocks()
        case LockKind.FILE_SYSTEM:
            expire_ms = options.filesystem_expire_minutes * 60_000
            return FileSystemLocks(folder=options.filesystem_path, expire_ms=expire_ms)
        case LockKind.STORAGE:
            return StorageLocks(
                validity_ms=options.storage_validity_seconds * 1000, renew_ms=options.storage_renew_seconds * 1000
            )
        case LockKind.ZOOKEEPER:
            return _zookeeper(options, table_name)
        case LockKind.DYNAMODB:
            return _dynamodb(options, table_name)


def _zookeeper(options: LockOptions, table_name: str) -> ZooKeeperLocks:
    zookeeper.check_installed()
    assert options.zookeeper_url is not None
    assert options.zookeeper_base_path is not None
    return ZooKeeperLocks(
        hosts=options.zookeeper_url,
        path=f"{options.zookeeper_base_path.rstrip('/')}/{options.zookeeper_lock_key or table_name}",
        session_timeout_ms=options.zookeeper_session_timeout_ms,
        connection_timeout_ms=options.zookeeper_connection_timeout_ms,
    )


def _dynamodb(options: LockOptions, table_name: str) -> DynamoDbLocks:
    dynamodb.check_installed()
    assert options.dynamodb_table is not None
    return DynamoDbLocks(
        table=options.dynamodb_table,
        key=options.dynamodb_partition_key or table_name,
        region=options.dynamodb_region,
        endpoint_url=options.dynamodb_endpoint_url,
        new_table=NewTable(
            billing=options.dynamodb_billing_mode,
            read_capacity=options.dynamodb_read_capacity,
            write_capacity=options.dynamodb_write_capacity,
            timeout_ms=options.dynamodb_creation_timeout_ms,
        ),
    )
