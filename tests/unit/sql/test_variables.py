"""Variables of statements, which are settings of the session."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyhudi.sql.dispatch import substituted


def session(settings: Mapping[str, str]) -> Any:
    return cast("Any", SimpleNamespace(conf=SimpleNamespace(get=settings.get)))


SETTINGS = {"tbl": "trips", "outer": "db.${tbl}", "spark.sql.shuffle.partitions": "4", "loop": "${loop}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE FROM ${tbl} WHERE id = 1", "DELETE FROM trips WHERE id = 1"),
        ("${hivevar:tbl} ${hiveconf:tbl} ${sparkconf:tbl} ${spark:tbl}", "trips trips trips trips"),
        ("DELETE FROM ${outer}", "DELETE FROM db.trips"),
        ("LIMIT ${spark.sql.shuffle.partitions}", "LIMIT 4"),
        ("${loop}", "${loop}"),
        ("${unknown} ${env:HOME} ${system:user.name} ${} $tbl", "${unknown} ${env:HOME} ${system:user.name} ${} $tbl"),
    ],
)
def test_variable_is_the_setting_of_its_name_or_stays(text: str, expected: str) -> None:
    assert substituted(session(SETTINGS), text) == expected


def test_variables_stay_where_the_session_says_so() -> None:
    off = session({**SETTINGS, "spark.sql.variable.substitute": "false"})
    assert substituted(off, "DELETE FROM ${tbl}") == "DELETE FROM ${tbl}"
