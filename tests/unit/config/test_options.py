"""The registry: every key once, unknown ones with a hint."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.config
from pyhudi.config.enums import QueryType, TimelineTimezone
from pyhudi.config.option import Option, OptionWarning, text_of
from pyhudi.config.parsers import boolean, column_names, fraction, integer, regular_expression
from pyhudi.config.refused_keys import REFUSED, Side
from pyhudi.config.registry import OPTIONS, SECTIONS, given_options, nearest_key
from pyhudi.config.unsupported_keys import UNSUPPORTED, unsupported_area
from pyhudi.errors import ConfigError

ALL_OPTIONS = [declared for section in SECTIONS for declared in section.options]


def test_registry_gives_an_option_for_each_of_its_spellings():
    assert OPTIONS["hoodie.datasource.write.precombine.field"] is OPTIONS["hoodie.table.ordering.fields"]
    assert len(OPTIONS) == sum(len(declared.spellings) for declared in ALL_OPTIONS)


def test_honoured_key_is_in_no_area_without_effect():
    assert [key for key in OPTIONS if key in {name for area in (*UNSUPPORTED, *REFUSED) for name in area.keys}] == []


def test_key_without_effect_is_listed_once():
    listed = [name for area in UNSUPPORTED for name in area.keys]
    assert len(listed) == len(set(listed))


def test_default_of_every_option_is_legal():
    for declared in ALL_OPTIONS:
        if declared.default is not None:
            assert declared.parse(text_of(declared.default)) == declared.default, declared.key


def test_every_option_has_a_sentence_of_meaning():
    assert [o.key for o in ALL_OPTIONS if not o.doc.endswith(".") or o.doc.startswith(" ")] == []


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("hoodie.datasource.write.recordkey.fields", "hoodie.datasource.write.recordkey.field"),
        ("hoodie.datasource.write.precombine.fields", "hoodie.datasource.write.precombine.field"),
        ("hoodie.upsert.shuffle.paralelism", "hoodie.upsert.shuffle.parallelism"),
        ("hoodie.keep.max.commit", "hoodie.keep.max.commits"),
    ],
)
def test_misspelt_key_warns_with_the_nearest_known_one(misspelt, meant):
    with pytest.warns(OptionWarning, match=f"did you mean {meant}\\?"):
        assert given_options({misspelt: "x"}, Side.WRITE) == {}


def test_key_like_no_other_warns_without_a_guess():
    assert nearest_key("hoodie.zzz") is None
    with pytest.warns(OptionWarning, match=r"hoodie\.zzz has no effect: this key is unknown, and no key"):
        given_options({"hoodie.zzz": "1"}, Side.READ)


def test_known_jvm_key_warns_with_the_reason():
    with pytest.warns(OptionWarning, match="chooses how many tasks delete"):
        given_options({"hoodie.clean.parallelism": 3}, Side.WRITE)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.metadata.index.async": False},
        {"hoodie.clean.multiple.enabled": "false"},
        {"hoodie.write.auto.upgrade": "false"},
        {"some.other.key": 1, "fs.s3a.access.key": "k"},
        {"hoodie.no.such.key": None},
    ],
)
def test_option_that_asks_for_nothing_else_is_silent(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert given_options(options, Side.WRITE) == {}


def test_unsupported_area_goes_by_exact_names_and_by_prefixes():
    assert unsupported_area("hoodie.metrics.datadog.api.key").area == "details of JVM Hudi's metrics"
    assert unsupported_area("hoodie.commits.archival.batch").area == "archiving"
    assert unsupported_area("hoodie.commits.archival.batch.x") is None


def test_option_warning_is_exported_where_users_look_for_it():
    assert pyhudi.config.OptionWarning is OptionWarning


def test_two_spellings_that_agree_count_as_one():
    options = {"hoodie.table.ordering.fields": "ts", "hoodie.datasource.write.precombine.field": "ts"}
    given = given_options(options, Side.WRITE)
    assert given == {"hoodie.table.ordering.fields": "ts"}


def test_two_spellings_that_differ_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"hoodie\.table\.ordering\.fields and .*precombine\.field are two names"):
        given_options(
            {"hoodie.table.ordering.fields": "ts", "hoodie.datasource.write.precombine.field": "v"}, Side.WRITE
        )


@pytest.mark.parametrize(
    ("parser", "text", "value"),
    [
        (boolean(), "TRUE", True),
        (boolean(), "false", False),
        (integer(minimum=0), "0", 0),
        (fraction(), "1e-9", 1e-9),
        (column_names(), "a, b", ("a", "b")),
        (column_names(may_be_empty=True), "", ()),
        (regular_expression(), "2026-.*", "2026-.*"),
    ],
)
def test_legal_text_parses(parser, text, value):
    assert Option(key="hoodie.x", parser=parser, default=None, doc="").parse(text) == value


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (boolean(), "yes"),
        (boolean(), "1"),
        (boolean(), ""),
        (integer(minimum=1), "0"),
        (integer(minimum=1), "1.5"),
        (integer(minimum=1), "120MB"),
        (integer(minimum=1), str(2**63)),
        (fraction(), "0"),
        (fraction(), "1.1"),
        (fraction(), "nan"),
        (column_names(), ""),
        (column_names(), "a,,b"),
        (column_names(), "a,a"),
        (regular_expression(), ""),
        (regular_expression(), "(a"),
    ],
)
def test_illegal_text_is_refused_with_key_value_and_what_is_legal(parser, text):
    with pytest.raises(ConfigError) as caught:
        Option(key="hoodie.x", parser=parser, default=None, doc="").parse(text)
    assert caught.value.context == {"option": "hoodie.x", "value": text, "legal": parser.legal}
    assert "hoodie.x" in caught.value.message
    assert parser.legal in caught.value.message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (["a", "b"], "a,b"),
        ("x", "x"),
        (1e-9, "1e-09"),
        ((QueryType.SNAPSHOT, TimelineTimezone.UTC), "snapshot,UTC"),
    ],
)
def test_python_value_has_the_text_that_hudi_would_use(value, text):
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("text", "layout"),
    [("linear", "LINEAR"), ("ZORDER", "ZORDER"), ("z-order", "ZORDER"), ("Hilbert", "HILBERT")],
)
def test_layout_is_known_by_all_its_spellings(text, layout):
    option = OPTIONS["hoodie.layout.optimize.strategy"]
    assert option.parse(text).name == layout
    with pytest.raises(ConfigError, match="one of LINEAR, ZORDER, HILBERT"):
        option.parse("spiral")


def test_warning_of_an_option_points_to_the_line_of_the_caller(tmp_path: Path):
    with pytest.warns(OptionWarning) as caught:
        pyhudi.HudiTable.create(
            str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]), hudi_options={"hoodie.no.such.key": "1"}
        )
    assert {warning.filename for warning in caught} == {__file__}
