"""Spark's own SQL scripts (those of its test suite, 4.2.0) give the same with `pyhudi.enable` as without."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.support.oracle import SPARK_SCRIPTS
from tests.support.programs import told_by

PROGRAM = Path(__file__).with_name("spark_script_program.py")
FOLDER = "sql-tests/inputs/"
SECONDS_MAX = 800
QUICK = ["change-column", "comments", "execute-immediate", "show-views", "sql-on-files"]
GROUPS = {
    "tables": ["charvarchar", "describe*", "show*", "sql-session-variables", "current_database_catalog"],
    "views": ["view-*", "columnresolution*", "sql-path"],
    "queries": ["cte*", "explain", "identifier-clause", "inline-table", "named-function-arguments", "pivot"],
    "other forms": ["pipe-operators", "parse-query-correctness", "scripting/*", "transform", "double-quoted*"],
    "functions": ["sql-udf", "table-valued-functions", "misc-functions", "metadata_column_resolution"],
}


@pytest.mark.timeout(2 * SECONDS_MAX + 60)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK, id="quick"),
        *(pytest.param(names, id=group, marks=pytest.mark.thorough) for group, names in GROUPS.items()),
    ],
)
def test_scripts_of_spark_give_the_same_with_enable(names: list[str], tmp_path: Path) -> None:
    if not SPARK_SCRIPTS.exists():
        pytest.skip("Spark's SQL scripts are not here: tools/oracle/setup.py fetches them")
    with zipfile.ZipFile(SPARK_SCRIPTS) as jar:
        jar.extractall(tmp_path, [name for name in jar.namelist() if name.startswith(FOLDER)])
    scripts = sorted(path for name in names for path in (tmp_path / FOLDER).glob(f"{name}.sql"))

    plain, enabled = (
        told_by(PROGRAM, kind, *map(str, scripts), folder=_folder(tmp_path / kind), seconds_max=SECONDS_MAX)
        for kind in ("plain", "enabled")
    )

    assert sum(map(len, plain.values())) > 3 * len(scripts)
    differing = [
        (script, statement, without, with_enable)
        for script in plain
        for (statement, without), (_, with_enable) in zip(plain[script], enabled[script], strict=True)
        if without != with_enable
    ]
    assert not differing, differing[:5]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
