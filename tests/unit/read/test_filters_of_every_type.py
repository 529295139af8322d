"""Conditions on columns of every type, in scans that leave files out, against the same rows in memory."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi

OSLO = ZoneInfo("Europe/Oslo")
UTC = dt.UTC
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    dt.datetime(2024, 3, 31, 0, 59, 59, tzinfo=UTC),
    dt.datetime(2024, 3, 31, 1, 0, tzinfo=UTC),  # where Oslo's clocks leave an hour out
    dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC),  # and have one twice
    dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    dt.datetime(2262, 4, 11, 23, 47, 16, 1, UTC),
]
#: In the orders of code points, of UTF-16, of bytes, and of dictionaries these come in different places.
TEXTS = ["", " ", "A", "Z", "Zürich", "a", "a\0", "e\u0301", "z", "\u00e9", "ß", "\uffee", "\U0001f600", "a" * 80]
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]),
    "d": (pa.float64(), [-math.inf, -1e300, -0.0, 0.0, 5e-324, 0.1, 1e300, math.inf, math.nan]),
    "n": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("12.50")]),
    "w": (pa.decimal128(30, 4), [Decimal("-1e25"), Decimal("-0.0001"), Decimal(0), Decimal("1e25")]),
    "b": (pa.bool_(), [False, True]),
    "s": (pa.string(), TEXTS),
    "x": (pa.binary(), [b"", b"\0", b"a", b"\x7f", b"\x80", b"\xff\xff"]),
    "day": (pa.date32(), [dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "at": (pa.timestamp("us", "UTC"), MOMENTS),
    "wall": (pa.timestamp("us"), [moment.replace(tzinfo=None) for moment in MOMENTS]),
}
INSIDE = pa.struct([("l", pa.int64()), ("s", pa.string()), ("d", pa.float64())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("part", pa.string())]
    + [(name, kind) for name, (kind, _) in POOLS.items()]
    + [("inside", INSIDE), ("tags", pa.list_(pa.string()))]
)
COMPARISONS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def made_rows(seed: int, begin: int, count: int, parts: list[str]) -> pa.Table:
    """Rows whose values are near each other in the order of their pool, so that files have narrow bounds."""
    chance = random.Random(seed)

    def drawn(pool: list[Any]) -> Any:
        first = chance.randrange(len(pool))
        return lambda: None if chance.random() < 0.2 else pool[(first + chance.randrange(2)) % len(pool)]

    draw = {name: drawn(pool) for name, (_, pool) in POOLS.items()}
    inner = {name: drawn(POOLS[name][1]) for name in ("l", "s", "d")}
    found = [
        {
            "id": number,
            "part": parts[number % len(parts)],
            **{name: one() for name, one in draw.items()},
            "inside": None if chance.random() < 0.2 else {name: one() for name, one in inner.items()},
            "tags": chance.choice([None, [], ["a"], [None, "b"]]),
        }
        for number in range(begin, begin + count)
    ]
    return pa.Table.from_pylist(found, SCHEMA)


class Case:
    """A table and its rows in memory."""

    def __init__(self, path: Path, version: int, kind: Any, **options: str) -> None:
        self.table = pyhudi.HudiTable.create(
            path,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            table_version=version,
            table_type=kind,
            hudi_options={
                "hoodie.compact.inline": "false",
                "hoodie.parquet.small.file.limit": "0",
                "hoodie.index.bloom.num_entries": "100",
                **options,
            },
        )
        batches = [made_rows(turn, 6 * turn, 6, ["p", f"q{turn}"]) for turn in range(6)]
        for batch in batches:
            self.table.refresh().insert(batch)
        # The same keys and partitions, with other values.
        changed = [made_rows(90 + turn, 6 * turn, 6, ["p", f"q{turn}"]).slice(0, 2) for turn in range(0, 6, 2)]
        self.table.refresh().upsert(pa.concat_tables(changed))
        kept = [batch.slice(0 if turn % 2 else 2) for turn, batch in enumerate(batches)]
        self.rows = pa.concat_tables([*kept, *changed]).sort_by("id")
        self.table = self.table.refresh()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    folder = tmp_path_factory.mktemp("tables")
    statistics = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
    }
    return [
        Case(folder / "footers", 6, "cow"),
        Case(folder / "statistics", 9, "cow", **statistics),
        Case(folder / "logs", 8, "mor", **statistics, **{"hoodie.index.type": "INMEMORY"}),
    ]


def literals(name: str) -> st.SearchStrategy[pa.Scalar]:
    """Values of a column's pool, as literals of its type."""
    kind, pool = POOLS[name]
    return st.sampled_from(pool).map(lambda value: pa.scalar(value, kind))


