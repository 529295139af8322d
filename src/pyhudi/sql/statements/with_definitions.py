"""`WITH name AS (query), …` before `INSERT`, `MERGE INTO`, `UPDATE` and `DELETE FROM`."""

from __future__ import annotations

from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.statements import insert, merge, update
from pyhudi.sql.statements.definitions import definitions
from pyhudi.sql.statements.protocol import Statement
from pyhudi.sql.text.tokens import Cursor, Slice


def parse(cursor: Cursor, names: Names) -> Statement:
    """A statement that changes rows, after its definitions. A query is Spark's."""
    found = definitions(cursor)
    if found is None:
        raise NotHudi
    if cursor.peek("FROM"):
        before = cursor.until("INSERT")
        found = Slice(f"{found} {before}", found.start)
    if cursor.peek("INSERT"):
        return insert.parse(cursor, names, found)
    if cursor.peek("MERGE"):
        return merge.parse(cursor, names, found)
    if cursor.peek("UPDATE"):
        return update.parse_update(cursor, names, found)
    if cursor.peek("DELETE", "FROM"):
        return update.parse_delete(cursor, names, found)
    raise NotHudi
