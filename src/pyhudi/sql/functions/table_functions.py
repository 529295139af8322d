"""Hudi's table-valued functions: `SELECT … FROM hudi_table_changes('trips', 'latest_state', 'earliest')`.

In a statement that goes through `spark.sql`, a call becomes a DataFrame that travels with the statement, so that errors
keep their types. In a classic session the functions are registered, too: for views, and for what others send to Spark.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.spark.frames import frame_of_arrow
from pyhudi.spark.settings import is_connect
from pyhudi.sql.functions.function_rows import file_slice_rows, timeline_rows
from pyhudi.sql.functions.jvm_functions import current_namespace, plan_of, register
from pyhudi.sql.functions.metadata_records import metadata_records
from pyhudi.sql.rewriting import keeps_its_text
from pyhudi.sql.statements.call import context_of, evaluated, values_of
from pyhudi.sql.text.tokens import Cursor, error_at

_FORMATS: Final = ("latest_state", "cdc")
_TRUTH: Final = {"true": True, "false": False}


def _changes(spark: SparkSession, table: HudiTable, *asked: str) -> DataFrame:
    kind, begin, *rest = asked
    if kind.lower() not in _FORMATS:
        raise ConfigError(f"the second argument of hudi_table_changes must be one of {', '.join(_FORMATS)}", given=kind)
    end = rest[0] if rest else None
    changes = table.changes(begin, end, format="cdc" if kind.lower() == "cdc" else "latest_state")
    return changes.to_df(spark)


def _timeline(spark: SparkSession, table: HudiTable, *asked: str) -> DataFrame:
    word = asked[0].lower() if asked else "false"
    if word not in _TRUTH:
        raise ConfigError("the second argument of hudi_query_timeline must be 'true' or 'false'", given=asked[0])
    return frame_of_arrow(spark, timeline_rows(table.handle.state, archived=_TRUTH[word]))


def _file_slices(spark: SparkSession, table: HudiTable, *asked: str) -> DataFrame:
    return frame_of_arrow(spark, file_slice_rows(table.handle.state, asked[0] if asked else None))


def _metadata(spark: SparkSession, table: HudiTable) -> DataFrame:
    return metadata_records(spark, table.handle.state)


@dataclass(frozen=True, slots=True)
class _Function:
    """A table function: its arguments after the table, how many of them must be given, and its rows."""

    arguments: tuple[str, ...]
    needed: int
    rows: Callable[..., DataFrame]


FUNCTIONS: Final[Mapping[str, _Function]] = {
    "hudi_table_changes": _Function(("format", "begin", "end"), 2, _changes),
    "hudi_query_timeline": _Function(("archived",), 0, _timeline),
    "hudi_filesystem_view": _Function(("partitions",), 0, _file_slices),
    "hudi_metadata": _Function((), 0, _metadata),
}
_CALLED = re.compile(rf"\b(?:{'|'.join(FUNCTIONS)})\b\s*\(", re.IGNORECASE)


def rows_of_call(name: str, spark: SparkSession, *values: Any, namespace: tuple[str, ...] = ()) -> DataFrame:
    """The rows of a function for the values of its arguments, of which the first is a table's name or path.

    `namespace`: that of names of one part; the current one if it is empty.

    Raises `ConfigError` for too few or too many arguments, or a null, and what opening and reading the table raises.
    """
    function = FUNCTIONS[name]
    if not 1 + function.needed <= len(values) <= 1 + len(function.arguments) or any(value is None for value in values):
        usage = ", ".join(("table", *function.arguments))
        raise ConfigError(f"{name} takes ({usage}), of which the first {1 + function.needed} must be given")
    first, *others = (str(value).lower() if isinstance(value, bool) else str(value) for value in values)
    context = context_of(spark, namespace)
    table = context.by_path(first, {}) if "/" in first else context.by_name(first, {})
    return function.rows(spark, table, *others)


@dataclass(frozen=True)
class WithFunctions:
    """A statement with its table functions replaced, and the DataFrames that travel with it."""

    text: str
    frames: Mapping[str, DataFrame] = field(default_factory=dict)


def calls_functions(text: str) -> bool:
    """Whether a text may call one of the functions. No parsing."""
    return _CALLED.search(text) is not None


def with_table_functions(spark: SparkSession, text: str, *, is_format: bool) -> WithFunctions | None:
    """The statement with DataFrames in the place of Hudi's table functions; None where it calls none.

    `is_format`: the text is one with `{frame}` in it. The definition of a view stays as it is.

    Raises `SqlStatementError` for an argument that is no constant, and what `rows_of_call` raises.
    """
    register_functions(spark)
    cursor = Cursor(text)
    if keeps_its_text(cursor):
        if is_connect(spark):
            raise UnsupportedFeatureError(
                "on Spark Connect a view cannot hold a table function of Hudi, which the server does not know: make "
                "the view from a DataFrame, spark.sql('SELECT …').createOrReplaceTempView(…)"
            )
        return None
    pieces: list[str] = []
    frames: dict[str, DataFrame] = {}
    done = 0
    while (token := cursor.token) is not None:
        cursor.position += 1
        if token.is_text or token.value.lower() not in FUNCTIONS or not cursor.peek("("):
            continue
        arguments = [part.until() for part in cursor.parenthesised().listed()]
        values = values_of(arguments, functools.partial(evaluated, spark))
        try:
            frame = rows_of_call(token.value.lower(), spark, *values)
        except ConfigError as error:
            raise error_at(text, token.start, error.message) from error
        name = f"pyhudi_function_{len(frames)}"
        frames[name] = frame
        subquery = "(SELECT * FROM {" + name + "})"  # noqa: S608 - the name is made here
        pieces += [_escaped(text[done : token.start], is_format=is_format), subquery]
        done = cursor.tokens[cursor.position - 1].end
    if not frames:
        return None
    return WithFunctions("".join([*pieces, _escaped(text[done:], is_format=is_format)]), frames)


def _escaped(text: str, *, is_format: bool) -> str:
    return text if is_format else text.replace("{", "{{").replace("}", "}}")


_registered: WeakKeyDictionary[SparkSession, Sequence[bool]] = WeakKeyDictionary()


def register_functions(spark: SparkSession) -> None:
    """Give a classic session the functions, once."""
    if not is_connect(spark) and spark not in _registered:
        _registered[spark] = [register(spark, name, functools.partial(_plan_of_call, name)) for name in FUNCTIONS]


def _plan_of_call(name: str, spark: SparkSession, *values: Any) -> Any:
    return plan_of(rows_of_call(name, spark, *values, namespace=current_namespace(spark)))
