"""Functions of Spark that expression indexes are over: what is known of their values without Spark.

A statistic may be too wide, but never too narrow. So each function gives the values exactly, or two columns between
which they lie, or nothing. Functions of a time zone are of the second kind: an index does not say in which zone it is
asked, so bounds hold in all of them, which lie at most 18 hours from UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

IDENTITY: Final = "identity"
DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
_ZONE_SECONDS: Final = 18 * 3600
_FIRST_SECOND: Final = -30_610_224_000
"""The year 1000: texts of years with four digits have the order of their times."""
_LAST_SECOND: Final = 253_402_300_799 - _ZONE_SECONDS
_INSTANT: Final = pa.timestamp("us", "UTC")
_SIGNS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PART: Final = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/:., _]+")


@dataclass(frozen=True, slots=True)
class Between:
    """What is known of the values of an expression: each lies between those of two columns, and is null where they are.

    `low` is `high` where the values are known exactly.
    """

    low: pa.Array
    high: pa.Array

    @property
    def is_exact(self) -> bool:
        """Whether these are the values."""
        return self.low is self.high


Options = Mapping[str, str]
_Evaluate = Callable[[pa.Array, Options], "Between | None"]


def _not_at_all(values: pa.Array, options: Options) -> Between | None:
    del values, options
    return None


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the type of its values (None: that of the column), its options, and what is known of its values.

    `keeps_nulls`: it gives null for null and for nothing else.
    """

    kind: pa.DataType | None
    options: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    evaluate: _Evaluate = _not_at_all
    keeps_nulls: bool = True


def result_type(function: str, column: pa.DataType) -> pa.DataType:
    """The type of the values of a function over a column."""
    return FUNCTIONS[function].kind or column


def evaluated(function: str, values: pa.Array, options: Options) -> Between | None:
    """What is known of the values of a function over a column; None: nothing but their type."""
    try:
        return FUNCTIONS[function].evaluate(values, options)
    except pa.ArrowException:  # numbers beyond a type, or text beyond a function of Arrow
        return None


def _exactly(of: Callable[[pa.Array, Options], pa.Array | None], *kinds: Callable[[pa.DataType], bool]) -> _Evaluate:
    def evaluate(values: pa.Array, options: Options) -> Between | None:
        found = of(values, options) if any(fits(values.type) for fits in kinds) else None
        return None if found is None else Between(found, found)

    return evaluate


def _is_ascii(values: pa.Array) -> bool:
    return bool(pc.all(pc.string_is_ascii(values), min_count=0).as_py())


def _lower(values: pa.Array, options: Options) -> pa.Array | None:
    """The case of other characters depends on the release of Java."""
    del options
    return pc.ascii_lower(values) if _is_ascii(values) else None


def _upper(values: pa.Array, options: Options) -> pa.Array | None:
    del options
    return pc.ascii_upper(values) if _is_ascii(values) else None


def _trim(kernel: Callable[..., pa.Array]) -> _Evaluate:
    def of(values: pa.Array, options: Options) -> pa.Array:
        return kernel(values, options.get("trimString", " "))

    return _exactly(of, pa.types.is_string)


def _length(values: pa.Array, options: Options) -> pa.Array:
    del options
    length = pc.utf8_length if pa.types.is_string(values.type) else pc.binary_length
    return length(values).cast(pa.int32())


def _substring(values: pa.Array, options: Options) -> pa.Array | None:
    """A place counts from 1; 0 is the first one, too. Those from the end are left to Spark."""
    place, length = int(options["pos"]), int(options["len"])
    start = max(place - 1, 0)
    return pc.utf8_slice_codeunits(values, start, start + max(length, 0)) if place >= 0 else None


def _days_later(sign: int) -> _Evaluate:
    def of(values: pa.Array, options: Options) -> pa.Array:
        return pc.add_checked(values.cast(pa.int32()), pa.scalar(sign * int(options["days"]), pa.int32())).cast(
            pa.date32()
        )

    return _exactly(of, pa.types.is_date)


def _part_of_date(kernel: Callable[[pa.Array], pa.Array], low: int, high: int) -> _Evaluate:
    """A part of a date is exact; that of an instant depends on the time zone."""

    def evaluate(values: pa.Array, options: Options) -> Between | None:
        del options
        if pa.types.is_date(values.type) or _is_local(values.type):
            found = kernel(values).cast(pa.int32())
            return Between(found, found)
        if not pa.types.is_timestamp(values.type):
            return None
        if kernel is pc.year:
            ends = [kernel(moved).cast(pa.int32()) for moved in _in_all_zones(values.cast(pa.timestamp("s", "UTC")))]
            return Between(*ends)
        is_null = values.is_null()
        none = pa.scalar(None, pa.int32())
        return Between(*(pc.if_else(is_null, none, pa.scalar(end, pa.int32())) for end in (low, high)))

    return evaluate


