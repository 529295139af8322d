"""Space-filling curves: the grid of a sample, the order along it, and how many files a search for one value skips."""

from __future__ import annotations

import itertools
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.config.options_clustering import LayoutStrategy
from pyhudi.errors import ConfigError
from pyhudi.tasks.curves import COLUMNS_MAX, Curve, hilbert_cells, interleaved, sampled

CURVES = pytest.mark.parametrize("kind", [LayoutStrategy.ZORDER, LayoutStrategy.HILBERT])

INCREASING: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [None, False, True]),
    "int": (pa.int32(), [None, -(2**31), -2, -1, 0, 1, 256, 2**31 - 1]),
    "long": (pa.int64(), [None, -(2**63), -1, 0, 1, 2**63 - 1]),
    "float": (pa.float32(), [None, -np.inf, -1.5, 0.0, 1.5, np.inf, np.nan]),
    "double": (pa.float64(), [None, -np.inf, -1e300, -5e-324, 0.0, 5e-324, 1e300, np.inf, np.nan]),
    "decimal": (
        pa.decimal128(20, 2),
        [
            None,
            *(Decimal(one) for one in ("-300.00", "-100.00", "-1.00", "0.00", "1.00", "2.55", "100.00", "65536.00")),
        ],
    ),
    "string": (pa.string(), [None, "", "\x00", "a", "a\x00", "aa", "b", "ü", "\ue000", "\U0001f600"]),
    "binary": (pa.binary(), [None, b"", b"\x00", b"\x00\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
    "date": (pa.date32(), [None, -1, 0, 1, 20000]),
    "timestamp": (pa.timestamp("us", "UTC"), [None, -(2**62), -1, 0, 1, 2**62]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), [None, "a", "b", "c"]),
}
"""Values of each type, in the order in which a clustering sorts them."""


def column(name: str, values: list[Any]) -> pa.Array:
    kind = INCREASING[name][0]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def positions(kind: LayoutStrategy, rows: pa.Table, sample: pa.Table | None = None) -> list[int]:
    found: list[int] = order_of_rows(kind, rows, rows if sample is None else sample).to_pylist()
    return found


def order_of_rows(kind: LayoutStrategy, rows: pa.Table, sample: pa.Table) -> pa.Array:
    return curve_of(kind, sample).positions(columns_of(rows))


def curve_of(kind: LayoutStrategy, sample: pa.Table) -> Curve:
    return Curve.of_sample(kind, columns_of(sample))


def columns_of(rows: pa.Table) -> list[pa.Array]:
    return [pa.concat_arrays(one.chunks) if one.num_chunks else pa.array([], one.type) for one in rows.columns]


# ----- one column -----------------------------------------------------------------------------------------------------


@CURVES
@pytest.mark.parametrize("name", INCREASING)
def test_values_in_order_get_positions_in_order_and_null_is_like_no_value(name: str, kind: LayoutStrategy) -> None:
    rows = pa.table({"c": column(name, INCREASING[name][1])})
    found = positions(kind, rows)
    assert found == sorted(set(found))


@pytest.mark.parametrize("name", INCREASING)
def test_z_order_with_other_columns_equal_is_the_order_of_the_column(name: str) -> None:
    values = INCREASING[name][1]
    grid = list(itertools.product(values, values))
    rows = pa.table({"a": column(name, [a for a, _ in grid]), "b": column(name, [b for _, b in grid])})
    found = np.array(positions(LayoutStrategy.ZORDER, rows)).reshape(len(values), len(values))
    assert (np.diff(found.astype(np.int64), axis=0) > 0).all()
    assert (np.diff(found.astype(np.int64), axis=1) > 0).all()


@CURVES
def test_both_zeros_are_one_value(kind: LayoutStrategy) -> None:
    rows = pa.table({"c": pa.array([-1.0, -0.0, 0.0, 1.0]), "d": pa.array([0.0, -0.0, 0.0, -0.0])})
    found = positions(kind, rows.select(["d"]))
    assert len(set(found)) == 1
    _, negative, positive, _ = positions(kind, rows.select(["c"]))
    assert negative == positive


NUMBERS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0, 1.0, float("nan")]))


def order_of(value: float | None) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if np.isnan(value) else (1, value + 0.0)


