"""Formatting and parsing of times with Java's date patterns (`yyyy/MM/dd/HH`), for timestamp key generators.

A pattern consists of fields, each a repeated letter, and literals, which are other characters or text in quotes.

    y Y x   year, year of era, year of the ISO week     a        AM or PM
    M       month; MMM and MMMM its English name        H k      hour 0-23, 1-24
    d D     day of the month, of the year               K h      hour 0-11, 1-12 of the half day
    w       ISO week                                    m s S    minute, second, fraction of it
    E e     weekday as a name, as 1-7                   Z z      offset +0100; ZZ +01:00; ZZZ and z the name

Columns have many times but few days, so both directions work on whole columns: formatting reduces a column to the
distinct times that its pattern can distinguish; parsing is one regular expression and arithmetic on its groups. Names
of regional zones (`z` for America/New_York) are not supported. Tests compare the results with the Joda formatter of
Hudi 1.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError

Millis: TypeAlias = npt.NDArray[np.int64]
"""Milliseconds: since 1970-01-01T00:00 in UTC or in a zone, or of an offset."""

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_RESOLUTION: Final = {"S": 1, "s": _SECOND, "m": _MINUTE} | dict.fromkeys("HkKha", _HOUR)
"""The precision of each letter in milliseconds; a day for other letters."""
_LETTERS: Final = frozenset("yYxMdDwEeaHkKhmsSZz")
_DIGITS_MAX: Final = {"y": 9, "Y": 9, "x": 9, "D": 3, "e": 1}
"""The maximum digits of a number in parsing; 2 for other letters."""
_LIMITS: Final = {
    "M": (1, 12),
    "d": (1, 31),
    "D": (1, 366),
    "w": (1, 53),
    "e": (1, 7),
    "H": (0, 23),
    "k": (1, 24),
    "K": (0, 11),
    "h": (1, 12),
    "m": (0, 59),
    "s": (0, 59),
}
_TWO_DIGIT_YEARS_FROM: Final = 1950
"""Two digits of a year mean 1950 to 2049. The window of Joda moves with the clock; this one does not."""
_YEAR_MAX: Final = 292_000_000
"""Milliseconds of later years exceed 64 bits."""
PATTERN_CHARACTERS_MAX: Final = 256
ZONE_CHARACTERS_MAX: Final = 64
"""The longest zone name has half of this length."""
FIELD_WIDTH_MAX: Final = 18
"""So many digits always fit into 64 bits."""
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - naive, so that a zone can be put on it
_FIRST_MS: Final = (date(1, 1, 3) - date(1970, 1, 1)).days * _DAY
_LAST_MS: Final = (date(9999, 12, 29) - date(1970, 1, 1)).days * _DAY
"""The range of Python's time zones; times outside have the offsets of these limits."""
_FIXED_ZONE = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)")


@dataclass(frozen=True, slots=True)
class Token:
    """A field of a pattern (`letter`, repeated `width` times), or a literal (`letter` is empty)."""

    letter: str
    width: int
    literal: str = ""

    @property
    def is_number(self) -> bool:
        """Whether the field only has digits."""
        return self.letter not in "EaZz" and not (self.letter == "M" and self.width > 2) and self.letter != ""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A compiled pattern; `text` is its source."""

    text: str
    tokens: tuple[Token, ...]

    @property
    def resolution_ms(self) -> int:
        """The precision of the pattern in milliseconds, from 1 to a day."""
        return min((_RESOLUTION.get(token.letter, _DAY) for token in self.tokens), default=_DAY)

    @property
    def has_offset(self) -> bool:
        """Whether the zone's offset is part of the text."""
        return any(token.letter == "Z" and token.width < 3 for token in self.tokens)


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """The result of parsing a column: times in UTC, offsets, and a mask of the valid texts."""

    utc: Millis
    offset: Millis
    is_valid: npt.NDArray[np.bool_]


