"""Names of Hudi tables in a statement of Spark's, replaced where Spark itself does not resolve them.

In a classic session that is where a name has a moment or options, or is a path: a table function stands there then,
whose rows have the names of the table. On Spark Connect all names are replaced, by queries on DataFrames that travel
with the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.catalog.names import NamedTable, Names, is_path
from pyhudi.sql.functions.named_table import TableRead
from pyhudi.sql.text.quoting import qualifiers, quoted_name
from pyhudi.sql.text.relations import Relation, relations_of
from pyhudi.sql.text.tokens import Cursor, is_cut_into_words

_MAY_READ = re.compile(r"\b(?:FROM|USING|TABLE)\b", re.IGNORECASE)
_MAY_CALL = re.compile(r"\bOF\b|\bWITH\b|\bhudi\W", re.IGNORECASE)
_KEEPS_ITS_TEXT = frozenset({"VIEW", "FUNCTION"})
_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})

Replacement = Callable[[NamedTable, Relation], str]
"""Gives the text of a relation for one that is read."""


def with_calls(spark: SparkSession, text: str, *, of_view: bool = False) -> str | None:
    """The statement with calls of the table function for reads that Spark cannot resolve; None where it has none.

    `of_view`: this is the text of a view, whose namespace is known only when it is analyzed. Persistent views and
    functions keep their text, which other programs read, too.
    """
    cursor = _cursor_of(text, _MAY_CALL)
    if cursor is None:
        return None
    names = Names(spark)
    if _created(cursor) == "FUNCTION":
        _check_function(names, text, cursor)
        return None
    changes: list[tuple[int, int, str]] = []
    for relation in relations_of(text, cursor):
        parts = relation.name.parts
        if not (relation.clause or relation.options or is_path(parts)):
            continue
        is_of_view = of_view and len(parts) == 1 and bool(relation.clause)
        table = None if is_of_view else names.find(relation.name)
        if table is None and not is_of_view:
            continue
        read = TableRead(parts if table is None else table.full_name, relation.clause, relation.options)
        if relation.query_at is not None:
            changes.append((relation.query_at, relation.name.start, "SELECT * FROM "))
        changes.append((relation.name.start, relation.end, f"({read.call()})"))
    return _changed(text, changes) if changes else None


def with_queries(spark: SparkSession, text: str, replacement: Replacement) -> str | None:
    """The statement with queries on what replaces its Hudi tables; None where it reads none. Views keep their text."""
    cursor = _cursor_of(text, _MAY_READ)
    if cursor is None or _created(cursor) == "FUNCTION":
        return None
    names = Names(spark)
    found = [
        (relation, table) for relation in relations_of(text, cursor) if (table := names.find(relation.name)) is not None
    ]
    changes: list[tuple[int, int, str]] = []
    for relation, table in found:
        rows = "".join(["(SELECT * FROM ", replacement(table, relation), ")"])
        if relation.query_at is not None:
            changes.append((relation.query_at, relation.name.start, "SELECT * FROM "))
        changes.append((relation.name.start, relation.end, rows))
        if relation.alias_at is not None:
            changes.append((relation.alias_at, relation.alias_at, f" AS {quoted_name(relation.name.parts[-1])}"))
    names_of_tables = {relation.name.start for relation, _ in found}
    changes += [
        qualifier for qualifier in qualifiers(cursor.tokens, _called(found)) if qualifier[0] not in names_of_tables
    ]
    return _changed(text, sorted(changes)) if changes else None


def _cursor_of(text: str, words: re.Pattern[str]) -> Cursor | None:
    """A cursor over a statement that has one of the words, unless it keeps its text, or is none that is understood."""
    if not words.search(text) or not is_cut_into_words(text):
        return None
    cursor = Cursor(text)
    return None if _created(cursor) == "VIEW" else cursor


def _check_function(names: Names, text: str, cursor: Cursor) -> None:
    """Refuse a moment or options behind a name without a database: its text is parsed in that of who calls it.

    Raises:
        UnsupportedFeatureError: the function has one.
    """
    for relation in relations_of(text, cursor):
        is_looked_up = len(relation.name.parts) == 1 and bool(relation.clause or relation.options)
        if is_looked_up and names.find(relation.name) is not None:
            raise UnsupportedFeatureError(
                "in a function, a table that is read as of a moment or with options must be named with its database",
                table=str(relation.name),
            )


def _called(found: Sequence[tuple[Relation, NamedTable]]) -> dict[tuple[str, ...], str]:
    """The full names that columns may have before them. Of two tables of one name, Spark says what is ambiguous."""
    plain = [table for relation, table in found if relation.alias_at is not None]
    databases: dict[str, set[tuple[str, ...]]] = {}
    for table in plain:
        databases.setdefault(table.name.parts[-1].lower(), set()).add(table.full_names[-1])
    return {
        parts: alias
        for table in plain
        if len(databases[table.name.parts[-1].lower()]) == 1
        for parts, alias in table.called(None).items()
    }


def _changed(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """The text with other words at some places, which are in order."""
    pieces, done = list[str](), 0
    for start, end, written in changes:
        pieces += [text[done:start], written]
        done = end
    return "".join([*pieces, text[done:]])


def makes_view(text: str) -> bool:
    """Whether a statement makes a temporary view, which reads its tables anew each time."""
    return "CREATE" in text.upper() and is_cut_into_words(text) and _created(Cursor(text)) == "TEMPORARY VIEW"


def keeps_its_text(cursor: Cursor) -> bool:
    """Whether a statement makes a view or a function, of any kind: its text is run again later."""
    return _created(cursor) is not None


def _created(cursor: Cursor) -> str | None:
    """`VIEW`, `TEMPORARY VIEW` or `FUNCTION` if that is what the statement makes."""
    words = [token.value.upper() for token in cursor.tokens[:6]]
    if words[:1] != ["CREATE"] or "TABLE" in words[:4]:
        return None
    kind = next((number for number, word in enumerate(words) if word in _KEEPS_ITS_TEXT), None)
    if kind is None:
        return None
    return "TEMPORARY VIEW" if words[kind] == "VIEW" and _TEMPORARY & {*words[:kind]} else words[kind]
