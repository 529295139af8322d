"""Changes of columns whose entry in the catalog cannot follow."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import CatalogWarning
from pyhudi.sql.catalog.session_tables import CatalogTable
from pyhudi.sql.statements import alter_columns
from pyhudi.sql.statements.alter_columns import AlterColumns, Step

OF_HUDI = "java.lang.ClassNotFoundException: org.apache.hudi.hadoop.HoodieParquetInputFormat"


class Opened:
    """A name of a table that is open already."""

    def __init__(self, table: HudiTable) -> None:
        self._table = table

    def open(self, _: Any) -> HudiTable:
        return self._table


def altered(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, message: str) -> HudiTable:
    """Comment on a column where the catalog answers with this error, and give the table."""

    def refuse(*_: Any) -> None:
        raise AnalysisException(message)

    monkeypatch.setattr(alter_columns, "with_columns_of", refuse)
    monkeypatch.setattr(alter_columns, "no_rows", lambda _: None)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = HudiTable.create(tmp_path / "t", schema=schema, record_key="id")
    entry = CatalogTable("default", "t", "hudi", str(tmp_path / "t"), managed=False)
    named, spark = cast("Any", Opened(table)), cast("Any", None)
    AlterColumns(named, entry, (Step("name", comment="of the rider"),)).run(spark)
    return table.refresh()


def test_entry_that_names_classes_of_jvm_hudi_stays_with_a_warning(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(CatalogWarning, match="next write of JVM Hudi"):
        table = altered(tmp_path, monkeypatch, OF_HUDI)

    assert table.inspect.history().num_rows == 1


def test_other_errors_of_the_catalog_are_raised(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnalysisException, match="no rights"):
        altered(tmp_path, monkeypatch, "no rights")
