"""Arguments of a call: by name and position, in any case, by type; options and patterns in them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pyhudi.errors import ConfigError
from pyhudi.sql.procedures.binding import Argument, WrongArgumentError, bind
from pyhudi.sql.procedures.call_context import Given, options_of
from pyhudi.sql.procedures.globs import glob_pattern
from pyhudi.sql.procedures.metadata_table import overlap_of
from pyhudi.sql.procedures.registry import described, procedure_named


def _bound(name: str, *positions: Any, **named: Any) -> Given:
    arguments = [Argument(value) for value in positions]
    return bind(procedure_named(name), [*arguments, *(Argument(value, key) for key, value in named.items())])


def test_arguments_by_position_and_by_name_in_any_case_are_bound() -> None:
    given = _bound("show_timeline", "trips", SHOWARCHIVED=True, Limit=5)
    assert (given.text("table"), given.number("limit"), given.flag("showArchived")) == ("trips", 5, True)
    assert given.text("filter") == ""
    assert given.is_given("limit")
    assert not given.is_given("filter")


def test_a_null_is_as_if_the_argument_was_not_given() -> None:
    given = _bound("show_commits", table="trips", limit=None)
    assert given.number("limit") == 10
    assert not given.is_given("limit")


@pytest.mark.parametrize(
    ("value", "bound"),
    [("7", 7), (Decimal("7"), 7), (-1, -1)],
)
def test_a_number_may_be_written_as_text_or_decimal(value: Any, bound: int) -> None:
    assert _bound("show_commits", table="trips", limit=value).number("limit") == bound


@pytest.mark.parametrize("value", ["x", Decimal("2.5"), True, 2**31, [1], 1.0])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(WrongArgumentError, match="limit must be of type int"):
        _bound("show_commits", table="trips", limit=value)


def test_an_instant_may_be_written_as_a_number_and_flags_as_text() -> None:
    given = _bound("rollback_to_instant", table="trips", instant_time=20240131100000000)
    assert given.text("instant_time") == "20240131100000000"
    assert _bound("show_timeline", table="trips", showArchived="TRUE").flag("showArchived")


def test_an_array_is_a_list_and_a_map_is_options() -> None:
    given = _bound("run_clustering", table="trips", instants=["1", "2"], options={"a.b": 1, "c": True})
    assert given.words("instants") == ("1", "2")
    assert options_of(given) == {"a.b": "1", "c": "true"}
    with pytest.raises(WrongArgumentError, match="order must be of type string"):
        _bound("run_clustering", table="trips", order={"a": "b"})


@pytest.mark.parametrize(
    ("positions", "named", "problem", "nearest"),
    [
        ([], {"tabel": "trips"}, "no parameter tabel", "table"),
        ([], {"table": "trips", "lim": 3}, "no parameter lim", "limit"),
        ([], {}, "needs table", None),
        ([], {"table": None}, "needs table", None),
        (["trips", 1, 2], {}, "at most", None),
        (["trips"], {"table": "trips"}, "table is given twice", None),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_nearest_name(
    positions: list[Any], named: dict[str, Any], problem: str, nearest: str | None
) -> None:
    with pytest.raises(WrongArgumentError, match=problem) as caught:
        _bound("show_commits", *positions, **named)
    assert caught.value.nearest == nearest


def test_a_position_behind_a_name_is_refused() -> None:
    with pytest.raises(WrongArgumentError, match="without a name"):
        bind(procedure_named("show_commits"), [Argument("trips", "table"), Argument(3)])


def test_a_path_may_stand_for_the_table_everywhere() -> None:
    assert _bound("show_commits", path="/t").text("path") == "/t"


def test_options_are_cut_as_jvm_hudi_cuts_them() -> None:
    given = _bound("run_clustering", options=" a = 1 ,, b=x=y ,")
    assert options_of(given) == {"a": "1", "b": "x=y"}
    for wrong in ("a", "=1", "a=1,a=2"):
        with pytest.raises(ConfigError):
            options_of(_bound("run_clustering", options=wrong))


def test_an_unknown_procedure_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        procedure_named("show_comits")
    assert caught.value.context["nearest"] == "show_commits"


def test_help_describes_parameters_and_columns() -> None:
    text = described(procedure_named("SHOW_COMMITS"))
    assert "\tlimit                         \tinteger                       \t10  " in text
    assert "\ttotal_errors                  \tlong                          \ttrue" in text


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("*", ["city=oslo", ""], ["a/b"]),
        ("2024/*", ["2024/01"], ["2024", "2024/01/02"]),
        ("city={oslo,rome}", ["city=oslo", "city=rome"], ["city=bonn"]),
        ("p[0-2]?", ["p1x"], ["p3x", "p1"]),
        ("p[^0-2]", ["p3"], ["p1"]),
        ("a.b(c", ["a.b(c"], ["axb(c"]),
    ],
)
def test_globs_match_as_those_of_hadoop(glob: str, matches: list[str], others: list[str]) -> None:
    pattern = glob_pattern(glob)
    assert all(map(pattern.fullmatch, matches))
    assert not any(map(pattern.fullmatch, others))


@pytest.mark.parametrize("glob", ["a[b", "a{b", "[z-a]"])
def test_a_glob_that_is_none_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError):
        glob_pattern(glob)


def test_the_overlap_of_ranges_is_that_of_the_example_in_jvm_hudi() -> None:
    found = overlap_of([(1, 5), (3, 7), (7, 8)])
    assert (round(found.average, 2), found.most, found.values) == (1.6, 2, 5)
