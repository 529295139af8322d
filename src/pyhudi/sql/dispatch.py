"""The decision whose a statement is: Hudi's or Spark's. The first words decide, then what the named table is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import SqlStatementError, UnsupportedFeatureError
from pyhudi.spark.settings import setting
from pyhudi.sql.arguments import bound
from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.statements import (
    alter_table,
    cache,
    call,
    create_table,
    describe,
    drop_table,
    index,
    insert,
    merge,
    show,
    temporary_view,
    truncate,
    update,
    with_definitions,
)
from pyhudi.sql.statements.protocol import Statement, Verb
from pyhudi.sql.text.tokens import Cursor, Slice, is_cut_into_words

VERBS: tuple[Verb, ...] = (
    Verb(("CALL",), call.parse),
    Verb(("CREATE", "TABLE"), create_table.parse),
    Verb(("CREATE", "OR", "REPLACE", "TABLE"), create_table.parse),
    Verb(("DROP", "TABLE"), drop_table.parse),
    Verb(("CREATE", "INDEX"), index.parse_create),
    Verb(("CREATE",), temporary_view.parse),
    Verb(("DROP", "INDEX"), index.parse_drop),
    Verb(("SHOW", "INDEXES"), index.parse_show),
    Verb(("REFRESH", "INDEX"), index.parse_refresh),
    Verb(("REPLACE", "TABLE"), create_table.parse_replace),
    Verb(("INSERT",), insert.parse),
    Verb(("FROM",), insert.parse_from),
    Verb(("WITH",), with_definitions.parse),
    Verb(("TRUNCATE", "TABLE"), truncate.parse),
    Verb(("ALTER", "TABLE"), alter_table.parse),
    Verb(("SHOW", "PARTITIONS"), show.parse_partitions),
    Verb(("SHOW", "CREATE", "TABLE"), show.parse_create_table),
    Verb(("SHOW", "TBLPROPERTIES"), show.parse_properties),
    Verb(("MSCK", "REPAIR", "TABLE"), show.parse_repair),
    Verb(("REPAIR", "TABLE"), show.parse_repair),
    Verb(("DESCRIBE",), describe.parse),
    Verb(("DESC",), describe.parse),
    Verb(("MERGE",), merge.parse),
    Verb(("UPDATE",), update.parse_update),
    Verb(("DELETE", "FROM"), update.parse_delete),
    Verb(("CACHE",), cache.parse_cache),
    Verb(("UNCACHE", "TABLE"), cache.parse_uncache),
)
"""All statements. The first whose words match, and that does not say `NotHudi`, has the statement."""

_SKIPPED = r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?!\+).*?\*/)*"
_FIRST_WORD = re.compile(rf"{_SKIPPED}(?:[\w`]+{_SKIPPED}:{_SKIPPED}(?=BEGIN\b))?(\w*)", re.DOTALL | re.IGNORECASE)
"""The first word after the label of a script."""
_NO_ESCAPES = "spark.sql.parser.escapedStringLiterals"
_EXPLAIN = "EXPLAIN"
_EXPLAIN_MODES = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_NAME_TABLES = frozenset(
    [
        *("INSERT", "FROM", "WITH", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "ALTER", "DROP"),
        *("SHOW", "DESCRIBE", "DESC", "CACHE", "UNCACHE"),
    ]
)
"""First words of statements that are Hudi's because of a table that they name."""
_TEXT, _SCRIPT = ("EXECUTE", "IMMEDIATE"), "BEGIN"
_FIRST_WORDS = frozenset({verb.words[0] for verb in VERBS} | {_EXPLAIN, _TEXT[0], _SCRIPT})
_BEFORE_STATEMENT = frozenset({_SCRIPT, ";", "THEN", "ELSE", "DO", "LOOP", "REPEAT"})
"""Words of a script after which a statement may begin."""
_VARIABLE = re.compile(r"\$\{(?:(spark|sparkconf|hivevar|hiveconf):)?([^\s}:]+)\}")
_IS_ON = "spark.sql.variable.substitute"
_DEPTH_MAX = 10


@dataclass(frozen=True)
class Explained:
    """`EXPLAIN` of a statement of ours: what would run, as text. It runs nothing."""

    statement: Statement

    def run(self, spark: SparkSession) -> DataFrame:
        """One row with the column `plan`, as Spark's `EXPLAIN` gives it."""
        return spark.createDataFrame([(f"== Hudi statement ==\n{self.statement!r}",)], "plan string")


