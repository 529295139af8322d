"""The words of a SQL statement, and a cursor over them. Texts are given back as the user wrote them.

The words are those of sqlglot's Spark dialect. Expressions, types and queries inside of a statement are not parsed:
they are slices of the text, which Spark parses.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from pyhudi.errors import SqlStatementError

_OPENS = {"(": ")", "[": "]", "{": "}"}
_CLOSES = frozenset(_OPENS.values())
_WORD = re.compile(r"\w+")


class _Tokenizer(Spark.Tokenizer):
    """sqlglot's tokenizer, one word at a time: `ORDER BY` are two, and `SHOW` does not swallow what follows."""

    COMMANDS: ClassVar[set[Any]] = set()
    COMMAND_PREFIX_TOKENS: ClassVar[set[Any]] = set()
    KEYWORDS: ClassVar[dict[str, Any]] = {
        word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if not re.search(r"\s", word)
    }


@cache
def _tokenizer() -> _Tokenizer:
    return _Tokenizer(dialect=Spark())


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a sign, a number or a text in quotes; `text[start:end]` is how the statement has it."""

    kind: str
    value: str
    start: int
    end: int

    @property
    def is_quoted_name(self) -> bool:
        """Whether this is a name in backticks."""
        return self.kind == "IDENTIFIER"

    @property
    def is_text(self) -> bool:
        """Whether this is a text in quotes."""
        return self.kind.endswith("STRING")

    def is_word(self, word: str) -> bool:
        """Whether this is the word or sign, in any case, and not in quotes."""
        return self.value.upper() == word and not self.is_quoted_name and not self.is_text


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a statement: its text as the user wrote it, and its place."""

    text: str
    start: int

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one or several parts as the statement has it, without backticks, and its place."""

    parts: tuple[str, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@lru_cache(maxsize=16)
def tokens_of(text: str) -> tuple[Token, ...]:
    """The words of a text up to its end. The last texts are remembered: several questions are asked of a statement.

    Raises:
        SqlStatementError: a quote or comment has no end.
    """
    try:
        found = _tokenizer().tokenize(text)
    except TokenError as error:
        raise SqlStatementError(f"the statement cannot be cut into words: {error}") from error
    tokens: list[Token] = []
    for token in found:
        if not tokens or token.start >= tokens[-1].end:  # `10L` is three tokens of one place
            tokens.append(Token(token.token_type.name, token.text, token.start, token.end + 1))
    return tuple(tokens)


def is_cut_into_words(text: str) -> bool:
    """Whether the words of a text are understood. Where they are not, Spark says what is wrong with it."""
    try:
        tokens_of(text)
    except SqlStatementError:
        return False
    return True


class Cursor:
    """A place in a statement, from which a parser takes word after word.

    `text` is the whole statement. All words are compared in upper case.
    """

    def __init__(self, text: str, tokens: Sequence[Token] | None = None, *, end: int | None = None) -> None:
        self.text = text
        self.tokens = tuple(tokens_of(text) if tokens is None else tokens)
        self.position = 0
        self._end = len(text) if end is None else end

    @property
    def token(self) -> Token | None:
        """The next word, None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def is_at_end(self) -> bool:
        """Whether nothing but a semicolon follows."""
        return all(token.is_word(";") for token in self.tokens[self.position :])

    def peek(self, *words: str) -> bool:
        """Whether these words come next, one after the other."""
        following = self.tokens[self.position : self.position + len(words)]
        return len(following) == len(words) and all(map(Token.is_word, following, words))

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        if not self.peek(*words):
            return False
        self.position += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Take these words.

        Raises:
            SqlStatementError: something else comes next.
        """
        for word in words:
            if not self.accept(word):
                self.fail(f"{word} is expected", known=[word])

    def one_of(self, *words: str) -> str:
        """Take the one of these words that comes next, and say which.

        Raises:
            SqlStatementError: none of them does; the message names the nearest.
        """
        for word in words:
            if self.accept(word):
                return word
        return self.fail(f"one of {', '.join(words)} is expected", known=words)

    def identifier(self) -> str:
        """Take one name, with or without backticks."""
        token = self.token
        if token is None or not (token.is_quoted_name or (_WORD.fullmatch(token.value) and not token.is_text)):
            self.fail("a name is expected")
        self.position += 1
        return token.value if token.is_quoted_name else self.text[token.start : token.end]

    def name(self) -> Name:
        """Take a name of one or several parts."""
        start = self.place
        parts = [self.identifier()]
        while self.accept("."):
            parts.append(self.identifier())
        return Name(tuple(parts), start, self.tokens[self.position - 1].end)

    def parenthesised(self) -> Cursor:
        """Take a pair of parentheses, and give a cursor over what is in it."""
        if not self.peek("("):
            self.fail("( is expected", known=["("])
        first = self.position + 1
        self.skip()
        last = self.position - 1
        return Cursor(self.text, self.tokens[first:last], end=self.tokens[last].start)

    def until(self, *words: str) -> Slice:
        """Take all before the first of these words that is in no parentheses, or before the end or a semicolon."""
        start = self.place
        end = start
        while (token := self.token) is not None and not any(map(token.is_word, (*words, ";"))):
            self.skip()
            end = self.tokens[self.position - 1].end
        return Slice(self.text[start:end], start)

    def listed(self) -> list[Cursor]:
        """Take all that is left, cut at its commas."""
        parts: list[Cursor] = []
        while not self.is_at_end:
            first, start = self.position, self.place
            piece = self.until(",")
            parts.append(Cursor(self.text, self.tokens[first : self.position], end=start + len(piece.text)))
            if not self.accept(","):
                break
            if self.is_at_end:
                self.fail("something is expected after the comma")
        return parts

    def end(self) -> None:
        """Check that nothing follows.

        Raises:
            SqlStatementError: something does.
        """
        if not self.is_at_end:
            self.fail("the end of the statement is expected")

    @property
    def place(self) -> int:
        """Where the next word begins in the text."""
        return self._end if self.token is None else self.token.start

    def fail(self, message: str, *, at: int | None = None, known: Sequence[str] = ()) -> NoReturn:
        """Raise a `SqlStatementError` that shows a place of the statement: `at`, or that of the next word.

        `known`: the words that are possible there, of which the error names the nearest.
        """
        token = self.token
        found = None if token is None or at is not None else self.text[token.start : token.end]
        near = difflib.get_close_matches((found or "").upper(), [word.upper() for word in known], n=1)
        raise error_at(
            self.text, self.place if at is None else at, message, found=found, nearest=next(iter(near), None)
        )

    def skip(self) -> None:
        """Take one word, or a pair of parentheses or other brackets with all that is in it."""
        closers: list[str] = []
        start = self.place
        while (token := self.token) is not None:
            self.position += 1
            if token.is_text or token.is_quoted_name:
                pass
            elif token.value in _OPENS:
                closers.append(_OPENS[token.value])
            elif token.value in _CLOSES and (not closers or token.value != closers.pop()):
                self.fail(f"{token.value} closes nothing", at=token.start)
            if not closers:
                return
        self.fail("this parenthesis is not closed", at=start)


def error_at(
    text: str, place: int, message: str, *, found: str | None = None, nearest: str | None = None
) -> SqlStatementError:
    """The error for a place in a statement: line and column from 1 on, the line, and a caret below the place."""
    place = min(place, len(text))
    line = text.count("\n", 0, place) + 1
    begin = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    shown = text[begin : len(text) if end < 0 else end].replace("\t", " ")
    what = message + (f", not {found}" if found else "") + (f": did you mean {nearest}?" if nearest else "")
    pointer = " " * (place - begin) + "^"
    return SqlStatementError(
        f"{what} (line {line}, column {place - begin + 1})\n{shown}\n{pointer}",
        line=line,
        column=place - begin + 1,
        nearest=nearest,
    )
