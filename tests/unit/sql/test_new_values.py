"""New values of columns, and what the expressions of a statement see."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from pyhudi.errors import SqlStatementError
from pyhudi.sql.statements.definitions import Scope, definitions
from pyhudi.sql.statements.new_values import assignments, values_of, with_nulls
from pyhudi.sql.text.tokens import Cursor, Slice

INNER = StructType().add("y", StringType()).add("z", StringType())
PLACE = StructType().add("x", IntegerType()).add("odd `one", INNER)
SCHEMA = StructType().add("id", IntegerType()).add("place", PLACE)


def values(text: str) -> dict[str, str]:
    return values_of(text, assignments(Cursor(text)), ("t", "t", "db.t"), SCHEMA)


def test_assignments_give_values_to_columns_and_to_fields_inside_of_them() -> None:
    assert values("id = 1, place = null") == {"id": "1", "place": "null"}
    assert values("db.t.ID = DEFAULT") == {"ID": "NULL"}
    assert values("t.place.X = t.id + 1") == {
        "place": "named_struct('x', t.id + 1, 'odd `one', `t`.`place`.`odd ``one`)",
    }
    assert values("place.`odd ``one`.z = 'a', Place.x = 2") == {
        "place": "named_struct('x', 2, 'odd `one', named_struct('y', `t`.`place`.`odd ``one`.`y`, 'z', 'a'))",
    }


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("place = null, place.x = 1", 15),
        ("place.x = 1, place = null", 14),
        ("place.x = 1, place.X = 2", 14),
        ("id.x = 1", 1),
        ("place.none = 1", 1),
        ("other.id = 1", 1),
    ],
)
def test_assignments_that_mean_nothing_or_two_things_are_refused_with_their_place(text: str, column: int) -> None:
    with pytest.raises(SqlStatementError) as caught:
        values(text)
    assert caught.value.context["column"] == column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VALUES (1, default), (DEFAULT, 'default')", "VALUES (1, NULL), (NULL, 'default')"),
        ("VALUES 1, default", "VALUES 1, NULL"),
        ("VALUES (f(default), `default`, default + 1)", "VALUES (f(default), `default`, default + 1)"),
    ],
)
def test_default_is_null_where_it_is_a_value_of_its_own(text: str, expected: str) -> None:
    assert with_nulls(Cursor(text)) == expected


def test_queries_in_an_expression_see_the_definitions_before_the_statement() -> None:
    cursor = Cursor("with s AS (SELECT 1 AS id), r (a) AS (SELECT 2) DELETE FROM t")
    found = definitions(cursor)
    assert cursor.peek("DELETE", "FROM")
    written = "with s AS (SELECT 1 AS id), r (a) AS (SELECT 2)"

    def seen(text: str) -> str:
        return Scope(found).seen(Slice(text, 0)).text

    assert seen("id IN (1, (2))") == "id IN (1, (2))"
    assert seen("id IN (SELECT id FROM s WHERE a IN (SELECT 1))") == (
        f"id IN ({written} SELECT id FROM s WHERE a IN (SELECT 1))"
    )
    assert seen("id IN (WITH u AS (SELECT 1) SELECT id FROM u, s)") == (
        "id IN (WITH s AS (SELECT 1 AS id), r (a) AS (SELECT 2), u AS (SELECT 1) SELECT id FROM u, s)"
    )


def test_full_names_of_tables_in_an_expression_become_the_names_of_its_rows() -> None:
    scope = Scope(None, {("db", "t"): "t", ("spark_catalog", "db", "t"): "t"})

    def seen(text: str) -> str:
        return scope.seen(Slice(text, 0)).text

    assert seen("db.t.id = DB.`T`.place.x AND spark_catalog.db.t.id > 1") == "`t`.id = `t`.place.x AND `t`.id > 1"
    assert seen("db.t = other.db.t.id AND 'db.t.id' <> a.b.c") == "db.t = other.db.t.id AND 'db.t.id' <> a.b.c"
