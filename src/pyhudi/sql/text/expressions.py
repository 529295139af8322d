"""Ends of expressions and types in a statement, by Spark's grammar.

In an expression operands and operators take turns. So a word after an operator is an operand, whatever the word: `end`
in `x - end` is a column, as Spark reserves no such word. A word after an operand is an operator, goes on with the
operand (`INTERVAL 1 DAY`), or ends the expression. What is in brackets is left to Spark's parser, which parses the
whole expression later.
"""

from __future__ import annotations

from collections.abc import Collection

from pyhudi.sql.text.tokens import Cursor, Slice, Token

_PREFIXES = ("NOT", "-", "+", "~", "!", ":")
_OPERATORS = frozenset(
    [
        *("AND", "OR", "DIV", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "ESCAPE", "COLLATE"),
        "FROM",  # of IS DISTINCT FROM
    ]
)
_ENDS = (",", ";", ")", "]", "}")
_AFTER_BRANCH = ("WHEN", "ELSE", "END")


def expression(cursor: Cursor, *stops: str) -> Slice:
    """Take an expression. It ends before a comma, a semicolon, and these words where no operand is expected.

    Raises:
        SqlStatementError: there is none, or a parenthesis is not closed.
    """
    start = cursor.place
    if not _take(cursor, stops):
        cursor.fail("an expression is expected")
    return Slice(cursor.text[start : cursor.tokens[cursor.position - 1].end], start)


def take_type(cursor: Cursor) -> None:
    """Take the name of a type, with what is in its brackets: `INT`, `DECIMAL(10, 2)`, `STRUCT<a: INT, b: MAP<…>>`."""
    cursor.identifier()
    if cursor.peek("("):
        cursor.skip()
    depth = 0
    while cursor.token is not None and (depth or cursor.peek("<")):
        sign = cursor.token.value
        depth += (set(sign) == {"<"}) * len(sign) - (set(sign) == {">"}) * len(sign)
        cursor.skip()
        if depth <= 0:
            break


def _take(cursor: Cursor, stops: Collection[str]) -> bool:
    """Take an expression; False where an operand is missing."""
    while _take_operand(cursor, stops):
        if not _take_operator(cursor, stops):
            return True
    return False


def _take_operand(cursor: Cursor, stops: Collection[str]) -> bool:
    is_part = cursor.position > 0 and cursor.tokens[cursor.position - 1].is_word(".")
    while not is_part and any(cursor.accept(sign) for sign in _PREFIXES):
        pass
    token = cursor.token
    if token is None or any(map(token.is_word, _ENDS)) or (_is_sign(token) and not token.is_word("*")):
        return False
    cursor.skip()
    if token.is_word("CASE") and not is_part:
        _take_case(cursor, stops, token.start)
    return True


def _take_operator(cursor: Cursor, stops: Collection[str]) -> bool:
    """Take what goes on with an operand, and the operator after it; False where the expression ends."""
    while (token := cursor.token) is not None and not any(map(token.is_word, (*stops, *_ENDS))):
        if cursor.accept("::"):
            take_type(cursor)
        elif _is_sign(token):
            _take_signs(cursor)
            return True
        else:
            cursor.skip()
            if any(map(token.is_word, _OPERATORS)):
                return True
    return False


def _take_signs(cursor: Cursor) -> None:
    """Take an operator: `>>>` is three signs side by side, and `> -` an operator and the sign of an operand."""
    end = cursor.place
    while (token := cursor.token) is not None and token.start == end and _is_sign(token):
        end = token.end
        cursor.position += 1


def _take_case(cursor: Cursor, stops: Collection[str], place: int) -> None:
    """Take what follows `CASE` up to its `END`; nothing where `CASE` is the name of a column."""
    start = cursor.position
    if _take_branches(cursor):
        return
    cursor.position = start
    if _take(cursor, ("WHEN",)) and _take_branches(cursor):
        return
    cursor.position = start
    if cursor.peek("WHEN") and "WHEN" not in stops:
        cursor.fail("this CASE has no END", at=place)


def _take_branches(cursor: Cursor) -> bool:
    if not cursor.peek("WHEN"):
        return False
    while cursor.accept("WHEN"):
        if not (_take(cursor, ("THEN",)) and cursor.accept("THEN") and _take(cursor, _AFTER_BRANCH)):
            return False
    if cursor.accept("ELSE") and not _take(cursor, ("END",)):
        return False
    return cursor.accept("END")


def _is_sign(token: Token) -> bool:
    """Whether this is a sign that is no bracket: an operator, or a part of one, as each `>` of `>>>`."""
    if token.is_text or token.is_quoted_name or token.kind in ("NUMBER", "PLACEHOLDER"):
        return False
    return not (token.value[:1].isalnum() or token.value[:1] == "_" or token.value in "([{")
