"""The table that a statement changes: its name, or `IDENTIFIER(text)`, whose text Spark computes."""

from __future__ import annotations

from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.expressions import expression
from pyhudi.sql.text.tokens import Cursor, Name


def target_table(cursor: Cursor, names: Names) -> NamedTable:
    """Take the name of a table, and give the Hudi table.

    Raises:
        NotHudi: there is none of this name, or it has another format.
        SqlStatementError: the text of `IDENTIFIER` is no name.
    """
    start = cursor.place
    if not cursor.peek("IDENTIFIER", "("):
        return names.table(cursor.name())
    cursor.expect("IDENTIFIER")
    inner = cursor.parenthesised()
    written = expression(inner)
    inner.end()
    ((text,),) = plain_sql(names.spark, f"SELECT {written}").collect()
    if not isinstance(text, str):
        raise NotHudi  # Spark says what is wrong with it
    named = Cursor(text)
    parts = named.name().parts
    named.end()
    return names.table(Name(parts, start, cursor.place))
