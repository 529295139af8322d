"""`df.write.format("hudi").save(path)`: one write from the calls of a DataFrame writer."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from pyhudi.errors import ConfigError
from pyhudi.spark.engine import SparkEngine
from pyhudi.spark.options import table_options, with_session_store
from pyhudi.write.save import SaveMode, save

PARTITION_FIELDS = "hoodie.datasource.write.partitionpath.field"


def save_dataframe(
    rows: DataFrame,
    path: str,
    *,
    options: Mapping[str, str],
    mode: str | None,
    partition_by: tuple[str, ...] = (),
) -> None:
    """Write the rows to the table at `path`, with the operation and settings of Hudi's options.

    Args:
        rows: a classic or Spark Connect DataFrame.
        path: the table's folder.
        options: Hudi's own option names.
        mode: Spark's save mode; None is `errorifexists`, as for every Spark format.
        partition_by: the columns of `partitionBy`, which replace the option for the partition fields.

    Raises:
        ConfigError: an option is wrong, or `partition_by` contradicts the options.
        CommitOutcomeUnknownError: it is unknown whether the write was committed.
        HudiError: the write failed, and nothing of it is visible.
    """
    spark = rows.sparkSession
    save(
        rows,
        path,
        options=with_session_store(spark, path, _with_partition_fields(options, partition_by)),
        mode=SaveMode.parse(mode or "default"),
        engine=SparkEngine(spark),
    )


def _with_partition_fields(options: Mapping[str, str], partition_by: tuple[str, ...]) -> dict[str, str]:
    fields = ",".join(partition_by)
    options = table_options(options)
    given = options.get(PARTITION_FIELDS, fields)
    # For custom key generators the option also has the kind of each field: `city:SIMPLE,ts:TIMESTAMP`.
    names = ",".join(part.strip().partition(":")[0] for part in given.split(","))
    if partition_by and names != fields:
        raise ConfigError(
            f"partitionBy names other columns than the option {PARTITION_FIELDS}: leave one of them out",
            partition_by=fields,
            option=given,
        )
    return {**options, PARTITION_FIELDS: given} if partition_by else dict(options)
