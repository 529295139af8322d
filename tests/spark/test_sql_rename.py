"""`ALTER TABLE … RENAME TO`: what is left of one that ends before it is done, and that it can be run again."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

import pyhudi
from pyhudi.errors import TableExistsError
from pyhudi.sql.catalog.names import Names
from pyhudi.sql.statements import alter_table
from pyhudi.sql.text.tokens import Cursor


class Killed(BaseException):
    """The process ends here."""


def test_rename_that_is_killed_between_table_and_catalog_is_finished_by_running_it_again(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyhudi.enable(spark)  # other tests may have disabled it

    def name_of(table: str) -> str:
        return Names(spark).table(Cursor(table).name()).open(spark).inspect.detail().name

    def killed(*_: Any) -> None:
        raise Killed

    spark.sql("CREATE DATABASE renames")
    spark.sql("USE renames")
    try:
        spark.sql("CREATE TABLE a (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
        spark.sql("INSERT INTO a VALUES (1, 'a')")
        spark.sql("CREATE TABLE taken (id INT) USING parquet")
        for target, error in (("taken", TableExistsError), ("default.b", AnalysisException)):
            with pytest.raises(error):
                spark.sql(f"ALTER TABLE a RENAME TO {target}")
            assert name_of("a") == "a"

        with monkeypatch.context() as patched:
            patched.setattr(alter_table, "plain_sql", killed)
            with pytest.raises(Killed):
                spark.sql("ALTER TABLE a RENAME TO b")

        assert name_of("a") == "b"
        spark.sql("INSERT INTO a VALUES (2, 'b')")
        spark.sql("ALTER TABLE a RENAME TO b")
        assert name_of("b") == "b"
        assert sorted(row["id"] for row in spark.table("b").collect()) == [1, 2]
        assert not spark.catalog.tableExists("renames.a")
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE renames CASCADE")
