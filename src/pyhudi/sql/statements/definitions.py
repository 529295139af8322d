"""Scopes of expressions in a statement: definitions of a `WITH` before it, and tables under their full names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyhudi.sql.statements.new_values import Assignment
from pyhudi.sql.text.quoting import FullNames, with_aliases
from pyhudi.sql.text.tokens import Cursor, Slice

_BEGINS_QUERY = ("SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


def definitions(cursor: Cursor) -> Slice | None:
    """Take `WITH name [(columns)] AS (query), …`. None if a definition has another form, which Spark understands."""
    start = cursor.place
    cursor.expect("WITH")
    cursor.accept("RECURSIVE")
    while True:
        cursor.identifier()
        if cursor.peek("("):
            cursor.parenthesised()
        if cursor.accept("MAX", "RECURSION", "LEVEL"):
            cursor.position += 1
        if not cursor.accept("AS") or not cursor.peek("("):
            return None
        cursor.parenthesised()
        if not cursor.accept(","):
            return Slice(cursor.text[start : cursor.tokens[cursor.position - 1].end], start)


@dataclass(frozen=True)
class Scope:
    """What the expressions of a statement see besides columns.

    Attributes:
        definitions: the text of WITH.
        called: full names of tables, with the names that their rows go by.
    """

    definitions: Slice | None = None
    called: FullNames = field(default_factory=dict)

    def seen(self, part: Slice) -> Slice:
        """An expression as Spark resolves it against rows that have an alias."""
        return _with_definitions(self.definitions, with_aliases(self.called, part))

    def seen_values(self, assigned: Sequence[Assignment] | None) -> tuple[Assignment, ...] | None:
        """The same for the values of assignments."""
        return (
            None
            if assigned is None
            else tuple(replace(assignment, value=self.seen(assignment.value)) for assignment in assigned)
        )


def _with_definitions(found: Slice | None, part: Slice) -> Slice:
    """An expression whose queries in parentheses see the definitions."""
    if found is None:
        return part
    cursor, pieces, done = Cursor(part.text), list[str](), 0
    depth = 0  # of queries: those inside of others see the definitions of the outer one
    opened: list[bool] = []
    for at, token in enumerate(cursor.tokens):
        if token.is_word("("):
            following = cursor.tokens[at + 1 : at + 2]
            is_query = any(token.is_word(word) for token in following for word in (*_BEGINS_QUERY, "WITH"))
            opened.append(is_query)
            if is_query and not depth:
                place, written = _written(found, cursor, at, token.end)
                pieces += [part.text[done:place], written]
                done = place
            depth += is_query
        elif token.is_word(")") and opened:
            depth -= opened.pop()
    return Slice("".join([*pieces, part.text[done:]]), part.start)


def _written(found: Slice, cursor: Cursor, at: int, after: int) -> tuple[int, str]:
    """The place for the definitions after the parenthesis at `at`, and how they are written: before its own, if any."""
    own = cursor.tokens[at + 1 : at + 3]
    if not own[0].is_word("WITH"):
        return after, f"{found.text} "
    is_recursive = len(own) > 1 and own[1].is_word("RECURSIVE")
    outer = Cursor(found.text)
    outer.expect("WITH")
    recursive = " RECURSIVE" if outer.accept("RECURSIVE") and not is_recursive else ""
    return own[is_recursive].end, f"{recursive} {found.text[outer.place :]},"
