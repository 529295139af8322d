"""Every test here runs on the one Spark session of the run."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from tests.support.spark import spark

__all__ = ["spark"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))  # in one process, for the one session
            if pyspark.__version__.startswith(("4.0.", "4.1.")):  # they leave sockets open
                for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                    item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
