"""Words of statements: their places in the text, parts in parentheses, and errors that point at the place."""

from __future__ import annotations

import pytest

from pyhudi.errors import SqlStatementError
from pyhudi.sql.text.tokens import Cursor


def test_slices_are_the_text_as_the_user_wrote_it():
    cursor = Cursor("MERGE INTO `a``b`.C  x USING (select ';', ')' /* ) */ , r'\\d'  FROM y) ON  a = 1.50e0  WHEN x; ")

    cursor.expect("MERGE", "INTO")
    assert cursor.name().parts == ("a`b", "C")
    assert cursor.identifier() == "x"
    cursor.expect("USING")
    inner = cursor.parenthesised()
    assert str(inner.until("FROM")) == "select ';', ')' /* ) */ , r'\\d'"
    cursor.expect("ON")
    assert str(cursor.until("WHEN")) == "a = 1.50e0"
    cursor.expect("WHEN", "X")
    cursor.end()


def test_list_is_cut_at_commas_outside_of_parentheses():
    parts = Cursor("a, f(b, c), array(1, (2)) , 'x,y'").listed()
    assert [str(part.until()) for part in parts] == ["a", "f(b, c)", "array(1, (2))", "'x,y'"]


def test_words_in_quotes_are_not_keywords():
    cursor = Cursor("`WHERE` 'WHERE' where")
    assert str(cursor.until("WHERE")) == "`WHERE` 'WHERE'"


def test_error_shows_the_line_with_a_caret_and_the_nearest_word():
    cursor = Cursor("TRUNCATE TABLE t\n  PARITION (a = 1)")
    cursor.position = 3
    with pytest.raises(SqlStatementError) as caught:
        cursor.expect("PARTITION")
    assert caught.value.message == (
        "PARTITION is expected, not PARITION: did you mean PARTITION? (line 2, column 3)\n  PARITION (a = 1)\n  ^"
    )
    assert caught.value.context == {"line": 2, "column": 3, "nearest": "PARTITION"}


@pytest.mark.parametrize("text", ["select 'a", "(a, b", "a)", "(a]", "/* "])
def test_text_without_an_end_is_an_error(text):
    with pytest.raises(SqlStatementError):
        Cursor(text).until("NEVER")


def test_numbers_with_a_type_are_one_word():
    cursor = Cursor("10L, 2.5D, 3S")
    assert [str(part.until()) for part in cursor.listed()] == ["10L", "2.5D", "3S"]
