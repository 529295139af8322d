"""Table-valued functions of a classic session whose rows come from this process, which the JVM calls (py4j)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.reads.callbacks import CalledByJava, answer, can_be_called
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.weak_session import WeakSession

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = f"{_CATALYST}.expressions.ExpressionInfo"
_IDENTIFIER = f"{_CATALYST}.FunctionIdentifier"
_REGISTRIES = f"{_CATALYST}.analysis.TableFunctionRegistry"
_CONTEXT = f"{_CATALYST}.analysis.AnalysisContext"

TableFunction: TypeAlias = Callable[..., Any]
"""Gets the session and the values of the arguments: texts, or None for NULL. Gives a plan of the JVM."""


def register(spark: SparkSession, name: str, function: TableFunction) -> bool:
    """Give a session a table-valued function. False where the JVM cannot call this process.

    A second registration of a name replaces the first. Before Spark 4.3 a stored view finds only names that Spark's own
    functions have, too, which all sessions of the JVM share: the function of the session itself is then called.
    """
    if not can_be_called(spark):
        return False
    jvm = spark._jvm
    builder = _Builder(spark, name, function)
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


def plan_of(rows: DataFrame) -> Any:
    """The plan of rows in the JVM."""
    return rows._jdf.queryExecution().analyzed()


def current_namespace(spark: SparkSession) -> tuple[str, ...]:
    """Catalog and namespace of the view or function that Spark analyzes in this thread; empty outside of one."""
    names = getattr(spark._jvm, _CONTEXT).get().catalogAndNamespace()
    return tuple(names.apply(number) for number in range(names.size()))


class _Builder(CalledByJava):
    """A `Function1` from the expressions of a call to the plan of its rows.

    Calls with the same arguments in one statement have one plan, and so the same rows: it is kept where Spark's
    analyzer keeps the relations of the statement, and ends with it.
    """

    def __init__(self, spark: SparkSession, name: str, function: TableFunction) -> None:
        self._session = WeakSession(spark._jsparkSession, spark)
        self._name = name
        self._function = function
        self._context = getattr(spark._jvm, _CONTEXT)

    def apply(self, expressions: Any) -> Any:
        """The plan of a call's rows."""
        return answer(lambda: self._plan([_value(expressions.apply(number)) for number in range(expressions.size())]))

    def _plan(self, values: list[str | None]) -> Any:
        context = self._context.get()
        of_statement = context.relationCache()
        # A view or function has a namespace of its own, in which the same name may be that of another table.
        key = f"{self._name}{values} in {context.catalogAndNamespace().toString()}"
        if of_statement.contains(key):
            return of_statement.apply(key)
        plan = self._function(self._session.get(), *values)
        of_statement.put(key, plan)
        return plan

    class Java:
        implements = ("scala.Function1",)


def _value(expression: Any) -> str | None:
    """The value of a literal as text; that of another constant expression, too."""
    value = expression.eval(None)
    return None if value is None else str(value if isinstance(value, str | int | float) else value.toString())
