"""The Python data source `hudi`: what SQL reads by `CREATE [TEMPORARY VIEW|TABLE] … USING hudi OPTIONS (path …)`.

It is also what `spark.read.format("hudi")` reads by in a session without `enable(spark)` (package `pyspark_hudi`).

Rows pass through Python workers as Arrow batches, and Spark cannot prune columns of a Python data source,
so `spark.read.format("hudi")`, which reads natively, is the main path (DESIGN D8).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.config.location import LocationOptions, table_path
from pyhudi.config.option import options_of
from pyhudi.config.options_merging import MergingOptions
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.read.arrow import read_batches
from pyhudi.read.scan import ScanPlan
from pyhudi.read.table_of_path import plan_of_path
from pyhudi.spark.engine import conformed
from pyhudi.spark.options import table_options
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

_REMEMBERED = "pyhudi.options"
_REMEMBERED_NAMES = frozenset(
    name
    for group in (LocationOptions, ReadOptions, MergingOptions)
    for _, declared in options_of(group)
    for name in declared.spellings
)
"""Only what a read needs: a catalog keeps the schema where everybody sees it, and other options may be secrets."""


class HudiDataSource(DataSource):  # type: ignore[misc]  # pyspark has no types that mypy follows here
    """One table, opened when Spark first asks for its schema; its options are those of a read, and `path`."""

    @classmethod
    def name(cls) -> str:
        """The name in `USING hudi`."""
        return "hudi"

    def schema(self) -> StructType:
        """The columns of the newest commit, with the `_hoodie_*` columns first.

        The first one remembers the options of the read: Spark's catalog keeps the schema of a table, but hands none
        of its options to the reader of a Python data source. Other options, as a store's credentials, are left out.
        """
        _, plan = _planned(self.options)
        schema = spark_schema(plan.schema)
        remembered = {name: value for name, value in self.options.items() if name.lower() in _REMEMBERED_NAMES}
        for field in schema.fields[:1]:
            field.metadata = {_REMEMBERED: remembered}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table as it is now, under the schema that it had when SQL named it."""
        remembered: dict[str, str] = next((field.metadata.get(_REMEMBERED, {}) for field in schema.fields), {})
        storage, plan = _planned({**remembered, **self.options})
        return _Reader(storage.spec, plan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Refused: the commit of a Python data source cannot run Spark jobs."""
        del schema, overwrite
        raise UnsupportedFeatureError(
            'writing a Hudi table needs pyhudi.enable(spark): after it, df.write.format("hudi") writes; SQL cannot yet'
        )


class HudiDataSourceByPackage(HudiDataSource):
    """The same, under the other name that Hudi's users know."""

    @classmethod
    def name(cls) -> str:
        """The name in `USING org.apache.hudi`."""
        return "org.apache.hudi"


class _Reader(DataSourceReader):  # type: ignore[misc]
    """One Spark partition for each file slice."""

    def __init__(self, storage: StorageSpec, plan: ScanPlan, schema: StructType) -> None:
        self._storage = storage
        self._plan = plan
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(one) for one in self._plan.slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = dataclasses.replace(self._plan, slices=(partition.value,))
        names = list(self._schema.names)
        return conformed(read_batches(open_spec(self._storage), plan, names, None), self._schema)


def _planned(options: Mapping[str, str]) -> tuple[Storage, ScanPlan]:
    options = table_options(options)
    return plan_of_path(table_path(None, options), options, ReadConfig.from_options(options))
