"""Timestamp partition fields: conversion of times in a column to text in an output pattern.

The options are `hoodie.keygen.timebased.*`. A time is a number since the epoch, or text in one of several input
patterns. As in JVM Hudi, null means the epoch (one unit after it, for numbers), so such rows are in the folder of 1970,
not in the null partition. Tests compare the results with Hudi 1.2.0.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.keys.java_dates import Millis, compile_pattern, format_times, parse_times, resolve_zone
from pyhudi.format.keys.value_text import distinct_values

TIMEBASED_PREFIX: Final = "hoodie.keygen.timebased."
_OLD_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."
_MILLIS_MAX: Final = 9_200_000_000_000_000_000
"""The limit of 64 bits, minus the largest offset of a zone."""

_CUT: Final = "\0"
_WHOLE_NUMBER: Final = r"^-?\d{1,18}$"

_E = TypeVar("_E", bound=enum.Enum)


class TimestampKind(enum.Enum):
    """The values in the column of a TIMESTAMP field: numbers since the epoch, or text."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"

    @property
    def is_text(self) -> bool:
        """Whether values are dates in text. MIXED is, too, because JVM Hudi has no unit for its numbers."""
        return self in {TimestampKind.DATE_STRING, TimestampKind.MIXED}


class TimeUnit(enum.Enum):
    """The unit of a SCALAR, by its name in Java."""

    DAYS = "DAYS"
    HOURS = "HOURS"
    MINUTES = "MINUTES"
    SECONDS = "SECONDS"
    MILLISECONDS = "MILLISECONDS"
    MICROSECONDS = "MICROSECONDS"
    NANOSECONDS = "NANOSECONDS"


