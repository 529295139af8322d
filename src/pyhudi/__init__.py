"""Apache Hudi tables from Python and PySpark, without a jar."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyhudi import errors

if TYPE_CHECKING:
    from pyhudi.api.alter import Alter
    from pyhudi.api.arguments import HudiOptions
    from pyhudi.api.doctor import check_folder, check_machine, check_store
    from pyhudi.api.explanation import ScanExplanation
    from pyhudi.api.export import Exported
    from pyhudi.api.hudi_table import HudiTable
    from pyhudi.api.indexes import Indexes
    from pyhudi.api.inspect import Inspect, TableDetail
    from pyhudi.api.progress import show_progress
    from pyhudi.api.recovery import Recovery
    from pyhudi.api.row_changes import Merge
    from pyhudi.api.rows import RowsLike
    from pyhudi.api.savepoints import Savepoints
    from pyhudi.api.scan import Scan
    from pyhudi.api.services import Services
    from pyhudi.api.sizes import TableSizes
    from pyhudi.api.watermark import Watermark
    from pyhudi.api.writes import save
    from pyhudi.config.option import OptionWarning
    from pyhudi.engine.progress import Progress
    from pyhudi.index.key_value.locations import KeyStore
    from pyhudi.read.conditions import Where
    from pyhudi.read.skipping.column_statistics import IndexUse
    from pyhudi.services.archiving.archive import Archived
    from pyhudi.services.cleaning.execute import Cleaned
    from pyhudi.services.columns.alter import ColumnsChanged
    from pyhudi.services.copying.execute import Copied
    from pyhudi.services.indexing.build import BuiltIndex
    from pyhudi.services.partition_ttl.expire import Expired
    from pyhudi.services.restore.execute import Restored
    from pyhudi.services.restore.savepoint import Savepoint
    from pyhudi.services.rollback.execute import RolledBack
    from pyhudi.services.upgrade.change import VersionChanged
    from pyhudi.sql.enable import disable, enable
    from pyhudi.sql.session import spark_session
    from pyhudi.table.outcome import Outcome
    from pyhudi.telemetry.metrics import metrics
    from pyhudi.write.result import WriteResult

__version__ = "0.1.0"
__all__ = [
    "Alter",
    "Archived",
    "BuiltIndex",
    "Cleaned",
    "ColumnsChanged",
    "Copied",
    "Expired",
    "Exported",
    "HudiOptions",
    "HudiTable",
    "IndexUse",
    "Indexes",
    "Inspect",
    "KeyStore",
    "Merge",
    "OptionWarning",
    "Outcome",
    "Progress",
    "Recovery",
    "Restored",
    "RolledBack",
    "RowsLike",
    "Savepoint",
    "Savepoints",
    "Scan",
    "ScanExplanation",
    "Services",
    "TableDetail",
    "TableSizes",
    "VersionChanged",
    "Watermark",
    "Where",
    "WriteResult",
    "__version__",
    "check_folder",
    "check_machine",
    "check_store",
    "disable",
    "enable",
    "errors",
    "metrics",
    "save",
    "show_progress",
    "spark_session",
]

_HOMES = {
    "Alter": "pyhudi.api.alter",
    "Archived": "pyhudi.services.archiving.archive",
    "BuiltIndex": "pyhudi.services.indexing.build",
    "Cleaned": "pyhudi.services.cleaning.execute",
    "ColumnsChanged": "pyhudi.services.columns.alter",
    "Copied": "pyhudi.services.copying.execute",
    "Exported": "pyhudi.api.export",
    "Expired": "pyhudi.services.partition_ttl.expire",
    "HudiOptions": "pyhudi.api.arguments",
    "HudiTable": "pyhudi.api.hudi_table",
    "IndexUse": "pyhudi.read.skipping.column_statistics",
    "Indexes": "pyhudi.api.indexes",
    "Inspect": "pyhudi.api.inspect",
    "KeyStore": "pyhudi.index.key_value.locations",
    "Merge": "pyhudi.api.row_changes",
    "OptionWarning": "pyhudi.config.option",
    "Outcome": "pyhudi.table.outcome",
    "Progress": "pyhudi.engine.progress",
    "Recovery": "pyhudi.api.recovery",
    "Restored": "pyhudi.services.restore.execute",
    "RolledBack": "pyhudi.services.rollback.execute",
    "RowsLike": "pyhudi.api.rows",
    "Savepoint": "pyhudi.services.restore.savepoint",
    "Savepoints": "pyhudi.api.savepoints",
    "Scan": "pyhudi.api.scan",
    "ScanExplanation": "pyhudi.api.explanation",
    "Services": "pyhudi.api.services",
    "TableDetail": "pyhudi.api.inspect",
    "TableSizes": "pyhudi.api.sizes",
    "VersionChanged": "pyhudi.services.upgrade.change",
    "Watermark": "pyhudi.api.watermark",
    "Where": "pyhudi.read.conditions",
    "WriteResult": "pyhudi.write.result",
    "check_folder": "pyhudi.api.doctor",
    "check_machine": "pyhudi.api.doctor",
    "check_store": "pyhudi.api.doctor",
    "disable": "pyhudi.sql.enable",
    "enable": "pyhudi.sql.enable",
    "metrics": "pyhudi.telemetry.metrics",
    "save": "pyhudi.api.writes",
    "show_progress": "pyhudi.api.progress",
    "spark_session": "pyhudi.sql.session",
}

if not TYPE_CHECKING:  # type checkers would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first asked for.

        Some need pyspark, and every Python process of Spark that works for us would pay for loading all of it: a
        second.
        """
        if name in _HOMES:
            try:
                return getattr(importlib.import_module(_HOMES[name]), name)
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] != "pyspark":
                    raise
                raise errors.UnsupportedFeatureError(
                    f"pyhudi.{name} needs PySpark 3.5 or newer: pip install 'pyhudi[spark]'", package="pyspark"
                ) from error
        raise AttributeError(f"module 'pyhudi' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion."""
    return __all__
