"""Versions of records of the metadata table become one: the rule of each payload.

Later versions win, but for two payloads. Of `files` the maps are merged entry by entry: a deletion takes the entry out,
otherwise the larger size holds. Statistics of the same column and file, or partition, widen each other, unless the
later one is tight or either is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, FILES_COLUMN, KEY, TYPE

REMOVED: Final = "removed"
"""The column of versions that says whether an entry of a delete block removed the record."""
_Ints: TypeAlias = npt.NDArray[np.int64]
_SUMMED: Final = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
_DECIMAL: Final = 10
"""The `typeOrdinal` of decimals, whose unscaled digits stand in bytes."""
_NO_ORDER: Final = ("ArrayWrapper",)


def merged_records(base: pa.Table, later: pa.Table, payload: str) -> pa.Table:
    """The records after all versions: key, type and payload, in no order.

    `base`: records of a base file, each key once. `later`: versions in the order of their writes, with the column
    `REMOVED`, whose payload is null where it is true.
    """
    if not later.num_rows:
        return base
    touched = pc.is_in(base.column(KEY), later.column(KEY))
    older = base.filter(touched).append_column(REMOVED, pa.array(np.zeros(pc.sum(touched).as_py() or 0, np.bool_)))
    versions = pa.concat_tables([older.select(later.column_names), later]).combine_chunks()
    return pa.concat_tables([base.filter(pc.invert(touched)), _newest(versions, payload)]).combine_chunks()


@dataclass(frozen=True, slots=True)
class JoinedLogs:
    """What all logs of a slice say, for one log in their place.

    `records`: key, type and payload, each key once; the payload is null where the record is removed. `cleared`: keys of
    records that do not look at what the base file says, though they would be merged into it.
    """

    records: pa.Table
    cleared: pa.Array


def joined_records(later: pa.Table, payload: str) -> JoinedLogs:
    """What versions say together, whatever is in the base file. `later`: as of `merged_records`."""
    versions, is_last, is_removed = _sorted(later.combine_chunks())
    joined = _joined(versions, payload, is_last, is_removed, keeps_deleted=True)
    removed = is_removed[is_last]
    values = joined.column(payload).combine_chunks()
    values = values.take(pa.array(np.arange(len(values)), mask=removed))
    records = joined.set_column(joined.schema.get_field_index(payload), joined.schema.field(payload), values)
    return JoinedLogs(records, joined.column(KEY).combine_chunks().filter(_cleared(versions, payload, is_last)))


def _cleared(versions: pa.Table, payload: str, is_last: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Of each run, whether something before its last version says that what is older does not count."""
    is_removed = versions.column(REMOVED).to_numpy()
    if payload == FILES_COLUMN:
        resets, last_says_so = is_removed, is_removed
    elif payload == COLUMN_STATS_COLUMN:
        statistics = versions.column(payload).combine_chunks()
        resets, last_says_so = _resets(statistics, is_removed), _gone(statistics, is_removed) | _tight(statistics)
    else:
        return pa.array(np.zeros(int(is_last.sum()), np.bool_))
    run: npt.NDArray[np.int64] = np.cumsum(is_last) - is_last
    has_reset = np.bincount(run[resets], minlength=int(is_last.sum())) > 0
    return pa.array(has_reset & ~last_says_so[is_last])