@given(sample=st.lists(NUMBERS, max_size=30), values=st.lists(NUMBERS, min_size=1, max_size=30))
def test_any_sample_keeps_the_order_of_values_and_tells_null_and_nan_from_numbers(
    sample: list[float | None], values: list[float | None]
) -> None:
    values.sort(key=order_of)
    rows = pa.table({"c": pa.array(values, pa.float32())})
    found = positions(LayoutStrategy.HILBERT, rows, pa.table({"c": pa.array(sample, pa.float32())}))
    assert found == sorted(found)
    of_class: dict[int, set[int]] = {}
    for value, position in zip(values, found, strict=True):
        of_class.setdefault(order_of(value)[0], set()).add(position)
    assert sum(map(len, of_class.values())) == len(set(found))


def test_a_sample_larger_than_the_grid_is_cut_into_parts_of_equal_size() -> None:
    numbers = np.random.default_rng(1).lognormal(size=40_000)
    rows = pa.table({f"c{n}": numbers for n in range(8)})  # 8 bits per column
    curve = curve_of(LayoutStrategy.ZORDER, rows)
    cuts = curve.boundaries[0].to_numpy()
    per_cell = np.bincount(np.searchsorted(cuts, numbers, side="right"))
    assert len(cuts) == 253
    assert per_cell[1:-1].min() >= 150
    assert per_cell.max() <= 165


# ----- the curves -----------------------------------------------------------------------------------------------------


def all_cells(columns: int, bits: int) -> list[np.ndarray[Any, np.dtype[np.uint32]]]:
    grid = np.indices((2**bits,) * columns, dtype=np.uint32)
    return [axis.reshape(-1) for axis in grid]


@pytest.mark.parametrize(("columns", "bits"), [(1, 6), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2)])
def test_hilbert_visits_each_cell_once_and_steps_to_a_neighbour(columns: int, bits: int) -> None:
    cells = all_cells(columns, bits)
    places = interleaved(hilbert_cells(cells, bits), bits)
    assert sorted(places.tolist()) == list(range(2 ** (bits * columns)))
    path = np.stack(cells)[:, np.argsort(places)].astype(np.int64)
    assert (np.abs(np.diff(path, axis=1)).sum(axis=0) == 1).all()


@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(0, 4095), min_size=columns, max_size=columns), min_size=1, max_size=5
        )
    )
)
def test_interleaving_takes_the_highest_bit_of_each_column_first(rows: list[list[int]]) -> None:
    cells = [np.array(of_column, dtype=np.uint32) for of_column in zip(*rows, strict=True)]
    expected = [int("".join(f"{row[n]:012b}"[bit] for bit in range(12) for n in range(len(row))), 2) for row in rows]
    assert interleaved(cells, 12).tolist() == expected


def test_hilbert_does_not_change_the_cells_that_it_is_given() -> None:
    cells = all_cells(2, 3)
    before = [of_column.copy() for of_column in cells]
    hilbert_cells(cells, 3)
    assert all((one == other).all() for one, other in zip(cells, before, strict=True))


# ----- edges ----------------------------------------------------------------------------------------------------------


@CURVES
@pytest.mark.parametrize("count", [0, 1, 2])
def test_groups_of_a_few_rows_get_a_position_each(count: int, kind: LayoutStrategy) -> None:
    rows = pa.table({"a": pa.array([1, 2][:count], pa.int64()), "b": pa.array(["x", None][:count], pa.string())})
    assert len(positions(kind, rows)) == count


@CURVES
def test_columns_without_any_value_leave_the_order_to_the_others(kind: LayoutStrategy) -> None:
    rows = pa.table({"a": pa.nulls(50, pa.float64()), "b": pa.array(range(50)), "c": pa.array([float("nan")] * 50)})
    found = positions(kind, rows)
    assert len(set(found)) == 50
    assert positions(kind, rows.select(["a"])) == [0] * 50


def test_a_column_of_two_values_counts_as_much_as_one_of_many() -> None:
    rows = pa.table({"flag": pa.array([n % 2 == 1 for n in range(1000)]), "n": pa.array(range(1000))})
    order = rows.take(pc.sort_indices(order_of_rows(LayoutStrategy.ZORDER, rows, rows)))
    half = order.slice(0, 400)
    assert not pc.any(half["flag"]).as_py()


