"""`spark_session()`: a Spark session on which Hudi tables just work."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from pyhudi.spark.enable import enable
from pyhudi.spark.java import find_java, spark_java_home

_LOGGING_FILE = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Lists of files are looked up in this many Spark tasks, instead of one task per file (DESIGN D7).
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}
_DEFAULTS_ON_ONE_MACHINE: Mapping[str, str] = {
    # To Spark, opening a file costs as much as reading 4 MiB of it, which is about right for object stores. The blocks
    # of logs are small: of 13 base files and 13 blocks one core got twice as many rows as the other.
    "spark.sql.files.openCostInBytes": str(1 << 20),
    # From Spark 4.1 on. By TCP a task waits 40 ms for the other side to acknowledge that it has begun.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}


def spark_session(
    *, master: str = "local[*]", app_name: str = "pyhudi", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session with `format("hudi")`: finds Java, runs workers with this Python, logs errors only.

    The session's time zone is left alone. If a session is running already, it is returned with `config` applied and
    `format("hudi")` added: Java, Python and logging of a running session cannot change.

    Args:
        master: Spark's master URL.
        app_name: what the cluster shows.
        config: Spark options, which win over those chosen here.

    Raises:
        JavaNotFoundError: no Java 17 or newer.
    """
    _accept_new_pandas()
    options = dict(config or {})
    builder = SparkSession.builder
    if SparkSession.getActiveSession() is None:
        prepare_process()
        builder = builder.master(master).appName(app_name)
        logging = f"-Dlog4j2.configurationFile={_LOGGING_FILE.as_uri()}"
        defaults = {**_DEFAULTS, **_DEFAULTS_ON_ONE_MACHINE} if master.startswith("local") else _DEFAULTS
        options = {**defaults, **options, _JAVA_OPTIONS: f"{logging} {options.get(_JAVA_OPTIONS, '')}".strip()}
    for name, value in options.items():
        builder = builder.config(name, value)
    return enable(builder.getOrCreate())


def prepare_process() -> None:
    """Set the variables from which Spark takes its Java and the Python of its workers.

    `spark_session` does this; call it before starting a Spark Connect server in this process (`remote("local")`).

    Raises:
        JavaNotFoundError: no Java 17 or newer.
    """
    os.environ["JAVA_HOME"] = str(_java_home(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@cache
def _java_home(java_home: str, path: str) -> Path:
    """The home to start Spark from; found once for the same variables, as finding may make a folder."""
    return spark_java_home(find_java({"JAVA_HOME": java_home, "PATH": path}))


def _accept_new_pandas() -> None:
    """Silence PySpark's notice that it was not tried with pandas 3: we pass rows as Arrow, never as pandas."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
