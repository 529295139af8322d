"""`CACHE TABLE` and `UNCACHE TABLE` of a Hudi table: Spark's cache cannot hold one, as each read plans it anew."""

from __future__ import annotations

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.statements.alter_table import Nothing
from pyhudi.sql.statements.protocol import Statement
from pyhudi.sql.text.tokens import Cursor


def parse_cache(cursor: Cursor, names: Names) -> Statement:
    """`CACHE [LAZY] TABLE name [OPTIONS (…)]`, which is refused; with a query it is Spark's.

    Raises `UnsupportedFeatureError`.
    """
    cursor.expect("CACHE")
    cursor.accept("LAZY")
    cursor.expect("TABLE")
    name = cursor.name()
    if cursor.accept("OPTIONS"):
        cursor.parenthesised()
    if cursor.token is not None and not cursor.peek(";"):
        raise NotHudi
    table = names.table(name)
    raise UnsupportedFeatureError(
        "each read of a Hudi table sees its newest state, so Spark's cache cannot hold one under its own name: cache a "
        "query, CACHE TABLE other_name AS SELECT * FROM the table, which keeps the rows of now",
        table=str(table.name),
    )


def parse_uncache(cursor: Cursor, names: Names) -> Nothing:
    """`UNCACHE TABLE [IF EXISTS] name`: nothing of a Hudi table is in the cache."""
    cursor.expect("UNCACHE", "TABLE")
    cursor.accept("IF", "EXISTS")
    table = names.table(cursor.name())
    cursor.end()
    return Nothing(table)
