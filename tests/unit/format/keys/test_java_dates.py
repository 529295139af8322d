"""Date patterns: goldens are what Hudi 1.2.0's timestamp key generator (Joda) gave for the same input."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.format.keys.java_dates import compile_pattern, format_times, parse_times, resolve_zone

TIMES = np.array([0, 1700000000123, -1, -62135596800001, 253402300800000, -99999999999999, 951782400000])
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"

FORMATTED = [
    (
        "UTC",
        "yyyy-MM-dd",
        "1970-01-01|2023-11-14|1969-12-31|0000-12-31|10000-01-01|-1199-02-15|2000-02-29",
    ),
    (
        "UTC",
        "yyyy/MM/dd/HH",
        "1970/01/01/00|2023/11/14/22|1969/12/31/23|0000/12/31/23|10000/01/01/00|-1199/02/15/14|2000/02/29/00",
    ),
    ("UTC", "yy-M-d", "70-1-1|23-11-14|69-12-31|00-12-31|00-1-1|99-2-15|00-2-29"),
    (
        "UTC",
        "EEE dd MMM yyyy",
        ("Thu 01 Jan 1970|Tue 14 Nov 2023|Wed 31 Dec 1969|Sun 31 Dec 0000|Sat 01 Jan 10000|Thu 15 Feb -1199|"
        "Tue 29 Feb 2000"),
    ),
    ("UTC", "EEEE", "Thursday|Tuesday|Wednesday|Sunday|Saturday|Thursday|Tuesday"),
    ("UTC", "hh:mm a", "12:00 AM|10:13 PM|11:59 PM|11:59 PM|12:00 AM|02:13 PM|12:00 AM"),
    ("UTC", "KK kk", "00 24|10 22|11 23|11 23|00 24|02 14|00 24"),
    ("UTC", "DDD", "001|318|365|366|001|046|060"),
    (
        "UTC",
        "xxxx-'W'ww-e",
        "1970-W01-4|2023-W46-2|1970-W01-3|0000-W52-7|9999-W52-6|-1199-W07-4|2000-W09-2",
    ),
    ("UTC", "S SS SSS SSSS", ("0 00 000 0000|1 12 123 1230|9 99 999 9990|9 99 999 9990|0 00 000 0000|"
     "0 00 001 0010|0 00 000 0000")),
    ("UTC", "YYYY", "1970|2023|1969|0001|10000|1200|2000"),
    ("UTC", "''yyyy''", "'1970'|'2023'|'1969'|'0000'|'10000'|'-1199'|'2000'"),
    ("UTC", "z ZZZ", "UTC UTC|UTC UTC|UTC UTC|UTC UTC|UTC UTC|UTC UTC|UTC UTC"),
    ("GMT+8:00", "yyyy-MM-dd HH ZZ z", ("1970-01-01 08 +08:00 +08:00|2023-11-15 06 +08:00 +08:00|"
     "1970-01-01 07 +08:00 +08:00|0001-01-01 07 +08:00 +08:00|10000-01-01 08 +08:00 +08:00|"
     "-1199-02-15 22 +08:00 +08:00|2000-02-29 08 +08:00 +08:00")),
    (
        "America/New_York",
        ISO,
        ("1969-12-31T19:00:00.000-0500|2023-11-14T17:13:20.123-0500|1969-12-31T18:59:59.999-0500|"
        "0000-12-31T19:03:57.999-0456|9999-12-31T19:00:00.000-0500|-1199-02-15T09:17:18.001-0456|"
        "2000-02-28T19:00:00.000-0500"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "pattern", "texts"), FORMATTED, ids=lambda value: str(value)[:20])
def test_times_format_as_in_joda(zone: str, pattern: str, texts: str) -> None:
    result = format_times(TIMES, compile_pattern(pattern), resolve_zone(zone))
    assert result.type == pa.dictionary(pa.int32(), pa.string())
    assert result.to_pylist() == texts.split("|")


PARSED = [
    ("yyyy-MM-dd", "2023-1-2", "2023-01-02T00:00:00.000"),
    ("yyyy-MM-dd", "23-1-2", "0023-01-02T00:00:00.000"),
    ("yy-MM-dd", "23-1-2", "2023-01-02T00:00:00.000"),
    ("yy-MM-dd", "75-1-2", "1975-01-02T00:00:00.000"),
    ("yy-MM-dd", "2023-01-02", "2023-01-02T00:00:00.000"),
    ("yyyy-MM-dd", "2023-13-01", None),
    ("yyyy-MM-dd", "2023-02-30", None),
    ("yyyy-MM-dd", " 2023-02-03", None),
    ("yyyy-MM-dd", "2023-02-03x", None),
    ("yyyy-MM-dd", "-0001-01-01", "-0001-01-01T00:00:00.000"),
    ("yyyy-MM-dd", "+2023-01-01", "2023-01-01T00:00:00.000"),
    ("yyyyMMdd", "20230203", "2023-02-03T00:00:00.000"),
    ("yyyyMMdd", "120230203", None),
    ("yyyyMM", "2023", None),
    ("yyyyMMddHHmmssSSS", "20230203010203456", "2023-02-03T01:02:03.456"),
    ("yyyy-MM-dd HH:mm:ss.SSS", "2023-02-03 01:02:03.4", "2023-02-03T01:02:03.400"),
    ("yyyy-MM-dd HH:mm:ss.SSS", "2023-02-03 01:02:03.456789", None),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "2023-02-03T01:02:03+0200", "2023-02-02T23:02:03.000"),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "2023-02-03T01:02:03-03:30", "2023-02-03T04:32:03.000"),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "2023-02-03T01:02:03Z", "2023-02-03T01:02:03.000"),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "2023-02-03T01:02:03+02", "2023-02-02T23:02:03.000"),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "2023-02-03T01:02:03", None),
    ("yyyy-MM-dd'T'HH:mm:ss'Z'", "2023-02-03T01:02:03Z", "2023-02-03T01:02:03.000"),
    ("dd MMM yyyy", "3 FEB 2023", "2023-02-03T00:00:00.000"),
    ("dd MMM yyyy", "3 February 2023", "2023-02-03T00:00:00.000"),
    ("dd MMM yyyy", "3 Foo 2023", None),
    ("hh:mm a yyyy", "12:30 PM 2023", "2023-01-01T12:30:00.000"),
    ("hh:mm a yyyy", "1:30 pm 2023", "2023-01-01T13:30:00.000"),
    ("EEE yyyy-MM-dd", "Fri 2023-02-03", "2023-02-03T00:00:00.000"),
    ("yyyy", "2023", "2023-01-01T00:00:00.000"),
    ("MM-dd", "02-03", "2000-02-03T00:00:00.000"),
    ("yyyy-DDD", "2023-034", "2023-02-03T00:00:00.000"),
    ("yyyy-DDD", "2023-366", None),
    ("HH:mm", "24:00", None),
    ("HH:mm", "07:08", "1970-01-01T07:08:00.000"),
    ("yyyy-MM-dd kk", "2023-02-03 24", "2023-02-03T00:00:00.000"),
    ("xxxx-ww", "2023-10", "2023-03-06T00:00:00.000"),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), PARSED)
def test_texts_parse_as_in_joda(pattern: str, text: str, expected: str | None) -> None:
    parsed = parse_times(pa.array([text]), [compile_pattern(pattern)], resolve_zone("UTC"))
    assert parsed.is_valid.tolist() == [expected is not None]
    if expected is not None:
        assert format_times(parsed.utc, compile_pattern(ISO), UTC).to_pylist() == [f"{expected}+0000"]


def test_text_without_offset_is_in_the_given_zone_and_the_first_of_two_times() -> None:
    texts = pa.array(["2023-02-03 00", "2023-07-03 00", "2023-11-05 01"])
    parsed = parse_times(texts, [compile_pattern("yyyy-MM-dd HH")], resolve_zone("America/New_York"))
    shown = format_times(parsed.utc, compile_pattern("MM-dd HH"), UTC)
    assert shown.to_pylist() == ["02-03 05", "07-03 04", "11-05 05"]


def test_several_patterns_each_text_takes_the_first_that_fits() -> None:
    patterns = [compile_pattern(text) for text in ("yyyy-MM-dd", "yyyy/MM/dd", "yyyy-MM-dd HH")]
    parsed = parse_times(pa.array(["2023/01/05", None, "2023-01-05 07", "x", "2023-01-06"]), patterns, None)
    assert parsed.is_valid.tolist() == [True, False, True, False, True]
    shown = format_times(parsed.utc[parsed.is_valid], compile_pattern("dd HH"), UTC)
    assert shown.to_pylist() == ["05 00", "05 07", "06 00"]


def test_text_that_fits_two_patterns_takes_the_first() -> None:
    patterns = [compile_pattern("dd/MM/yyyy"), compile_pattern("MM/dd/yyyy")]
    parsed = parse_times(pa.array(["03/04/2023", "03/14/2023"]), patterns, None)
    shown = format_times(parsed.utc, compile_pattern("yyyy-MM-dd"), UTC)
    assert shown.to_pylist() == ["2023-04-03", "2023-03-14"]


def test_offset_changes_at_the_minute_within_a_day() -> None:
    times = np.array([1678604399999, 1678604400000, 1699163999999, 1699164000000])
    shown = format_times(times, compile_pattern("MM-dd HH:mm Z"), resolve_zone("America/New_York"))
    assert shown.to_pylist() == [
        "03-12 01:59 -0500",
        "03-12 03:00 -0400",
        "11-05 01:59 -0400",
        "11-05 01:00 -0500",
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
@settings(max_examples=25, deadline=None)
@given(millis=st.lists(st.integers(0, 4_000_000_000_000), max_size=20))
def test_any_time_formats_as_pythons_calendar_says(zone: str, millis: list[int]) -> None:
    shown = format_times(np.array(millis, np.int64), compile_pattern("yyyy-MM-dd HH:mm:ss.SSS Z"), resolve_zone(zone))
    moments = [datetime.fromtimestamp(time // 1000, ZoneInfo(zone)) for time in millis]
    expected = [
        f"{moment:%Y-%m-%d %H:%M:%S}.{time % 1000:03d} {moment:%z}"
        for moment, time in zip(moments, millis, strict=True)
    ]
    assert shown.to_pylist() == expected


@settings(max_examples=30, deadline=None)
@given(millis=st.lists(st.integers(-9_000_000_000_000, 9_000_000_000_000), max_size=20))
def test_formatted_time_parses_back(millis: list[int]) -> None:
    pattern, zone = compile_pattern(ISO), resolve_zone("Europe/Berlin")
    times = np.array([time // 60_000 * 60_000 for time in millis if time > -2_000_000_000_000], np.int64)
    parsed = parse_times(format_times(times, pattern, zone).cast(pa.string()), [pattern], zone)
    assert parsed.utc.tolist() == times.tolist()


def test_column_of_times_has_a_text_per_distinct_day_only() -> None:
    times = np.arange(1_700_000_000_000, 1_700_000_000_000 + 2 * 86_400_000, 60_000)
    result = format_times(times, compile_pattern("yyyy/MM/dd"), resolve_zone("America/New_York"))
    assert result.dictionary.to_pylist() == ["2023/11/14", "2023/11/15", "2023/11/16"]


@pytest.mark.parametrize("text", ["yyyy-MM-dd'T", "uuuu", "yyyyXXX"])
def test_pattern_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        compile_pattern(text)


@pytest.mark.parametrize("name", ["Nowhere/X", "UTC+99", "", "../etc/passwd", "Asia"])
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        resolve_zone(name)


def test_name_of_a_regional_zone_in_the_output_is_refused() -> None:
    with pytest.raises(ConfigError, match="name"):
        format_times(TIMES, compile_pattern("yyyy z"), resolve_zone("Asia/Kolkata"))
