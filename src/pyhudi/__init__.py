"""Apache Hudi tables from Python and PySpark, without a jar."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyhudi import errors

if TYPE_CHECKING:
    from pyhudi.api.hudi_table import HudiTable, save
    from pyhudi.spark.enable import disable, enable
    from pyhudi.spark.session import spark_session
    from pyhudi.write.result import WriteResult

__version__ = "0.1.0.dev0"
__all__ = ["HudiTable", "WriteResult", "__version__", "disable", "enable", "errors", "save", "spark_session"]

_HOMES = {
    "HudiTable": "pyhudi.api.hudi_table",
    "save": "pyhudi.api.hudi_table",
    "WriteResult": "pyhudi.write.result",
    "enable": "pyhudi.spark.enable",
    "disable": "pyhudi.spark.enable",
    "spark_session": "pyhudi.spark.session",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for.

    Some need pyspark, and every Python process of Spark that works for us would pay for loading all of it: a second.
    """
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pyhudi' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion."""
    return __all__