@lru_cache(maxsize=64)
def compile_pattern(text: str) -> DatePattern:
    """The parts of a pattern.

    Raises:
        ConfigError: a quote is not closed, a letter is not supported, or the pattern is too long.
    """
    if len(text) > PATTERN_CHARACTERS_MAX or _HALF_PAIR.search(text):
        raise ConfigError("a date pattern is too long, or is not valid text", pattern=text[:PATTERN_CHARACTERS_MAX])
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError("a quote in a date pattern is not closed", pattern=text)
        position = found.end()
        quoted, letter, other = found.groups()
        if letter is None:
            literal = other if quoted is None else quoted.replace("''", "'") or "'"
            tokens.append(Token("", 0, literal))
        elif len(found[0]) > FIELD_WIDTH_MAX:
            raise ConfigError(f"a field of a date pattern is wider than {FIELD_WIDTH_MAX} letters", pattern=text)
        elif letter in _LETTERS:
            tokens.append(Token(letter, len(found[0])))
        else:
            raise ConfigError(
                f"the letter {letter!r} of a date pattern is not supported; put literal text into quotes",
                pattern=text,
            )
    return DatePattern(text, tuple(tokens))


def resolve_zone(name: str) -> tzinfo:
    """The zone of a Java zone id: a region (`Asia/Kolkata`), `UTC`, `Z`, or an offset (`GMT+8:00`, `+05:30`).

    Raises:
        ConfigError: there is no such zone. Java would silently use UTC.
    """
    if name in {"UTC", "GMT", "Z"}:
        return UTC
    found = _FIXED_ZONE.fullmatch(name)
    if found is not None:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        if offset < timedelta(days=1):
            return timezone(-offset if found[1] == "-" else offset)
    if len(name) > ZONE_CHARACTERS_MAX:  # each slash is one more package that Python looks for the zone in
        raise ConfigError("there is no such time zone", timezone=name[:ZONE_CHARACTERS_MAX])
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as cause:  # not a key of the zone data, in any of its forms
        raise ConfigError("there is no such time zone", timezone=name) from cause


def format_times(
    utc: Millis, pattern: DatePattern, zone: tzinfo, *, offset: Millis | None = None
) -> pa.DictionaryArray:
    """Format times as text, dictionary-encoded with int32 indices.

    `offset` is the offset of each time from UTC in milliseconds, instead of that of the zone.

    Raises:
        ConfigError: the pattern contains the name of a regional zone.

    Cost: one hash of the column; text is only made for the times that the pattern can tell apart (several of
    which may still have the same text: `MM` is the same in every year).
    """
    if offset is None:
        offset = _offsets(utc, zone, is_local=False)
    local = (utc + offset) // pattern.resolution_ms * pattern.resolution_ms
    shown_offset = offset if pattern.has_offset else np.zeros_like(offset)
    local, shown_offset, indices = _distinct_pairs(local, shown_offset)
    fields = _calendar_fields(local)
    columns = [_token_texts(token, fields, shown_offset, zone) for token in pattern.tokens]
    texts = ["".join(parts) for parts in zip(*columns, strict=True)] if columns else [""] * len(local)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def parse_times(texts: pa.StringArray, patterns: Sequence[DatePattern], zone: tzinfo | None) -> ParsedTimes:
    """The time in each text, by the first pattern that it fits as a whole.

    An offset in the text counts; else the text is in `zone`, or in UTC where that is None. Fields that a
    pattern lacks are those of 2000-01-01T00:00 (1970 where it has no date at all). Of a local time that a
    zone has twice, the first is meant. Where `is_valid` is false (also for null), the other arrays mean
    nothing.

    Cost: per pattern one regular expression over the column; pass distinct texts.
    """
    found = _nothing_parsed(len(texts))
    for pattern in patterns:
        parsed = _parse(texts, pattern, zone or UTC)
        is_new = parsed.is_valid & ~found.is_valid
        found = ParsedTimes(
            np.where(is_new, parsed.utc, found.utc),
            np.where(is_new, parsed.offset, found.offset),
            found.is_valid | parsed.is_valid,
        )
    return found