@st.composite
def simple_conditions(draw: st.DrawFn) -> pc.Expression:
    """A condition on one column, or on a field of the struct."""
    name = draw(st.sampled_from(sorted(POOLS)))
    is_inside = name in ("l", "s", "d") and draw(st.booleans())
    column = pc.field("inside", name) if is_inside else pc.field(name)
    match draw(st.sampled_from(["compare", "compare", "in", "null", "valid", "special"])):
        case "compare":
            return COMPARISONS[draw(st.sampled_from(sorted(COMPARISONS)))](column, draw(literals(name)))
        case "in":
            kind, pool = POOLS[name]
            chosen = draw(st.lists(st.sampled_from([*pool, None]), max_size=3))
            return column.isin(pa.array(chosen, kind))
        case "null":
            return column.is_null(nan_is_null=draw(st.booleans()))
        case "valid":
            return column.is_valid()
        case _ if name in ("f", "d"):
            return column.is_nan()
        case _ if name == "s":
            return pc.starts_with(column, draw(st.sampled_from(TEXTS)))
        case _ if name == "b":
            return column
        case _:
            return ~(column == draw(literals(name)))


CONDITIONS = st.recursive(
    simple_conditions(),
    lambda inner: (
        inner.map(lambda one: ~one)
        | st.tuples(inner, inner).map(lambda both: both[0] & both[1])
        | st.tuples(inner, inner).map(lambda both: both[0] | both[1])
    ),
    max_leaves=4,
)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.data(), condition=CONDITIONS)
def test_conditions_find_in_files_the_rows_that_they_find_in_memory(
    cases: list[Case], data: st.DataObject, condition: pc.Expression
) -> None:
    case = data.draw(st.sampled_from(cases))

    found = case.table.scan(columns=["id"], where=condition).to_arrow()["id"].to_pylist()

    assert sorted(found) == case.rows.filter(condition)["id"].to_pylist()


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.data())
def test_triples_find_in_files_the_rows_that_they_find_in_memory(cases: list[Case], data: st.DataObject) -> None:
    case, name = data.draw(st.sampled_from(cases)), data.draw(st.sampled_from(sorted(POOLS)))
    numbers = [value for value in POOLS[name][1] if value == value]  # NaN is refused by name
    operator, value = data.draw(st.sampled_from(sorted(COMPARISONS))), data.draw(st.sampled_from(numbers))
    condition = COMPARISONS[operator](pc.field(name), pa.scalar(value, POOLS[name][0]))

    found = case.table.scan(columns=["id"], where=[(name, operator, value)]).to_arrow()["id"].to_pylist()

    assert sorted(found) == case.rows.filter(condition)["id"].to_pylist()


def test_conditions_leave_files_out(cases: list[Case]) -> None:
    """Otherwise the tests above ask nothing of the statistics."""
    for case in cases[1:]:
        scans = [case.table.scan(where=pc.field("l") == pa.scalar(value, pa.int64())) for value in POOLS["l"][1]]
        assert min(len(scan.files()) for scan in scans) < len(case.table.scan().files())


@pytest.mark.parametrize("zone", ["Europe/Oslo", "Asia/Kolkata", "+05:30"])
def test_moments_with_a_zone_are_compared_by_when_they_were(cases: list[Case], zone: str) -> None:
    for case, moment in itertools.product(cases[:2], MOMENTS):
        given = moment.astimezone(OSLO) if zone == "Europe/Oslo" else pa.scalar(moment, pa.timestamp("us", zone))

        found = case.table.scan(columns=["id"], where=[("at", ">=", given)]).to_arrow()["id"].to_pylist()

        expected = pc.field("at") >= pa.scalar(moment, pa.timestamp("us", "UTC"))
        assert sorted(found) == case.rows.filter(expected)["id"].to_pylist()
