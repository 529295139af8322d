"""Lists of properties as Spark reads them."""

from __future__ import annotations

import pytest

from pyhudi.sql.text.clauses import properties
from pyhudi.sql.text.tokens import Cursor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("('a.b' 'c')", {"a.b": "c"}),
        ("('a.b' 'c' 'd', e = 1)", {"a.b": "cd", "e": "1"}),
        ("('it''s' = 'x''y')", {"it's": "x'y"}),
        ("(a.b 'c', primaryKey = 'id')", {"a.b": "c", "primaryKey": "id"}),
    ],
)
def test_name_of_a_property_is_one_text_and_its_value_may_follow_without_a_sign(
    text: str, expected: dict[str, str]
) -> None:
    assert properties(Cursor(text)) == expected
