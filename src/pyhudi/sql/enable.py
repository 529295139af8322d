"""`enable(spark)` and `disable()`: `format("hudi")` and SQL on Hudi tables, in any PySpark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyhudi.spark.enable import enable_format, unwrap
from pyhudi.sql.install import install, uninstall


def enable(spark: SparkSession) -> SparkSession:
    """Make `format("hudi")` and `spark.sql` work on Hudi tables through pyhudi, and return the same session.

    Works for classic and Spark Connect sessions, and does not change other formats: a statement that names no Hudi
    table goes to Spark as it is. A second call has no effect. It also registers a Python data source `hudi`.
    SQL needs sqlglot, which comes with `pyhudi[spark]`; without it all statements go to Spark.

    Raises:
        ConfigError: settings of the session need a jar of Hudi's that is not there; the message says which to delete.
        UnsupportedFeatureError: the session is one of Spark Connect before 4.0.
    """
    enable_format(spark)
    install(spark)
    return spark


def disable() -> None:
    """Remove what `enable` put around Spark's methods. The registered data sources remain."""
    uninstall()
    unwrap()
