"""Settings of a session that a job for Hudi's jar leaves behind, and that fail where the jar is not there.

Spark looks at them late: the registrator at the first shuffle, the catalog at the first statement. The error then names
a class of Java, and not the setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError
from pyhudi.spark.settings import is_connect, setting

_CLASSES: Final = ("spark.kryo.registrator", "spark.sql.catalog.spark_catalog")
_JARS: Final = ("spark.jars.packages", "spark.jars")
_OF_HUDI: Final = re.compile("hudi|hoodie", re.IGNORECASE)
_SCALA_OF_BUNDLE: Final = re.compile(r"hudi-[^/,:]*_(2\.\d+)\b")


def refuse_settings_of_a_missing_jar(spark: SparkSession) -> None:
    """Refuse a session whose settings need a jar of Hudi's that it does not have. One that has it may use both.

    Nothing is checked in Spark Connect, where the driver is another process.

    Raises:
        ConfigError: it names the settings. Cost: a few calls to the driver's JVM.
    """
    if is_connect(spark):
        return
    jvm: Any = spark.sparkContext._jvm
    given = {name: setting(spark, name) or "" for name in (*_CLASSES, *_JARS)}
    failing = failing_settings(
        given,
        is_there=lambda name: bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name)),
        scala_of_spark=lambda: str(jvm.scala.util.Properties.versionNumberString()),
    )
    if failing:
        raise ConfigError(
            "settings of the session need a jar of Hudi's that fits this Spark and is not there; pyhudi needs none of"
            f" them: delete {', '.join(failing)} from the job or from spark-defaults.conf, and start the session again",
            **failing,
        )


def failing_settings(
    given: Mapping[str, str], *, is_there: Callable[[str], bool], scala_of_spark: Callable[[], str]
) -> dict[str, str]:
    """The settings that would fail: jars for another Scala than Spark's or, if there are none, classes not there."""
    bundles = {name: found for name in _JARS if (found := _SCALA_OF_BUNDLE.findall(given.get(name, "")))}
    if bundles:
        scala = ".".join(scala_of_spark().split(".")[:2])
        if unfit := {name: given[name] for name, found in bundles.items() if set(found) != {scala}}:
            return unfit
    return {
        name: given[name]
        for name in _CLASSES
        if any(
            _OF_HUDI.search(of_class) and not is_there(of_class.strip()) for of_class in given.get(name, "").split(",")
        )
    }
