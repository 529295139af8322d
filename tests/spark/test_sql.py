"""SQL on Hudi tables by `spark.sql`: what statements do, and that all others are Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException
from tests.support.pages import ROOT, blocks, run_block

from pyhudi import HudiTable
from pyhudi.errors import (
    InvalidRequestError,
    SchemaMismatchError,
    SqlStatementError,
    TableExistsError,
    UnsupportedFeatureError,
)
from pyhudi.spark.capabilities import IS_4
from pyhudi.sql import enable as enabling
from pyhudi.sql.catalog.session_tables import TablesOfConnect, TablesOfDriver


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    """A function that runs a statement in a database of its own, and gives the rows as tuples."""
    spark.sql("CREATE DATABASE front")
    spark.sql("USE front")
    yield lambda text, *args, **frames: [tuple(row) for row in spark.sql(text, *args, **frames).collect()]
    spark.sql("USE default")
    spark.sql("DROP DATABASE front CASCADE")


OVERWRITES = [
    # setting, clause, rows afterwards; as JVM Hudi 1.2.0
    (None, "SELECT 9, 'z', 'd1'", [(9, "d1")]),
    (None, "PARTITION (dt = 'd1') SELECT 9, 'z'", [(2, "d2"), (9, "d1")]),
    (None, "PARTITION (DT) SELECT 9, 'z', 'd1'", [(9, "d1")]),
    (None, "PARTITION (dt = 'd1') SELECT 9, 'z' WHERE false", [(2, "d2")]),
    ("spark.sql.sources.partitionOverwriteMode=dynamic", "SELECT 9, 'z', 'd1'", [(2, "d2"), (9, "d1")]),
    ("hoodie.datasource.overwrite.mode=dynamic", "PARTITION (dt) SELECT 9, 'z', 'd1'", [(2, "d2"), (9, "d1")]),
]


def test_overwrite_replaces_what_jvm_hudi_replaces_and_keeps_the_history(spark: Any, sql: Any) -> None:
    for number, (setting, clause, expected) in enumerate(OVERWRITES):
        table = f"w{number}"
        sql(f"CREATE TABLE {table} (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
            "TBLPROPERTIES (primaryKey = 'id')")  # fmt: skip
        sql(f"INSERT INTO {table} VALUES (1, 'a', 'd1'), (2, 'b', 'd2')")
        [(first, *_)] = sql(f"DESCRIBE HISTORY {table}")
        name = "" if setting is None else setting.partition("=")[0]
        if setting is not None:
            sql(f"SET {setting}")
        try:
            sql(f"INSERT OVERWRITE {table} {clause}")
        finally:
            if name:
                spark.conf.unset(name)
        assert sql(f"SELECT id, dt FROM {table} ORDER BY id") == expected, clause
        assert sql(f"SELECT count(*) FROM {table} VERSION AS OF '{first}'") == [(2,)]
        assert sql(f"SHOW PARTITIONS {table}") == [(f"dt={dt}",) for dt in sorted({dt for _, dt in expected})]


def test_columns_and_values_go_where_the_statement_says(spark: Any, sql: Any) -> None:
    sql("CREATE TABLE t (dt STRING, Id INT COMMENT 'the key', v VARCHAR(9)) USING hudi PARTITIONED BY (dt) "
        "TBLPROPERTIES (primaryKey = 'ID', type = 'mor')")  # fmt: skip
    sql("INSERT INTO t VALUES (1, :text, 'd1')", {"text": "it's; -- 'x"})
    sql("INSERT INTO T (DT, iD) VALUES ('d2', 2)")
    sql("INSERT INTO t SELECT 'd3' AS dt, 'c' AS V, 3 AS id")
    sql("WITH x AS (SELECT 4 AS id) INSERT INTO t PARTITION (dt = concat('d', 4)) SELECT id, 5 FROM x")
    sql("INSERT INTO t BY NAME SELECT 'd5' AS dt, {rows}.id FROM {rows}", rows=spark.sql("SELECT 5 AS id"))

    assert sql("SELECT id, v, dt FROM t ORDER BY 1") == [
        (1, "it's; -- 'x", "d1"),
        (2, None, "d2"),
        (3, "c", "d3"),
        (4, "5", "d4"),
        (5, None, "d5"),
    ]
    for wrong in ("VALUES ('1', 'a', 'd')", "VALUES (1, 'a')", "(id, nope) VALUES (1, 2)", "(id, ID) VALUES (1, 2)"):
        with pytest.raises(SchemaMismatchError):
            sql(f"INSERT INTO t {wrong}")
    # Before 4.0, a session that sets nothing makes null of it, which pyhudi does not store.
    error, message = (ArithmeticException, "CAST_OVERFLOW") if IS_4 else (Py4JJavaError, "does not fit the column")
    with pytest.raises(error, match=message):
        sql("INSERT INTO t VALUES (3000000000, 'a', 'd')")


def test_partition_that_is_no_value_of_its_column_is_an_error_whatever_the_session_says(spark: Any, sql: Any) -> None:
    sql("CREATE TABLE n (id INT, p INT) USING hudi PARTITIONED BY (p) TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO n VALUES (1, NULL), (2, 2)")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(PySparkException if IS_4 else Py4JJavaError, match="does not fit the column p"):
            sql("ALTER TABLE n DROP PARTITION (p = 'two')")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert sql("SELECT id FROM n ORDER BY id") == [(1,), (2,)]
    sql("INSERT OVERWRITE n PARTITION (p = '2') SELECT 3")
    assert sql("SELECT id, p FROM n ORDER BY id") == [(1, None), (3, 2)]
    sql("ALTER TABLE n DROP PARTITION (p = '2')")
    assert sql("SELECT id FROM n") == [(1,)]


NAME_NO_PARTITION = [
    "ALTER TABLE pt DROP PARTITION (p)",
    "ALTER TABLE pt DROP PARTITION ()",
    "ALTER TABLE pt DROP PARTITION (p = )",
    "ALTER TABLE pt DROP PARTITION (p = 'a',)",
    "ALTER TABLE pt DROP PARTITION (p = 'a', P = 'b')",
    "TRUNCATE TABLE pt PARTITION (p)",
    "TRUNCATE TABLE pt PARTITION ()",
    "SHOW PARTITIONS pt PARTITION (p)",
    "INSERT OVERWRITE pt PARTITION () SELECT 3, 'c'",
]


def test_partition_clause_that_names_no_value_is_refused_and_nothing_changes(sql: Any) -> None:
    sql("CREATE TABLE pt (id INT, p STRING) USING hudi PARTITIONED BY (p) TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO pt VALUES (1, 'a'), (2, 'b')")

    for statement in NAME_NO_PARTITION:
        with pytest.raises((SqlStatementError, SchemaMismatchError)):
            sql(statement)

    assert sql("SELECT id, p FROM pt ORDER BY id") == [(1, "a"), (2, "b")]


def test_queries_read_hudi_tables_in_every_place_and_others_stay_sparks(spark: Any, sql: Any, tmp_path: Path) -> None:
    sql(f"CREATE TABLE h USING hudi LOCATION '{tmp_path}/h h' TBLPROPERTIES (primaryKey = 'id') AS "
        "SELECT CAST(id AS INT) AS id, id % 3 AS p FROM range(6)")  # fmt: skip
    sql("CREATE TABLE plain USING parquet AS SELECT id FROM h WHERE id < 3")
    sql("CREATE TEMPORARY VIEW temporary_view AS SELECT id FROM h")
    sql("CREATE VIEW stored_view AS SELECT id FROM h WHERE id > 3")
    rows = {
        "SELECT count(*) FROM h JOIN plain USING (id)": [(3,)],
        "SELECT h.id FROM H WHERE id = (SELECT max(id) FROM front.h)": [(5,)],
        "WITH h AS (SELECT * FROM h WHERE id = 1) SELECT id FROM h": [(1,)],
        "SELECT count(*) FROM temporary_view": [(6,)],
        "SELECT count(*) FROM stored_view": [(2,)],
        f"SELECT max(id) FROM hudi.`{tmp_path}/h h`": [(5,)],
        "SELECT id FROM h TIMESTAMP AS OF '2020-01-01'": [],
        "SELECT count(*) FROM h TIMESTAMP AS OF (current_timestamp() + INTERVAL 1 MINUTE)": [(6,)],
        "SELECT count(*) FROM h TIMESTAMP AS OF (date_trunc('HOUR', now()) + INTERVAL 1 HOUR)": [(6,)],
        "SELECT count(*) FROM h TIMESTAMP AS OF (current_timestamp() - INTERVAL 1 HOUR)": [(0,)],
        "SELECT x.id FROM h x, h y WHERE x.id = y.id AND x.id = 2": [(2,)],
    }
    assert {text: sql(text) for text in rows} == rows

    sql("INSERT INTO h VALUES (6, 0)")

    assert sql("SELECT (SELECT count(*) FROM stored_view), (SELECT count(*) FROM temporary_view)") == [(3, 7)]
    assert spark.table("h").where("h.id = 6").count() == spark.read.table("front.h").where("id = 6").count() == 1
    sql("DROP VIEW temporary_view")


def test_table_of_a_query_that_the_catalog_refuses_leaves_no_table_behind(sql: Any, tmp_path: Path) -> None:
    query = f"USING hudi PARTITIONED BY (p) LOCATION '{tmp_path}' TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 id, 2 p"
    (tmp_path / "p=2").mkdir()
    (tmp_path / "p=2" / "mine.txt").touch()
    with pytest.raises(AnalysisException, match="nowhere"):
        sql(f"CREATE TABLE nowhere.t {query}")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["mine.txt"]
    sql(f"CREATE TABLE t {query}")
    assert sql("SELECT id, p FROM t") == [(1, 2)]


def test_relative_folder_of_a_new_table_is_in_that_of_its_database(spark: Any, sql: Any) -> None:
    folder = Path(spark.catalog.getDatabase("front").locationUri.removeprefix("file:"))
    sql("CREATE TABLE t USING hudi LOCATION 'of t' TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 AS id")
    sql("INSERT INTO t VALUES (2)")
    spark.range(3, 4).writeTo("w").using("hudi").tableProperty("location", "of w").create()

    assert sql("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert sql("SELECT id FROM w") == [(3,)]
    assert {path.name for path in folder.iterdir()} == {"of t", "of w"}
    assert HudiTable.for_path(folder / "of t").scan().count() == 2
    assert not Path("of t").exists()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_table_of_a_query_without_nulls_takes_nulls_in_updates_and_merges(spark: Any, sql: Any, kind: str) -> None:
    query = "SELECT 1 AS id, true AS b, array(1) AS numbers, named_struct('x', 1) AS inner, map('k', 1) AS pairs"
    sql(f"CREATE TABLE t USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') AS {query}")
    spark.sql(f"{query} UNION ALL SELECT 3, true, array(1), named_struct('x', 1), map('k', 1)").writeTo("w").using(
        "hudi"
    ).tableProperty("primaryKey", "id").tableProperty("type", kind).create()
    inner = (
        "array(1, NULL) AS numbers, named_struct('x', CAST(NULL AS INT)) AS inner, map('k', CAST(NULL AS INT)) AS pairs"
    )
    for table in ("t", "w"):
        sql(f"UPDATE {table} SET b = NULL WHERE id = 1")
        sql(f"MERGE INTO {table} t USING (SELECT explode(array(1, 2)) AS id, CAST(NULL AS BOOLEAN) AS b, {inner}) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
        rows = sql(f"SELECT id, b, numbers, inner.x, pairs['k'] FROM {table} WHERE id < 3 ORDER BY id")
        assert rows == [(key, None, [1, None], None, None) for key in (1, 2)]


def test_table_that_a_temporary_view_hides_is_found_by_its_full_name_on_connect_too(spark: Any, sql: Any) -> None:
    sql("CREATE TABLE hidden (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    spark.range(1).createOrReplaceTempView("hidden")
    try:
        for tables in (TablesOfConnect(spark), TablesOfDriver(spark)):
            found = tables.find("front", "hidden")
            assert found is not None
            assert (found.database, found.table, found.provider) == ("front", "hidden", "hudi")
        assert TablesOfConnect(spark).find(None, "hidden") is None
    finally:
        spark.catalog.dropTempView("hidden")


def test_table_is_a_query_and_the_cache_takes_queries_alone(spark: Any, sql: Any) -> None:
    sql("CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert sql("TABLE t") == sql("SELECT * FROM t")
    assert sql("WITH u AS (TABLE front.t) SELECT u.id FROM u WHERE v IN (SELECT v FROM (TABLE t)) ORDER BY 1") == [
        (1,),
        (2,),
    ]
    assert len(sql("TABLE t UNION ALL TABLE t ORDER BY id LIMIT 3")) == 3
    with pytest.raises(UnsupportedFeatureError, match="CACHE TABLE other_name AS SELECT"):
        sql("CACHE LAZY TABLE t OPTIONS ('storageLevel' 'DISK_ONLY')")
    sql("UNCACHE TABLE IF EXISTS t")
    sql("CACHE TABLE kept AS TABLE t")
    sql("INSERT INTO t VALUES (3, 'c')")
    assert (len(sql("TABLE kept")), len(sql("TABLE t"))) == (2, 3)
    sql("UNCACHE TABLE kept")
    spark.range(1).createOrReplaceTempView("plain")
    sql("CACHE TABLE plain")
    assert sql("TABLE plain") == [(0,)]
    sql("UNCACHE TABLE plain")
    spark.catalog.dropTempView("plain")


def test_catalog_refreshes_a_hudi_table_and_refuses_to_cache_it_as_the_statements_do(spark: Any, sql: Any) -> None:
    sql("CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO t VALUES (1, 'a')")

    for name in ("t", "front.t", "spark_catalog.front.t"):
        spark.catalog.refreshTable(name)
        with pytest.raises(UnsupportedFeatureError, match="CACHE TABLE other_name AS SELECT"):
            spark.catalog.cacheTable(name)

    sql("INSERT INTO t VALUES (2, 'b')")
    assert len(sql("TABLE t")) == 2
    spark.range(1).createOrReplaceTempView("plain")
    spark.catalog.cacheTable("plain")
    assert spark.catalog.isCached("plain")
    spark.catalog.refreshTable("plain")
    spark.catalog.dropTempView("plain")


def test_statements_of_the_jvm_reach_pyhudi_until_it_is_disabled(spark: Any, sql: Any) -> None:
    java = spark._jsparkSession
    java.sql("CREATE TABLE j (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    java.sql("INSERT INTO j VALUES (1, 'a')")
    java.sql("EXPLAIN INSERT INTO j VALUES (2, 'b')")
    java.sql("EXPLAIN EXECUTE IMMEDIATE 'INSERT INTO j VALUES (2, \\'b\\')'")
    if IS_4:  # before, Spark itself has no such statement
        java.sql("EXPLAIN FORMATTED EXECUTE IMMEDIATE 'SELECT id FROM j WHERE id = ?' USING 1")
    assert java.sql("SELECT id, v FROM j").collectAsList().toString() == "[[1,a]]"
    for text in ("SELEC 1", "SELECT * FROM j WHERE id =", "SHOW PARTITIONS nothing"):
        with pytest.raises((ParseException, AnalysisException)):
            java.sql(text)
        with pytest.raises((ParseException, AnalysisException)):
            sql(text)

    enabling.disable()
    try:
        assert "pyhudi" not in java.sessionState().sqlParser().toString()
        with pytest.raises(AnalysisException):
            sql("SHOW PARTITIONS j")
    finally:
        enabling.enable(spark)
    assert sql("SELECT count(*) FROM j") == [(1,)]


def test_changes_of_a_table_reach_its_files_and_the_catalog(spark: Any, sql: Any, tmp_path: Path) -> None:
    sql(f"CREATE TABLE a (id INT, v STRING COMMENT 'vee', dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path}/a' TBLPROPERTIES (primaryKey = 'id')")  # fmt: skip
    sql("INSERT INTO a VALUES (1, 'x', 'd1'), (2, 'y', 'd2'), (3, 'z', 'd3')")
    sql("ALTER TABLE a ADD COLUMNS (n INT COMMENT 'number')")
    sql("ALTER TABLE a ALTER COLUMN n TYPE BIGINT")
    kind = "STRUCT<x: INT COMMENT 'in, s', z: ARRAY<MAP<STRING, INT>>>"
    before = len(sql("DESCRIBE HISTORY a"))
    sql(f"ALTER TABLE a ADD COLUMNS (s {kind} COMMENT 'of it', e INT)")
    with pytest.raises(SchemaMismatchError):
        sql("ALTER TABLE a ADD COLUMNS (half INT, e INT)")
    assert len(sql("DESCRIBE HISTORY a")) == before + 1
    assert "half" not in spark.table("a").columns
    sql("ALTER TABLE a ADD COLUMNS (s.y INT AFTER x)")
    sql("ALTER TABLE a SET TBLPROPERTIES ('hoodie.keep.min.commits' = '21')")
    sql("ALTER TABLE a DROP PARTITION (dt = 'd1'), PARTITION (dt = 'nothing')")
    sql("TRUNCATE TABLE a PARTITION (dt = 'd2')")
    sql("ALTER TABLE a RENAME TO b")

    described = sql("DESCRIBE EXTENDED b")
    assert described[5:12] == [
        ("id", "int", None),
        ("v", "string", "vee"),
        ("n", "bigint", "number"),
        ("s", "struct<x:int,y:int,z:array<map<string,int>>>", "of it"),
        ("e", "int", None),
        ("dt", "string", None),
        ("# Partition Information", "", ""),
    ]
    assert ("Provider", "hudi", "") in described
    assert sql("SELECT id, n, dt FROM b") == [(3, None, "d3")]
    assert HudiTable.for_path(tmp_path / "a").inspect.detail().name == "b"
    [(statement,)] = sql("SHOW CREATE TABLE b")
    sql("DROP TABLE b")
    sql(statement)
    assert sql("SELECT v FROM b") == [("z",)]
    sql("DROP TABLE b PURGE")
    assert not (tmp_path / "a").exists()


def test_properties_of_a_table_switch_the_capture_of_its_changes(sql: Any, tmp_path: Path) -> None:
    enabled, mode = "hoodie.table.cdc.enabled", "hoodie.table.cdc.supplemental.logging.mode"
    sql(f"CREATE TABLE c (id INT, v STRING) USING hudi LOCATION '{tmp_path}/c' TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO c VALUES (1, 'x')")
    sql(f"ALTER TABLE c SET TBLPROPERTIES ('{mode}' = 'op_key_only')")
    assert not HudiTable.for_path(tmp_path / "c").handle.state.config.cdc_enabled
    sql(f"ALTER TABLE c SET TBLPROPERTIES ('{enabled}' = 'true')")
    begin = HudiTable.for_path(tmp_path / "c").inspect.position()
    sql("UPDATE c SET v = 'y'")
    assert sql(f"SELECT op FROM hudi_table_changes('c', 'cdc', '{begin}')") == [("u",)]
    assert HudiTable.for_path(tmp_path / "c").handle.state.config.change_data_mode.value == "OP_KEY_ONLY"
    with pytest.raises(UnsupportedFeatureError, match="OP_KEY_ONLY"):
        sql(f"ALTER TABLE c SET TBLPROPERTIES ('{mode}' = 'data_before')")
    sql(f"ALTER TABLE c UNSET TBLPROPERTIES ('{enabled}')")
    sql("DELETE FROM c")
    with pytest.raises(InvalidRequestError, match="does not capture"):
        sql(f"SELECT op FROM hudi_table_changes('c', 'cdc', '{begin}')")
    sql(f"ALTER TABLE c SET TBLPROPERTIES ('{enabled}' = 'true')")
    sql("INSERT INTO c VALUES (2, 'z')")
    assert sql(f"SELECT op FROM hudi_table_changes('c', 'cdc', '{begin}') ORDER BY op") == [("d",), ("i",), ("u",)]
    sql(f"ALTER TABLE c SET TBLPROPERTIES ('{enabled}' = 'false')")
    assert not HudiTable.for_path(tmp_path / "c").handle.state.config.cdc_enabled


def test_statement_that_is_wrong_says_where_and_does_nothing(sql: Any) -> None:
    sql("CREATE TABLE e (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO e VALUES (1)")
    with pytest.raises(SqlStatementError, match=r"line 1, column 18\)\nTRUNCATE TABLE e PARITION"):
        sql("TRUNCATE TABLE e PARITION (id = 1)")
    with pytest.raises(SqlStatementError, match="did you mean TBLPROPERTIES"):
        sql("CREATE TABLE f (id INT) USING hudi TBLPROPERTY (a = 'b')")
    with pytest.raises(TableExistsError):
        sql("CREATE TABLE e (id INT) USING hudi")
    sql("CREATE TABLE IF NOT EXISTS e (id INT) USING hudi")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        sql("TRUNCATE TABLE nothing PARITION")
    assert sql("SELECT id FROM e") == [(1,)]
    assert [row for row in sql("SHOW TABLES") if row[0] == "front"] == [("front", "e", False)]


def test_dataframes_are_saved_and_inserted_by_name(spark: Any, sql: Any) -> None:
    rows = spark.range(3).selectExpr("id", "'x' AS v")
    write = rows.write.format("hudi").option("hoodie.datasource.write.recordkey.field", "id")
    write.saveAsTable("s")
    with pytest.raises(TableExistsError):
        write.saveAsTable("s")
    write.mode("append").saveAsTable("s")
    spark.range(9, 10).selectExpr("'y' AS v", "id").write.insertInto("s")

    assert sql("SELECT id, v FROM s ORDER BY id") == [(0, "x"), (1, "x"), (2, "x"), (9, "y")]
    rows.limit(1).write.insertInto("s", overwrite=True)
    assert sql("SELECT id FROM s") == [(0,)]


def test_page_of_sql_does_what_it_says(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    for block in blocks(ROOT / "docs" / "sql.md"):
        run_block(block, names, folder=tmp_path)
