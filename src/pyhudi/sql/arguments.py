"""Arguments of `spark.sql`: markers in a statement of ours become literals, DataFrames become temporary views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.settings import is_connect
from pyhudi.sql.text.quoting import literal
from pyhudi.sql.text.tokens import Token, error_at, tokens_of


def bound(text: str, args: Mapping[str, Any] | list[Any] | None) -> str:
    """The statement with literals in the place of its markers: `:name` for a mapping, `?` for a list.

    Raises:
        SqlStatementError: a marker has no value.
        UnsupportedFeatureError: a value has a type that has no literal.
    """
    if not args:
        return text
    tokens = tokens_of(text)
    pieces, done, used = [], 0, 0
    for number, token in enumerate(tokens):
        if isinstance(args, Mapping):
            place = _named_marker(tokens, number)
            if place is None:
                continue
            if place not in args:
                raise error_at(text, token.start, f"there is no argument {place}")
            value, end = args[place], tokens[number + 1].end
        elif token.kind == "PLACEHOLDER":
            if used == len(args):
                raise error_at(text, token.start, f"there are only {used} arguments")
            value, end, used = args[used], token.end, used + 1
        else:
            continue
        pieces += [text[done : token.start], literal(value)]
        done = end
    return "".join([*pieces, text[done:]])


def _named_marker(tokens: tuple[Token, ...], number: int) -> str | None:
    """The name of the marker that begins here. A colon between names, as in a type or a variant's path, is none."""
    token, following = tokens[number], tokens[number + 1 : number + 2]
    if not token.is_word(":") or not following or following[0].start != token.end or following[0].is_text:
        return None
    before = tokens[number - 1] if number else None
    if before is not None and before.end == token.start and (before.is_quoted_name or before.value[-1:].isalnum()):
        return None
    return following[0].value


@contextmanager
def with_frames(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> Iterator[str]:
    """The statement with names of temporary views in the place of `{frame}`, for as long as the block lasts."""
    if not frames:
        yield text
        return
    root = "pyspark.sql.connect" if is_connect(spark) else "pyspark.sql"
    formatter = import_module(f"{root}.sql_formatter").SQLStringFormatter(spark)
    try:
        written = formatter.format(text, **frames)
        views = [pair for pair in formatter._temp_views if isinstance(pair[0], DataFrame)] if is_connect(spark) else []
        for frame, name in views:
            frame.createOrReplaceTempView(name)
        yield cast("str", written)
    finally:
        if is_connect(spark):
            for _, name in formatter._temp_views:
                spark.catalog.dropTempView(name)
        else:
            formatter.clear()
