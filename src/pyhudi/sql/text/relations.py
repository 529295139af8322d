"""The places of a statement where a table is read: names after FROM, JOIN, commas, and TABLE as a query of its own.

No look-up, and no Spark. What is in doubt is left out: Spark then says that it cannot read the table. `FROM` inside of
functions (`extract(year FROM ts)`), names of common table expressions, functions and columns are not tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyhudi.sql.text.clauses import properties
from pyhudi.sql.text.tokens import Cursor, Name, Slice, Token

_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "TABLE", "MAP", "REDUCE"})
_STATEMENTS = frozenset(
    [
        *("SELECT", "WITH", "FROM", "TABLE", "INSERT", "CREATE", "EXPLAIN", "CACHE"),
        *("DESCRIBE", "DESC", "MERGE", "UPDATE", "("),
    ]
)
_ENDS_FROM = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "MINUS",
        "SELECT",
        "MAP",
        "REDUCE",
        "INSERT",
        "VALUES",
    ]
)
_NO_TABLE = frozenset({"LATERAL", "VALUES", "TABLE", "STREAM", "IDENTIFIER", "SELECT", "WITH"})
_NO_ALIAS = _ENDS_FROM | frozenset(
    [
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "CROSS",
        "NATURAL",
        "ANTI",
        "SEMI",
        "LATERAL",
        "PIVOT",
        "UNPIVOT",
        "TABLESAMPLE",
        "ON",
        "USING",
        "WHEN",
        "FOR",
        "WITH",
        "QUALIFY",
        "SETMINUS",
        "WATERMARK",
        "SET",
    ]
)
_TIMES = (("TIMESTAMP", "AS", "OF"), ("SYSTEM_TIME", "AS", "OF"))
_VERSIONS = (("VERSION", "AS", "OF"), ("SYSTEM_VERSION", "AS", "OF"))
_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS"})
_EXPLAINS = frozenset({"EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED"})
_BEFORE_PARENTHESIS = frozenset(
    [
        *("AS", "IN", "EXISTS", "FROM", "JOIN", "WHERE", "AND", "OR", "NOT", "ON", "SELECT", "USING", "LATERAL"),
        *("MATERIALIZED", "ALL", "DISTINCT", "ANY", "SOME", *_SETS, *_EXPLAINS),
    ]
)
"""Words before the parenthesis of a query; another one is a name, and columns or arguments follow."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A name that is read as a table.

    Attributes:
        name: the name.
        end: where the name ends, with the moment and the options if there are some.
        moment: the expression of `TIMESTAMP AS OF`, or of `VERSION AS OF`.
        clause: the moment with the words before it; empty for now.
        options: those of `WITH (…)`.
        alias_at: the place where the name of the relation has to be written, None if the statement has an alias.
        query_at: where `TABLE` begins, if that is before the name and makes it a query.
    """

    name: Name
    end: int
    moment: Slice | None
    alias_at: int | None
    query_at: int | None = None
    clause: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Level:
    """What is between two parentheses. `defining`: the name whose query comes next; `defines`: that of this level."""

    is_query: bool
    is_argument: bool = False
    is_relation: bool = False
    in_from: bool = False
    expects: bool = False
    in_with: bool = False
    defining: str | None = None
    defines: str | None = None
    hidden: set[str] = field(default_factory=set)


def relations_of(text: str, cursor: Cursor | None = None) -> tuple[Relation, ...]:
    """The names in a statement that are read as tables.

    Raises:
        SqlStatementError: the text cannot be cut into words, or a moment is no expression that is understood.
    """
    return tuple(_relations(Cursor(text) if cursor is None else cursor))


def _relations(cursor: Cursor) -> Iterator[Relation]:
    first = cursor.token
    if first is None:
        return
    is_merge = first.is_word("MERGE")
    levels = [_Level(is_query=_upper(first) in _STATEMENTS)]
    while (token := cursor.token) is not None:
        level = levels[-1]
        if token.is_word("("):
            levels.append(_opened(cursor, level))
            cursor.position += 1
        elif token.is_word(")"):
            _close(levels)
            cursor.position += 1
        elif _is_table_query(cursor, level):
            query_at = cursor.place
            cursor.position += 1
            found = _relation(cursor, levels)
            level.in_with = False
            if found is not None:
                yield replace(found, query_at=query_at)
        elif level.expects and _begins_name(token):
            level.expects = False
            found = _relation(cursor, levels)
            if found is not None:
                yield found
        else:
            _note(cursor, level, token, is_merge=is_merge and len(levels) == 1)
            cursor.position += 1


def _is_table_query(cursor: Cursor, level: _Level) -> bool:
    """Whether the next words are `TABLE name` as a query. As an argument of a function they are Spark's."""
    if not level.is_query or level.is_argument or not cursor.peek("TABLE"):
        return False
    following = cursor.tokens[cursor.position + 1 : cursor.position + 2]
    if not following or not _begins_name(following[0]) or _upper(following[0]) in _ENDS_FROM | {"FROM"}:
        return False
    words = [_upper(token) for token in cursor.tokens]
    return may_begin_query(words, cursor.position, after_definitions=level.in_with)


def _upper(token: Token) -> str:
    """The word in upper case; nothing for what is in quotes."""
    return "" if token.is_quoted_name or token.is_text else token.value.upper()


def _begins_name(token: Token) -> bool:
    if token.is_quoted_name:
        return True
    return _is_bare_name(token) and _upper(token) not in _NO_TABLE


