"""`spark.read.format("hudi")` in a session that never heard of pyhudi.

PySpark 4.0 and newer look for packages whose names begin with `pyspark_` and register the class `DefaultSource` of
each. They import all of them when a session first names a Python data source, so this module loads nothing else: a
job that has nothing to do with Hudi does not pay for Arrow, and cannot fail for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyhudi.spark.data_source import HudiDataSource


class DefaultSource(DataSource):  # type: ignore[misc]  # pyspark has no types that mypy follows here
    """`pyhudi.spark.data_source.HudiDataSource`, loaded when a table is read."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("hudi")` and `USING hudi`."""
        return "hudi"

    def schema(self) -> StructType:
        """The columns of the table's newest commit, with the `_hoodie_*` columns first."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table as it is now."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name in Spark's interface
        """A stream of the rows that are written to the table."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Refused: writing needs `pyhudi.enable(spark)`."""
        return self._source().writer(schema, overwrite)

    def _source(self) -> HudiDataSource:
        from pyhudi.spark.data_source import HudiDataSource  # noqa: PLC0415 - see the top of this module

        return HudiDataSource(self.options)
