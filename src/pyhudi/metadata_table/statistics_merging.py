"""Statistics of one column and file, or partition, that several delta commits wrote: they widen each other."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Ints: TypeAlias = npt.NDArray[np.int64]

_SUMMED: Final = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
_DECIMAL: Final = 10
"""The `typeOrdinal` of decimals, whose unscaled digits stand in bytes."""
_NO_ORDER: Final = ("ArrayWrapper",)


def merged_statistics(
    statistics: pa.StructArray, is_last: npt.NDArray[np.bool_], counts: npt.NDArray[np.bool_]
) -> pa.StructArray:
    """The statistics of each run of versions.

    `is_last`: where runs end. `counts`: which versions widen each other, the last of each run among them. What is no
    bound or count is that of the last version.
    """
    run: _Ints = np.cumsum(is_last) - is_last
    widened = np.flatnonzero(np.bincount(run[counts], minlength=int(is_last.sum())) > 1)
    last = statistics.filter(pa.array(is_last))
    if not len(widened):
        return last
    rows = np.flatnonzero(counts & np.isin(run, widened))
    owner: _Ints = np.searchsorted(widened, run[rows])
    of_runs = statistics.take(pa.array(rows))
    ends = last.take(pa.array(widened))
    children = {field.name: ends.field(field.name) for field in statistics.type}
    for name in _SUMMED:
        children[name] = _grouped(owner, of_runs.field(name), "sum", len(widened))
    for name, bound in (("minValue", "min"), ("maxValue", "max")):
        children[name] = _bounds(owner, of_runs, name, bound, len(widened))
    merged = pa.StructArray.from_arrays(
        [children[field.name] for field in statistics.type], fields=list(statistics.type)
    )
    place = np.arange(len(last))
    place[widened] = len(last) + np.arange(len(widened))
    return pa.concat_arrays([last, merged]).take(pa.array(place))


def _bounds(owner: _Ints, statistics: pa.StructArray, name: str, bound: str, runs: int) -> pa.Array:
    """The smallest or largest value of each run, as a union; null where no version has one."""
    values = statistics.field(name)
    branches = [one.name for one in values.type]
    owners_of = {
        branch: np.unique(owner[pc.is_valid(values.field(branch)).to_numpy(zero_copy_only=False)])
        for branch in branches
    }
    seen = np.bincount(np.concatenate(list(owners_of.values())).astype(np.int64), minlength=runs)
    odd = {int(one) for one in np.flatnonzero(seen > 1)} | _without_order(owner, statistics, owners_of)
    children = []
    for branch in branches:
        child = values.field(branch)
        inner = _grouped(owner, child.flatten()[0], bound, runs) if branch not in _NO_ORDER else child.field(0)[:0]
        inner = inner if len(inner) == runs else pa.nulls(runs, child.type.field(0).type)
        absent = pc.is_null(inner)
        filled = pc.fill_null(inner, _zero(inner.type)) if inner.null_count and not _is_nested(inner.type) else inner
        children.append(pa.StructArray.from_arrays([filled], fields=list(child.type), mask=absent))
    valid = seen > 0
    found = pa.StructArray.from_arrays(children, fields=list(values.type), mask=pa.array(~valid))
    if not odd:
        return found
    choose = min if bound == "min" else max
    ordinals = _ordinals(statistics)
    given = values.to_pylist()
    ended = found.to_pylist()
    for number in odd:
        members = [(given[row], ordinals[row]) for row in np.flatnonzero(owner == number) if given[row] is not None]
        ended[number] = _chosen(members, choose) if members else None
    return pa.array(ended, values.type)


def _chosen(members: list[tuple[dict[str, Any], int | None]], choose: Callable[..., Any]) -> dict[str, Any]:
    """The smallest or largest of some unions whose branches differ, or whose bytes are decimals."""

    def order(member: tuple[dict[str, Any], int | None]) -> Any:
        union, ordinal = member
        ((branch, wrapped),) = ((name, one) for name, one in union.items() if one is not None)
        value = wrapped.get("value")
        is_decimal = isinstance(value, bytes) and branch == "BytesWrapper" and ordinal == _DECIMAL
        return int.from_bytes(value, "big", signed=True) if is_decimal else value

    try:
        return dict(choose(members, key=order)[0])
    except TypeError:  # values of types that do not compare: the last version knows best
        return members[-1][0]


def _without_order(owner: _Ints, statistics: pa.StructArray, owners_of: dict[str, _Ints]) -> set[int]:
    """The runs whose values Arrow would compare in another order than theirs."""
    found = {int(one) for name in _NO_ORDER for one in owners_of.get(name, ())}
    if "BytesWrapper" in owners_of and len(owners_of["BytesWrapper"]):
        ordinals = _ordinals(statistics)
        found |= {int(owner[row]) for row, ordinal in enumerate(ordinals) if ordinal == _DECIMAL}
    return found


def _ordinals(statistics: pa.StructArray) -> list[int | None]:
    if statistics.type.get_field_index("valueType") < 0:
        return [None] * len(statistics)
    found: list[int | None] = pc.struct_field(statistics, ["valueType", "typeOrdinal"]).to_pylist()
    return found


def _grouped(owner: _Ints, values: pa.Array, how: str, runs: int) -> pa.Array:
    """A value for each run; null where none of its versions has one."""
    table = pa.table({"owner": owner, "value": values}).filter(pc.is_valid(values))
    grouped = table.group_by("owner").aggregate([("value", how)])
    place = np.full(runs, -1)
    place[grouped.column("owner").to_numpy()] = np.arange(grouped.num_rows)
    found = grouped.column(f"value_{how}").combine_chunks().cast(values.type).take(pa.array(place, mask=place < 0))
    if how != "max" or not pa.types.is_floating(values.type):
        return found
    # NaN is the largest, as in Java; Arrow leaves it out.
    has_nan = np.isin(np.arange(runs), owner[pc.fill_null(pc.is_nan(values), False).to_numpy(zero_copy_only=False)])
    return pc.if_else(pa.array(has_nan), pa.scalar(float("nan"), values.type), found)


def _is_nested(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(data_type))


def _zero(data_type: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(data_type):
        return pa.scalar("", data_type)
    if pa.types.is_binary(data_type):
        return pa.scalar(b"", data_type)
    if pa.types.is_boolean(data_type):
        return pa.scalar(False)
    if pa.types.is_decimal(data_type):
        return pa.scalar(Decimal(0), data_type)
    return pa.scalar(0, pa.int64()).cast(data_type)
