"""JVM Hudi's lock providers and ours, on one lock: each keeps the other out.

Three of the classes behind the locks are not Hudi's own, because Hudi's need AWS: `java/` has stand-ins that say what
they replace. The locks themselves, on disk, in ZooKeeper and in DynamoDB, are as the JVM makes them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pytest
from tests.support.dynamodb import CREDENTIALS, DynamoDb, dynamodb, dynamodb_server
from tests.support.oracle import ORACLE_HOME, Oracle, OracleError, jar_of, missing_oracle
from tests.support.zookeeper import ZooKeeper, zookeeper

import pyhudi
from pyhudi.environment import SYSTEM, LockProvider
from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.dynamodb import DynamoDbLocks
from pyhudi.transaction.locks.filesystem import FileSystemLocks
from pyhudi.transaction.locks.storage_based import AUDIT_FOLDER, SWITCH_PATH, StorageLocks
from pyhudi.transaction.locks.zookeeper import ZooKeeperLocks

__all__ = ["dynamodb", "dynamodb_server", "zookeeper"]

SOURCES = Path(__file__).parent / "java"
AWS_SOURCES = SOURCES / "org" / "apache" / "hudi" / "aws" / "transaction" / "lock"
LOCK_PACKAGE = "org.apache.hudi.client.transaction.lock"
FILE_SYSTEM = f"{LOCK_PACKAGE}.FileSystemBasedLockProvider"
STORAGE = f"{LOCK_PACKAGE}.StorageBasedLockProvider"
ZOOKEEPER = f"{LOCK_PACKAGE}.ZookeeperBasedLockProvider"
DYNAMODB = "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"
NEWEST = "1.2.0"
ANSWER_SECONDS_MAX = 60

#: AWS's lock client for Java, which Hudi's lock provider for DynamoDB runs, and the SDK that it was built with.
DYNAMODB_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pyhudi</groupId><artifactId>dynamodb-locks</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId><artifactId>dynamodb-lock-client</artifactId><version>1.2.0</version>
    </dependency>
    <dependency>
      <groupId>software.amazon.awssdk</groupId><artifactId>dynamodb</artifactId><version>2.20.8</version>
    </dependency>
  </dependencies>
</project>
"""


class JvmLock:
    """One of Hudi's lock providers in a JVM of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._answer() == "ready"

    def take(self, wait_ms: int = 200) -> bool:
        """Whether it got the lock. ZooKeeper's provider raises where the others say no."""
        answer = self._ask(f"lock {wait_ms}")
        assert answer in {"locked", "refused"} or "FAILED_TO_ACQUIRE" in answer, answer
        return answer == "locked"

    def give_back(self) -> None:
        assert self._ask("unlock") == "unlocked"

    def close(self) -> None:
        assert self._ask("close") == "closed"

    def _ask(self, request: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        watchdog = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stdout:
                if line.startswith("="):
                    return line[1:].strip()
        finally:
            watchdog.cancel()
        raise RuntimeError("the JVM that holds a lock died or hung")


@dataclass(frozen=True)
class Jvm:
    """What it takes to run a lock provider of the JVM: the folder of compiled classes, and where to log."""

    classes: Path

    @contextlib.contextmanager
    def lock(self, release: str, provider: str, options: Mapping[str, str], *jars: str) -> Iterator[JvmLock]:
        path = [str(self.classes), *jars, *_class_path(release)]
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ":".join(path), "LockHolder", provider]
        command += [f"{key}={value}" for key, value in options.items()]
        with (self.classes / "LockHolder.log").open("a") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **CREDENTIALS},
            )
        try:
            yield JvmLock(process)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _class_path(release: str) -> list[str]:
    jars = next((ORACLE_HOME / "venv" / "lib").glob("python*/site-packages/pyspark/jars"))
    return [str(jar_of(release)), f"{jars}/*"]


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Jvm:
    """The compiled `LockHolder`; skips, with the reason, where there is no JVM Hudi or no compiler."""
    _skip_without(NEWEST)
    classes = tmp_path_factory.mktemp("classes")
    _compile(classes, SOURCES / "LockHolder.java", AWS_SOURCES / "S3StorageLockClient.java")
    return Jvm(classes)


def _skip_without(release: str) -> None:
    reason = missing_oracle(release) or ("no javac" if shutil.which("javac") is None else None)
    if reason is not None:
        pytest.skip(reason)