@CURVES
def test_a_curve_goes_to_a_worker_and_gives_the_same_positions(kind: LayoutStrategy) -> None:
    rows = pa.table({"a": pa.array([3, None, 1]), "b": pa.array(["x", "y", None])})
    curve = curve_of(kind, rows)
    sent = pickle.loads(pickle.dumps(curve))
    assert sent.positions(columns_of(rows)) == curve.positions(columns_of(rows))


@CURVES
def test_the_most_columns_that_fit_tell_null_from_values_from_nan(kind: LayoutStrategy) -> None:
    rows = pa.table({f"c{n}": pa.array([None, 1.0, 2.0, float("nan")]) for n in range(COLUMNS_MAX)})
    assert len(set(positions(kind, rows))) == 4


@pytest.mark.parametrize("columns", [0, COLUMNS_MAX + 1])
def test_more_columns_than_a_position_has_bits_for_are_refused(columns: int) -> None:
    with pytest.raises(ConfigError, match="one to 32 columns"):
        Curve.of_sample(LayoutStrategy.HILBERT, [pa.array([1])] * columns)


# ----- samples --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 9))
def test_sample_has_all_rows_or_enough_that_are_equally_far_apart(sizes: list[int], size: int) -> None:
    ends = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"n": pa.array(range(ends[i], ends[i + 1]), pa.int64())}) for i in range(len(sizes))]
    found = sampled(batches, size)
    if not sizes:
        assert found is None
        return
    numbers = found["n"].to_pylist()
    assert len(numbers) == ends[-1] or size <= len(numbers) < 4 * size
    step = numbers[1] if len(numbers) > 1 else 1
    assert numbers == list(range(0, ends[-1], step))


# ----- what it brings -------------------------------------------------------------------------------------------------


def share_skipped(rows: pa.Table, order: pa.Array, files: int, pairs: list[tuple[int, int]]) -> float:
    """Of files with equal numbers of rows: the share that `a = x or b = y` skips by smallest and largest values."""
    ordered = rows.take(order)
    skipped = 0
    size = -(-rows.num_rows // files)
    for start in range(0, rows.num_rows, size):
        file = ordered.slice(start, size)
        a, b = pc.min_max(file["a"]).as_py(), pc.min_max(file["b"]).as_py()
        skipped += sum(not (a["min"] <= x <= a["max"]) and not (b["min"] <= y <= b["max"]) for x, y in pairs)
    return skipped / files / len(pairs)


def uniform_and_skewed() -> dict[str, pa.Table]:
    numbers = np.random.default_rng(7)
    count = 60_000
    skewed = [(numbers.pareto(1.2, count) * 1000).astype(np.int64) for _ in "ab"]
    return {
        "uniform": pa.table({name: numbers.integers(0, 1_000_000, count) for name in "ab"}),
        "skewed": pa.table(dict(zip("ab", skewed, strict=True))),
    }


@pytest.mark.parametrize("distribution", ["uniform", "skewed"])
def test_searches_in_two_columns_skip_most_files_of_a_curve_and_none_of_a_linear_order(distribution: str) -> None:
    rows = uniform_and_skewed()[distribution]
    sample = rows.take(pa.array(np.arange(0, rows.num_rows, 10)))
    asked = rows.take(pa.array(np.random.default_rng(3).integers(0, rows.num_rows, 40)))
    any_values = list(zip(asked["a"].to_pylist(), asked["b"].to_pylist(), strict=True))
    middle = [(int(np.median(rows["a"])), int(np.median(rows["b"])))]
    linear = pc.sort_indices(rows, [("a", "ascending"), ("b", "ascending")])
    assert share_skipped(rows, linear, 200, any_values) < 0.02
    # With curves of samples, JVM Hudi skips 76 % and 83 % of uniform data in a search for the middle of both columns.
    for kind, of_middle, of_any in ((LayoutStrategy.ZORDER, 0.76, 0.74), (LayoutStrategy.HILBERT, 0.83, 0.81)):
        order = pc.sort_indices(order_of_rows(kind, rows, sample))
        assert share_skipped(rows, order, 200, any_values) >= of_any
        assert share_skipped(rows, order, 200, middle) >= (of_middle if distribution == "uniform" else of_any)