def _is_local(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None


def _in_all_zones(seconds: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The clock of the westernmost and easternmost zone at times in seconds, as times without a zone."""
    numbers = seconds.cast(pa.int64())
    return (
        pc.subtract_checked(numbers, _ZONE_SECONDS).cast(pa.timestamp("s")),
        pc.add_checked(numbers, _ZONE_SECONDS).cast(pa.timestamp("s")),
    )


def format_of(pattern: str) -> str | None:
    """The format of Arrow and Python for a pattern whose texts have the order of their times; None for others."""
    parts = _PART.findall(pattern)
    signs = [part for part in parts if part in _SIGNS]
    if "".join(parts) != pattern or signs != list(_SIGNS)[: len(signs)] or not signs:
        return None
    return "".join(_SIGNS.get(part, part) for part in parts)


def _from_unixtime(values: pa.Array, options: Options) -> Between | None:
    if not pa.types.is_integer(values.type):
        return None
    return _texts_of_times(values.cast(pa.int64()), options.get("format", DEFAULT_FORMAT))


def _date_format(values: pa.Array, options: Options) -> Between | None:
    form = format_of(options["format"])
    if pa.types.is_date(values.type) and form is not None:
        seconds = pc.multiply_checked(values.cast(pa.int32()).cast(pa.int64()), 86_400)
        if not _has_four_digits(seconds):
            return None
        found = pc.strftime(seconds.cast(pa.timestamp("s")), form)
        return Between(found, found)
    if not pa.types.is_timestamp(values.type) or _is_local(values.type):
        return None
    return _texts_of_times(_whole_seconds(values), options["format"])


def _whole_seconds(values: pa.Array) -> pa.Array:
    return pc.floor_temporal(values, unit="second").cast(pa.timestamp("s", "UTC")).cast(pa.int64())


def _texts_of_times(seconds: pa.Array, pattern: str) -> Between | None:
    form = format_of(pattern)
    if form is None or not _has_four_digits(seconds):
        return None
    low, high = (pc.strftime(moved, form) for moved in _in_all_zones(seconds))
    return Between(low, high)


def _has_four_digits(seconds: pa.Array) -> bool:
    ends = pc.min_max(seconds)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is None or (low >= _FIRST_SECOND and high <= _LAST_SECOND)


def _unix_timestamp(values: pa.Array, options: Options) -> pa.Array | None:
    del options
    return None if _is_local(values.type) else _whole_seconds(values)


def _same(values: pa.Array, options: Options) -> pa.Array:
    del options
    return values


def _any_type(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


_part_of_hour: Final = _part_of_date(pc.hour, 0, 23)


def _hour(values: pa.Array, options: Options) -> Between | None:
    return _part_of_hour(values, options) if pa.types.is_timestamp(values.type) else None


_FORMAT: Final = frozenset({"format"})
_TRIM: Final = frozenset({"trimString"})
_SUBSTRING: Final = frozenset({"pos", "len"})
_REPLACE: Final = frozenset({"pattern", "replacement"})
_EXTRACT: Final = frozenset({"pattern", "idx"})
_DAYS: Final = frozenset({"days"})

FUNCTIONS: Final[Mapping[str, Function]] = {
    IDENTITY: Function(None, evaluate=_exactly(_same, _any_type)),
    "lower": Function(pa.string(), evaluate=_exactly(_lower, pa.types.is_string)),
    "upper": Function(pa.string(), evaluate=_exactly(_upper, pa.types.is_string)),
    "trim": Function(pa.string(), _TRIM, evaluate=_trim(pc.utf8_trim)),
    "ltrim": Function(pa.string(), _TRIM, evaluate=_trim(pc.utf8_ltrim)),
    "rtrim": Function(pa.string(), _TRIM, evaluate=_trim(pc.utf8_rtrim)),
    "length": Function(pa.int32(), evaluate=_exactly(_length, pa.types.is_string, pa.types.is_binary)),
    "substring": Function(pa.string(), _SUBSTRING, _SUBSTRING, _exactly(_substring, pa.types.is_string)),
    "regexp_replace": Function(pa.string(), _REPLACE, _REPLACE),
    "regexp_extract": Function(pa.string(), _EXTRACT, _EXTRACT),
    "date_add": Function(pa.date32(), _DAYS, _DAYS, _days_later(1), keeps_nulls=False),
    "date_sub": Function(pa.date32(), _DAYS, _DAYS, _days_later(-1), keeps_nulls=False),
    "date_format": Function(pa.string(), _FORMAT, _FORMAT, _date_format, keeps_nulls=False),
    "from_unixtime": Function(pa.string(), _FORMAT, evaluate=_from_unixtime, keeps_nulls=False),
    "unix_timestamp": Function(
        pa.int64(), _FORMAT, evaluate=_exactly(_unix_timestamp, pa.types.is_timestamp), keeps_nulls=False
    ),
    "to_date": Function(pa.date32(), _FORMAT, keeps_nulls=False),
    "to_timestamp": Function(_INSTANT, _FORMAT, keeps_nulls=False),
    "year": Function(pa.int32(), evaluate=_part_of_date(pc.year, 0, 0), keeps_nulls=False),
    "month": Function(pa.int32(), evaluate=_part_of_date(pc.month, 1, 12), keeps_nulls=False),
    "day": Function(pa.int32(), evaluate=_part_of_date(pc.day, 1, 31), keeps_nulls=False),
    "hour": Function(pa.int32(), evaluate=_hour, keeps_nulls=False),
}
"""The functions over which JVM Hudi makes indexes, but `split`, whose values are lists."""
