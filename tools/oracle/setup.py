"""Fetch what the oracle needs: Spark 3.5 in an environment of its own, JVM Hudi, an HBase, SQL scripts of Spark's.

Everything goes to `.oracle/`; a second run finds it there and is done in a moment. What cannot be had (no Java, no
Maven, no network) is said loudly, and the tests that need it are skipped aloud: this script fails only when it is
called wrongly.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = REPOSITORY / ".oracle"
JARS = HOME / "jars"
VENV_PYTHON = HOME / "venv" / "bin" / "python"
VENV_STAMP = HOME / "venv" / ".installed"

REQUIREMENTS = ("pyspark==3.5.*", "pyarrow>=17", "pandas>=2.2")
RELEASES = ("0.15.0", "1.0.2", "1.1.1", "1.2.0")
BUNDLE = "hudi-spark3.5-bundle_2.12"
HBASE = "2.6.1"
"""HBase and its Thrift server, for the index of JVM Hudi in HBase."""
HUDI = {f"org.apache.hudi:{BUNDLE}:{release}": f"{BUNDLE}-{release}.jar" for release in RELEASES}
SPARK_SCRIPTS = {"org.apache.spark:spark-sql_2.13:4.2.0:jar:tests": "spark-sql_2.13-4.2.0-tests.jar"}


class UnavailableError(Exception):
    """Something that this machine or its network does not offer."""


def run(command: list[str], purpose: str) -> None:
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError as error:
        raise UnavailableError(f"{purpose}: there is no `{command[0]}` here") from error
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{purpose}: `{' '.join(command)}` ended with {error.returncode}") from error


def make_environment() -> None:
    if VENV_STAMP.exists() and VENV_STAMP.read_text() == "\n".join(REQUIREMENTS):
        return
    print(f"oracle: installing {', '.join(REQUIREMENTS)} into .oracle/venv", flush=True)
    run([sys.executable, "-m", "venv", str(HOME / "venv")], "an environment for Spark 3.5")
    run([str(VENV_PYTHON), "-m", "pip", "install", "--quiet", *REQUIREMENTS], "Spark 3.5")
    VENV_STAMP.write_text("\n".join(REQUIREMENTS))


def fetch_jar(artifact: str, name: str) -> None:
    jar = JARS / name
    if jar.exists() and zipfile.is_zipfile(jar):
        return
    print(f"oracle: fetching {name} (50 to 110 MB)", flush=True)
    # Into a folder of its own first: a broken download must not look like a jar.
    incoming = JARS / f"incoming-{name}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={incoming}"]
    run(command, name)
    (incoming / name).replace(jar)
    shutil.rmtree(incoming)


def fetch_hbase() -> None:
    target = HOME / "hbase"
    if target.is_dir():
        return
    print(f"oracle: fetching HBase {HBASE} (110 MB)", flush=True)
    incoming = HOME / "incoming-hbase"
    incoming.mkdir(exist_ok=True)
    dependency = f"<groupId>org.apache.hbase</groupId><artifactId>hbase-thrift</artifactId><version>{HBASE}</version>"
    (incoming / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>oracle</groupId><artifactId>hbase</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies><dependency>{dependency}</dependency>"
        "</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(incoming / "pom.xml"), "dependency:copy-dependencies"]
    run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={incoming / 'jars'}"], f"HBase {HBASE}")
    (incoming / "jars").replace(target)
    shutil.rmtree(incoming)


def check_java() -> None:
    """Spark 3.5 with Hudi runs on Java 8, 11 and 17."""
    if shutil.which("java") is None:
        raise UnavailableError("Java: there is no `java` here; Spark 3.5 wants Java 17")


def main() -> None:
    JARS.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    jars = [partial(fetch_jar, artifact, name) for artifact, name in {**HUDI, **SPARK_SCRIPTS}.items()]
    steps: list[Callable[[], None]] = [check_java, make_environment, *jars, fetch_hbase]
    for step in steps:
        try:
            step()
        except UnavailableError as error:
            missing.append(str(error))
    if missing:
        bar = "!" * 100
        print(bar, "Real Hudi is not all here: the interop tests that need it will be SKIPPED.", sep="\n")
        print(*(f"  - {reason}" for reason in missing), bar, sep="\n", flush=True)


if __name__ == "__main__":
    main()
