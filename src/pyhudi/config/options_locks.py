"""Options of the table lock, with the lock provider and its settings, and of markers.

Keys, defaults and limits are those of Hudi 0.15.0 and 1.2.0, so that pyhudi works with the configuration that the JVM
writers of a table share.
"""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.config.enums import EarlyDetectionStrategy
from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, integer, one_of, text
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.markers import MarkersType

_LOCK_PACKAGE = "org.apache.hudi.client.transaction.lock."
_AWS_LOCK_PACKAGE = "org.apache.hudi.aws.transaction.lock."
_WITH_LOCKS = "SimpleTransactionDirectMarkerBasedDetectionStrategy"
_STRATEGIES = {strategy.value: strategy for strategy in EarlyDetectionStrategy}
_KIND_OF = {
    EarlyDetectionStrategy.BY_TASKS: MarkersType.DIRECT,
    EarlyDetectionStrategy.BY_SERVICE: MarkersType.TIMELINE_SERVER_BASED,
}


def _read_strategy(name: str) -> EarlyDetectionStrategy:
    short = name.rpartition(".")[2]
    if short == _WITH_LOCKS:
        raise UnsupportedFeatureError(
            f"{_WITH_LOCKS} holds a lock per file group in every task, which pyhudi does not need: use "
            f"{EarlyDetectionStrategy.BY_TASKS.value}; if it lets two conflicting writers pass at the same time, one "
            "of them fails at its commit"
        )
    if short not in _STRATEGIES:
        raise ValueError(name)
    return _STRATEGIES[short]


EARLY_STRATEGY = Parser(_read_strategy, f"one of {', '.join(_STRATEGIES)}, with or without its package")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOptions:
    """How a write announces its files, and whether it first checks the announcements of other writers."""

    keeping: MarkersType | None = option(
        "hoodie.write.markers.type",
        parse=one_of(MarkersType),
        default=None,
        doc="DIRECT: each task creates an empty file per data file. TIMELINE_SERVER_BASED, the default of JVM Hudi: a"
        " service in the driver keeps the markers of all tasks in a few files. It needs fewer requests to an object"
        " store if a write creates thousands of files, and does not work through Spark Connect. Left out:"
        " TIMELINE_SERVER_BASED without Spark for upserts, inserts and deletes in eight or more file groups, else"
        " DIRECT.",
    )
    detects_early: bool = option(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        default=False,
        doc="Whether a write fails before it rewrites a file group that another live writer is writing, instead of"
        " at its commit. This saves work; the conflicts are the same.",
    )
    early_strategy: EarlyDetectionStrategy | None = option(
        "hoodie.write.concurrency.early.conflict.detection.strategy",
        parse=EARLY_STRATEGY,
        default=None,
        doc="Whether the tasks (with DIRECT markers) or the marker service detect conflicts; follows from the type of"
        " the markers, and says it where that is left out.",
    )
    early_checks_commits: bool = option(
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        default=False,
        doc="Whether early detection also checks writes that completed since this one began. Costs a request for each"
        " of them.",
    )

    @property
    def kind(self) -> MarkersType | None:
        """How, where an option says so, that of the strategy included; None: as it is best for the write."""
        if self.keeping is None and self.early_strategy is not None:
            return _KIND_OF[self.early_strategy]
        return self.keeping


class LockKind(enum.Enum):
    """Lock providers. The values are class names of JVM Hudi; each excludes JVM writers with the same provider."""

    BUILT_IN = "pyhudi"
    IN_PROCESS = f"{_LOCK_PACKAGE}InProcessLockProvider"
    FILE_SYSTEM = f"{_LOCK_PACKAGE}FileSystemBasedLockProvider"
    STORAGE = f"{_LOCK_PACKAGE}StorageBasedLockProvider"
    ZOOKEEPER = f"{_LOCK_PACKAGE}ZookeeperBasedLockProvider"
    DYNAMODB = f"{_AWS_LOCK_PACKAGE}DynamoDBBasedLockProvider"


