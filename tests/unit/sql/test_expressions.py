"""Where expressions end in a statement, whatever the words of the columns in them."""

from __future__ import annotations

import random

import pytest
from tests.support.expressions import EXPRESSIONS, expression_over_words

from pyhudi.errors import SqlStatementError
from pyhudi.sql.statements.new_values import assignments
from pyhudi.sql.text.expressions import expression
from pyhudi.sql.text.tokens import Cursor

TAILS = [
    (" WHEN MATCHED THEN DELETE", ("WHEN",)),
    (" THEN UPDATE SET a = 1", ("THEN",)),
    (", end = CASE WHEN a THEN b END", ("WHEN",)),
    (" WHERE case = end", ("WHERE",)),
    (";", ()),
    ("", ()),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_ends_where_spark_ends_it(text: str) -> None:
    for tail, stops in TAILS:
        assert str(expression(Cursor(text + tail), *stops)) == text


@pytest.mark.parametrize("seed", range(20))
def test_nested_cases_over_columns_named_by_their_words_end_where_they_end(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        text = expression_over_words(rng, 2)
        for tail, stops in TAILS:
            assert str(expression(Cursor(text + tail), *stops)) == text


def test_assignments_are_cut_where_their_values_end() -> None:
    text = "end = CASE WHEN s.end > 100 THEN 1 WHEN s.id > 0 THEN 2 END, case = end, then = case WHEN NOT MATCHED"
    cursor = Cursor(text)
    found = [(str(each.column), str(each.value)) for each in assignments(cursor, "WHEN")]
    assert found == [
        ("end", "CASE WHEN s.end > 100 THEN 1 WHEN s.id > 0 THEN 2 END"),
        ("case", "end"),
        ("then", "case"),
    ]
    assert cursor.peek("WHEN", "NOT", "MATCHED")


@pytest.mark.parametrize("text", ["", "= 3", "a +", "a AND", "a = , b", ")"])
def test_missing_operand_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SqlStatementError, match="an expression is expected"):
        expression(Cursor(text))


def test_case_without_an_end_is_refused_with_its_place() -> None:
    with pytest.raises(SqlStatementError, match="this CASE has no END") as caught:
        expression(Cursor("id = case when a then true"), "WHERE")
    assert caught.value.context["column"] == 6


def test_texts_of_many_cases_without_an_end_are_understood_at_once() -> None:
    text = "case " * 150
    assert str(expression(Cursor(text))) == text.strip()
