"""Bounds that a record of column statistics states, as far as they are certainly true.

JVM Hudi has no way to say that it does not know a bound, and says something false instead. Seen in releases 0.15, 1.0
and 1.2, where the footer of a base file has no statistics of a column:

- text and binary values that are long: no bounds, as if all values were null;
- floating-point numbers with NaN among them: bounds of 0.0, and of partitions bounds that leave the file out;
- binary values of logs, and of partitions: bounds in the order of signed bytes;
- text of logs, and of partitions: bounds in the order of UTF-16, which differs from that of UTF-8 above U+D7FF.

Rows must not be lost by that, so nothing is known where one of these is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.value_types import typed_bounds

LONG_BYTES: Final = 2048
"""Two bounds of together 4096 bytes are left out of a footer; so one of them has at least this size."""
_ABOVE_16_BITS: Final = "[\U00010000-\U0010ffff]"
_BEHIND_SURROGATES: Final = "[\ue000-\uffff]"

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column in each of some files.

    Attributes:
        low: no value is lower; null where nothing is known.
        high: no value is higher; null where nothing is known. NaN is outside of both bounds.
        no_nulls: there is no null.
        only_nulls: there are only nulls.
        is_empty: the file has no rows, but deletes.
    """

    low: pa.Array
    high: pa.Array
    no_nulls: Flags
    only_nulls: Flags
    is_empty: Flags

    @classmethod
    def of(cls, low: pa.Array, high: pa.Array, no_nulls: Flags, only_nulls: Flags | None = None) -> ColumnBounds:
        """What is known of files that have rows."""
        nowhere = np.zeros(len(low), np.bool_)
        return cls(low, high, no_nulls, nowhere if only_nulls is None else only_nulls, nowhere)

    def __len__(self) -> int:
        return len(self.no_nulls)

    def where(self, known: Flags) -> ColumnBounds:
        """The same for these files; of the rows of the others nothing is known."""
        low, high = (_only(values, known) for values in (self.low, self.high))
        return ColumnBounds(low, high, self.no_nulls & known, self.only_nulls & known, self.is_empty)

    def tighter(self, other: ColumnBounds) -> ColumnBounds:
        """What both know together of the same column."""
        return ColumnBounds(
            pc.max_element_wise(self.low, other.low),
            pc.min_element_wise(self.high, other.high),
            self.no_nulls | other.no_nulls,
            self.only_nulls | other.only_nulls,
            self.is_empty | other.is_empty,
        )

    def take(self, places: npt.NDArray[np.int64]) -> ColumnBounds:
        """What is known of the files at these places; nothing of those at -1."""
        known = places >= 0
        indices = pa.array(places, mask=~known)
        flags = [np.where(known, flag[places], False) if len(flag) else known for flag in self._flags]
        return ColumnBounds(self.low.take(indices), self.high.take(indices), *flags)

    def united(self, groups: npt.NDArray[np.int64], count: int) -> ColumnBounds:
        """What is known of groups of these files, of all rows in all files of each: of file `i` the group `groups[i]`.

        A group without files is empty. Cost: some vectorised steps.
        """
        no_rows = self.is_empty
        low, high = (
            _united(values, aggregate, groups, count, self.only_nulls | no_rows)
            for values, aggregate in ((self.low, "min"), (self.high, "max"))
        )
        return ColumnBounds(
            low,
            high,
            no_nulls=_all_of(self.no_nulls | no_rows, groups, count),
            only_nulls=_all_of(self.only_nulls | no_rows, groups, count) & ~_all_of(no_rows, groups, count),
            is_empty=_all_of(no_rows, groups, count),
        )

    @property
    def _flags(self) -> tuple[Flags, Flags, Flags]:
        return self.no_nulls, self.only_nulls, self.is_empty


def _all_of(flags: Flags, groups: npt.NDArray[np.int64], count: int) -> Flags:
    found: Flags = np.bincount(groups[~flags], minlength=count) == 0
    return found


def _united(values: pa.Array, aggregate: str, groups: npt.NDArray[np.int64], count: int, is_void: Flags) -> pa.Array:
    """The bounds of groups: null where one of their files has none, unless it has no values."""
    found = pa.table({"group": groups, "bound": values}).group_by("group").aggregate([("bound", aggregate)])
    places = np.full(count, -1)
    places[found["group"].to_numpy()] = np.arange(found.num_rows)
    bounds = found[f"bound_{aggregate}"].combine_chunks().take(pa.array(places, mask=places < 0))
    return _only(bounds, _all_of(_valid(values) | is_void, groups, count))


