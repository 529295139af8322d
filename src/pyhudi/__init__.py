"""Apache Hudi tables from Python and PySpark, without a jar."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyhudi import errors

if TYPE_CHECKING:
    from pyhudi.api.alter import Alter as Alter
    from pyhudi.api.arguments import HudiOptions as HudiOptions
    from pyhudi.api.doctor import check_folder as check_folder
    from pyhudi.api.doctor import check_machine as check_machine
    from pyhudi.api.doctor import check_store as check_store
    from pyhudi.api.explanation import ScanExplanation as ScanExplanation
    from pyhudi.api.export import Exported as Exported
    from pyhudi.api.hudi_table import HudiTable as HudiTable
    from pyhudi.api.indexes import Indexes as Indexes
    from pyhudi.api.inspect import Inspect as Inspect
    from pyhudi.api.inspect import TableDetail as TableDetail
    from pyhudi.api.progress import show_progress as show_progress
    from pyhudi.api.recovery import Recovery as Recovery
    from pyhudi.api.row_changes import Merge as Merge
    from pyhudi.api.rows import RowsLike as RowsLike
    from pyhudi.api.savepoints import Savepoints as Savepoints
    from pyhudi.api.scan import Scan as Scan
    from pyhudi.api.services import Services as Services
    from pyhudi.api.sizes import TableSizes as TableSizes
    from pyhudi.api.watermark import Watermark as Watermark
    from pyhudi.api.writes import save as save
    from pyhudi.config.option import OptionWarning as OptionWarning
    from pyhudi.engine.progress import Progress as Progress
    from pyhudi.index.key_value.locations import KeyStore as KeyStore
    from pyhudi.read.conditions import Where as Where
    from pyhudi.read.skipping.column_statistics import IndexUse as IndexUse
    from pyhudi.services.archiving.archive import Archived as Archived
    from pyhudi.services.cleaning.execute import Cleaned as Cleaned
    from pyhudi.services.columns.alter import ColumnsChanged as ColumnsChanged
    from pyhudi.services.copying.execute import Copied as Copied
    from pyhudi.services.indexing.build import BuiltIndex as BuiltIndex
    from pyhudi.services.partition_ttl.expire import Expired as Expired
    from pyhudi.services.restore.execute import Restored as Restored
    from pyhudi.services.restore.savepoint import Savepoint as Savepoint
    from pyhudi.services.rollback.execute import RolledBack as RolledBack
    from pyhudi.services.upgrade.change import VersionChanged as VersionChanged
    from pyhudi.sql.enable import disable as disable
    from pyhudi.sql.enable import enable as enable
    from pyhudi.sql.session import spark_session as spark_session
    from pyhudi.table.outcome import Outcome as Outcome
    from pyhudi.telemetry.metrics import metrics as metrics
    from pyhudi.write.result import WriteResult as WriteResult

__version__ = "0.1.0"

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

__all__ = list(_HOMES)
__all__ += ["__version__", "errors"]
__all__.sort()

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
