"""Names of Hudi tables in a statement of Spark's, replaced by what reads them fast. The rest of the text stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from pyhudi.format.timeline.instant import format_instant_time
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.quoting import qualifiers, quoted_name
from pyhudi.sql.text.relations import Relation, relations_of
from pyhudi.sql.text.tokens import Cursor
from pyhudi.table.instant_times import table_zone

_MAY_READ = re.compile(r"\b(?:FROM|USING|TABLE)\b", re.IGNORECASE)
_KEEPS_ITS_TEXT = frozenset({"VIEW", "FUNCTION"})
_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})
_LITERAL = re.compile(r"'[^'\\]*'|\d+")


@dataclass(frozen=True)
class Read:
    """A Hudi table that a statement reads, as of now or of a moment."""

    table: NamedTable
    as_of: str | None


Replacement = Callable[[Read], str]
"""Gives the text of a relation for a read."""


def rewritten(spark: SparkSession, text: str, replacement: Replacement) -> str | None:
    """The statement with its Hudi tables replaced; None where it reads none.

    Persistent views and functions keep their text, which other programs read, too.
    """
    if not _MAY_READ.search(text):
        return None
    cursor = Cursor(text)
    if _created(cursor) == "VIEW":
        return None
    names = Names(spark)
    found = [(each, table) for each in relations_of(text, cursor) if (table := names.find(each.name)) is not None]
    changes: list[tuple[int, int, str]] = []
    for relation, table in found:
        rows = "".join(["(SELECT * FROM ", replacement(Read(table, _as_of(spark, relation, table))), ")"])
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
    return "CREATE" in text.upper() and _created(Cursor(text)) == "TEMPORARY VIEW"


def keeps_its_text(cursor: Cursor) -> bool:
    """Whether a statement makes a view or a function, of any kind: its text is run again later."""
    return _created(cursor) is not None


def _created(cursor: Cursor) -> str | None:
    """`VIEW` or `TEMPORARY VIEW` if that is what the statement makes. Functions count as views."""
    words = [token.value.upper() for token in cursor.tokens[:6]]
    if words[:1] != ["CREATE"] or "TABLE" in words[:4]:
        return None
    kind = next((number for number, word in enumerate(words) if word in _KEEPS_ITS_TEXT), None)
    if kind is None:
        return None
    return "TEMPORARY VIEW" if words[kind] == "VIEW" and _TEMPORARY & {*words[:kind]} else "VIEW"


def _as_of(spark: SparkSession, relation: Relation, table: NamedTable) -> str | None:
    """The time or instant that a relation is to be read at, as text in the table's time zone.

    Cost: of an expression that is a moment, and no text, a load of the table.
    """
    if relation.moment is None:
        return None
    written = str(relation.moment)
    if _LITERAL.fullmatch(written):
        return written.strip("'")
    value = plain_sql(spark, f"SELECT {written} AS moment")
    if isinstance(value.schema.fields[0].dataType, TimestampType):
        [row] = value.select(sql.unix_millis("moment")).collect()
        config = table.open(spark).handle.state.config
        return str(row[0]) if row[0] is None else format_instant_time(row[0], table_zone(config))
    [row] = value.select(sql.col("moment").cast("string")).collect()
    return str(row[0])
