"""`make test-lowest` installs what `pyproject.toml` calls the lowest, whatever the requirement looks like."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools import lowest

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def project(*dependencies: str, **extras: list[str]) -> dict[str, Any]:
    return {"project": {"dependencies": list(dependencies), "optional-dependencies": extras}}


def test_lower_bound_of_each_dependency_and_extra_is_the_version_to_install() -> None:
    found = lowest.constraints(project("b>=1.2", "a-c>=3,<4", spark=["pyspark[connect]>=4.0"]))
    assert found == ["a-c==3", "b==1.2", "pyspark==4.0"]


def test_dependency_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' is not"):
        lowest.constraints(project("a"))


def test_every_dependency_of_this_project_has_a_lower_bound() -> None:
    declared = tomllib.loads(PROJECT.read_text())
    assert len(lowest.constraints(declared)) >= len(declared["project"]["dependencies"])


def test_tools_of_the_tests_leave_versions_of_what_users_choose_open() -> None:
    declared = project("b>=1.2")
    declared["dependency-groups"] = {"test": ["a==1", "b==2", "opentelemetry-sdk==3"]}
    assert lowest.tools(declared) == ["a==1", "b", "opentelemetry-sdk"]
