"""Variables of statements, `${name}`, as Spark's parser replaces them by the session's settings."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from pyhudi.spark.settings import setting

_VARIABLE = re.compile(r"\$\{(?:(spark|sparkconf|hivevar|hiveconf):)?([^\s}:]+)\}")
_IS_ON = "spark.sql.variable.substitute"
_DEPTH_MAX = 10


def substituted(spark: SparkSession, text: str) -> str:
    """The text with values of settings in the place of its variables; what has no value stays, and is Spark's.

    Variables of the environment and of Java stay, too: only the process of Spark's driver knows them.
    """
    if "${" not in text or (setting(spark, _IS_ON) or "true").lower() != "true":
        return text
    for _ in range(_DEPTH_MAX):  # a value may hold variables
        found = _VARIABLE.sub(lambda variable: _value(spark, variable), text)
        if found == text:
            break
        text = found
    return text


def _value(spark: SparkSession, variable: re.Match[str]) -> str:
    value = setting(spark, variable.group(2))
    return variable.group(0) if value is None else value