def _nothing_parsed(count: int) -> ParsedTimes:
    return ParsedTimes(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_))


def _distinct_pairs(left: Millis, right: Millis) -> tuple[Millis, Millis, pa.Int32Array]:
    """The distinct pairs of two columns, as two columns, and which pair each row has."""
    lefts, rights = pa.array(left).dictionary_encode(), pa.array(right).dictionary_encode()
    if len(rights.dictionary) <= 1:
        first = rights.dictionary.to_numpy()
        return lefts.dictionary.to_numpy(), np.repeat(first, len(lefts.dictionary)), lefts.indices
    width = len(rights.dictionary)
    codes = lefts.indices.to_numpy().astype(np.int64) * width + rights.indices.to_numpy()
    pairs = pa.array(codes).dictionary_encode()
    left_codes, right_codes = np.divmod(pairs.dictionary.to_numpy(), width)
    return (
        lefts.dictionary.to_numpy()[left_codes],
        rights.dictionary.to_numpy()[right_codes],
        pairs.indices,
    )


def _offsets(times: Millis, zone: tzinfo, *, is_local: bool) -> Millis:
    """The zone's distance from UTC at each time, which is UTC or (`is_local`) local.

    Asks the zone per day, and per time only on the days on which it changes.
    """
    if isinstance(zone, timezone):
        return np.full(len(times), _offset_at(0, zone, is_local=is_local), np.int64)
    days, which = np.unique(times // _DAY, return_inverse=True)
    starts = [_offset_at(int(day) * _DAY, zone, is_local=is_local) for day in days]
    ends = [_offset_at((int(day) + 1) * _DAY, zone, is_local=is_local) for day in days]
    offsets = np.array(starts, np.int64)[which]
    (changing,) = np.nonzero((np.array(starts, np.int64) != np.array(ends, np.int64))[which])
    if len(changing):
        distinct, which_time = np.unique(times[changing], return_inverse=True)
        exact = [_offset_at(int(time), zone, is_local=is_local) for time in distinct]
        offsets[changing] = np.array(exact, np.int64)[which_time]
    return offsets


def _offset_at(time_ms: int, zone: tzinfo, *, is_local: bool) -> int:
    clamped = min(max(time_ms, _FIRST_MS), _LAST_MS)
    moment = _EPOCH + timedelta(milliseconds=clamped)
    moment = moment.replace(tzinfo=zone) if is_local else moment.replace(tzinfo=UTC).astimezone(zone)
    return int((moment.utcoffset() or timedelta()) / timedelta(milliseconds=1))


def _calendar_fields(local: Millis) -> dict[str, Millis]:
    """The number behind each letter. Years are astronomical: the year before 1 is 0."""
    days, time_of_day = np.divmod(local, _DAY)
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    year = months // 12 + 1970
    weekday = (days + 3) % 7
    thursday = days - weekday + 3
    week_year = _year_of(thursday)
    hour = time_of_day // _HOUR
    return {
        "y": year,
        "Y": np.where(year > 0, year, 1 - year),
        "x": week_year,
        "M": months % 12 + 1,
        "d": days - _first_day_of_month(months) + 1,
        "D": days - _first_day_of_year(year) + 1,
        "w": (thursday - _first_day_of_year(week_year)) // 7 + 1,
        "e": weekday + 1,
        "E": weekday,
        "a": hour // 12,
        "H": hour,
        "k": (hour + 23) % 24 + 1,
        "K": hour % 12,
        "h": (hour + 11) % 12 + 1,
        "m": time_of_day // _MINUTE % 60,
        "s": time_of_day // _SECOND % 60,
        "S": time_of_day % _SECOND,
    }


def _year_of(days: Millis) -> Millis:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _first_day_of_month(months: Millis) -> Millis:
    """Days since the epoch of the first of a month, counted in months since the epoch."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _first_day_of_year(years: Millis) -> Millis:
    return _first_day_of_month((years - 1970) * 12)


def _token_texts(token: Token, fields: dict[str, Millis], offset: Millis, zone: tzinfo) -> list[str]:
    letter = token.letter
    if letter == "":
        return [token.literal] * len(offset)
    if letter in "Zz":
        return _zone_texts(token, offset, zone)
    if token.is_number:
        return _number_texts(token, fields[letter].tolist())
    names = {"E": _WEEKDAYS, "M": ("", *_MONTHS), "a": ("AM", "PM")}[letter]
    length = None if token.width > 3 else 3
    return [names[number][:length] for number in fields[letter].tolist()]


def _number_texts(token: Token, numbers: list[int]) -> list[str]:
    letter, width = token.letter, token.width
    if letter == "S":
        return [f"{number:03d}"[:width].ljust(width, "0") for number in numbers]
    if letter in "yYx" and width == 2:
        return [f"{abs(number) % 100:02d}" for number in numbers]
    return [f"{'-' if number < 0 else ''}{abs(number):0{width}d}" for number in numbers]


def _zone_texts(token: Token, offset: Millis, zone: tzinfo) -> list[str]:
    if token.letter == "Z" and token.width < 3:
        return [_offset_text(number, ":" if token.width == 2 else "") for number in offset.tolist()]
    if token.letter == "Z" and isinstance(zone, ZoneInfo):
        return [zone.key] * len(offset)
    if not isinstance(zone, timezone) or token.width > 3:
        raise ConfigError("the name of a time zone cannot be part of a date text; use Z", timezone=str(zone))
    fixed = _offset_at(0, zone, is_local=False)
    return [_offset_text(fixed, ":") if fixed else "UTC"] * len(offset)


def _offset_text(offset_ms: int, separator: str) -> str:
    minutes = abs(offset_ms) // _MINUTE
    return f"{'-' if offset_ms < 0 else '+'}{minutes // 60:02d}{separator}{minutes % 60:02d}"


@lru_cache(maxsize=64)
def _regex_of(pattern: DatePattern) -> str:
    """A regular expression with the group `f<i>` for the token i."""
    parts = ["^"]
    for index, (token, following) in enumerate(pairwise((*pattern.tokens, Token("", 0)))):
        if token.letter == "":
            parts.append(f"(?i:{re.escape(token.literal)})")
        else:
            parts.append(f"(?P<f{index}>{_token_regex(token, is_before_number=following.is_number)})")
    return "".join([*parts, "$"])


def _token_regex(token: Token, *, is_before_number: bool) -> str:
    letter, width = token.letter, token.width
    if letter == "Z" and width < 3:
        return r"Z|z|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?"
    if letter in "Zz":
        return "UTC|GMT|Z"
    if letter in "EM" and not token.is_number:
        return "[A-Za-z]+"
    if letter == "a":
        return "(?i:am|pm)"
    # Numbers without anything in between: only their width says where one ends.
    if letter in "yYx":
        return rf"\d{{{width}}}" if is_before_number else r"[+-]?\d{1,9}"
    digits_max = width if letter == "S" else _DIGITS_MAX.get(letter, 2)
    return rf"\d{{{digits_max}}}" if is_before_number else rf"\d{{1,{digits_max}}}"


def _parse(texts: pa.StringArray, pattern: DatePattern, zone: tzinfo) -> ParsedTimes:
    groups = pc.extract_regex(texts, _regex_of(pattern))
    (matched,) = np.nonzero(groups.is_valid().to_numpy(zero_copy_only=False))
    groups = groups.take(pa.array(matched))
    fields = {
        token.letter: _read_token(token, pc.struct_field(groups, [f"f{index}"]))
        for index, token in enumerate(pattern.tokens)
        if token.letter
    }
    days, is_valid = _days_of(fields, len(matched))
    for letter, (lowest, highest) in _LIMITS.items():
        if letter in fields:
            is_valid &= (fields[letter] >= lowest) & (fields[letter] <= highest)
    local = days * _DAY + _time_of_day(fields, len(matched))
    offset = fields["Z"] if "Z" in fields else _offsets(local, zone, is_local=True)
    if "z" in fields:
        offset = np.zeros_like(local)
    result = _nothing_parsed(len(texts))
    result.utc[matched], result.offset[matched], result.is_valid[matched] = local - offset, offset, is_valid
    return result


def _read_token(token: Token, texts: pa.StringArray) -> Millis:
    """The number that each text stands for; -1 for a name that is none."""
    if token.is_number:
        return _read_number(token, texts)
    if token.letter == "Z" and token.width < 3:
        return _read_offset(texts)
    if token.letter in "Zz":
        return np.zeros(len(texts), np.int64)
    if token.letter == "a":
        return _int64(pc.equal(pc.utf8_lower(texts), "pm"))
    names = _MONTHS if token.letter == "M" else _WEEKDAYS
    known = [name.lower() for name in names] + [name[:3].lower() for name in names]
    index = _int64(pc.fill_null(pc.index_in(pc.utf8_lower(texts), pa.array(known)), -1))
    return np.where(index < 0, -1, index % len(names) + (token.letter == "M"))


def _read_number(token: Token, texts: pa.StringArray) -> Millis:
    if token.letter == "S":
        return _int64(pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 3, "0"), 0, 3))
    numbers = _int64(pc.utf8_ltrim(texts, "+"))
    if token.letter in "yYx" and token.width == 2:
        is_short = _int64(pc.match_substring_regex(texts, r"^\d\d$")) == 1
        century = np.where(numbers < _TWO_DIGIT_YEARS_FROM % 100, 2000, 1900)
        return np.where(is_short, numbers + century, numbers)
    return numbers


def _int64(values: pa.Array) -> Millis:
    numbers: Millis = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _read_offset(texts: pa.StringArray) -> Millis:
    digits = pc.replace_substring_regex(texts, r"[^\d]", "")
    padded = pc.utf8_rpad(digits, 6, "0")
    hours, minutes, seconds = (_int64(pc.utf8_slice_codeunits(padded, at, at + 2)) for at in (0, 2, 4))
    offset = hours * _HOUR + minutes * _MINUTE + seconds * _SECOND
    return np.where(_int64(pc.starts_with(texts, "-")) == 1, -offset, offset)


def _days_of(fields: dict[str, Millis], count: int) -> tuple[Millis, npt.NDArray[np.bool_]]:
    """Days since the epoch of a date's fields, and whether there is such a date."""

    def field(*letters: str, default: int) -> Millis:
        return next((fields[letter] for letter in letters if letter in fields), np.full(count, default, np.int64))

    has_date = not fields.keys().isdisjoint("MdDweE")
    year = field("x" if "w" in fields else "y", "y", "Y", "x", default=2000 if has_date else 1970)
    is_valid = np.abs(year) <= _YEAR_MAX
    year = np.where(is_valid, year, 1970)
    if not fields.keys().isdisjoint("xw"):
        fourth = _first_day_of_year(year) + 3
        days = fourth - (fourth + 3) % 7 + (field("w", default=1) - 1) * 7 + field("e", default=1) - 1
    elif "D" in fields:
        days = _first_day_of_year(year) + fields["D"] - 1
        is_valid &= _year_of(days) == year
    else:
        months = (year - 1970) * 12 + np.clip(field("M", default=1), 1, 12) - 1
        days = _first_day_of_month(months) + field("d", default=1) - 1
        is_valid &= days < _first_day_of_month(months + 1)
    if "E" in fields:
        is_valid &= (days + 3) % 7 == fields["E"]
    return days, is_valid


def _time_of_day(fields: dict[str, Millis], count: int) -> Millis:
    nothing = np.zeros(count, np.int64)
    half_day = fields.get("h", fields.get("K", nothing)) % 12 + 12 * fields.get("a", nothing)
    hour = fields.get("H", fields.get("k", half_day)) % 24
    minutes, seconds = fields.get("m", nothing), fields.get("s", nothing)
    return hour * _HOUR + minutes * _MINUTE + seconds * _SECOND + fields.get("S", nothing)
