"""What `pyproject.toml` declares is what the code, the documents and the machine of the tests go by."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"[A-Za-z0-9_.-]+")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements: list[Any]) -> set[str]:
    """Names of packages, without groups that a group includes."""
    return {NAME.match(one).group() for one in requirements if isinstance(one, str)}  # type: ignore[union-attr]


def test_worker_that_lacks_a_dependency_is_told_so_whichever_it_is() -> None:
    pytest.importorskip("pyspark")
    from pyhudi.spark.outcomes import _WORKER_MODULES

    # Each of these packages is imported by its own name.
    assert {"pyhudi", "pandas", *names(project()["project"]["dependencies"])} == _WORKER_MODULES


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "design" / "dependencies.md").read_text()
    of_users, of_groups = (_rows(table) for table in page.split("|---|---|---|\n")[1:])
    explained = {name for packages, _ in of_users for name in re.sub(r" (with|\().*", "", packages).split(", ")}
    grouped = {name for _, packages in of_groups for name in packages.split(", ")}
    declared = project()
    extras = declared["project"]["optional-dependencies"].values()

    assert explained == names(declared["project"]["dependencies"]).union(*map(names, extras))
    assert grouped == set().union(*map(names, declared["dependency-groups"].values()))


def _rows(table: str) -> list[tuple[str, str]]:
    """The first two cells of each row, up to the end of the table."""
    lines = [line.split("|")[1:3] for line in table.split("\n\n", maxsplit=1)[0].splitlines()]
    return [(first.strip(), second.strip()) for first, second in lines]


def test_tools_that_decide_whether_a_tree_is_green_are_exact() -> None:
    groups = project()["dependency-groups"]
    loose = [one for name in ("lint", "test", "demo") for one in groups[name] if "==" not in one]
    assert loose == []


def test_user_can_choose_no_tool_of_this_repository() -> None:
    assert set(project()["project"]["optional-dependencies"]) == {
        "spark",
        "connect",
        "java",
        "zookeeper",
        "dynamodb",
        "redis",
        "hbase",
        "hive",
        "hdfs",
        "glue",
        "sqs",
        "duckdb",
        "kafka",
        "databases",
        "airflow",
        "telemetry",
    }