def valid_bounds(payloads: pa.StructArray, kind: pa.DataType, *, of_partitions: bool = False) -> ColumnBounds:
    """What the records say of a column that now has this type.

    `payloads`: the records of files, or `of_partitions`. Those of partitions have joined the records of files, false
    ones too, so only bounds are used that are never false.
    """
    column = {field.name: payloads.field(number) for number, field in enumerate(payloads.type)}
    count = len(payloads)
    types, infos = _value_types(column.get("valueType"), count)
    low, high = (typed_bounds(column[name], types, infos, kind) for name in ("minValue", "maxValue"))
    values, nulls = (_numbers(column[name]) for name in ("valueCount", "nullCount"))
    is_log = pc.starts_with(pc.fill_null(column["fileName"], ""), ".").to_numpy(zero_copy_only=False)
    counted = (values > 0) & (nulls >= 0)
    stated = ~(_valid(column["minValue"]) | _valid(column["maxValue"]))
    only_nulls = counted & (nulls == values) & stated
    is_base = ~is_log
    if of_partitions:
        known = np.zeros(count, np.bool_) if partitions_may_be_wrong(kind) else counted & (nulls < values)
        only_nulls = np.zeros(count, np.bool_)
    else:
        known = ~(is_base & (nulls == values))
        if _is_binary(kind):
            known &= is_base
        if pa.types.is_floating(kind):
            known &= ~(is_base & _is_positive_zero(low) & _is_positive_zero(high))
        if _is_text(kind) or _is_binary(kind):
            sizes = _numbers(column["totalUncompressedSize"])
            only_nulls &= is_log | ((sizes >= 0) & (sizes < LONG_BYTES))
    known_low, known_high = known & _valid(low), known & _valid(high)
    if _is_text(kind):
        known_low &= ~(is_log & _matches(low, _ABOVE_16_BITS))
        known_high &= ~(is_log & _matches(high, _BEHIND_SURROGATES))
    if pa.types.is_floating(kind):
        known_low &= ~_may_be_nan(low)
        known_high &= ~_may_be_nan(high)
    return ColumnBounds(
        _only(low, known_low),
        _only(high, known_high),
        # Of a partition, files that are older than a column do not count, and all its values in them are null.
        no_nulls=np.zeros(count, np.bool_) if of_partitions else counted & (nulls == 0),
        only_nulls=only_nulls,
        is_empty=np.zeros(count, np.bool_) if of_partitions else is_log & (values == 0),
    )


def _value_types(field: pa.Array | None, count: int) -> tuple[pa.Array, pa.Array]:
    if field is None or not pa.types.is_struct(field.type):
        return pa.nulls(count, pa.int32()), pa.nulls(count, pa.string())
    numbers, infos = field.flatten()
    return numbers.cast(pa.int32()), infos


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = pc.fill_null(column, -1).to_numpy(zero_copy_only=False)
    return numbers


def _valid(values: pa.Array) -> Flags:
    flags: Flags = values.is_valid().to_numpy(zero_copy_only=False)
    return flags


def partitions_may_be_wrong(kind: pa.DataType) -> bool:
    """Whether records of partitions may state false bounds of columns of this type, so that they are not used."""
    return bool(pa.types.is_floating(kind)) or _is_text(kind) or _is_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_positive_zero(values: pa.Array) -> Flags:
    """0.0, not -0.0: writers of Parquet make the lower bound of zeros negative."""
    numbers = pc.fill_null(values, 1).to_numpy(zero_copy_only=False)
    flags: Flags = (numbers == 0) & ~np.signbit(numbers)
    return flags


def _may_be_nan(values: pa.Array) -> Flags:
    """Which bounds are NaN, or infinity, as which pyhudi writes NaN (`statistics_payloads`)."""
    flags: Flags = pc.fill_null(pc.or_(pc.is_nan(values), pc.equal(values, float("inf"))), False).to_numpy(
        zero_copy_only=False
    )
    return flags


def _matches(texts: pa.Array, pattern: str) -> Flags:
    flags: Flags = pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(zero_copy_only=False)
    return flags


def _only(values: pa.Array, known: Flags) -> pa.Array:
    return pc.if_else(pa.array(known), values, pa.scalar(None, values.type))
