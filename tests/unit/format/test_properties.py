"""Properties text: Java's rules in both directions, the checksum, and what makes a table's properties whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError, CorruptDataError
from pyhudi.format import properties
from pyhudi.format.metadata.partition import PartitionMetadata, decode_partition_metadata, encode_partition_metadata
from pyhudi.format.properties import check_table_properties, format_properties, parse_properties, table_checksum

PATH = "t/.hoodie/hoodie.properties"
GOLDEN = Path(__file__).parents[2] / "golden" / "metadata"
WHOLE = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.table.checksum": "498511606",
}

# The same as in TimelineGolden.java.
ESCAPED = {
    "plain": "value",
    "empty": "",
    "a key: with=specials#!": " leading and trailing ",
    "controls": "tab\t newline\n return\r feed\f backslash\\ end\\",
    "wide": "caf\u00e9 \u20ac \U0001f600",
    "schema": '{"type":"record","doc":"a=b #c !d"}',
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
maps = st.dictionaries(texts, texts, max_size=6)


def parse(text: str) -> dict[str, str]:
    return parse_properties(text.encode("latin-1"), path=PATH)


def test_text_that_java_wrote_parses_to_the_values_it_stored() -> None:
    assert parse_properties((GOLDEN / "escaped.properties").read_bytes(), path=PATH) == ESCAPED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k=v", {"k": "v"}),
        ("k:v", {"k": "v"}),
        ("k v", {"k": "v"}),
        ("k\t\f = \t v ", {"k": "v "}),
        ("k==v", {"k": "=v"}),
        ("k : = v", {"k": "= v"}),
        ("k", {"k": ""}),
        ("=v", {"": "v"}),
        ("  k=v", {"k": "v"}),
        ("k=a\nk=b", {"k": "b"}),
        ("k=a:b=c", {"k": "a:b=c"}),
        ("k\\=\\:\\ x=v", {"k=: x": "v"}),
        ("# c=1\n ! d=2\n\n \t\nk=v\r\nl=w\rm=x", {"k": "v", "l": "w", "m": "x"}),
        ("# c \\\nk=v", {"k": "v"}),
        ("k=a\\\n   b\\\r\n\tc", {"k": "abc"}),
        ("k=a\\\n# b", {"k": "a# b"}),
        ("k=a\\\n\nl=w", {"k": "a", "l": "w"}),
        ("k=a\\", {"k": "a"}),
        ("k=a\\\\\nl=w", {"k": "a\\", "l": "w"}),
        ("k=a\\\\\\\nb", {"k": "a\\b"}),
        ("k=\\t\\n\\r\\f\\q\\\\", {"k": "\t\n\r\fq\\"}),
        ("k=\\u00e9\\u20AC\\ud83d\\ude00", {"k": "\u00e9\u20ac\U0001f600"}),
        ("k=\u00e9", {"k": "\u00e9"}),
        ("k=a#b!c", {"k": "a#b!c"}),
        ("\\", {}),
        ("", {}),
    ],
)
def test_text_parses_by_the_rules_of_java(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["k=\\u12", "k=\\uzzzz", "k=\\u", "\\u1=v", "k=\\ud83d", "k=\\ude00\\ud83d"])
def test_malformed_escape_is_refused(text: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        parse(text)
    assert caught.value.context["path"] == PATH


def test_text_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "PROPERTIES_BYTES_MAX", 3)
    with pytest.raises(CorruptDataError, match="too large"):
        parse("k=vw")


@given(maps)
@example(ESCAPED)
@example({" ": " \\", "#": "#", "\u0000": "\x7f\u2028", "": "="})
@settings(max_examples=60, deadline=None)
def test_any_values_formatted_then_parsed_are_the_same(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values, comment="c"), path=PATH) == values


def test_formatted_text_is_sorted_and_leaves_separators_in_values_alone() -> None:
    # hudi-rs undoes no escapes, so there must be none that Java can do without.
    text = format_properties({"b": "x:SIMPLE,y=1 #!", "a": " v"}, comment="two\nlines")
    assert text == b"#two\\u000alines\na=\\ v\nb=x:SIMPLE,y=1 #!\n"


def test_value_with_half_a_character_is_refused() -> None:
    with pytest.raises(ConfigError):
        format_properties({"k": "\ud83d"}, comment="c")


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_values_or_a_typed_error(data: bytes) -> None:
    try:
        values = parse_properties(data, path=PATH)
    except CorruptDataError:
        assert b"\\u" in data
    else:
        assert all(isinstance(text, str) for pair in values.items() for text in pair)


@pytest.mark.parametrize(("database", "table", "checksum"), [("", "t", "498511606"), ("", "t_metadata", "3339867397")])
def test_checksum_is_that_of_real_tables(database: str, table: str, checksum: str) -> None:
    assert table_checksum(database, table) == checksum


def test_checksum_covers_the_database() -> None:
    assert table_checksum("default", "t") != table_checksum("", "t")
    check_table_properties(
        {**WHOLE, "hoodie.database.name": "default", "hoodie.table.checksum": table_checksum("default", "t")}, PATH
    )


def test_whole_properties_pass_with_and_without_a_checksum() -> None:
    check_table_properties(WHOLE, PATH)
    check_table_properties({k: v for k, v in WHOLE.items() if k != "hoodie.table.checksum"}, PATH)


@pytest.mark.parametrize("missing", ["hoodie.table.name", "hoodie.table.type", "hoodie.table.version"])
def test_properties_without_a_required_key_are_refused_by_name(missing: str) -> None:
    with pytest.raises(CorruptDataError, match=missing) as caught:
        check_table_properties({key: value for key, value in WHOLE.items() if key != missing}, PATH)
    assert caught.value.context["path"] == PATH


@pytest.mark.parametrize(
    "changed", [{"hoodie.table.checksum": "1"}, {"hoodie.table.name": "u"}, {"hoodie.database.name": "d"}]
)
def test_properties_with_another_checksum_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(CorruptDataError, match="checksum"):
        check_table_properties({**WHOLE, **changed}, PATH)


def test_properties_cut_anywhere_are_never_taken_for_another_table() -> None:
    data = format_properties(WHOLE, comment="c")
    for size in range(len(data) - 1):
        values = parse_properties(data[:size], path=PATH)
        try:
            check_table_properties(values, PATH)
        except CorruptDataError:
            continue
        assert values == WHOLE


def test_partition_metadata_encoded_then_decoded_is_the_same() -> None:
    data = encode_partition_metadata("20240102030405678", 2)
    assert data == b"#partition metadata\ncommitTime=20240102030405678\npartitionDepth=2\n"
    assert decode_partition_metadata(data, path="p/x") == PartitionMetadata("20240102030405678", 2)


@pytest.mark.parametrize("data", [b"", b"commitTime=1", b"partitionDepth=1", b"commitTime=1\npartitionDepth=x"])
def test_partition_metadata_without_a_value_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode_partition_metadata(data, path="p/x")
    assert caught.value.context["path"] == "p/x"