def may_be_ours(text: str) -> bool:
    """Whether the first word of a text begins a statement that Hudi has. No look-up, no parsing."""
    found = _FIRST_WORD.match(text)
    return found is not None and found.group(1).upper() in _FIRST_WORDS


def statement_of(spark: SparkSession, text: str) -> Statement | None:
    """The statement of a text, None if it is Spark's. Nothing runs.

    Raises:
        SqlStatementError: it is about a Hudi table, and not understood.
        UnsupportedFeatureError: it is, and has a backslash that the session does not take for an escape; or it stands
            in a script.
    """
    if not may_be_ours(text):
        return None
    text = substituted(spark, text)
    if not is_cut_into_words(text):
        return None
    cursor = Cursor(text)
    if cursor.peek(_SCRIPT) or [token.value.upper() for token in cursor.tokens[1:3]] == [":", _SCRIPT]:  # with a label
        _check_script(spark, cursor)
        return None
    is_explained = cursor.accept(_EXPLAIN)
    if is_explained:
        any(cursor.accept(mode) for mode in _EXPLAIN_MODES)
    statement = _of_text(spark, cursor) if cursor.accept(*_TEXT) else _statement(spark, cursor)
    if is_explained and statement is not None and not isinstance(statement, Explained):
        return Explained(statement)
    return statement


def _statement(spark: SparkSession, cursor: Cursor) -> Statement | None:
    """The statement whose first word comes next."""
    names = Names(spark)
    first = cursor.position
    for verb in VERBS:
        cursor.position = first
        if not cursor.peek(*verb.words):
            continue
        try:
            statement = verb.parse(cursor, names)
        except NotHudi:
            continue
        except SqlStatementError:
            if verb.words[0] in _NAME_TABLES and not names.has_found:
                continue  # Spark says what is wrong with it
            raise
        _check_escapes(spark, cursor.text)
        return statement
    return None


def _check_escapes(spark: SparkSession, text: str) -> None:
    """Refuse a backslash where it stands for itself: values that are put into statements are written with escapes."""
    if "\\" in text and (setting(spark, _NO_ESCAPES) or "").lower() == "true":
        raise UnsupportedFeatureError(
            f"a statement on a Hudi table must have no backslash, and no argument with a quote or a backslash, while "
            f"{_NO_ESCAPES} is true: set it to false",
            statement=text.split(maxsplit=1)[0],
        )


def _of_text(spark: SparkSession, cursor: Cursor) -> Statement | None:
    """The statement of `EXECUTE IMMEDIATE text [USING values]`, which follows. Spark computes text and values."""
    written = cursor.until("INTO", "USING")
    try:
        ((text,),) = plain_sql(spark, f"SELECT {written}").collect()
        if not isinstance(text, str) or not may_be_ours(text):
            return None
        found = statement_of(spark, text)
        if found is None or not cursor.accept("USING"):
            return found if cursor.is_at_end else None
        (values,) = plain_sql(spark, f"SELECT {_values_given(cursor)}").collect()
    except PySparkException:  # Spark says what is wrong with it
        return None
    by_place = any(token.kind == "PLACEHOLDER" for token in Cursor(text).tokens)
    return statement_of(spark, bound(text, list(values) if by_place else values.asDict()))


def _values_given(cursor: Cursor) -> Slice:
    """Take the values of USING, which may stand in parentheses together."""
    start = cursor.position
    if cursor.peek("("):
        inner = cursor.parenthesised()
        if cursor.is_at_end:
            return inner.until()
    cursor.position = start
    return cursor.until()


def _check_script(spark: SparkSession, cursor: Cursor) -> None:
    """Refuse a script of Spark that has a statement of ours: Spark parses and runs its statements itself.

    Raises:
        UnsupportedFeatureError: it has one.
    """
    while (token := cursor.token) is not None:
        cursor.skip()
        if not (any(map(token.is_word, _BEFORE_STATEMENT)) and may_be_ours(cursor.text[cursor.place :])):
            continue
        start = cursor.position
        written = cursor.until()
        inner = Cursor(cursor.text, cursor.tokens[start : cursor.position], end=written.start + len(written.text))
        cursor.position = start
        if not inner.is_at_end and not inner.peek(_TEXT[0]) and _statement(spark, inner) is not None:
            raise UnsupportedFeatureError(
                "a statement on a Hudi table cannot stand in a script (BEGIN … END), whose statements Spark runs "
                "itself: run them one by one",
                statement=written.text,
            )


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
