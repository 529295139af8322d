"""`TABLE name` as a query, which is `SELECT * FROM name`: where a statement may have it."""

from __future__ import annotations

from collections.abc import Sequence

_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS"})
_EXPLAINS = frozenset({"EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED"})
_BEFORE_PARENTHESIS = frozenset(
    [
        *("AS", "IN", "EXISTS", "FROM", "JOIN", "WHERE", "AND", "OR", "NOT", "ON", "SELECT", "USING", "LATERAL"),
        *("MATERIALIZED", "ALL", "DISTINCT", "ANY", "SOME", *_SETS, *_EXPLAINS),
    ]
)
"""Words before the parenthesis of a query; another one is a name, and columns or arguments follow."""


def may_begin_query(words: Sequence[str], position: int, *, after_definitions: bool) -> bool:
    """Whether a query may begin at this one of the words of a statement, which are in upper case.

    `after_definitions`: the word before may end the definitions of WITH. Pure.
    """
    before = words[position - 1] if position else ""
    earlier = words[position - 2] if position > 1 else ""
    if before in ("ALL", "DISTINCT"):
        return earlier in _SETS
    if before == "(":
        return not earlier.isidentifier() or earlier in _BEFORE_PARENTHESIS
    if before == "AS":
        return words[0] in ("CREATE", "CACHE") and "SELECT" not in words
    if words[0] == "INSERT":
        return before not in ("INTO", "OVERWRITE")
    return before in ("", *_SETS, *_EXPLAINS) or (before == ")" and after_definitions)
