"""The tests here that one process runs share one Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.kafka import broker
from tests.support.registries import small_registry
from tests.support.spark import spark

from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.frames import arrow_of_frame, frame_of_arrow

__all__ = ["broker", "small_registry", "spark"]

_HERE = Path(__file__).parent

if not IS_4:  # what tests ask of a DataFrame, before PySpark has it
    _create_of_python = SparkSession.createDataFrame

    def _create(self: SparkSession, data: Any, *args: Any, **named: Any) -> DataFrame:
        if isinstance(data, pa.Table):
            return frame_of_arrow(self, data)
        return _create_of_python(self, data, *args, **named)

    DataFrame.toArrow = arrow_of_frame
    SparkSession.createDataFrame = _create


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if pyspark.__version__.startswith(("3.5.", "4.0.", "4.1.")):  # they leave sockets open
                for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                    item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
            if not IS_4:  # where Python still has distutils
                item.add_marker(pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"))
