"""Conditions and values that ask other rows, for which any other write is a conflict."""

from __future__ import annotations

import pytest

from pyhudi.api.row_changes import asks_other_rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id IN (SELECT id FROM keys)", True),
        ("id IN (TABLE keys)", True),
        ("fare > ( from trips select max(fare))", True),
        ("id IN (WITH k AS (VALUES (1)) FROM k)", True),
        ("exists (VALUES (1))", True),
        ("extract(year FROM ts) = 2026", False),
        ("map(1, 2)[id] = selected AND (fromage > 1)", False),
    ],
)
def test_query_is_seen_by_its_first_word(text: str, expected: bool) -> None:
    assert asks_other_rows([None, 7, text]) is expected
