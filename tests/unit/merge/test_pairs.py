from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.merge.pairs import incoming_wins, newest_versions

VERSIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-2, 2)), st.integers(0, 1)), max_size=12
)


def rank(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


@settings(max_examples=60, deadline=None)
@given(VERSIONS)
def test_newest_versions_agree_with_a_loop_over_the_rows(rows: list[tuple[str, int | None, int]]) -> None:
    expected: dict[str, int] = {}
    for number, (key, first, second) in enumerate(rows):
        best = expected.get(key)
        if best is None or (rank(first), second) >= (rank(rows[best][1]), rows[best][2]):
            expected[key] = number
    keys, first, second = ([row[n] for row in rows] for n in range(3))

    found = newest_versions([pa.array(keys, pa.string())], [pa.array(first, pa.int64()), pa.array(second, pa.int64())])

    assert found.tolist() == sorted(expected.values())


def test_without_ordering_the_last_row_of_a_key_stays() -> None:
    assert newest_versions([pa.array(["k", "l", "k"])], []).tolist() == [1, 2]


def test_rows_of_one_key_in_two_partitions_are_two_records() -> None:
    assert newest_versions([pa.array(["k", "k"]), pa.array(["p", "q"])], []).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (1, 2, pa.int32()),
        (-1.5, 2.5, pa.float64()),
        ("a", "ab", pa.string()),
        (Decimal("1.10"), Decimal("1.20"), pa.decimal128(10, 2)),
        (1, 2, pa.date32()),
        (1, 2, pa.timestamp("us", "UTC")),
        (False, True, pa.bool_()),
        (None, 0, pa.int64()),
    ],
)
def test_incoming_wins_unless_it_is_older(low: object, high: object, kind: pa.DataType) -> None:
    incoming, stored = pa.array([low, high, low], kind), pa.array([high, low, low], kind)

    assert incoming_wins([incoming], [stored], 3).tolist() == [False, True, True]


def test_later_ordering_columns_decide_ties_only() -> None:
    incoming = [pa.array([1, 1, 2]), pa.array([5, 3, 0])]
    stored = [pa.array([1, 1, 1]), pa.array([4, 4, 9])]

    assert incoming_wins(incoming, stored, 3).tolist() == [True, False, True]


def test_without_ordering_columns_incoming_always_wins() -> None:
    np.testing.assert_array_equal(incoming_wins([], [], 2), [True, True])