_TO_MILLIS: Final = {
    TimeUnit.DAYS: (86_400_000, 1),
    TimeUnit.HOURS: (3_600_000, 1),
    TimeUnit.MINUTES: (60_000, 1),
    TimeUnit.SECONDS: (1_000, 1),
    TimeUnit.MILLISECONDS: (1, 1),
    TimeUnit.MICROSECONDS: (1, 1_000),
    TimeUnit.NANOSECONDS: (1, 1_000_000),
}
"""Multiplier and divisor that turn a number of the unit into milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampKeyOptions:
    """How a TIMESTAMP field becomes text: `hoodie.keygen.timebased.*`.

    `scalar_unit` is the unit of numbers if the kind is SCALAR. `input_formats` are the patterns of text; the first
    match counts. Without `input_zone`, text without an offset is in UTC. Without `output_zone`, the output is in
    `input_zone`; without both, in the offset of each text, or UTC.

    Raises:
        ConfigError: a pattern or a zone is illegal, or there is no input pattern for text.
    """

    kind: TimestampKind
    output_format: str
    scalar_unit: TimeUnit = TimeUnit.SECONDS
    input_formats: tuple[str, ...] = ()
    input_zone: str | None = None
    output_zone: str | None = None

    def __post_init__(self) -> None:
        if self.kind.is_text and not self.input_formats:
            raise ConfigError(
                f"{TIMEBASED_PREFIX}input.dateformat is required for timestamps in text",
                kind=self.kind.value,
            )
        for pattern in (self.output_format, *self.input_formats):
            compile_pattern(pattern)
        for zone in (self.input_zone, self.output_zone):
            if zone is not None:
                resolve_zone(zone)

    @property
    def unit(self) -> TimeUnit:
        """The unit of numbers."""
        return _UNITS_BY_KIND.get(self.kind, self.scalar_unit)


_UNITS_BY_KIND: Final = {
    TimestampKind.UNIX_TIMESTAMP: TimeUnit.SECONDS,
    TimestampKind.EPOCHMILLISECONDS: TimeUnit.MILLISECONDS,
    TimestampKind.EPOCHMICROSECONDS: TimeUnit.MICROSECONDS,
}


def timestamp_key_options(properties: Mapping[str, str]) -> TimestampKeyOptions | None:
    """The options of the timestamp generator in a set of properties, or None.

    Raises:
        ConfigError: a value is illegal, or one of type and output pattern is missing.
    """

    def value(name: str) -> str | None:
        return properties.get(TIMEBASED_PREFIX + name) or properties.get(_OLD_PREFIX + name) or None

    kind_name, output_format = value("timestamp.type"), value("output.dateformat")
    if kind_name is None and output_format is None:
        return None
    if kind_name is None or output_format is None:
        missing = "timestamp.type" if kind_name is None else "output.dateformat"
        raise ConfigError(f"{TIMEBASED_PREFIX}{missing} is missing")
    kind = member_of(TimestampKind, kind_name, f"{TIMEBASED_PREFIX}timestamp.type")
    unit_name = value("timestamp.scalar.time.unit") or TimeUnit.SECONDS.name
    formats = value("input.dateformat")
    delimiter = value("input.dateformat.list.delimiter.regex") or ","
    zone = value("timezone")
    return TimestampKeyOptions(
        kind=kind,
        scalar_unit=member_of(TimeUnit, unit_name, f"{TIMEBASED_PREFIX}timestamp.scalar.time.unit"),
        input_formats=_split(formats, delimiter) if formats else (),
        output_format=output_format,
        input_zone=zone or value("input.timezone"),
        output_zone=zone or value("output.timezone"),
    )


def _split(formats: str, delimiter: str) -> tuple[str, ...]:
    try:
        # By Arrow, whose expressions take linear time: tables carry this one, and Python's can be made to take years.
        marked = pc.replace_substring_regex(pa.scalar(formats), delimiter, _CUT).as_py()
    except (pa.ArrowInvalid, UnicodeEncodeError) as cause:
        raise ConfigError(
            f"{TIMEBASED_PREFIX}input.dateformat.list.delimiter.regex is not a regular expression", value=delimiter
        ) from cause
    return tuple(text.strip() for text in marked.split(_CUT))


def timestamp_texts(column: pa.Array, name: str, options: TimestampKeyOptions) -> pa.DictionaryArray:
    """A column's times in the output pattern; `name` is the column's, for errors. No entry is null.

    Raises:
        InvalidRequestError: a text fits none of the input patterns.
        ConfigError: the column's type is not what the options say.

    Cost: hashing the column; text is read and made for distinct times only.
    """
    input_zone = resolve_zone(options.input_zone) if options.input_zone is not None else None
    output_zone: tzinfo = input_zone or UTC
    if options.output_zone is not None:
        output_zone = resolve_zone(options.output_zone)
    pattern = compile_pattern(options.output_format)
    if not options.kind.is_text:
        return format_times(_epoch_millis(column, name, options.unit), pattern, output_zone)
    distinct = distinct_values(_require_text(column, name))
    texts = distinct.dictionary.cast(pa.string())
    parsed = parse_times(texts, [compile_pattern(text) for text in options.input_formats], input_zone)
    is_null = texts.is_null().to_numpy(zero_copy_only=False)
    _require_parsed(parsed.is_valid | is_null, texts, name, options.input_formats)
    epoch = parse_times(pa.array(["1970"]), [compile_pattern("yyyy")], input_zone)
    times = np.where(is_null, epoch.utc, parsed.utc)
    is_as_written = input_zone is None and options.output_zone is None
    offsets = np.where(is_null, 0, parsed.offset) if is_as_written else None
    formatted = format_times(times, pattern, output_zone, offset=offsets)
    return pa.DictionaryArray.from_arrays(formatted.indices.take(distinct.indices), formatted.dictionary)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _numbers_of(column: pa.Array, name: str) -> pa.Array:
    texts = column.cast(pa.string())
    if pc.match_substring_regex(texts, _WHOLE_NUMBER).false_count:
        other = texts.filter(pc.invert(pc.match_substring_regex(texts, _WHOLE_NUMBER)))[0].as_py()
        raise ConfigError(
            f"the partition column {name!r} must hold numbers since the epoch, but has text that is not a number; "
            f"set {TIMEBASED_PREFIX}timestamp.type to the type of its values",
            column=name,
            value=other,
        )
    return texts.cast(pa.int64())


def _require_text(column: pa.Array, name: str) -> pa.Array:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(kind):
        return column
    raise ConfigError(
        f"the partition column {name!r} must hold dates in text, but its type is {kind}; "
        f"set {TIMEBASED_PREFIX}timestamp.type to the type of its values",
        column=name,
    )


def _require_parsed(
    is_valid: npt.NDArray[np.bool_],
    texts: pa.StringArray,
    name: str,
    formats: tuple[str, ...],
) -> None:
    (failed,) = np.nonzero(~is_valid)
    if len(failed):
        raise InvalidRequestError(
            f"{len(failed)} distinct value(s) of partition column {name!r} match none of the input date formats",
            column=name,
            value=texts[int(failed[0])].as_py(),
            formats=formats,
        )


def _epoch_millis(column: pa.Array, name: str, unit: TimeUnit) -> Millis:
    """Convert numbers since the epoch to milliseconds; null counts as one unit, the default value in JVM Hudi.

    As in JVM Hudi, a date is its day number and a timestamp its microseconds, and both count in `unit`. A number may be
    text, because JVM Hudi returns such a column as text, and its SQL stores it so.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _epoch_millis(column.dictionary_decode(), name, unit)
    if pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_floating(kind):
        column = pc.trunc(pc.if_else(pc.is_nan(column), 0, column))
    elif _is_text(kind):
        column = _numbers_of(column, name)
    elif not (pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise ConfigError(
            f"the partition column {name!r} must hold numbers since the epoch, but its type is {kind}; "
            f"set {TIMEBASED_PREFIX}timestamp.type to the type of its values",
            column=name,
        )
    numbers: Millis = pc.fill_null(column.cast(pa.int64(), safe=False), 1).to_numpy(zero_copy_only=False)
    multiplier, divisor = _TO_MILLIS[unit]
    limit = np.iinfo(np.int64).max // multiplier
    scaled = np.clip(numbers, -limit, limit) * multiplier
    towards_zero = np.where(scaled < 0, -(-scaled // divisor), scaled // divisor)
    return np.clip(towards_zero, -_MILLIS_MAX, _MILLIS_MAX)


def member_of(kinds: type[_E], name: str, option: str) -> _E:
    """The member of an enumeration that an option names, in any case.

    Raises:
        ConfigError: there is no member of this name.
    """
    found = kinds.__members__.get(name.upper())
    if found is None:
        raise ConfigError(f"{option} must be one of {', '.join(kinds.__members__)}", value=name)
    return found