class BillingMode(enum.Enum):
    """How DynamoDB charges for a table."""

    PAY_PER_REQUEST = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


def _short(kind: LockKind) -> str:
    return kind.value.rpartition(".")[2]


_KIND_OF_NAME = {name: kind for kind in LockKind for name in (kind.value, _short(kind))}


def _read_kind(name: str) -> LockKind:
    if name not in _KIND_OF_NAME:
        raise UnsupportedFeatureError(
            f"the lock provider {name} is not supported by this release: use one of "
            f"{', '.join(_short(kind) for kind in LockKind)}, the same for all writers of the table, or leave the "
            "option out for the built-in lock if no JVM writer writes at the same time"
        )
    return _KIND_OF_NAME[name]


LOCK_KIND = Parser(_read_kind, f"one of {', '.join(_short(kind) for kind in LockKind)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """The table lock. Needed if JVM writers write the same table; all writers must use the same provider.

    On local disk, writers take the built-in lock as well. It costs nothing, and excludes writers with other settings.
    """

    provider: LockKind = option(
        "hoodie.write.lock.provider",
        parse=LOCK_KIND,
        default=LockKind.BUILT_IN,
        doc="The lock provider: a class name of JVM Hudi, with or without its package. The built-in lock needs no"
        " configuration; JVM writers respect it on object stores only, as StorageBasedLockProvider."
        " InProcessLockProvider only excludes the threads of one process.",
    )
    filesystem_path: str | None = option(
        "hoodie.write.lock.filesystem.path",
        parse=text("a folder on local disk"),
        default=None,
        doc="FileSystemBasedLockProvider: the folder of the file `lock`; `.hoodie` of the table if not given.",
    )
    filesystem_expire_minutes: int = option(
        "hoodie.write.lock.filesystem.expire",
        parse=integer(minimum=0, unit="minutes"),
        default=0,
        doc="FileSystemBasedLockProvider: the time after which a lock that was not renewed is taken over. 0: never, so"
        " the lock of a killed writer must be removed by hand.",
    )
    storage_validity_seconds: int = option(
        "hoodie.write.lock.storage.validity.timeout.secs",
        parse=integer(minimum=10, unit="seconds"),
        default=300,
        doc="StorageBasedLockProvider: the validity of the lock after it was taken or renewed.",
    )
    storage_renew_seconds: int = option(
        "hoodie.write.lock.storage.renew.interval.secs",
        aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",),
        parse=integer(minimum=1, unit="seconds"),
        default=30,
        doc="StorageBasedLockProvider: how often it is renewed; at most a tenth of its validity.",
    )
    zookeeper_url: str | None = option(
        "hoodie.write.lock.zookeeper.url",
        parse=text("`host:port`, or several of them separated by commas"),
        default=None,
        doc="ZookeeperBasedLockProvider: the address of ZooKeeper; it may end in a path, the root of all other paths.",
    )
    zookeeper_base_path: str | None = option(
        "hoodie.write.lock.zookeeper.base_path",
        parse=text("a path that begins with a slash"),
        default=None,
        doc="ZookeeperBasedLockProvider: the parent node of the lock.",
    )
    zookeeper_lock_key: str | None = option(
        "hoodie.write.lock.zookeeper.lock_key",
        parse=text("the name of a node"),
        default=None,
        doc="ZookeeperBasedLockProvider: the node of the lock; the table's name if not given.",
    )
    zookeeper_session_timeout_ms: int = option(
        "hoodie.write.lock.zookeeper.session_timeout_ms",
        parse=integer(minimum=1000, unit="milliseconds"),
        default=60_000,
        doc="ZookeeperBasedLockProvider: how long the server keeps the lock of a silent writer.",
    )
    zookeeper_connection_timeout_ms: int = option(
        "hoodie.write.lock.zookeeper.connection_timeout_ms",
        parse=integer(minimum=1, unit="milliseconds"),
        default=15_000,
        doc="ZookeeperBasedLockProvider: how long to wait for a connection.",
    )
    dynamodb_table: str | None = option(
        "hoodie.write.lock.dynamodb.table",
        parse=text("the name of a table"),
        default=None,
        doc="DynamoDBBasedLockProvider: the table of locks; it is created if it does not exist. Credentials come from"
        " the places that AWS's own tools search.",
    )
    dynamodb_partition_key: str | None = option(
        "hoodie.write.lock.dynamodb.partition_key",
        parse=text(),
        default=None,
        doc="DynamoDBBasedLockProvider: the lock's key in that table; the Hudi table's name if not given.",
    )
    dynamodb_region: str | None = option(
        "hoodie.write.lock.dynamodb.region",
        parse=text("the name of a region"),
        default=None,
        doc="DynamoDBBasedLockProvider: the region; that of the environment, or else us-east-1, if not given.",
    )
    dynamodb_endpoint_url: str | None = option(
        "hoodie.write.lock.dynamodb.endpoint_url",
        parse=text("a URL"),
        default=None,
        doc="DynamoDBBasedLockProvider: the address of DynamoDB, if it is not that of AWS.",
    )
    dynamodb_billing_mode: BillingMode = option(
        "hoodie.write.lock.dynamodb.billing_mode",
        default=BillingMode.PAY_PER_REQUEST,
        doc="DynamoDBBasedLockProvider: the billing mode of a table that is created.",
    )
    dynamodb_read_capacity: int = option(
        "hoodie.write.lock.dynamodb.read_capacity",
        parse=integer(minimum=1, unit="units"),
        default=20,
        doc="DynamoDBBasedLockProvider: the read capacity per second of a PROVISIONED table that is created.",
    )
    dynamodb_write_capacity: int = option(
        "hoodie.write.lock.dynamodb.write_capacity",
        parse=integer(minimum=1, unit="units"),
        default=10,
        doc="DynamoDBBasedLockProvider: the write capacity per second of a PROVISIONED table that is created.",
    )
    dynamodb_creation_timeout_ms: int = option(
        "hoodie.write.lock.dynamodb.table_creation_timeout",
        parse=integer(minimum=1, unit="milliseconds"),
        default=600_000,
        doc="DynamoDBBasedLockProvider: how long to wait for a table that is created.",
    )


def lock_problems(options: LockOptions) -> list[str]:
    """Descriptions of missing and contradictory options of the lock provider; empty if there are none."""
    problems = []
    if options.provider is LockKind.ZOOKEEPER:
        base_path = options.zookeeper_base_path
        if options.zookeeper_url is None or base_path is None:
            problems.append(
                "the ZooKeeper lock needs hoodie.write.lock.zookeeper.url and hoodie.write.lock.zookeeper.base_path"
            )
        elif not base_path.startswith("/"):
            problems.append(f"hoodie.write.lock.zookeeper.base_path must begin with a slash, unlike {base_path!r}")
    if options.provider is LockKind.DYNAMODB and options.dynamodb_table is None:
        problems.append("the DynamoDB lock needs hoodie.write.lock.dynamodb.table")
    if options.storage_validity_seconds < 10 * options.storage_renew_seconds:
        problems.append(
            "hoodie.write.lock.storage.renew.interval.secs must be at most a tenth of "
            "hoodie.write.lock.storage.validity.timeout.secs, or a late renewal loses the lock"
        )
    return problems


def marker_problems(options: MarkerOptions) -> list[str]:
    """Descriptions of contradictions between these options; empty if there are none."""
    named = options.early_strategy
    if named is None or options.keeping is None or options.keeping is _KIND_OF[named]:
        return []
    problem = (
        f"{named.value} does not go with hoodie.write.markers.type={options.keeping.value}: leave "
        "hoodie.write.concurrency.early.conflict.detection.strategy out"
    )
    return [problem]
