"""`type_at`: types of columns, and of fields inside of structs, by path."""

from __future__ import annotations

import time

import pyarrow as pa

from pyhudi.format.schema.type_at import type_at

NESTED = pa.schema([("a", pa.struct([("b", pa.int32())])), ("a.c", pa.string()), ("d", pa.list_(pa.int8()))])


def test_paths_name_columns_first_and_then_fields_of_structs() -> None:
    paths = ("a.b", "a.c", "a.d", "b", "d", "d.element")

    assert [type_at(NESTED, path) for path in paths] == [pa.int32(), pa.string(), None, None, pa.list_(pa.int8()), None]


def test_types_of_all_of_five_thousand_columns_cost_no_seconds() -> None:
    names = [f"c{number}" for number in range(5_000)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    began = time.process_time()

    assert {type_at(schema, name) for name in names} == {pa.int64()}

    assert time.process_time() - began < 1, "four seconds, where each call lists all names"
