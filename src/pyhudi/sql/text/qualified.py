"""Columns under the full name of their table, `db.t.column`, where the rows have an alias only: `t.column`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyhudi.sql.text.quoting import quoted_name
from pyhudi.sql.text.tokens import Slice, Token, tokens_of

FullNames = Mapping[tuple[str, ...], str]
"""Names of several parts in lower case, each with the alias of the rows."""


def qualifiers(tokens: Sequence[Token], called: FullNames) -> Iterator[tuple[int, int, str]]:
    """The places of full names that a dot and a column follow: start, end, and what stands for the name there."""
    done = 0
    for at, token in enumerate(tokens):
        if token.start < done or (at and tokens[at - 1].is_word(".")):
            continue
        for parts in sorted(called, key=len, reverse=True):
            these = tokens[at : at + 2 * len(parts)]
            if (
                len(these) == 2 * len(parts)
                and all(sign.is_word(".") for sign in these[1::2])
                and tuple("" if name.is_text else name.value.lower() for name in these[::2]) == parts
            ):
                done = these[-2].end
                yield token.start, done, quoted_name(called[parts])
                break


def with_aliases(called: FullNames, part: Slice) -> Slice:
    """An expression with the aliases of tables in the place of their full names."""
    if not called or part.text.count(".") < 2:
        return part
    pieces, done = list[str](), 0
    for start, end, alias in qualifiers(tokens_of(part.text), called):
        pieces += [part.text[done:start], alias]
        done = end
    return Slice("".join([*pieces, part.text[done:]]), part.start)
