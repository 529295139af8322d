"""Record keys of odd texts and of each type, under every index: each key is one record, whatever is written to it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

INDEXES = {
    "SIMPLE": {},
    "GLOBAL_SIMPLE": {},
    "BLOOM": {},
    "GLOBAL_BLOOM": {},
    "BUCKET": {"hoodie.bucket.index.num.buckets": "3"},
    "RECORD_INDEX": {"hoodie.metadata.record.index.enable": "true"},
    "INMEMORY": {},
}
#: Filters for few keys.
SMALL = {"hoodie.index.bloom.num_entries": "100"}
#: Texts that a separator, an encoding or an order could take apart, or run together.
TEXTS = [
    " ",
    "  ",
    "a b",
    "a.b",
    "a:b",
    "a,b",
    "id:1,more:2",
    "a/b",
    "a%2Fb",
    "`a`",
    "'a'",
    '"a"',
    "\\",
    "\\\\",
    "a\tb",
    "a\nb",
    "A",
    "a",
    "\u00e9",
    "e\u0301",
    "\uffee",
    "\U0001f600",
    "null",
    "__null__x",
    "0",
    "00",
    "-0",
    "x" * 3000,
]
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [-1.5, 0.0, 0.1, 1e10, 16777216.0]),
    "double": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 0.1, 1e-300, 1e300, 123456789.125]),
    "boolean": (pa.bool_(), [False, True]),
    "decimal": (
        pa.decimal128(20, 3),
        [Decimal("-0.001"), Decimal("0.000"), Decimal("10.500"), Decimal("12345678901.250")],
    ),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC), dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)],
    ),
    "text": (pa.string(), TEXTS),
}


def life(path: Path, fields: Sequence[str], columns: Sequence[pa.Array], index: str, kind: Any) -> None:
    """Insert the keys, update every other one, delete every third; each step against memory."""
    schema = pa.schema(
        [
            *((name, column.type) for name, column in zip(fields, columns, strict=True)),
            ("city", pa.string()),
            ("n", pa.int64()),
        ]
    )
    count = len(columns[0])
    rows = pa.table([*columns, ["oslo"] * count, [0] * count], schema=schema)
    options = {"hoodie.index.type": index, "hoodie.compact.inline": "false", **SMALL, **INDEXES[index]}
    table = pyhudi.HudiTable.create(
        path, schema=schema, record_key=fields, partition_by="city", table_type=kind, hudi_options=options
    )
    table.upsert(rows)
    number = schema.get_field_index("n")
    changed = rows.take(list(range(0, count, 2))).set_column(
        number, schema.field(number), [[1] * len(range(0, count, 2))]
    )
    gone = list(range(0, count, 3))

    written = table.refresh().upsert(changed)
    deleted = table.refresh().delete(rows.take(gone).select([*fields, "city"]))

    assert (written.updated, written.inserted) == (changed.num_rows, 0)
    assert deleted.deleted == len(gone)
    expected = [{**row, "n": 1 - at % 2} for at, row in enumerate(rows.to_pylist()) if at % 3]
    stored = table.refresh().scan(columns=schema.names).to_arrow().to_pylist()
    assert sorted(stored, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_odd_texts_are_keys_of_one_record_each(tmp_path: Path, kind: str, index: str) -> None:
    life(tmp_path, ["id"], [pa.array(TEXTS)], index, kind)


@pytest.mark.parametrize("index", INDEXES)
def test_odd_texts_in_composite_keys_are_keys_of_one_record_each(tmp_path: Path, index: str) -> None:
    texts = [text for text in TEXTS if len(text) < 100]
    pairs = [(one, other) for one in texts for other in (texts[0], one, "")]
    columns = [pa.array([pair[at] for pair in dict.fromkeys(pairs)]) for at in (0, 1)]
    life(tmp_path, ["id", "more"], columns, index, "cow")


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"text"}))
def test_keys_of_each_type_are_of_one_record_each(tmp_path: Path, name: str, index: str) -> None:
    kind, values = TYPES[name]
    life(tmp_path, ["id"], [pa.array(values, kind)], index, "cow")
