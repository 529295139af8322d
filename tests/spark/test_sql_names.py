"""Names of Hudi tables in classic sessions: Spark resolves them as those of its own tables, in later sessions, too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import IllegalArgumentException

import pyhudi
from pyhudi import HudiTable
from pyhudi.errors import HudiError, TableNotFoundError, UnsupportedFeatureError
from pyhudi.spark.capabilities import IS_4, VERSION
from pyhudi.sql.plain import passing

Sql = Callable[[str], list[tuple[Any, ...]]]
KINDS = ("hudi", "parquet")


@pytest.fixture
def sql(spark: Any) -> Iterator[Sql]:
    """A function that runs a statement; the databases `hudi1`, `hudi2`, `parquet1` and `parquet2` have tables `t`."""
    pyhudi.enable(spark)  # other tests may have disabled it

    def run(text: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in spark.sql(text).collect())

    for kind in KINDS:
        for number in (1, 2):
            spark.sql(f"CREATE DATABASE {kind}{number}")
            make(spark, kind, f"{kind}{number}.t", (number, number * 10), (3, 30))
    yield run
    spark.sql("USE default")
    for kind in KINDS:
        for number in (1, 2):
            spark.sql(f"DROP DATABASE {kind}{number} CASCADE")


def make(spark: Any, kind: str, name: str, *rows: tuple[int, int]) -> None:
    properties = "TBLPROPERTIES (primaryKey = 'id', type = 'mor')" if kind == "hudi" else ""
    spark.sql(f"CREATE TABLE {name} (id INT, v INT) USING {kind} {properties}")
    spark.sql(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}")


def write_beside(path: Path, *rows: tuple[int, int]) -> None:
    """Write rows as another program does, which Spark hears nothing of."""
    ids, values = (pa.array(column, pa.int32()) for column in zip(*rows, strict=True))
    HudiTable.for_path(str(path)).upsert(pa.table({"id": ids, "v": values}))


def folder(spark: Any, database: str, table: str) -> Path:
    warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    return Path(warehouse) / f"{database}.db" / table


QUERIES = [
    "SELECT id, v FROM vw",
    "SELECT id, {1}.vw.v FROM {1}.vw",
    "SELECT v FROM IDENTIFIER('{1}.t')",
    "SELECT a.v FROM IDENTIFIER('{1}.' || 't') AS a JOIN t USING (id)",
    "SELECT {1}.t.v, {2}.t.v FROM {1}.t JOIN {2}.t ON {1}.t.id = {2}.t.id",
    "SELECT {1}.t.v FROM {1}.t, {2}.t WHERE spark_catalog.{2}.t.id = {1}.t.id",
    "SELECT x.col1, t.v FROM VALUES (1), (2) x, t",
    "SELECT * FROM explode(array(1, 2)), (SELECT id FROM t)",
    "SELECT a.id, b.v FROM t a JOIN t b ON a.id = b.id",
    "SELECT 2024_t.id, v FROM 2024_t",
    "SELECT id FROM `2024_t` 24x WHERE 24x.v > 0",
    "WITH t AS (SELECT id + 1 AS id FROM t) SELECT id FROM t",
    "WITH y AS (SELECT id FROM t), t AS (SELECT 5 AS id) SELECT y.id, t.id FROM y, t",
    "SELECT (WITH t AS (SELECT 8 AS id) SELECT id FROM t), (SELECT max(id) FROM t)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM {2}.t u WHERE u.id = t.id)",
    "FROM t SELECT id WHERE v NOT IN (TABLE hidden)",
    "SELECT id FROM t PIVOT (max(v) FOR v IN (10, 30))",
]  # fmt: skip
QUERIES_OF_SPARK_4 = [
    "SELECT {1}.greatest_v(), {2}.greatest_v()",
    "FROM t |> WHERE v > 10 |> SELECT id",
    "BEGIN SELECT max(v) FROM t; END",
    "EXECUTE IMMEDIATE 'SELECT id FROM t WHERE v > ?' USING 10",
]


def test_names_mean_in_every_place_what_they_mean_for_tables_of_spark(spark: Any, sql: Sql) -> None:
    queries = [*QUERIES, *QUERIES_OF_SPARK_4] if IS_4 else QUERIES
    rows: dict[str, dict[str, list[tuple[Any, ...]]]] = {}
    for kind in KINDS:
        one, two = f"{kind}1", f"{kind}2"
        sql(f"USE {one}")
        make(spark, kind, "2024_t", (7, 70))
        make(spark, kind, "hidden", (1, 1))
        sql("CREATE VIEW vw AS SELECT id, v FROM t")
        for database in (one, two) if IS_4 else ():
            sql(f"USE {database}")
            sql("CREATE FUNCTION greatest_v() RETURNS INT RETURN (SELECT max(v) * min(v) FROM t)")
        sql(f"USE {one}")
        sql("CREATE TEMPORARY VIEW hidden AS SELECT 10 AS v")
        rows[kind] = {text: sql(text.format(None, one, two)) for text in queries}
        sql("DROP VIEW hidden")

    assert rows["hudi"] == rows["parquet"]


def test_view_reads_the_tables_of_its_own_database_whatever_the_current_one_is(spark: Any, sql: Sql) -> None:
    sql("USE hudi1")
    sql("CREATE VIEW vw AS SELECT id, v FROM t")
    for current in ("hudi2", "default"):
        sql(f"USE {current}")
        assert sql("SELECT * FROM hudi1.vw") == [(1, 10), (3, 30)]
        assert spark.table("hudi1.vw").count() == 2

    sql("DELETE FROM hudi2.t WHERE id IN (SELECT id FROM hudi1.vw WHERE v < 30)")

    assert sql("SELECT id, v FROM hudi2.t") == [(2, 20), (3, 30)]


def test_columns_are_found_under_all_names_of_a_table_that_is_read_by_name(spark: Any, sql: Sql) -> None:
    rows = spark.table("hudi1.t").select("v", "t.v", "hudi1.t.v", "spark_catalog.hudi1.t.v")

    assert rows.where("hudi1.t.id = 3").collect() == [(30, 30, 30, 30)]


def test_statement_sees_what_others_have_written_and_a_dataframe_keeps_its_moment(spark: Any, sql: Sql) -> None:
    sql("USE hudi1")
    sql("CREATE VIEW vw AS SELECT id, v FROM t")
    earlier, before = spark.table("t"), spark.sql("SELECT * FROM vw")

    write_beside(folder(spark, "hudi1", "t"), (1, 11), (4, 40))

    assert sql("SELECT id, v FROM t") == sql("SELECT * FROM vw") == [(1, 11), (3, 30), (4, 40)]
    assert (earlier.count(), before.count()) == (2, 2)
    assert spark.range(9).where("id IN (SELECT id FROM t)").count() == 3


def test_name_means_the_table_that_has_it_now(spark: Any, sql: Sql) -> None:
    sql("USE hudi1")
    other = spark.newSession()
    for session in (spark, other):
        assert session.sql("SELECT sum(v) FROM hudi1.t").collect() == [(40,)]

    sql("ALTER TABLE t RENAME TO u")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM t")
    assert sql("SELECT sum(v) FROM u") == [(40,)]
    make(spark, "hudi", "t", (5, 50))
    assert sql("SELECT id FROM t") == [tuple(row) for row in other.sql("SELECT id FROM hudi1.t").collect()] == [(5,)]
    sql("DROP TABLE t")
    make(spark, "parquet", "t", (6, 60))
    assert sql("SELECT id FROM t") == [tuple(row) for row in other.sql("SELECT id FROM hudi1.t").collect()] == [(6,)]
    sql("CREATE TEMPORARY VIEW u AS SELECT 1 AS sum")
    assert sql("SELECT * FROM u") == [(1,)]
    assert sql("SELECT sum(v) FROM hudi1.u") == [(40,)]
    sql("DROP VIEW u")


def test_moments_and_options_of_a_read_stand_wherever_a_name_stands(spark: Any, sql: Sql) -> None:
    first = spark.sql("DESCRIBE HISTORY hudi1.t").tail(1)[0].instant
    sql("UPDATE hudi1.t SET v = 31 WHERE id = 3")
    sql("USE hudi2")

    for text, expected in {
        f"SELECT hudi1.t.v, t.id FROM hudi1.t VERSION AS OF '{first}' WHERE spark_catalog.hudi1.t.id = 3": [(30, 3)],
        f"SELECT x.v FROM hudi1.t FOR VERSION AS OF '{first}' TABLESAMPLE (100 PERCENT) x WHERE x.id = 3": [(30,)],
        f"SELECT v FROM hudi1.t WITH (`as.of.instant` = '{first}') WHERE hudi1.t.id = 3": [(30,)],
        "SELECT v FROM hudi1.t WITH ('hoodie.datasource.query.type' = 'read_optimized') AS x WHERE x.id = 3": [(30,)],
        f"SELECT (SELECT max(v) FROM hudi1.t VERSION AS OF '{first}'), (SELECT max(v) FROM hudi1.t)": [(30, 31)],
        f"SELECT count(*) FROM VALUES (1) x, hudi1.t VERSION AS OF '{first}'": [(2,)],
        f"SELECT max(v) FROM hudi.`{folder(spark, 'hudi1', 't')}`": [(31,)],
    }.items():  # fmt: skip
        assert sql(text) == expected, text
    assert spark.range(99).where(f"id IN (SELECT v FROM hudi1.t VERSION AS OF '{first}')").count() == 2


def test_names_in_texts_that_are_kept_are_those_of_their_database_in_one_statement_too(spark: Any, sql: Sql) -> None:
    moment = "TIMESTAMP AS OF '2999-01-01'"
    for number in (1, 2):
        sql(f"USE hudi{number}")
        sql("CREATE VIEW log AS SELECT id FROM hudi_table_changes('t', 'latest_state', 'earliest')")
        with pytest.raises(UnsupportedFeatureError, match="named with its database"):
            sql(f"CREATE FUNCTION least() RETURNS INT RETURN (SELECT min(id) FROM t {moment})")
        if not IS_4:  # Spark has no functions in SQL
            continue
        sql(f"CREATE FUNCTION least() RETURNS INT RETURN (SELECT min(id) FROM hudi{number}.t {moment})")
        sql(f"CREATE FUNCTION ids() RETURNS TABLE (id INT) RETURN SELECT id FROM hudi{number}.t {moment}")

    assert sql("SELECT min(a.id), min(b.id) FROM hudi1.log a, hudi2.log b") == [(1, 2)]
    if not IS_4:
        return
    assert sql("SELECT hudi1.least(), hudi2.least()") == [(1, 2)]
    for number in (1, 2):
        sql(f"USE hudi{number}")
        assert sql("SELECT min(id) FROM ids()") == [(number,)]
    if not VERSION.startswith(("4.0.", "4.1.")):  # their parsers refuse the database of a function that returns a table
        assert sql("SELECT min(a.id), min(b.id) FROM hudi1.ids() a, hudi2.ids() b") == [(1, 2)]


def test_text_that_spark_runs_in_one_session_is_decided_anew_in_another(spark: Any, sql: Sql) -> None:
    text = "DELETE FROM hudi1.t WHERE id = 1"

    with passing(spark, text):
        spark.newSession()._jsparkSession.sql(text)

    assert sql("SELECT id FROM hudi1.t") == [(3,)]


LATER = {
    "DELETE FROM hudi1.t WHERE id IN (SELECT id FROM hudi2.t)": [(1, 10)],
    "UPDATE hudi1.t SET v = (SELECT max(v) + 1 FROM hudi2.vw) WHERE id = 1": [(1, 31), (3, 30)],
    "MERGE INTO hudi1.t USING hudi2.vw s ON t.id = s.id WHEN MATCHED AND s.id IN (SELECT id FROM hudi2.t) "
    "THEN UPDATE SET v = 9 WHEN NOT MATCHED AND s.v < (SELECT max(v) FROM hudi1.t) THEN INSERT *":
        [(1, 10), (2, 20), (3, 9)],
}  # fmt: skip


@pytest.mark.parametrize("text", LATER)
@pytest.mark.parametrize("place", ["newSession", "foreachBatch", "JVM"])
def test_later_session_changes_rows_by_conditions_with_queries(
    place: str, text: str, spark: Any, sql: Sql, tmp_path: Path
) -> None:
    sql("CREATE VIEW hudi2.vw AS SELECT id, v FROM hudi2.t")
    if place == "newSession":
        spark.newSession().sql(text)
    elif place == "JVM":
        spark._jsparkSession.newSession().sql(text)
    else:
        in_batches(spark, tmp_path, lambda rows: rows.sparkSession.sql(text))

    assert sql("SELECT id, v FROM hudi1.t") == LATER[text]


def in_batches(spark: Any, folder: Path, change: Callable[[Any], Any]) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text('{"id": 1}')
    stream = spark.readStream.schema("id INT").json(str(folder / "in")).writeStream
    stream = stream.foreachBatch(lambda rows, _: change(rows)).option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def test_first_name_of_a_later_session_may_stand_anywhere(spark: Any, sql: Sql, tmp_path: Path) -> None:
    first = spark.sql("DESCRIBE HISTORY hudi1.t").tail(1)[0].instant
    sql("CREATE VIEW hudi1.vw AS SELECT id, v FROM hudi1.t")
    sql("CREATE VIEW hudi1.log AS SELECT id FROM hudi_table_changes('hudi1.t', 'latest_state', 'earliest')")
    sql("CREATE GLOBAL TEMPORARY VIEW now AS SELECT id FROM hudi1.t")
    sql(f"CREATE GLOBAL TEMPORARY VIEW earlier AS SELECT id FROM hudi1.t VERSION AS OF '{first}'")
    write_beside(folder(spark, "hudi1", "t"), (4, 40))
    counts: list[int] = []
    try:
        assert spark.newSession().range(9).where("id IN (SELECT id FROM hudi1.t)").count() == 3
        assert spark.newSession().table("hudi1.t").where("id IN (SELECT id FROM hudi1.vw)").count() == 3
        assert spark.newSession().table("hudi1.vw").count() == 3
        assert spark.newSession().table("hudi1.log").count() == 3
        assert spark.newSession().sql("SELECT * FROM global_temp.now").count() == 3
        assert spark.newSession().sql("SELECT * FROM global_temp.earlier").count() == 2
        assert spark._jsparkSession.newSession().table("global_temp.earlier").count() == 2
        in_batches(spark, tmp_path, lambda rows: counts.append(rows.where("id IN (SELECT id FROM hudi1.vw)").count()))
    except PySparkException as error:
        pytest.fail(str(error))
    finally:
        sql("DROP VIEW global_temp.now")
        sql("DROP VIEW global_temp.earlier")
    assert counts == [1]


def test_table_without_its_folder_is_an_error_that_names_it_and_can_be_dropped(spark: Any, sql: Sql) -> None:
    make(spark, "hudi", "hudi1.gone", (1, 1))
    shutil.rmtree(folder(spark, "hudi1", "gone"))

    for read in (lambda: sql("SELECT * FROM hudi1.gone"), lambda: spark.table("hudi1.gone")):
        with pytest.raises(TableNotFoundError, match="gone"):
            read()
    with pytest.raises(IllegalArgumentException, match=r"TableNotFoundError: .*gone"):
        spark.range(2).where("id IN (SELECT id FROM hudi1.gone)")
    assert "gone" in [table.name for table in spark.catalog.listTables("hudi1")]
    sql("DROP TABLE hudi1.gone")
    assert sql("SHOW TABLES IN hudi1 LIKE 'gone'") == []


def test_threads_of_one_session_each_read_their_own_table(spark: Any, sql: Sql) -> None:
    def read(number: int) -> list[tuple[Any, ...]]:
        database = f"hudi{number % 2 + 1}"
        return [sql(f"SELECT t.id, {database}.t.v FROM {database}.t ORDER BY id LIMIT 1") for _ in range(3)][-1]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(read, range(8)))

    assert found == [[(2, 20)] if number % 2 else [(1, 10)] for number in range(8)]


def test_write_that_only_spark_knows_of_leaves_the_files_of_a_hudi_table_alone(spark: Any, sql: Sql) -> None:
    java = spark._jsparkSession
    rows = java.sql("SELECT 7 AS id, 70 AS v")
    with pytest.raises(Py4JJavaError):
        rows.write().insertInto("hudi1.t")
    with pytest.raises((PySparkException, Py4JJavaError)):
        rows.write().mode("append").format("parquet").saveAsTable("hudi1.t")
    with pytest.raises((PySparkException, Py4JJavaError)):
        rows.writeTo("hudi1.t").append()

    assert sql("SELECT id, v FROM hudi1.t") == [(1, 10), (3, 30)]


COMMANDS = [
    "TRUNCATE TABLE {}.t",
    "TRUNCATE TABLE {}.p PARTITION (dt = 'a')",
    "ALTER TABLE {}.p DROP PARTITION (dt = 'a')",
    "ALTER TABLE {}.p PARTITION (dt = 'a') RENAME TO PARTITION (dt = 'b')",
    "ALTER TABLE {}.p RECOVER PARTITIONS",
    "MSCK REPAIR TABLE {}.p SYNC PARTITIONS",
    "INSERT INTO {}.t TABLE {}.t",
    "INSERT OVERWRITE {}.t TABLE {}.t",
    "INSERT OVERWRITE {}.p TABLE {}.p",
    "UPDATE {}.t SET v = 0",
    "DELETE FROM {}.t",
    "MERGE INTO {}.t USING {}.t s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "LOAD DATA LOCAL INPATH 'nothing.parquet' OVERWRITE INTO TABLE {}.t",
    "ANALYZE TABLE {}.t COMPUTE STATISTICS",
]
"""Commands of Spark that change the files of a table of the first data source interface, or its facts."""


def sessions(spark: Any) -> dict[str, tuple[Any, Callable[[str], Any]]]:
    """Sessions, and a way to give a statement to each."""
    other, java, first = spark.newSession(), spark.newSession(), spark.newSession()
    other.sql("SELECT count(*) FROM hudi1.t").collect()
    java._jsparkSession.sql("SELECT count(*) FROM hudi1.t").collectAsList()
    return {
        "sql": (spark, spark.sql),
        "newSession": (other, other.sql),
        "JVM": (java, java._jsparkSession.sql),
        "first JVM": (first, first._jsparkSession.sql),
    }


def files(spark: Any) -> list[Path]:
    """The files of both tables."""
    return [file for name in ("t", "p") for file in sorted(folder(spark, "hudi1", name).rglob("*"))]


@pytest.fixture
def tables(spark: Any, sql: Sql) -> Sql:
    sql("CREATE TABLE hudi1.p (id INT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO hudi1.p VALUES (1, 'a'), (2, 'b')")
    return sql


def test_commands_that_reach_spark_as_they_are_change_nothing_of_a_hudi_table(spark: Any, tables: Sql) -> None:
    before = files(spark)
    for place, (session, _) in sessions(spark).items():
        for command in COMMANDS:
            text = command.replace("{}", "hudi1")
            with passing(session, text), pytest.raises((PySparkException, Py4JJavaError)):
                session._jsparkSession.sql(text)
            assert files(spark) == before, (place, command)

    assert tables("SELECT id, v FROM hudi1.t") == [(1, 10), (3, 30)]
    assert tables("SELECT id, dt FROM hudi1.p") == [(1, "a"), (2, "b")]


def test_commands_on_a_hudi_table_are_those_of_pyhudi_or_refused_in_each_session(spark: Any, tables: Sql) -> None:
    for place, (_, run) in sessions(spark).items():
        tables("INSERT INTO hudi1.t VALUES (1, 10), (3, 30)")
        tables("INSERT INTO hudi1.p VALUES (1, 'a')")
        for command in COMMANDS:
            table = folder(spark, "hudi1", "p" if ".p" in command else "t")
            earlier, before = HudiTable.for_path(str(table)).inspect.position(), files(spark)
            with suppress(HudiError, PySparkException, Py4JJavaError):
                run(command.replace("{}", "hudi1"))
            position = HudiTable.for_path(str(table)).inspect.position()
            assert files(spark) == before or position != earlier, (place, command)


def test_scripts_cannot_reach_the_files_of_a_hudi_table_by_ways_of_their_own(spark: Any, tables: Sql) -> None:
    before = files(spark)
    for place, (_, run) in sessions(spark).items():
        for script in (
            "DECLARE n STRING DEFAULT 'hudi1.t'; TRUNCATE TABLE IDENTIFIER(n)",
            "DECLARE n STRING DEFAULT 'hudi1.t'; DELETE FROM IDENTIFIER(n)",
            "DECLARE EXIT HANDLER FOR SQLEXCEPTION TRUNCATE TABLE hudi1.t; SELECT raise_error('x')",
            "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN TRUNCATE TABLE hudi1.t; END; SELECT raise_error('x')",
            "ANALYZE TABLE hudi1.t COMPUTE STATISTICS",
        ):
            with pytest.raises((HudiError, PySparkException, Py4JJavaError)):
                run(f"BEGIN {script}; END")
            assert files(spark) == before, (place, script)
        with suppress(HudiError, PySparkException, Py4JJavaError):
            run("BEGIN DECLARE text STRING DEFAULT 'TRUNCATE TABLE hudi1.p'; EXECUTE IMMEDIATE text; END")
        before = files(spark)
        assert tables("SELECT id, dt FROM hudi1.p") in ([], [(1, "a"), (2, "b")]), place


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO hudi1.t VALUES (7, 70)",
        "IF 1 < 2 THEN TRUNCATE TABLE hudi1.t; END IF",
        "DECLARE x INT DEFAULT 3; DELETE FROM hudi1.t WHERE id = x",
        "ALTER TABLE hudi1.t ADD COLUMNS (z INT)",
    ],
)
def test_script_that_changes_a_hudi_table_is_refused_and_one_that_reads_it_runs(sql: Sql, statement: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="script"):
        sql(f"-- a script\nl1: BEGIN\n{statement}; END")

    if IS_4:  # before, Spark has no scripts
        assert sql("BEGIN SELECT id, v FROM hudi1.t; END") == [(1, 10), (3, 30)]
