"""`CALL [catalog.system.]procedure(arguments)`: Hudi's procedures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import ConfigError, TableNotFoundError, UnsupportedFeatureError
from pyhudi.spark.frames import frame_of_arrow
from pyhudi.spark.options import with_session_store
from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.catalog.session_tables import SESSION_CATALOG
from pyhudi.sql.catalog.table_properties import session_options
from pyhudi.sql.procedures.binding import Argument, WrongArgumentError, bind, nearest
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import Procedure
from pyhudi.sql.procedures.registry import PROCEDURES
from pyhudi.sql.text.tokens import Cursor, Slice, error_at

_NAMESPACES = ((), ("system",), ("spark_catalog", "system"), ("spark_catalog",))
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_PLAIN_TEXT = re.compile(r'\'([^\'\\]*)\'|"([^"\\]*)"')
_WORDS: Mapping[str, Any] = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True)
class WrittenArgument:
    """An argument as the statement writes it."""

    value: Slice
    name: str | None = None


@dataclass(frozen=True)
class Call:
    """A call of a procedure."""

    procedure: Procedure
    arguments: tuple[WrittenArgument, ...]
    text: str = field(repr=False)
    start: int = field(default=0, repr=False)

    def run(self, spark: SparkSession) -> DataFrame:
        """Run the procedure, and give its rows."""
        values = values_of([argument.value for argument in self.arguments], lambda parts: evaluated(spark, parts))
        given = self.bound(values)
        answer = run_call(self.procedure, given, context_of(spark))
        return shown(spark, answer, filter_of(given), self.procedure.row_limit(given))

    def bound(self, values: Sequence[Any]) -> Given:
        """The parameters of the call. Raises `SqlStatementError` for an argument that does not fit."""
        written = zip(self.arguments, values, strict=True)
        try:
            return bind(
                self.procedure, [Argument(value, argument.name, argument.value.start) for argument, value in written]
            )
        except WrongArgumentError as wrong:
            start = self.start if wrong.start is None else wrong.start
            raise error_at(self.text, start, wrong.message, nearest=wrong.nearest) from wrong


def parse(cursor: Cursor, names: Names) -> Call:
    """`CALL name`, `CALL name(value, …)` or `CALL name(parameter => value, …)`."""
    cursor.expect("CALL")
    name = cursor.name()
    *namespace, last = (part.lower() for part in name.parts)
    if tuple(namespace) not in _NAMESPACES:
        raise NotHudi(str(name))
    procedure = PROCEDURES.get(last)
    if len(namespace) < 2 and names.spark.catalog.currentCatalog() != SESSION_CATALOG:
        raise NotHudi(str(name))
    if procedure is None:
        message = f"there is no procedure {last}, CALL help lists them"
        raise error_at(cursor.text, name.start, message, nearest=nearest(last, PROCEDURES))
    arguments = [_argument(part) for part in cursor.parenthesised().listed()] if cursor.peek("(") else []
    cursor.end()
    if procedure.refusal is not None:
        raise UnsupportedFeatureError(f"CALL {procedure.name}: {procedure.refusal}", procedure=procedure.name)
    return Call(procedure, tuple(arguments), cursor.text, name.start)


def _argument(part: Cursor) -> WrittenArgument:
    name = None
    if len(part.tokens) > 1 and part.tokens[1].is_word("=>"):
        name = part.identifier()
        part.expect("=>")
    if part.is_at_end:
        part.fail("a value is expected")
    return WrittenArgument(part.until(), name)


def values_of(parts: Sequence[Slice], evaluate: Callable[[Sequence[Slice]], Sequence[Any]]) -> list[Any]:
    """The values of literals. `evaluate`: what is asked for those that are not plain, all at once."""
    found = [_plain_value(part.text) for part in parts]
    others = iter(evaluate([part for part, (is_plain, _) in zip(parts, found, strict=True) if not is_plain]))
    return [value if is_plain else next(others) for is_plain, value in found]


def _plain_value(text: str) -> tuple[bool, Any]:
    """Whether this is a plain literal, about which nothing can be in doubt, and its value."""
    if _NUMBER.fullmatch(text):
        return True, int(text)
    if text.upper() in _WORDS:
        return True, _WORDS[text.upper()]
    quoted = _PLAIN_TEXT.fullmatch(text)
    return (True, quoted[1] if quoted[1] is not None else quoted[2]) if quoted else (False, None)


def evaluated(spark: SparkSession, parts: Sequence[Slice]) -> Sequence[Any]:
    """The values of constant expressions, as Spark evaluates them."""
    if not parts:
        return []
    try:
        row = spark.range(1).selectExpr(*(f"({part.text}) AS v{at}" for at, part in enumerate(parts))).collect()[0]
    except (AnalysisException, ParseException) as error:
        raise ConfigError(f"an argument of CALL must be a constant: {error}") from error
    return list(row)


def context_of(spark: SparkSession, namespace: tuple[str, ...] = ()) -> CallContext:
    """What procedures work with in a session; `namespace` is that of names of one part, if not the current one."""
    names = Names(spark, namespace)

    def by_name(text: str, options: Mapping[str, str]) -> HudiTable:
        cursor = Cursor(text)
        name = cursor.name()
        cursor.end()
        found = names.find(name)
        if found is None:
            raise TableNotFoundError(
                "there is no Hudi table of this name in the session's catalog; for one in a folder write path => '…'",
                table=text,
            )
        return found.open(spark, options)

    def by_path(path: str, options: Mapping[str, str]) -> HudiTable:
        given = with_session_store(spark, path, {**session_options(spark), **options})
        return HudiTable.for_path(path, hudi_options=given, spark=spark)

    return CallContext(spark, by_name, by_path, lambda path: with_session_store(spark, path, {}))


def shown(spark: SparkSession, answer: pa.Table, condition: str | None, limit: int | None) -> DataFrame:
    """The answer as a DataFrame, of the rows that meet a condition, up to the limit."""
    rows = frame_of_arrow(spark, answer)
    if condition is None:
        return rows
    try:
        chosen = rows.where(condition)
    except (AnalysisException, ParseException) as error:
        raise ConfigError(f"filter must be a condition on the columns of the answer: {error}") from error
    return chosen if limit is None else chosen.limit(limit)


def run_call(procedure: Procedure, given: Given, context: CallContext) -> pa.Table:
    """The answer of a procedure: up to the limit of the call, but all rows where `filtered` is to choose among them."""
    limit = None if filter_of(given) else procedure.row_limit(given)
    rows = list(islice(procedure.run(context, given), limit))
    arrays = [pa.array([row[at] for row in rows], column.type.arrow) for at, column in enumerate(procedure.columns)]
    return pa.Table.from_arrays(arrays, schema=procedure.schema)


def filter_of(given: Given) -> str | None:
    """The condition on the rows of the answer, as text of SQL."""
    return given.text_or_none("filter") if "filter" in given else None
