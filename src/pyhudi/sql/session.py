"""`spark_session()`: a Spark session that can read and write Hudi tables."""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError
from pyhudi.spark.capabilities import VERSION
from pyhudi.spark.java import find_java, spark_java_home
from pyhudi.sql.enable import enable

_LOGGING_FILE = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The number of Spark tasks that look up a list of files. Spark's default is one task per file.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # Spark sets this variable for the workers of its queries alone. With it the tasks of RDDs run in the same workers,
    # which else were started, and had all they import, a second time.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
}
_DEFAULTS_ON_ONE_MACHINE: Mapping[str, str] = {
    # The cost of opening a file, in bytes read. Spark's default of 4 MiB suits object stores. For local files it is too
    # high, because blocks of logs are small: of 13 base files and 13 blocks one core got twice the rows of the other.
    "spark.sql.files.openCostInBytes": str(1 << 20),
    # For Spark 4.1 and newer. Over TCP the start of each task waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}


def spark_session(
    *, master: str = "local[*]", app_name: str = "pyhudi", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session with `format("hudi")`. It finds Java, runs its workers with this Python, and logs only errors.

    The session's time zone is not changed. If a session is running already, it is returned with `config` applied and
    `format("hudi")` added. Java, Python and logging of a running session cannot change.

    Args:
        master: Spark's master URL.
        app_name: the name that the cluster shows.
        config: Spark options, which take precedence over the defaults of this function.

    Raises:
        ConfigError: `SPARK_HOME` names a Spark of another version than PySpark's; or settings, also those of
            `spark-defaults.conf`, need a jar of Hudi's that is not there.
        JavaNotFoundError: there is no Java 17 or newer.
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
    """Set the environment variables that select Spark's Java and the Python of its workers.

    `spark_session` calls it. Call it yourself before starting a Spark Connect server in this process
    (`remote("local")`).

    Raises:
        ConfigError: `SPARK_HOME` names a Spark of another version than PySpark's.
        JavaNotFoundError: there is no Java 17 or newer.
    """
    _check_spark_home(os.environ.get("SPARK_HOME"))
    os.environ["JAVA_HOME"] = str(_java_home(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _check_spark_home(home: str | None) -> None:
    """Refuse a pair of versions with which PySpark fails later, by an error of its JVM that names neither."""
    own = VERSION.split(".")[:2]
    for jar in Path(home, "jars").glob("spark-core_*.jar") if home else ():
        found = re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name)
        if found is not None and found.group(1).split(".")[:2] != own:
            raise ConfigError(
                "SPARK_HOME names a Spark of another version than PySpark's: unset it, or install its PySpark",
                spark_home=home,
                spark=found.group(1),
                pyspark=VERSION,
            )


@cache
def _java_home(java_home: str, path: str) -> Path:
    """The `JAVA_HOME` for Spark. Cached per values of the variables, because a call may create a folder."""
    return spark_java_home(find_java({"JAVA_HOME": java_home, "PATH": path}))


def _accept_new_pandas() -> None:
    """Silence PySpark's warning about pandas 3, which does not apply: pyhudi passes rows as Arrow, not as pandas."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
