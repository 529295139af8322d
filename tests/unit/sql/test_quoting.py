"""Names and values in quotes: whatever they hold, they stay one word of the statement."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.text.quoting import literal, quoted_name, quoted_text
from pyhudi.sql.text.tokens import tokens_of

NASTY = st.text(st.sampled_from("'\"`\\;-/* \n\t\0a)n%_{}$:?") | st.characters(exclude_categories=["Cs"]))


@given(NASTY.filter(bool))
def test_any_name_is_one_word_with_the_same_value(name):
    [token] = tokens_of(quoted_name(name))
    assert (token.kind, token.value) == ("IDENTIFIER", name)


@given(NASTY)
def test_any_text_is_one_word_whose_quotes_no_character_can_end(text):
    written = quoted_text(text)
    [token] = tokens_of(written)
    assert token.is_text
    assert (token.start, token.end) == (0, len(written))


@given(st.text(), st.binary(), st.integers(-(2**100), 2**100), st.floats(), st.decimals(allow_nan=False))
def test_value_of_any_kind_ends_where_it_should(text, data, whole, number, exact):
    for value in (text, data, whole, number, exact, None, True, dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3)):
        if isinstance(value, Decimal) and not value.is_finite():
            continue
        tokens = tokens_of(f"{literal(value)} END")
        assert tokens[-1].is_word("END")
        assert all(not token.is_word("END") and not token.is_word(";") for token in tokens[:-1])


def test_value_without_a_literal_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="type set"):
        literal({1})


def test_float_that_is_no_number_is_a_cast():
    assert literal(math.inf) == "DOUBLE('inf')"
