"""`CALL …`: from the words of the statement to the procedure and its arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyhudi.errors import SqlStatementError, UnsupportedFeatureError
from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.statements.call import parse, values_of
from pyhudi.sql.text.tokens import Cursor


def _names(catalog: str = "spark_catalog") -> Any:
    spark = SimpleNamespace(catalog=SimpleNamespace(currentCatalog=lambda: catalog))
    names = Names.__new__(Names)
    names.spark = spark  # type: ignore[assignment]
    return names


def _parsed(text: str, catalog: str = "spark_catalog") -> Any:
    return parse(Cursor(text), _names(catalog))


def _values(text: str) -> dict[str | None, Any]:
    call = _parsed(text)
    values = values_of([one.value for one in call.arguments], lambda parts: [f"<{part}>" for part in parts])
    return dict(zip([one.name for one in call.arguments], values, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "CALL show_commits(table => 'trips')",
        "call SYSTEM.Show_Commits(\n  table=>'trips' -- the table\n);",
        "CALL spark_catalog.system.show_commits('trips')",
        "CALL spark_catalog.show_commits('trips')",
    ],
)
def test_a_call_is_understood_in_all_its_forms(text: str) -> None:
    assert _parsed(text).procedure.name == "show_commits"


def test_a_call_without_arguments_needs_no_parentheses() -> None:
    assert _parsed("CALL help").arguments == _parsed("CALL help()").arguments == ()


def test_plain_literals_are_values_and_all_else_is_asked_of_spark() -> None:
    found = _values(
        "CALL show_timeline(table => 'a,b=>c', limit => -3, showArchived => TRUE, filter => \"action = 'clean'\", "
        "startTime => 'it\\'s', endTime => map('a', 1), x => null, y => '1' || '2')"
    )
    assert found == {
        "table": "a,b=>c",
        "limit": -3,
        "showArchived": True,
        "filter": "action = 'clean'",
        "startTime": "<'it\\'s'>",
        "endTime": "<map('a', 1)>",
        "x": None,
        "y": "<'1' || '2'>",
    }


@pytest.mark.parametrize("text", ["CALL other.system.show_commits('t')", "CALL a.b.c.d()"])
def test_a_call_of_another_catalog_is_left_to_spark(text: str) -> None:
    with pytest.raises(NotHudi):
        _parsed(text)


def test_a_bare_name_belongs_to_the_current_catalog() -> None:
    with pytest.raises(NotHudi):
        _parsed("CALL show_commits('t')", catalog="iceberg")
    assert _parsed("CALL spark_catalog.system.show_commits('t')", catalog="iceberg").procedure.name == "show_commits"


def test_an_unknown_procedure_is_refused_at_its_place() -> None:
    with pytest.raises(SqlStatementError, match="did you mean show_commits") as caught:
        _parsed("CALL system.show_comits(table => 't')")
    assert (caught.value.context["line"], caught.value.context["column"]) == (1, 6)


@pytest.mark.parametrize(
    "text",
    [
        "CALL",
        "CALL show_commits(",
        "CALL show_commits(table => )",
        "CALL show_commits('t') x",
        "CALL show_commits 't'",
    ],
)
def test_a_call_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(SqlStatementError):
        _parsed(text)


def test_an_argument_that_does_not_fit_is_shown_in_the_statement() -> None:
    call = _parsed("CALL show_commits(table => 't',\n  limit => 'many')")
    with pytest.raises(SqlStatementError, match="limit must be of type int") as caught:
        call.bound(["t", "many"])
    assert (caught.value.context["line"], caught.value.context["column"]) == (2, 12)


def test_a_procedure_that_is_not_run_is_refused_with_the_alternative() -> None:
    with pytest.raises(UnsupportedFeatureError, match="commits_compare"):
        _parsed("CALL sync_validate('s', 't', 'mode', 'url', 'pass')")
