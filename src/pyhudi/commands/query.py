"""`pyhudi query`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pyhudi.commands.arguments import JSON, TABLE, argument, command, limit, opened
from pyhudi.commands.conditions import AS_OF, WHERE, conditions_of
from pyhudi.commands.output import Output
from pyhudi.commands.rows import write_rows
from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "t"


@command(
    TABLE,
    argument("sql", metavar="SQL", help="a query of the table t"),
    WHERE,
    AS_OF,
    limit(1000, "rows"),
    JSON,
)
def query(chosen: argparse.Namespace, output: Output) -> int:
    """Ask a table in SQL, by DuckDB: `pyhudi query PATH "select city, sum(fare) from t group by city"`.

    The table is called `t`. Only the columns that the query names are read.
    """
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UnsupportedFeatureError("query needs duckdb: pip install 'pyhudi[duckdb]'") from error
    table = opened(chosen)
    where = conditions_of(chosen.where, table.schema)
    whole = table.scan(None, where, as_of=chosen.as_of)
    connection = duckdb.connect()
    try:
        names = None
        if _is_one_query(connection, chosen.sql):
            connection.register(_TABLE, whole.schema.empty_table())
            names = _columns_read(connection, chosen.sql, whole.columns)
            connection.register(_TABLE, _rows(table.scan(names, where, as_of=chosen.as_of).to_arrow(), whole.schema))
        if names is None or set(_columns_read(connection, chosen.sql, whole.columns)) - set(names):
            connection.register(_TABLE, whole.to_arrow())
        answer = connection.sql(chosen.sql)
        rows = None if answer is None else answer.limit(chosen.limit + 1).to_arrow_table()
    except duckdb.CatalogException as error:
        raise InvalidRequestError(f"the table is called {_TABLE} in the query: {error}") from error
    except duckdb.Error as error:
        raise InvalidRequestError(f"DuckDB refuses the query: {error}") from error
    if rows is None:
        raise InvalidRequestError("this statement has no rows: write a query, such as select count(*) from t")
    write_rows(rows, chosen.limit, output)
    return 0


def _is_one_query(connection: Any, sql: str) -> bool:
    """Whether a text is a query that has a plan. PIVOT asks the rows for its columns first, even if it is explained."""
    return [statement.type.name for statement in connection.extract_statements(sql)] == ["SELECT"]


def _columns_read(connection: Any, sql: str, columns: tuple[str, ...]) -> list[str]:
    """The columns of the table that the plan of a query reads; all of them where the plan does not say it plainly."""
    # A scan that filters by itself does not list the columns of its filter in DuckDB before 2.0.
    connection.execute("SET disabled_optimizers = 'filter_pushdown'")
    try:
        plans = [json.loads(text) for _, text in connection.sql(f"EXPLAIN (FORMAT json) {sql}").fetchall()]
    finally:
        connection.execute("RESET disabled_optimizers")
    read = set[str]()
    nodes = [node for plan in plans for node in plan]
    while nodes:
        node = nodes.pop()
        nodes += node.get("children", [])
        if "SCAN" in node["name"] and node["name"] != "DUMMY_SCAN":
            projected = node["extra_info"].get("Projections", list(columns))
            read.update([projected] if isinstance(projected, str) else projected)
    if not read:
        return list(columns[:1])
    return [name for name in columns if name in read] if read <= set(columns) else list(columns)


def _rows(read: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of the table, so that the query may name them; those that it does not read are null."""
    import pyarrow as pa  # noqa: PLC0415 - help does without

    columns = [
        read.column(field.name) if field.name in read.column_names else pa.nulls(read.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))
