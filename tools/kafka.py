"""Fetch the Kafka broker that the tests of the streamer talk to: Apache Kafka's own jars, from Maven Central.

    python tools/kafka.py        fetches them unless they are there (44 MB, once) and prints their folder

Needs `mvn` and `java` (17 or newer) on PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock, Timeout

VERSION = "4.3.1"
TOOLS = Path(__file__).resolve().parent.parent / ".tools"
JARS = TOOLS / f"kafka-{VERSION}"
FETCH_SECONDS_MAX = 600
_DEPENDENCIES = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-nop", "1.7.36"))


def jars() -> Path:
    """The folder with the jars, fetched first if this machine has none. Processes that ask at once share a fetch.

    Raises:
        RuntimeError: there are none and they could not be had; the message says why.
    """
    if JARS.is_dir():
        return JARS
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            raise RuntimeError(f"a Kafka broker needs `{program}` on PATH")
    TOOLS.mkdir(exist_ok=True)
    try:
        with FileLock(TOOLS / "kafka.lock", timeout=FETCH_SECONDS_MAX):
            return JARS if JARS.is_dir() else _fetched()
    except Timeout as error:
        raise RuntimeError(f"another process fetches Kafka for more than {FETCH_SECONDS_MAX} seconds") from error


def _fetched() -> Path:
    """Fetch the jars into a folder of its own first: half of them must not look like all."""
    incoming = TOOLS / "incoming-kafka"
    incoming.mkdir(exist_ok=True)
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _DEPENDENCIES
    )
    (incoming / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>tools</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{listed}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={incoming / 'jars'}"]
    try:
        subprocess.run(command, check=True, cwd=incoming, timeout=FETCH_SECONDS_MAX, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"fetching Kafka failed: {error.stdout.decode(errors='replace')[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"fetching Kafka took more than {FETCH_SECONDS_MAX} seconds") from error
    (incoming / "jars").replace(JARS)
    shutil.rmtree(incoming)
    return JARS


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{jars()}\n")
    except RuntimeError as error:
        sys.exit(str(error))
