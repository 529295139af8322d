"""Leaving files out by what the metadata table knows of their columns: never one that has a row of the result."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pyhudi.format.metadata_table.bounds import ColumnBounds, valid_bounds
from pyhudi.format.metadata_table.ranges import Range, ranges_batch
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.format.timeline.table_version import table_version
from pyhudi.io.column_ranges import RangesOfRows, ranges_of_footer
from pyhudi.read.conditions import condition_of
from pyhudi.read.skipping.column_statistics import condition_may_hold
from pyhudi.read.skipping.comparisons import comparisons_of, expression_of

_UTC = dt.UTC
_SLICES = 4
_TYPES: dict[str, tuple[tuple[pa.DataType, ...], Callable[[random.Random], Any]]] = {
    # The types that a column may have had, the last of them its own; and a value of each.
    "flag": ((pa.bool_(),), lambda chance: chance.random() < 0.5),
    "grown": ((pa.int32(), pa.int64()), lambda chance: chance.choice([-(2**31), -1, 0, 1, 7, 2**31 - 1])),
    "rounded": ((pa.int64(), pa.float64()), lambda chance: chance.choice([0, 5, 2**53, 2**53 + 1, -(2**60) - 1])),
    "narrow": (
        (pa.float32(), pa.float64()),
        lambda chance: chance.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 0.1]),
    ),
    "text": (
        (pa.string(),),
        lambda chance: chance.choice(["", "a", "b", "z" * 3000, "\ue000", "\U00010000", "\uffff", "é"]),
    ),
    "raw": ((pa.binary(),), lambda chance: chance.choice([b"", b"a", b"\xff", b"\x80", b"q" * 5000])),
    "day": ((pa.date32(),), lambda chance: dt.date(1970, 1, 1) + dt.timedelta(chance.randint(-3, 3))),
    "moment": (
        (pa.timestamp("us", "UTC"),),
        lambda chance: dt.datetime(1970, 1, 1, tzinfo=_UTC) + dt.timedelta(microseconds=chance.randint(-3, 3)),
    ),
    "local": ((pa.timestamp("us"),), lambda chance: dt.datetime(2024, 1, 1) + dt.timedelta(days=chance.randint(0, 3))),
    "money": (
        (pa.decimal128(6, 2), pa.decimal128(10, 2)),
        lambda chance: Decimal(chance.choice([-129, -128, -1, 0, 127, 128, 999999])).scaleb(-2),
    ),
}
_SCHEMA = pa.schema([(name, types[-1]) for name, (types, _) in _TYPES.items()])


def _values(chance: random.Random, name: str, rows: int) -> pa.Array:
    types, value = _TYPES[name]
    if chance.random() < 0.15:
        return pa.nulls(rows, types[0])
    nulls = chance.choice([0, 0, 0.4])
    few = [value(chance) for _ in range(chance.choice([1, 2, 6]))]
    chosen = [None if chance.random() < nulls else chance.choice(few) for _ in range(rows)]
    return pa.array(chosen, types[0], from_pandas=False).cast(chance.choice(types), safe=False)


def _ranges(chance: random.Random, rows: pa.Table, columns: list[str], *, is_log: bool) -> list[Range]:
    """Of a base file, with some statistics missing, or of a log."""
    if is_log:
        of_rows = RangesOfRows(columns)
        for batch in rows.to_batches(max_chunksize=2):
            of_rows.add(batch)
        return of_rows.ranges()
    sink = pa.BufferOutputStream()
    counted = [name for name in rows.column_names if chance.random() < 0.8]
    if "narrow" in counted and pc.any(pc.is_nan(rows["narrow"])).as_py():
        counted.remove("narrow")  # as pyhudi's writer does
    pq.write_table(rows, sink, row_group_size=2, write_statistics=counted)
    return ranges_of_footer(pq.ParquetFile(sink.getvalue()).metadata, columns)


def _comparison(chance: random.Random) -> tuple[str, str, Any]:
    name = chance.choice(list(_TYPES))
    types, value = _TYPES[name]
    sign = chance.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
    many = sign.endswith("in")
    wanted = [value(chance) for _ in range(chance.choice([1, 3, 60]) if many else 1)]
    wanted = [1.5 if isinstance(one, float) and one != one else one for one in wanted]
    if types[-1] == pa.float64():
        wanted = [float(one) for one in wanted]
    return name, sign, wanted if many else wanted[0]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("seed", range(8))
def test_random_files_are_pruned_and_no_row_is_lost(seed: int, version: int) -> None:
    chance = random.Random(seed * 10 + version)
    kind = payload_type(table_version(version), COLUMN_STATS_COLUMN)
    files = [
        pa.table({name: _values(chance, name, rows) for name in _TYPES if chance.random() < 0.9})
        for rows in (chance.choice([1, 2, 5]) for _ in range(8))
    ]
    indexed = [name for name in _TYPES if chance.random() < 0.8]
    known = _known(chance, files, indexed, kind)
    whole = [pa.table([_column(file, field) for field in _SCHEMA], schema=_SCHEMA) for file in files]
    groups = np.array([chance.randrange(_SLICES - 1) for _ in files])
    united = {name: bounds.united(groups, _SLICES) for name, bounds in known.items()}
    parts = [[file for file, at in zip(whole, groups, strict=True) if at == number] for number in range(_SLICES)]
    merged = [_merged(chance, part) if part else _SCHEMA.empty_table() for part in parts]
    left_out = 0
    for _ in range(30):
        where = _condition(chance)
        condition = condition_of(where, _SCHEMA)
        assert condition is not None
        if condition.prunes is None:
            continue
        kept = condition_may_hold(condition.prunes, _SCHEMA, known, len(files))
        for file, is_kept in zip(whole, kept, strict=True):
            assert is_kept or file.filter(condition.whole).num_rows == 0, (where, file.to_pylist())
        left_out += int(np.count_nonzero(~kept))
        kept = condition_may_hold(condition.prunes, _SCHEMA, united, _SLICES)
        for rows, is_kept in zip(merged, kept, strict=True):
            assert is_kept or rows.filter(condition.whole).num_rows == 0, (where, rows.to_pylist())
    assert left_out or not known


def _merged(chance: random.Random, files: list[pa.Table]) -> pa.Table:
    """Rows whose values may each come from another file of the slice, as partial updates make them."""
    columns = [
        pa.concat_tables([one.select([field.name]) for one in chance.sample(files, len(files))]) for field in _SCHEMA
    ]
    return pa.table([column.column(0).combine_chunks() for column in columns], schema=_SCHEMA)


def _condition(chance: random.Random) -> Any:
    if chance.random() < 0.7:
        return [[_comparison(chance) for _ in range(chance.choice([1, 2]))] for _ in range(chance.choice([1, 2]))]
    name = chance.choice([name for name in _TYPES if not pa.types.is_floating(_SCHEMA.field(name).type)])
    field = pc.field(name)
    compared = expression_of(comparisons_of([_comparison(chance) for _ in range(2)], _SCHEMA))
    return chance.choice([field.is_null(), field.is_valid(), ~compared, field.is_null() | compared])


def _known(
    chance: random.Random, files: list[pa.Table], indexed: list[str], kind: pa.DataType
) -> dict[str, ColumnBounds]:
    names = [chance.choice(["{}.parquet", ".{}.log.1_0-0-0"]).format(number) for number in range(len(files))]
    ranges = [
        _ranges(chance, file, indexed, is_log=name.startswith(".")) for name, file in zip(names, files, strict=True)
    ]
    known = {}
    for name in indexed:
        found = zip(names, ranges, strict=True)
        ones = {("", file): [one] for file, each in found for one in each if one.column == name}
        places = np.full(len(files), -1)
        places[[names.index(file) for _, file in ones]] = np.arange(len(ones))
        if ones:
            payloads = statistics_payloads(ranges_batch(ones), kind, is_tight=False)
            known[name] = valid_bounds(payloads, _SCHEMA.field(name).type).take(places)
    return known


def _column(file: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column as a read shows it: null where the file is older than the column, and of its newest type."""
    if field.name not in file.column_names:
        return pa.chunked_array([pa.nulls(file.num_rows, field.type)])
    return file[field.name].cast(field.type, safe=False)
