"""Fetch servers that tests talk to, from Maven Central: Kafka, Hive metastores, HDFS, Debezium, a schema registry.

    python tools/server_jars.py kafka hive-3 hive-4 hdfs    fetches those that are not there (44, 102, 122 and 93 MB),
                                                            and prints their folders; without names these four
    python tools/server_jars.py debezium                    the same for Debezium with Kafka Connect (42 MB)
    python tools/server_jars.py spark-kafka                 the same for the Kafka reader of Spark 4.2 (11 MB)
    python tools/server_jars.py apicurio                    the same for the registry (159 MB), which needs Java 21

Needs `mvn` and `java` (17 or newer) on PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

TOOLS = Path(__file__).resolve().parent.parent / ".tools"
FETCH_SECONDS_MAX = 600
_HADOOP = "3.4.1"
_HADOOP_CLIENT = tuple(("org.apache.hadoop", f"hadoop-client-{part}", _HADOOP) for part in ("api", "runtime"))


@dataclass(frozen=True)
class Server:
    """A server: the folder of its jars, its artifacts, and those that come without what they need themselves.

    `archive`: in place of artifacts, one that has all in it.
    """

    folder: str
    artifacts: tuple[tuple[str, str, str], ...] = ()
    alone: tuple[tuple[str, str, str], ...] = ()
    archive: str | None = None


SERVERS = {
    "kafka": Server("kafka-4.3.1", (("org.apache.kafka", "kafka_2.13", "4.3.1"), ("org.slf4j", "slf4j-nop", "1.7.36"))),
    "hive-3": Server("hive-3.1.3", (*_HADOOP_CLIENT, ("org.apache.hive", "hive-standalone-metastore", "3.1.3"))),
    "hive-4": Server(
        "hive-4.0.1",
        (*_HADOOP_CLIENT, ("org.apache.hive", "hive-standalone-metastore-server", "4.0.1")),
        alone=(("org.apache.hadoop", "hadoop-hdfs", _HADOOP),),
    ),
    "hdfs": Server("hdfs-3.4.1", (("org.apache.hadoop", "hadoop-client-minicluster", _HADOOP),)),
    "debezium": Server(
        "debezium-3.3.0-both",
        (
            ("io.debezium", "debezium-connector-mariadb", "3.3.0.Final"),
            ("io.debezium", "debezium-connector-postgres", "3.3.0.Final"),
            ("org.apache.kafka", "connect-runtime", "4.1.0"),
            ("org.slf4j", "slf4j-simple", "1.7.36"),
        ),
    ),
    "spark-kafka": Server(
        "spark-kafka-4.2.0",
        alone=(
            ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.2.0"),
            ("org.apache.kafka", "kafka-clients", "3.9.2"),
            ("org.apache.commons", "commons-pool2", "2.13.1"),
        ),
    ),
    "apicurio": Server("apicurio-3.3.3", archive="io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"),
}
FETCHED_BY_SETUP = ("kafka", "hive-3", "hive-4", "hdfs")


def jars(name: str) -> Path:
    """The folder with the jars of a server, fetched first if this machine has none.

    Processes that ask at once share a fetch.

    Raises:
        RuntimeError: there are none and they could not be had; the message says why.
    """
    server = SERVERS[name]
    folder = TOOLS / server.folder
    if folder.is_dir():
        return folder
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{name} needs `{program}` on PATH")
    TOOLS.mkdir(exist_ok=True)
    try:
        with FileLock(TOOLS / f"{name}.lock", timeout=FETCH_SECONDS_MAX):
            return folder if folder.is_dir() else _fetched(name, server, folder)
    except Timeout as error:
        raise RuntimeError(f"another process fetches {name} for more than {FETCH_SECONDS_MAX} seconds") from error


def _fetched(name: str, server: Server, folder: Path) -> Path:
    """Fetch the jars into a folder of its own first: half of them must not look like all."""
    incoming = TOOLS / f"incoming-{name}"
    incoming.mkdir(exist_ok=True)
    listed = "".join(_dependency(one, "jdk.tools") for one in server.artifacts)
    listed += "".join(_dependency(one, "*") for one in server.alone)
    (incoming / "pom.xml").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>tools</groupId><artifactId>{name}</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{listed}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", f"-DoutputDirectory={incoming / 'jars'}"]
    if server.archive is None:
        command.append("dependency:copy-dependencies")
    else:
        command += ["dependency:unpack", f"-Dartifact={server.archive}"]
    try:
        subprocess.run(command, check=True, cwd=incoming, timeout=FETCH_SECONDS_MAX, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"fetching {name} failed: {error.stdout.decode(errors='replace')[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"fetching {name} took more than {FETCH_SECONDS_MAX} seconds") from error
    (incoming / "jars").replace(folder)
    shutil.rmtree(incoming)
    return folder


def _dependency(artifact: tuple[str, str, str], excluded: str) -> str:
    group, name, version = artifact
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version><exclusions>"
        f"<exclusion><groupId>{excluded}</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )


if __name__ == "__main__":
    try:
        for asked in sys.argv[1:] or FETCHED_BY_SETUP:
            sys.stdout.write(f"{jars(asked)}\n")
    except RuntimeError as problem:
        sys.exit(str(problem))
