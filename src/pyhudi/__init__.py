"""Apache Hudi tables from Python and PySpark, without a jar."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyhudi import errors
from pyhudi.hudi_table import HudiTable, save
from pyhudi.write.result import WriteResult

if TYPE_CHECKING:
    from pyhudi.spark.enable import disable, enable
    from pyhudi.spark.session import spark_session

__version__ = "0.1.0.dev0"
__all__ = ["HudiTable", "WriteResult", "__version__", "disable", "enable", "errors", "save", "spark_session"]

_FROM_SPARK = {
    "enable": "pyhudi.spark.enable",
    "disable": "pyhudi.spark.enable",
    "spark_session": "pyhudi.spark.session",
}


def __getattr__(name: str) -> Any:
    """Load what needs pyspark only when it is asked for."""
    if name in _FROM_SPARK:
        return getattr(importlib.import_module(_FROM_SPARK[name]), name)
    raise AttributeError(f"module 'pyhudi' has no attribute {name!r}")