def _compile(classes: Path, *sources: Path, jars: tuple[str, ...] = ()) -> None:
    path = ":".join([*jars, *_class_path(NEWEST)])
    command = ["javac", "-nowarn", "-proc:none", "-d", str(classes), "-cp", path, *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="session")
def dynamodb_jars(jvm: Jvm) -> str:
    """AWS's lock client, fetched from Maven Central once; skips where it cannot be had."""
    folder = ORACLE_HOME / "jars" / "dynamodb-lock-client"
    if not folder.exists():
        incoming = jvm.classes / "incoming"
        incoming.mkdir()
        (incoming / "pom.xml").write_text(DYNAMODB_POM)
        command = ["mvn", "-q", "-B", "-f", str(incoming / "pom.xml"), "dependency:copy-dependencies"]
        try:
            subprocess.run([*command, f"-DoutputDirectory={incoming / 'jars'}"], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"AWS's lock client for Java cannot be fetched: {error}")
        shutil.move(incoming / "jars", folder)
    _compile(jvm.classes, AWS_SOURCES / "DynamoDBBasedLockProvider.java", jars=(f"{folder}/*",))
    return f"{folder}/*"


def keep_each_other_out(theirs: JvmLock, ours: LockProvider, storage: Storage) -> None:
    """Both parties take the lock in turn, and fail to take it while the other one has it."""
    for _ in range(2):
        assert theirs.take()
        with pytest.raises(LockNotAcquiredError):
            ours.acquire(storage, SYSTEM, wait_ms=300)
        theirs.give_back()
        lock = ours.acquire(storage, SYSTEM, wait_ms=5_000)
        assert not theirs.take()
        lock.check_held()
        lock.release()


@pytest.mark.parametrize("release", ["0.15.0", NEWEST])
def test_lock_file_of_the_jvm_and_ours_keep_each_other_out(jvm: Jvm, release: str, tmp_path: Path) -> None:
    _skip_without(release)
    options = {"hoodie.base.path": str(tmp_path), "hoodie.write.lock.filesystem.expire": "0"}

    with jvm.lock(release, FILE_SYSTEM, options) as theirs:
        keep_each_other_out(theirs, FileSystemLocks(), LocalStorage(tmp_path))
        lock = FileSystemLocks().acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)
        theirs.close()
        with pytest.raises(LockLostError):  # it has deleted the file, whoever holds the lock
            lock.check_held()


