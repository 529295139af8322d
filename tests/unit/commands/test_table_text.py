"""Tables for eyes: widths, values, and texts that are not safe."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.commands.safe_text import columns_of, safe_text
from pyhudi.commands.table_text import cell_text, table_lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ("", ""),
        (True, "true"),
        (b"\x00\xff", "00ff"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02 03:04:00+00:00"),
        ({"a": [1, None], "b": Decimal("2.0")}, '{"a":[1,null],"b":"2.0"}'),
        (["\x1b\u202e"], '["\\u001b\\u202e"]'),
        ("two\nlines\t", "two\\nlines\\t"),
        ("\ud800", "\\ud800"),
    ],
)
def test_value_of_any_type_is_one_safe_line(value: Any, text: str) -> None:
    assert cell_text(value) == text


def test_line_feeds_stay_where_several_lines_are_meant() -> None:
    assert safe_text("a\nb\x1b", keeps_lines=True) == "a\nb\\x1b"


def test_numbers_stand_on_the_right_and_texts_on_the_left() -> None:
    assert list(table_lines(["n", "word"], [[1, "a"], [1000, "b"], [None, "c"]], width=None)) == [
        "   n  word",
        "   1  a",
        "1000  b",
        "null  c",
    ]


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert list(table_lines(["a", "b"], [["日本", "x"], ["e\u0301", "y"]], width=None)) == [
        "a     b",
        "日本  x",
        "e\u0301     y",
    ]


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(50, 100))
def test_table_that_fits_is_never_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    lines = list(table_lines(["a", "b", "c"], rows, width=width))
    assert lines[0] != "-- 1 --"
    assert max(map(columns_of, lines)) <= width
    assert len(lines) == len(rows) + 1


@given(st.text())
def test_safe_text_is_printable_and_says_the_same_for_different_texts_never(text: str) -> None:
    safe = safe_text(text)
    assert all(char.isprintable() or char == "\u3000" or char.isspace() for char in safe)
    assert "\n" not in safe
    assert "\x1b" not in safe
