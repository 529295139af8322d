"""Tables of results: their values are those that Arrow makes of the same rows."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.format.schema import result_tables
from pyhudi.format.schema.result_tables import schema_of, table_of

COLUMNS = "name string, count int64, share double, is_due bool, logs list<string>, at timestamp[us]"
MOMENT = datetime(2024, 1, 2, tzinfo=UTC)
ROWS = [
    {"name": "caf\u00e9", "count": 2**62, "share": 0.5, "is_due": True, "logs": ["a", "b\u2028"], "at": MOMENT},
    {"name": None, "count": None, "share": None, "is_due": None, "logs": None, "at": None},
    {"name": "", "count": -1, "share": float("inf"), "is_due": False, "logs": []},
    *({"name": str(number), "count": number, "logs": [None, "x"]} for number in range(20)),
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[1:2], []], ids=len)
def test_table_of_rows_is_the_one_that_arrow_makes(rows: list[dict[str, object]]) -> None:
    made = table_of(COLUMNS, rows)
    made.validate(full=True)
    assert made.equals(pa.Table.from_pylist(rows, schema=schema_of(COLUMNS)))


def test_rows_without_names_take_them_from_the_columns() -> None:
    assert table_of("a string, b int64", [("x", 1)]).to_pylist() == [{"a": "x", "b": 1}]
    with pytest.raises(ValueError, match="shorter"):
        table_of("a string, b int64", [("x",)])


def test_texts_that_one_array_cannot_hold_are_those_that_arrow_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table_of("name string", [("ab",), (None,), ("cd",)])
    monkeypatch.setattr(result_tables, "TEXT_BYTES_MAX", 3)
    monkeypatch.setattr(np, "cumsum", None)  # the sum of lengths would wrap around

    assert table_of("name string", [("ab",), (None,), ("cd",)]).equals(made)


@pytest.mark.parametrize("row", [("x", "y"), (1, 1), (b"x", 1), ("x", 1.5)])
def test_value_of_another_type_is_refused(row: tuple[object, object]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        table_of("a string, b int64", [row])
