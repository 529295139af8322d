"""The parser of a classic session, replaced by one of this process that the JVM calls (py4j).

So SQL from Thrift, Scala and notebooks' magics reaches pyhudi. Spark's own parser parses all statements but ours; a
syntax error stays the Java object that it is. A statement of ours runs when the JVM has it parsed, and its plan is that
of its result; `EXPLAIN` of one runs nothing.

Texts that come through `spark.sql` of this process are decided there (`sql/run.py`), and pass here unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from pyspark.sql import SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.spark.reads.callbacks import CalledByJava, answer
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.weak_session import WeakSession
from pyhudi.sql.catalog.names import Names
from pyhudi.sql.dispatch import statement_of
from pyhudi.sql.functions.table_functions import calls_functions, register_functions
from pyhudi.sql.plain import passes
from pyhudi.sql.rewriting import with_calls
from pyhudi.sql.text.tokens import Name

_STATE = "org.apache.spark.sql.internal.SessionState"
_CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_SELECT = "SELECT "


class Parser(CalledByJava):
    """A `ParserInterface`. Its methods that are not here are those of Spark's parser, whatever the version of Spark.

    `session_of`: gives the session, ready for Hudi tables; None while pyhudi is disabled.
    """

    def __init__(
        self, session: WeakSession, inner: Any, session_of: Callable[[WeakSession], SparkSession | None]
    ) -> None:
        self._session = session
        self._inner = inner
        self._session_of = session_of

    def install(self) -> None:
        """Stand in the state of the session, and in its catalog."""
        self._set(self)

    def remove(self) -> None:
        """Put Spark's parser back."""
        self._set(self._inner)

    def _set(self, parser: Any) -> None:
        spark = self._session.get()
        state = spark._jsparkSession.sessionState()
        Jvm(spark).field(_STATE, "sqlParser").set(state, parser)
        Jvm(spark).field(_CATALOG, "parser").set(state.catalog(), parser)

    def parsePlan(self, text: str) -> Any:  # noqa: N802 - Java's names
        """The plan of a statement."""
        return answer(lambda: self._plan(text, self._inner.parsePlan))

    def parsePlanWithParameters(self, text: str, context: Any) -> Any:  # noqa: N802
        """The plan of a statement with arguments."""
        return answer(lambda: self._plan(text, lambda ours: self._inner.parsePlanWithParameters(ours, context)))

    def parseQuery(self, text: str) -> Any:  # noqa: N802
        """The plan of a query, for example of a view's."""
        return answer(lambda: self._query(text, self._inner.parseQuery, of_view=True))

    def parseExpression(self, text: str) -> Any:  # noqa: N802
        """An expression, whose queries may read Hudi tables: the text of `F.expr`, or of a condition."""
        return answer(lambda: self._expression(text))

    def _expression(self, text: str) -> Any:
        spark = self._session_of(self._session)
        written = None if spark is None else with_calls(spark, _SELECT + text)
        return self._inner.parseExpression(text if written is None else written.removeprefix(_SELECT))

    def _plan(self, text: str, parse: Callable[[str], Any]) -> Any:
        spark = self._session_of(self._session)
        if spark is not None and not passes(self._session.id, text):
            statement = statement_of(spark, text)
            if statement is not None:
                return statement.run(spark)._jdf.queryExecution().logical()
        return self._query(text, parse)

    def _query(self, text: str, parse: Callable[[str], Any], *, of_view: bool = False) -> Any:
        spark = self._session_of(self._session)
        if spark is not None and calls_functions(text):
            register_functions(spark)
        passed = spark is None or passes(self._session.id, text)
        written = None if passed else with_calls(spark, text, of_view=of_view)
        plan = parse(text if written is None else written)
        if spark is not None and not HAS_PYTHON_SOURCES:
            check_plan(spark, plan)
        return plan

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "Java":
            raise AttributeError(name)
        return lambda *arguments: answer(lambda: self._other(name, arguments))

    def _other(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self._session_of(self._session)  # names of tables are parsed before Spark looks for the tables
        return getattr(self._inner, name)(*arguments)

    Java = SimpleNamespace(implements=("org.apache.spark.sql.catalyst.parser.ParserInterface",))


class LaterParsers(CalledByJava):
    """A `Function2` from a session that is made later, and Spark's parser, to the parser that the session gets."""

    def __init__(self, parser_of: Callable[[Any, Any], Any]) -> None:
        self._parser_of = parser_of

    def apply(self, java_session: Any, inner: Any) -> Any:
        """The parser of the session, whose state is not there yet."""
        return self._parser_of(java_session, inner)

    Java = SimpleNamespace(implements=("scala.Function2",))


_COMMANDS: Final = frozenset(
    {
        *("TruncateTable", "TruncatePartition", "AnalyzeTable", "AnalyzeColumn", "RepairTable"),
        *("AddPartitions", "DropPartitions", "RenamePartitions", "RecoverPartitions"),
    }
)
"""By the class of the parsed statement."""
_NAMES: Final = frozenset({"UnresolvedTable", "UnresolvedTableOrView"})


def check_plan(spark: SparkSession, plan: Any) -> None:
    """Check that a parsed statement is no command on the folders of a Hudi table. Cost: two calls to the JVM.

    Where Spark has no class of the format it runs such commands on Hudi tables, too: `TRUNCATE TABLE` would delete the
    folder, with the timeline.

    Raises:
        UnsupportedFeatureError: it is one.
    """
    command = plan.getClass().getSimpleName()
    if command not in _COMMANDS or plan.child().getClass().getSimpleName() not in _NAMES:
        return
    parts = plan.child().multipartIdentifier()
    name = Name(tuple(str(parts.apply(number)) for number in range(parts.size())), 0, 0)
    if Names(spark).find(name) is not None:
        raise UnsupportedFeatureError(
            "Spark runs this command on the folders of a table, and knows nothing of the timeline of a Hudi table: "
            "use a statement or a procedure of pyhudi, or HudiTable",
            table=str(name),
            command=command,
        )
