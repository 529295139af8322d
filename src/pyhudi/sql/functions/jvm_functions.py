"""Table-valued functions of a classic session whose rows come from this process, which the JVM calls (py4j)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.reads.callbacks import can_be_called
from pyhudi.spark.reads.jvm_objects import Jvm

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.ExpressionInfo"
_IDENTIFIER = "org.apache.spark.sql.catalyst.FunctionIdentifier"
_REGISTRIES = "org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry"

TableFunction: TypeAlias = Callable[..., DataFrame]
"""Gets the session and the values of the arguments: texts, or None for NULL."""


def register(spark: SparkSession, name: str, function: TableFunction) -> bool:
    """Give a session a table-valued function. False where the JVM cannot call this process.

    A second registration of a name replaces the first. Before Spark 4.3 the function is also put among Spark's own
    ones, which all sessions of the JVM share: a stored view finds no others.
    """
    if not can_be_called(spark):
        return False
    jvm = spark._jvm
    builder = _Builder(spark, function)
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    description = getattr(jvm, _EXPRESSIONS)("pyhudi", name)
    some = jvm.scala.Option.apply
    try:  # older releases would take the three parts, too, and not find the function by them
        identifier = getattr(jvm, _IDENTIFIER)(name)
        registry.registerFunction(identifier, description, builder)
        Jvm(spark).single(_REGISTRIES).builtin().registerFunction(identifier, description, builder)
    except Py4JError:  # from Spark 4.3 on, names of functions have three parts
        registry.registerFunction(
            getattr(jvm, _IDENTIFIER)(name, some("builtin"), some("system")), description, builder
        )
    return True


class _Builder:
    """A `Function1` from the expressions of a call to the plan of its rows."""

    def __init__(self, spark: SparkSession, function: TableFunction) -> None:
        self._spark = spark
        self._function = function

    def apply(self, expressions: Any) -> Any:
        """The plan of a call's rows."""
        values = [_value(expressions.apply(number)) for number in range(expressions.size())]
        return self._function(self._spark, *values)._jdf.queryExecution().analyzed()

    def toString(self) -> str:  # noqa: N802 - Java's names
        """How the JVM shows this object."""
        return "pyhudi"

    def hashCode(self) -> int:  # noqa: N802
        """As Java asks for it."""
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """As Java asks for it."""
        return self is other

    class Java:
        implements = ("scala.Function1",)


def _value(expression: Any) -> str | None:
    """The value of a literal as text; that of another constant expression, too."""
    value = expression.eval(None)
    return None if value is None else str(value if isinstance(value, str | int | float) else value.toString())
