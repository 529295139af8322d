"""Where a table is, by argument and by option."""

from __future__ import annotations

import pytest

from pyhudi.config.location import table_path
from pyhudi.errors import ConfigError


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("/t", {}),
        (None, {"path": "/t"}),
        (None, {"hoodie.base.path": "/t"}),
        ("/t", {"path": "/t/", "hoodie.base.path": "/t"}),
        ("/t", {"path": None}),
    ],
)
def test_table_is_where_argument_or_option_say(argument: str | None, options: dict[str, str | None]) -> None:
    assert table_path(argument, options) == "/t"


@pytest.mark.parametrize(
    ("argument", "options"),
    [("/t", {"path": "/u"}), ("/t", {"hoodie.base.path": "/u"}), (None, {"path": "/t", "hoodie.base.path": "/u"})],
)
def test_two_tables_in_one_call_are_refused(argument: str | None, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="names more than one table"):
        table_path(argument, options)


def test_call_that_names_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="path of the table is missing"):
        table_path(None, {})
