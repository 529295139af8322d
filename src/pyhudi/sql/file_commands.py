"""Commands of Spark on the folders of a table. Where Spark has no class of the format it runs them on Hudi tables, too.

A statement that pyhudi knows never comes so far. This is for texts that Spark alone parses: `TRUNCATE TABLE` would
delete the folder, with the timeline.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.catalog.names import Names
from pyhudi.sql.text.tokens import Name

_COMMANDS: Final = frozenset(
    {
        *("TruncateTable", "TruncatePartition", "AnalyzeTable", "AnalyzeColumn", "RepairTable"),
        *("AddPartitions", "DropPartitions", "RenamePartitions", "RecoverPartitions"),
    }
)
"""By the class of the parsed statement."""
_NAMES: Final = frozenset({"UnresolvedTable", "UnresolvedTableOrView"})


def check_plan(spark: SparkSession, plan: Any) -> None:
    """Check that a parsed statement is no command on the folders of a Hudi table. Cost: two calls to the JVM.

    Raises:
        UnsupportedFeatureError: it is one.
    """
    command = plan.getClass().getSimpleName()
    if command not in _COMMANDS or plan.child().getClass().getSimpleName() not in _NAMES:
        return
    parts = plan.child().multipartIdentifier()
    name = Name(tuple(str(parts.apply(number)) for number in range(parts.size())), 0, 0)
    if Names(spark).find(name) is not None:
        raise UnsupportedFeatureError(
            "Spark runs this command on the folders of a table, and knows nothing of the timeline of a Hudi table: "
            "use a statement or a procedure of pyhudi, or HudiTable",
            table=str(name),
            command=command,
        )