def _is_bare_name(token: Token) -> bool:
    """Whether this is a name without backticks, which may begin with a digit, or a word."""
    return not token.is_text and token.kind != "NUMBER" and (token.value[0] == "_" or token.value[0].isalnum())


def _opened(cursor: Cursor, level: _Level) -> _Level:
    """The level that a parenthesis opens."""
    inner = cursor.tokens[cursor.position + 1 : cursor.position + 2]
    word = _upper(inner[0]) if inner else ""
    before = cursor.tokens[cursor.position - 1] if cursor.position else None
    after_function = before is not None and before.end == cursor.place and _upper(before) not in ("", "IN", "AS")
    is_query = word in _QUERY_WORDS and not (word == "FROM" and after_function)
    opened = _Level(is_query=is_query, is_argument=after_function, is_relation=level.expects and not is_query)
    opened.expects = opened.is_relation
    level.expects = False
    if level.in_with and before is not None and _upper(before) in ("AS", "MATERIALIZED"):
        opened.defines = level.defining
    return opened


def _close(levels: list[_Level]) -> None:
    if len(levels) == 1:
        return
    closed = levels.pop()
    if closed.defines is not None:
        levels[-1].hidden.add(closed.defines)


def _note(cursor: Cursor, level: _Level, token: Token, *, is_merge: bool) -> None:
    """What a word that is no table says about those that follow."""
    word = _upper(token)
    is_inline_table = level.expects and word == "VALUES"
    level.expects = level.expects and word == "LATERAL"
    before = cursor.tokens[cursor.position - 1] if cursor.position else None
    if not (level.is_query or level.is_relation) or (before is not None and before.is_word(".")):
        return
    if level.in_with and word in ("SELECT", "FROM", "INSERT", "VALUES", "TABLE"):
        level.in_with = False
    if word == "WITH" and level.is_query and not level.in_from:
        level.in_with = True
    elif level.in_with:
        _note_definition(cursor, level, token)
    elif word == "FROM":
        level.in_from = level.expects = level.is_query and not _is_distinct_from(cursor)
    elif word == "JOIN":
        level.expects = level.in_from or level.is_relation
    elif word == ",":
        level.expects = level.in_from
    elif word == "LATERAL":
        level.in_from = level.in_from and not cursor.peek("LATERAL", "VIEW")
    elif word in _ENDS_FROM and not is_inline_table:
        level.in_from = level.expects = False
    elif word == "USING" and is_merge:
        level.in_from = level.expects = True


def _note_definition(cursor: Cursor, level: _Level, token: Token) -> None:
    """A name after WITH, or after a comma there: it hides tables of that name after its own definition."""
    before = _upper(cursor.tokens[cursor.position - 1]) if cursor.position else ""
    if before in ("WITH", ",", "RECURSIVE") and _upper(token) != "RECURSIVE":
        level.defining = token.value.lower()
        if any(token.is_word("RECURSIVE") for token in cursor.tokens[: cursor.position]):
            level.hidden.add(level.defining)


def _is_distinct_from(cursor: Cursor) -> bool:
    """Whether this FROM is that of `a IS [NOT] DISTINCT FROM b`."""
    before = [_upper(token) for token in cursor.tokens[max(0, cursor.position - 3) : cursor.position]]
    return before[-1:] == ["DISTINCT"] and ("IS" in before[-2:-1] or before[-3:-1] == ["IS", "NOT"])


def _relation(cursor: Cursor, levels: list[_Level]) -> Relation | None:
    """The relation whose name comes next; None for a function, and for a name that a definition of WITH hides."""
    name = cursor.name()
    if cursor.peek("("):
        return None
    if len(name.parts) == 1 and any(name.parts[0].lower() in level.hidden for level in levels):
        return None
    begin = cursor.place
    moment = moment_of(cursor)
    clause = "" if moment is None else cursor.text[begin : moment.start + len(moment.text)]
    options = properties(cursor) if cursor.peek("WITH", "(") and cursor.accept("WITH") else {}
    end = cursor.tokens[cursor.position - 1].end
    position = cursor.position
    alias_at: int | None = end
    if cursor.accept("TABLESAMPLE"):
        cursor.parenthesised()
        if cursor.accept("REPEATABLE"):
            cursor.parenthesised()
        alias_at = cursor.tokens[cursor.position - 1].end
    token = cursor.token
    if token is not None and (token.is_quoted_name or cursor.peek("AS") or _is_alias(token)):
        alias_at = None
    cursor.position = position
    return Relation(name, end, moment, alias_at, clause=clause, options=options)


def _is_alias(token: Token) -> bool:
    return _is_bare_name(token) and _upper(token) not in _NO_ALIAS


def moment_of(cursor: Cursor) -> Slice | None:
    """Take `[FOR] TIMESTAMP AS OF expression`, or the same with VERSION."""
    ahead = cursor.position
    cursor.accept("FOR")
    if not any(cursor.accept(*words) for words in (*_TIMES, *_VERSIONS)):
        cursor.position = ahead
        return None
    start = cursor.place
    token = cursor.token
    if token is None:
        cursor.fail("a time or an instant is expected")
    if token.is_word("("):
        cursor.parenthesised()
    elif token.is_text or token.kind == "NUMBER":
        cursor.position += 1
    else:
        cursor.name()
        if cursor.token is not None and cursor.token.is_text:  # DATE '2026-01-31'
            cursor.position += 1
        else:
            cursor.parenthesised()  # a function
    return Slice(cursor.text[start : cursor.tokens[cursor.position - 1].end], start)


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