def _sorted(versions: pa.Table) -> tuple[pa.Table, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The versions by key, in their order; which are the last of their key, and which say that it is removed."""
    versions = versions.append_column("order", pa.array(np.arange(versions.num_rows)))
    versions = versions.take(pc.sort_indices(versions, [(KEY, "ascending"), ("order", "ascending")])).combine_chunks()
    return versions, ends_of_runs(versions.column(KEY)), versions.column(REMOVED).to_numpy()


def _newest(versions: pa.Table, payload: str) -> pa.Table:
    """One record for each key that is still there."""
    versions, is_last, is_removed = _sorted(versions)
    return _joined(versions, payload, is_last, is_removed).filter(pa.array(~is_removed[is_last]))


def _joined(
    versions: pa.Table,
    payload: str,
    is_last: npt.NDArray[np.bool_],
    is_removed: npt.NDArray[np.bool_],
    *,
    keeps_deleted: bool = False,
) -> pa.Table:
    """One record for each key. `keeps_deleted`: also entries of deleted files, which may be in a base file."""
    if payload == FILES_COLUMN:
        values = _merged_files(versions.column(payload), is_last, is_removed, keeps_deleted)
    elif payload == COLUMN_STATS_COLUMN and not is_last.all():
        statistics = versions.column(payload).combine_chunks()
        resets = _resets(statistics, is_removed)
        values = merged_statistics(statistics, is_last, starts_since(resets, is_last))
    else:
        values = versions.column(payload).filter(pa.array(is_last))
    columns = {
        KEY: versions.column(KEY).filter(pa.array(is_last)),
        TYPE: versions.column(TYPE).filter(pa.array(is_last)),
        payload: values,
    }
    return pa.table(columns, schema=versions.select([KEY, TYPE, payload]).schema)


def ends_of_runs(sorted_values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Whether the next value is another one."""
    count = len(sorted_values)
    found: npt.NDArray[np.bool_] = np.ones(count, np.bool_)
    if count > 1:
        found[:-1] = np.asarray(pc.not_equal(sorted_values[:-1], sorted_values[1:]))
    return found


def starts_since(resets: npt.NDArray[np.bool_], is_last: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which versions count: those from the last reset of their run on, or from the run's begin."""
    count = len(is_last)
    numbers = np.arange(count)
    begins = np.zeros(count, np.bool_)
    begins[:1] = True
    begins[1:] = is_last[:-1]
    # For each version the last place at which its run begins or is reset; the run's end has the one that counts.
    place = np.maximum.accumulate(np.where(begins | resets, numbers, 0))
    ends = np.flatnonzero(is_last)
    run = np.searchsorted(ends, numbers)
    return np.asarray(numbers >= place[ends[run]], dtype=np.bool_)


def _resets(statistics: pa.StructArray, is_removed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which versions of statistics do not look at those before them."""
    gone = _gone(statistics, is_removed)
    resets: npt.NDArray[np.bool_] = gone.copy()
    resets[1:] |= gone[:-1]
    return resets | _tight(statistics)


def _gone(statistics: pa.StructArray, is_removed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    gone: npt.NDArray[np.bool_] = pc.is_null(statistics).to_numpy(zero_copy_only=False) | is_removed
    gone |= pc.fill_null(statistics.field("isDeleted"), True).to_numpy(zero_copy_only=False)
    return gone


def _tight(statistics: pa.StructArray) -> npt.NDArray[np.bool_]:
    if statistics.type.get_field_index("isTightBound") < 0:
        return np.zeros(len(statistics), np.bool_)
    found: npt.NDArray[np.bool_] = pc.fill_null(statistics.field("isTightBound"), False).to_numpy(zero_copy_only=False)
    return found


def _merged_files(
    maps: pa.ChunkedArray, is_last: npt.NDArray[np.bool_], is_removed: npt.NDArray[np.bool_], keeps_deleted: bool
) -> pa.Array:
    """The maps of each run, in which every file stands once."""
    array = maps.combine_chunks()
    counts = starts_since(is_removed, is_last) & ~is_removed
    run: npt.NDArray[np.int64] = np.cumsum(is_last) - is_last  # the number of the run, for each version
    runs = int(is_last.sum())
    if not len(is_last) or (is_last.all() and not is_removed.any()):
        return array
    lengths = pc.fill_null(pc.list_value_length(array.cast(_as_lists(array.type))), 0).to_numpy()
    flat = array.filter(pa.array(counts))
    owner: npt.NDArray[np.int64] = np.repeat(run[counts], lengths[counts])
    entries = flat.cast(_as_lists(array.type)).flatten()
    merged = _merged_entries(owner, entries.field(0), entries.field(1), keeps_deleted)
    offsets = np.searchsorted(merged.column("owner").to_numpy(), np.arange(runs + 1)).astype(np.int32)
    values = pa.StructArray.from_arrays(
        [merged.column("size").combine_chunks(), merged.column("isDeleted").combine_chunks()],
        fields=list(array.type.item_type),
    )
    names = merged.column("name").combine_chunks()
    return pa.MapArray.from_arrays(pa.array(offsets), names, values).cast(array.type)


def _as_lists(map_type: pa.MapType) -> pa.ListType:
    return pa.list_(pa.struct([map_type.key_field, map_type.item_field]))


def _merged_entries(owner: npt.NDArray[np.int64], names: pa.Array, infos: pa.Array, keeps_deleted: bool) -> pa.Table:
    """The entries of each owner after all of its versions, by owner and name, and perhaps those of deleted files."""
    entries = pa.table(
        {
            "owner": owner,
            "name": names,
            "size": infos.field("size"),
            "isDeleted": infos.field("isDeleted"),
            "order": np.arange(len(owner)),
        }
    )
    by_name = [("owner", "ascending"), ("name", "ascending"), ("order", "ascending")]
    entries = entries.take(pc.sort_indices(entries, by_name)).combine_chunks()
    is_last = ends_of_runs(entries.column("name")) | ends_of_runs(entries.column("owner"))
    deleted = entries.column("isDeleted").to_numpy()
    counts = starts_since(deleted, is_last)
    sizes = np.where(counts & ~deleted, entries.column("size").to_numpy(), -1)
    begins = np.flatnonzero(np.concatenate([[True], is_last[:-1]])) if len(is_last) else np.empty(0, np.int64)
    largest = np.maximum.reduceat(sizes, begins) if len(begins) else np.empty(0, np.int64)
    ended = entries.filter(pa.array(is_last))
    is_deleted = ended.column("isDeleted")
    if not keeps_deleted:
        return ended.set_column(2, "size", pa.array(largest, pa.int64())).filter(pc.invert(is_deleted))
    sizes_left = pc.if_else(is_deleted, ended.column("size"), pa.array(largest, pa.int64()))
    return ended.set_column(2, "size", sizes_left)


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
    branches = [field.name for field in values.type]
    owners_of = {
        branch: np.unique(owner[pc.is_valid(values.field(branch)).to_numpy(zero_copy_only=False)])
        for branch in branches
    }
    seen = np.bincount(np.concatenate(list(owners_of.values())).astype(np.int64), minlength=runs)
    odd = {int(number) for number in np.flatnonzero(seen > 1)} | _without_order(owner, statistics, owners_of)
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
        ((branch, wrapped),) = ((name, value) for name, value in union.items() if value is not None)
        value = wrapped.get("value")
        is_decimal = isinstance(value, bytes) and branch == "BytesWrapper" and ordinal == _DECIMAL
        return int.from_bytes(value, "big", signed=True) if is_decimal else value

    try:
        return dict(choose(members, key=order)[0])
    except TypeError:  # values of types that do not compare: the last version knows best
        return members[-1][0]


def _without_order(owner: _Ints, statistics: pa.StructArray, owners_of: dict[str, _Ints]) -> set[int]:
    """The runs whose values Arrow would compare in another order than theirs."""
    found = {int(number) for name in _NO_ORDER for number in owners_of.get(name, ())}
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
