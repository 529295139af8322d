"""Partition paths: escaping goldens from Hudi 1.2.0's PartitionPathEncodeUtils, and what must not be written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, UnsafePathError
from pyhudi.format.keys.partition_paths import (
    NULL_PARTITION,
    checked_segments,
    escape_value,
    format_segment,
    partition_depth,
    partition_values,
    unescape_value,
)

ESCAPED_CODES = {*range(32), 34, 35, 37, 39, 42, 47, 58, 61, 63, 91, 92, 93, 94, 123, 127}


def one_segment(value: str | None, *, hive_style: bool = False, url_encode: bool = False, first: bool = True) -> str:
    (segment,) = checked_segments("p", [value], is_first=first, hive_style=hive_style, url_encode=url_encode)
    return segment


def test_exactly_the_characters_of_hive_are_escaped() -> None:
    escaped = {code for code in range(300) if escape_value(chr(code)) != chr(code)}
    assert escaped == ESCAPED_CODES
    assert escape_value("a/b=c %é/\x01") == "a%2Fb%3Dc %25é%2F%01"


@pytest.mark.parametrize(
    ("text", "value"),
    [("%2f%zz%", "/%zz%"), ("%41", "A"), ("a%2", "a%2"), ("%C3", "\xc3"), ("%%41", "%A"), ("", "")],
)
def test_escapes_are_undone_and_anything_else_is_kept(text: str, value: str) -> None:
    assert unescape_value(text) == value


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_escaping_any_text_round_trips(value: str) -> None:
    assert unescape_value(escape_value(value)) == value


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(min_size=1)), min_size=1, max_size=3), st.booleans())
def test_url_encoded_values_come_back_from_the_path(values: list[str | None], hive_style: bool) -> None:
    fields = ["a", "b", "c"][: len(values)]
    path = "/".join(
        format_segment(field, value, hive_style=hive_style, url_encode=True)
        for field, value in zip(fields, values, strict=True)
    )
    found = partition_values(path, fields, hive_style=hive_style, url_encoded=True)
    assert list(found.values()) == [None if value == NULL_PARTITION else value for value in values]


@pytest.mark.parametrize("value", [None, ""])
def test_null_and_empty_are_the_null_partition(value: str | None) -> None:
    assert one_segment(value) == NULL_PARTITION
    assert one_segment(value, hive_style=True, url_encode=True) == f"p={NULL_PARTITION}"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (".", "step to another folder"),
        ("..", "step to another folder"),
        ("a/../b", "step to another folder"),
        ("../../etc", "step to another folder"),
        ("/etc", "starts or ends with"),
        ("a/", "starts or ends with"),
        ("a//b", "empty folder name"),
        ("a\\b", "backslash"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("\x7f", "control character"),
        (".hoodie", "reserved"),
        (".hoodie/timeline", "reserved"),
        ("a/.hoodie_partition_metadata", "reserved"),
        ("2024-01-02 03:04:05", "Hudi on the JVM"),
        ("x" * 256, "longer than 255 bytes"),
        ("é" * 128, "longer than 255 bytes"),
        ("ok/" + "x" * 500, "longer than 255 bytes"),
    ],
)
def test_value_that_makes_no_safe_path_is_refused_by_name(value: str, problem: str) -> None:
    with pytest.raises(UnsafePathError, match=problem) as caught:
        one_segment(value)
    assert caught.value.context["column"] == "p"
    assert caught.value.context["value"] == value


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("/etc", "urlencode=true"),
        ("a\x00b", "urlencode=true"),
        ("a:b", "urlencode=true"),
        ("..", "hive_style_partitioning=true"),
        (".hoodie", "hive_style_partitioning=true"),
        ("x" * 500, "partition by another column"),
    ],
)
def test_refusal_names_the_option_that_helps_and_it_does(value: str, fix: str) -> None:
    with pytest.raises(UnsafePathError, match=fix):
        one_segment(value)
    if "another" not in fix:
        one_segment(value, url_encode=True, hive_style="hive" in fix)


@pytest.mark.parametrize("value", ["a/b", "2023/11/14/22", "日本", "a b", "a<|>&}", "x" * 255, "..a", "a=b", ".h"])
def test_legal_value_stays_as_it_is_without_encoding(value: str) -> None:
    assert one_segment(value) == value


def test_colon_below_the_first_folder_is_legal() -> None:
    assert one_segment("a:b", first=False) == "a:b"
    assert one_segment("x/a:b") == "x/a:b"


def test_slash_dates_make_a_folder_per_part_of_the_value_only() -> None:
    segment = format_segment("my-day", "2024-01-02", hive_style=True, url_encode=True, slash_dates=True)
    assert segment == "my-day=2024/01/02"


def test_depth_counts_folders_below_the_table() -> None:
    assert [partition_depth(path) for path in ("", "p=1", "p=a/p2=b", "2023/11/14/22")] == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("path", "fields", "hive_style", "values"),
    [
        ("", [], False, {}),
        ("2023/11/14", ["t"], False, {"t": "2023/11/14"}),
        ("t=2023/11/14", ["t"], True, {"t": "2023/11/14"}),
        ("a=x/y/b=z", ["a", "b"], True, {"a": "x/y", "b": "z"}),
        ("a=/b=1", ["a", "b"], True, {"a": "", "b": "1"}),
        ("x/y", ["a", "b"], False, {"a": "x", "b": "y"}),
        (f"a={NULL_PARTITION}/b=%2F", ["a", "b"], True, {"a": None, "b": "%2F"}),
    ],
)
def test_path_reads_back_to_its_values(
    path: str, fields: list[str], hive_style: bool, values: dict[str, str | None]
) -> None:
    assert partition_values(path, fields, hive_style=hive_style, url_encoded=False) == values


@pytest.mark.parametrize(
    ("path", "fields", "hive_style"),
    [
        ("x/y/z", ["a", "b"], False),
        ("x", ["a", "b"], False),
        ("x", [], False),
        ("", ["a"], False),
        ("x", ["a"], True),
        ("a=1", ["a", "b"], True),
        ("b=1/a=2", ["a", "b"], True),
    ],
)
def test_path_that_does_not_fit_the_fields_is_corrupt(path: str, fields: list[str], hive_style: bool) -> None:
    with pytest.raises(CorruptDataError):
        partition_values(path, fields, hive_style=hive_style, url_encoded=False)