def test_lock_object_of_the_jvm_and_ours_keep_each_other_out_and_are_audited_alike(jvm: Jvm, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put(SWITCH_PATH, b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}')

    with jvm.lock(NEWEST, STORAGE, {"hoodie.base.path": f"s3://bucket{tmp_path}"}) as theirs:
        keep_each_other_out(theirs, StorageLocks(), storage)

    lines = [
        pyarrow.json.read_json(pa.BufferReader(storage.read(file.path)))
        for file in storage.list_recursive(AUDIT_FOLDER)
    ]
    assert len(lines) == 3  # one file for each time that we had the lock, and one for the JVM's provider
    assert len({tuple(sorted((field.name, str(field.type)) for field in one.schema)) for one in lines}) == 1


def test_lock_object_of_a_dead_jvm_is_taken_over_by_us_and_ours_by_the_jvm(jvm: Jvm, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    short = {"validity.timeout.secs": "10", "renew.interval.secs": "1"}
    options = {f"hoodie.write.lock.storage.{key}": value for key, value in short.items()}
    options["hoodie.base.path"] = f"s3://bucket{tmp_path}"

    with jvm.lock(NEWEST, STORAGE, options) as dead:
        assert dead.take()
    ours = StorageLocks(validity_ms=1_000, renew_ms=100_000).acquire(storage, SYSTEM, wait_ms=20_000)
    with jvm.lock(NEWEST, STORAGE, options) as theirs:
        assert theirs.take(5_000)
        with pytest.raises(LockLostError):
            ours.check_held()
        ours.release()
        with pytest.raises(LockNotAcquiredError):
            StorageLocks().acquire(storage, SYSTEM, wait_ms=300)


@pytest.mark.parametrize("release", ["0.15.0", NEWEST])
def test_queue_in_zookeeper_is_one_for_the_jvm_and_us(jvm: Jvm, release: str, zookeeper: ZooKeeper) -> None:
    _skip_without(release)
    key = secrets.token_hex(4)

    with jvm.lock(release, ZOOKEEPER, zookeeper_options(zookeeper, key)) as theirs:
        keep_each_other_out(theirs, ZooKeeperLocks(hosts=zookeeper.hosts, path=f"/hudi/{key}"), MemoryStorage())


def zookeeper_options(server: ZooKeeper, key: str) -> dict[str, str]:
    """All that Hudi's provider wants to be told, outside of a writer that fills in the defaults."""
    retries = {"wait_time_ms_between_retry": "100", "max_wait_time_ms_between_retry": "1000", "num_retries": "3"}
    timeouts = {"session_timeout_ms": "20000", "connection_timeout_ms": "15000"}
    place = {"url": server.hosts, "base_path": "/hudi", "lock_key": key}
    return {
        **{f"hoodie.write.lock.{name}": value for name, value in retries.items()},
        **{f"hoodie.write.lock.zookeeper.{name}": value for name, value in {**place, **timeouts}.items()},
    }


def test_item_in_dynamodb_is_one_for_the_client_for_java_and_us(
    jvm: Jvm, dynamodb_jars: str, dynamodb: DynamoDb
) -> None:
    ours = DynamoDbLocks(table="locks", key=secrets.token_hex(4), endpoint_url=dynamodb.endpoint, lease_ms=3_000)
    ours.acquire(MemoryStorage(), SYSTEM, wait_ms=0).release()
    place = {"table": ours.table, "partition_key": ours.key, "endpoint_url": dynamodb.endpoint}
    options = {f"hoodie.write.lock.dynamodb.{name}": value for name, value in place.items()}
    options["hoodie.write.lock.wait_time_ms"] = "3000"

    with jvm.lock(NEWEST, DYNAMODB, options, dynamodb_jars) as theirs:
        keep_each_other_out(theirs, ours, MemoryStorage())
        assert theirs.take()
    lock = ours.acquire(MemoryStorage(), SYSTEM, wait_ms=5_000)  # after the killed JVM's lease
    lock.check_held()
    lock.release()


# -- whole writers ----------------------------------------------------------------------------------------------------

TABLE = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.metadata.enable": "false",
}
IMPATIENT = {
    "hoodie.write.lock.wait_time_ms": "300",
    "hoodie.write.lock.num_retries": "1",
    "hoodie.write.lock.client.num_retries": "1",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
}


def row(key: int) -> pa.Table:
    return pa.table({"id": [key], "ts": pa.array([1], pa.int64())})


def ids_in(oracle: Oracle, path: Path) -> list[int]:
    return sorted(oracle.read(path)["id"].to_pylist())


def write_with_pyhudi(path: Path, key: int, options: Mapping[str, str]) -> None:
    pyhudi.HudiTable.for_path(str(path), hudi_options=options).upsert(row(key))


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize("kind", [FILE_SYSTEM, ZOOKEEPER])
def test_jvm_writer_waits_for_our_lock_and_our_writer_for_the_jvms(
    jvm: Jvm, oracle_of: Callable[[str], Oracle], kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    oracle, path, storage = oracle_of(NEWEST), tmp_path / "t", LocalStorage(tmp_path / "t")
    locks, ours = {"hoodie.write.lock.provider": kind}, _keeper(kind, request)
    if isinstance(ours, ZooKeeperLocks):
        locks |= zookeeper_options(request.getfixturevalue("zookeeper"), ours.path.rpartition("/")[2])
    oracle.write(path, row(1), {**TABLE, **locks})

    lock = ours.acquire(storage, SYSTEM, wait_ms=0)
    with pytest.raises(OracleError, match=r"(?i)lock"):
        oracle.write(path, row(2), {**TABLE, **locks, **IMPATIENT})
    lock.check_held()
    lock.release()

    with jvm.lock(NEWEST, kind, {"hoodie.base.path": str(path), **locks, **_expiry(kind)}) as theirs:
        assert theirs.take()
        with pytest.raises(LockNotAcquiredError):
            write_with_pyhudi(path, 3, {**locks, **IMPATIENT})
        theirs.give_back()

    write_with_pyhudi(path, 4, locks)
    oracle.write(path, row(5), {**TABLE, **locks})
    assert ids_in(oracle, path) == [1, 4, 5]


def _expiry(kind: str) -> dict[str, str]:
    return {"hoodie.write.lock.filesystem.expire": "0"} if kind == FILE_SYSTEM else {}


def _keeper(kind: str, request: pytest.FixtureRequest) -> FileSystemLocks | ZooKeeperLocks:
    if kind == FILE_SYSTEM:
        return FileSystemLocks()
    server: ZooKeeper = request.getfixturevalue("zookeeper")
    return ZooKeeperLocks(hosts=server.hosts, path=f"/hudi/{secrets.token_hex(4)}")
