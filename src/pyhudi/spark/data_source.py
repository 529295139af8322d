"""Python data source `hudi`, for SQL: `CREATE [TEMPORARY VIEW|TABLE] … USING hudi OPTIONS (path …)`.

In a session without `enable(spark)` it also serves `spark.read.format("hudi")` (package `pyspark_hudi`).

It is slower than `spark.read.format("hudi")` after `enable(spark)`: all rows pass through Python workers as Arrow
batches, and Spark cannot prune the columns of a Python data source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.config.enums import IncrementalFormat, QueryType
from pyhudi.config.location import LocationOptions, table_path
from pyhudi.config.option import options_of
from pyhudi.config.options_merging import MergingOptions
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.read.arrow import read_batches
from pyhudi.read.cdc.plan import CHANGES_SCHEMA, ChangePlan
from pyhudi.read.cdc.rows import read_changes
from pyhudi.read.scan import ScanPlan
from pyhudi.read.table_of_path import changes_of_path, plan_of_path
from pyhudi.spark.batches import conformed
from pyhudi.spark.options import table_options
from pyhudi.spark.streams.source import NAMES, HudiStreamReader
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

_FORMAT = "hoodie.datasource.query.incremental.format"
_QUERY_TYPE = "hoodie.datasource.query.type"
_REMEMBERED = "pyhudi.options"
_REMEMBERED_NAMES = frozenset(
    name
    for group in (LocationOptions, ReadOptions, MergingOptions)
    for _, declared in options_of(group)
    for name in declared.spellings
)
"""The options that a read needs. Others may be secrets, and the catalog keeps them where all users can see them."""
_PLACES = frozenset(name for _, declared in options_of(LocationOptions) for name in declared.spellings)


def register_sources(spark: SparkSession) -> None:
    """Register the data source of a session under both names of the format.

    PySpark 4.0 refuses a name that `pyspark_hudi` has already, which reads the same way.
    """
    for source in (HudiDataSource, HudiDataSourceByPackage):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise


class HudiDataSource(DataSource):  # type: ignore[misc]  # pyspark has no types that mypy follows here
    """One table. It is opened when Spark first asks for its schema. Its options are `path` and those of a read."""

    @classmethod
    def name(cls) -> str:
        """The name in `USING hudi`."""
        return "hudi"

    def schema(self) -> StructType:
        """The columns of the newest commit, with the `_hoodie_*` columns first.

        The metadata of the first column holds the options of the read: Spark's catalog stores the schema of a table,
        but passes none of the table's options to the reader of a Python data source. Other options, for example
        credentials of the store, are not stored.
        """
        schema = spark_schema(CHANGES_SCHEMA if _is_change_data(self.options) else _planned(self.options)[1].schema)
        remembered = {name: value for name, value in self.options.items() if name.lower() in _REMEMBERED_NAMES}
        for field in schema.fields[:1]:
            field.metadata = {_REMEMBERED: remembered}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table's current rows, with the schema of the time when SQL created the table or view.

        Raises:
            UnsupportedFeatureError: neither the options nor the schema have the folder of the table, as for a table of
                the catalog that Spark resolves by itself.
        """
        remembered: dict[str, str] = next((field.metadata.get(_REMEMBERED, {}) for field in schema.fields), {})
        options = {**remembered, **self.options}
        if not any(name.lower() in _PLACES for name in options):
            raise UnsupportedFeatureError(
                "Spark does not say where this Hudi table of its catalog is, and the query names it where pyhudi does "
                "not see it, as in a stored view on Spark Connect: name the table in the query itself, or read it by "
                'spark.table(name) or spark.read.format("hudi").load(path), and make a temporary view of that'
            )
        storage, plan = _planned(options)
        return _ChangeReader(plan, schema) if isinstance(plan, ChangePlan) else _Reader(storage.spec, plan, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name in Spark's interface
        """A stream of the rows that are written to the table."""
        return HudiStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Not supported, because the commit of a Python data source cannot run Spark jobs.

        Raises:
            UnsupportedFeatureError: always.
        """
        del schema, overwrite
        raise UnsupportedFeatureError(
            'writing a Hudi table needs pyhudi.enable(spark): call it, and then use df.write.format("hudi") or SQL'
        )


class HudiDataSourceByPackage(HudiDataSource):
    """The same data source under the longer name of the format."""

    @classmethod
    def name(cls) -> str:
        """The name in `USING org.apache.hudi`."""
        return "org.apache.hudi"


class _Reader(DataSourceReader):  # type: ignore[misc]
    """A reader with one Spark partition for each file slice."""

    def __init__(self, storage: StorageSpec, plan: ScanPlan, schema: StructType) -> None:
        self._storage = storage
        self._plan = plan
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(file_slice) for file_slice in self._plan.slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = dataclasses.replace(self._plan, slices=(partition.value,))
        names = list(self._schema.names)
        return conformed(read_batches(open_spec(self._storage), plan, names, None), self._schema)


class _ChangeReader(DataSourceReader):  # type: ignore[misc]
    """A reader of change data, with one Spark partition for each task."""

    def __init__(self, plan: ChangePlan, schema: StructType) -> None:
        self._plan = plan
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in self._plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = dataclasses.replace(self._plan, tasks=())
        return conformed(read_changes(open_spec(plan.storage), plan, partition.value), self._schema)


def _is_change_data(options: Mapping[str, str]) -> bool:
    """Whether the rows are changes, of a stream or of a range: their columns are the same for all tables."""
    given = str(table_options(options).get(_FORMAT, "")).strip().lower()
    return given == IncrementalFormat.CHANGE_DATA.value


def _planned(options: Mapping[str, str]) -> tuple[Storage, ScanPlan | ChangePlan]:
    options = {name: value for name, value in table_options(options).items() if name not in NAMES}
    if _is_change_data(options):
        options = {_QUERY_TYPE: QueryType.INCREMENTAL.value, **options}
    config, path = ReadConfig.from_options(options), table_path(None, options)
    return changes_of_path(path, options, config) if config.change_data else plan_of_path(path, options, config)
