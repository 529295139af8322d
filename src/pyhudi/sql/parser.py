"""The parser of a classic session, replaced by one of this process that the JVM calls (py4j).

So SQL from Thrift, Scala and notebooks' magics reaches pyhudi, and persistent views over Hudi tables are read fast.
Spark's own parser parses all statements but ours; a syntax error stays the Java object that it is. A statement of ours
runs when the JVM has it parsed, and its plan is that of its result; `EXPLAIN` of one runs nothing.

Texts that come through `spark.sql` of this process are decided there (`sql/run.py`), and pass here unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import SparkSession

from pyhudi.spark.reads.callbacks import can_be_called
from pyhudi.spark.settings import is_connect
from pyhudi.sql.dispatch import statement_of
from pyhudi.sql.plain import passes, passing
from pyhudi.sql.reads import with_hudi_tables
from pyhudi.sql.text.tokens import is_cut_into_words

_STATE = "org.apache.spark.sql.internal.SessionState"
_CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_UNDECLARED = "java.lang.reflect.UndeclaredThrowableException"
_SELECT = "SELECT "
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Replaced:
    """Fields of the JVM that have our parser, and the parser that they had."""

    inner: Any
    fields: tuple[tuple[Any, Any], ...]

    def undo(self) -> None:
        """Put the former parser back."""
        for field, owner in self.fields:
            field.set(owner, self.inner)


_replaced: WeakKeyDictionary[SparkSession, _Replaced] = WeakKeyDictionary()


def put_parser(spark: SparkSession) -> bool:
    """Give a classic session our parser. False where that is not possible: then only `spark.sql` is ours.

    A second call has no effect. Cost: the first time some twenty calls to the JVM.
    """
    if spark in _replaced:
        return True
    if is_connect(spark) or not can_be_called(spark):
        return False
    state = spark._jsparkSession.sessionState()
    try:
        inner = state.sqlParser()
        fields = (
            (_field(spark, _STATE, "sqlParser"), state),
            (_field(spark, _CATALOG, "parser"), state.catalog()),
        )
        done = _Replaced(inner, fields)
        spark.sparkContext._gateway.callback_server_parameters.propagate_java_exceptions = True
        parser = _Parser(spark, inner)
        for field, owner in fields:
            field.set(owner, parser)
        state.sqlParser().parsePlan("SELECT 1")
    except (Py4JError, PySparkException) as error:
        _log.info("the parser of this session cannot be replaced: %s", error)
        return False
    _replaced[spark] = done
    return True


def take_parsers() -> None:
    """Put the former parser back into all sessions."""
    for spark, done in list(_replaced.items()):
        del _replaced[spark]
        try:
            done.undo()
        except (Py4JError, OSError) as error:  # the session has ended
            _log.info("the parser of a session was not put back: %s", error)


def as_spark_raises(error: Exception) -> Exception:
    """An error of Spark that our parser let through, as Spark's own parser raises it; any other error as it is.

    Java wraps what a method of an interface does not declare, and `ParserInterface` declares syntax errors alone.
    """
    if not isinstance(error, Py4JJavaError) or error.java_exception.getClass().getName() != _UNDECLARED:
        return error
    told: Exception = convert_exception(error.java_exception.getUndeclaredThrowable())
    return told


def _field(spark: SparkSession, class_name: str, name: str) -> Any:
    loader = spark._jsparkSession.getClass().getClassLoader()
    field = spark._jvm.java.lang.Class.forName(class_name, True, loader).getDeclaredField(name)
    field.setAccessible(True)
    return field


class _Parser:
    """A `ParserInterface`. Its methods that are not here are those of Spark's parser, whatever the version of Spark."""

    def __init__(self, spark: SparkSession, inner: Any) -> None:
        self._spark = spark
        self._inner = inner

    def parsePlan(self, text: str) -> Any:  # noqa: N802 - Java's names
        """The plan of a statement."""
        return _raising_java(lambda: self._plan(text, self._inner.parsePlan))

    def parsePlanWithParameters(self, text: str, context: Any) -> Any:  # noqa: N802
        """The plan of a statement with arguments."""
        return _raising_java(lambda: self._plan(text, lambda ours: self._inner.parsePlanWithParameters(ours, context)))

    def parseQuery(self, text: str) -> Any:  # noqa: N802
        """The plan of a query, for example of a view's."""
        return _raising_java(lambda: self._query(text, self._inner.parseQuery))

    def parseExpression(self, text: str) -> Any:  # noqa: N802
        """An expression, whose queries may read Hudi tables: the text of `F.expr`, or of a condition."""
        return _raising_java(lambda: self._expression(text))

    def _expression(self, text: str) -> Any:
        found = with_hudi_tables(self._spark, _SELECT + text, {}) if is_cut_into_words(_SELECT + text) else None
        return self._inner.parseExpression(text if found is None else found.text.removeprefix(_SELECT))

    def _plan(self, text: str, parse: Callable[[str], Any]) -> Any:
        if passes(text) or not is_cut_into_words(text):
            return parse(text)
        statement = statement_of(self._spark, text)
        if statement is not None:
            return statement.run(self._spark)._jdf.queryExecution().logical()
        return self._query(text, parse)

    def _query(self, text: str, parse: Callable[[str], Any]) -> Any:
        if passes(text) or not is_cut_into_words(text):
            return parse(text)
        found = with_hudi_tables(self._spark, text, {})
        if found is None:
            return parse(text)
        with passing(found.text):
            return parse(found.text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "Java":
            raise AttributeError(name)
        return lambda *arguments: _raising_java(lambda: getattr(self._inner, name)(*arguments))

    def toString(self) -> str:  # noqa: N802
        """How the JVM shows this object."""
        return "pyhudi's parser"

    def hashCode(self) -> int:  # noqa: N802
        """As Java asks for it."""
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """As Java asks for it."""
        return self is other

    class Java:
        implements = ("org.apache.spark.sql.catalyst.parser.ParserInterface",)


def _raising_java(call: Callable[[], Any]) -> Any:
    """What a call gives. An error of the JVM goes back there as the object that it was."""
    try:
        return call()
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        if origin is None:
            raise
        raise Py4JJavaError("", origin) from error
