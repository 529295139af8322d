"""The decision whose a statement is: Hudi's or Spark's. The first words decide, then what the named table is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import SqlStatementError, UnsupportedFeatureError
from pyhudi.spark.settings import setting
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
    truncate,
    update,
    with_definitions,
)
from pyhudi.sql.statements.protocol import Statement, Verb
from pyhudi.sql.text.tokens import Cursor

VERBS: tuple[Verb, ...] = (
    Verb(("CALL",), call.parse),
    Verb(("CREATE", "TABLE"), create_table.parse),
    Verb(("CREATE", "OR", "REPLACE", "TABLE"), create_table.parse),
    Verb(("DROP", "TABLE"), drop_table.parse),
    Verb(("CREATE", "INDEX"), index.parse_create),
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

_FIRST_WORD = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?!\+).*?\*/)*(\w*)", re.DOTALL)
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
_FIRST_WORDS = frozenset({verb.words[0] for verb in VERBS} | {_EXPLAIN})


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
        UnsupportedFeatureError: it is, and has a backslash that the session does not take for an escape.
    """
    if not may_be_ours(text):
        return None
    cursor, names = Cursor(text), Names(spark)
    is_explained = cursor.accept(_EXPLAIN)
    if is_explained:
        any(cursor.accept(mode) for mode in _EXPLAIN_MODES)
        if cursor.accept("EXECUTE", "IMMEDIATE"):
            return _explained_text(spark, cursor)
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
        _check_escapes(spark, text)
        return Explained(statement) if is_explained else statement
    return None


def _check_escapes(spark: SparkSession, text: str) -> None:
    """Refuse a backslash where it stands for itself: values that are put into statements are written with escapes."""
    if "\\" in text and (setting(spark, _NO_ESCAPES) or "").lower() == "true":
        raise UnsupportedFeatureError(
            f"a statement on a Hudi table must have no backslash, and no argument with a quote or a backslash, while "
            f"{_NO_ESCAPES} is true: set it to false",
            statement=text.split(maxsplit=1)[0],
        )


def _explained_text(spark: SparkSession, cursor: Cursor) -> Statement | None:
    """The statement in the text of `EXPLAIN EXECUTE IMMEDIATE text`, which Spark would give to the parser: to run."""
    try:
        [[text]] = plain_sql(spark, f"SELECT {cursor.until('INTO', 'USING')}").collect()
    except PySparkException:  # Spark says what is wrong with it
        return None
    statement = statement_of(spark, text) if isinstance(text, str) else None
    return statement if statement is None or isinstance(statement, Explained) else Explained(statement)
