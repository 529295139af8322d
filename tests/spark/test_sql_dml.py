"""MERGE INTO, UPDATE, DELETE FROM and `DataFrame.mergeInto` on one session, and the statements of docs/merge.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit
from tests.support.pages import ROOT, blocks
from tests.support.spark import temporarily

import pyhudi
from pyhudi.errors import AmbiguousChangeError, ConfigError, RecordKeyError, SqlStatementError, UnsupportedFeatureError
from pyhudi.spark import row_changes
from pyhudi.spark.capabilities import IS_4

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])
STORED = [(1, "oslo", 5.0, 1), (2, "oslo", 0.0, 1), (3, "rome", 7.0, 1), (4, "bern", 8.0, 1)]
CHANGES = [(1, "oslo", 5.5, 2, "U"), (3, "rome", 0.0, 2, "D"), (4, "bern", 8.0, 2, "U"), (9, "wien", 9.0, 2, "U")]
Now = Callable[[], list[tuple[object, ...]]]


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    yield pyhudi.enable(spark)
    spark.sql("DROP TABLE IF EXISTS trips")
    spark.catalog.dropTempView("changes")


@pytest.fixture(params=["mor"])
def now(enabled: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Now:
    """The table `trips`, the view `changes`, and what the rows of the table are."""
    table = pyhudi.HudiTable.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type=request.param,
    )
    columns = list(zip(*STORED, strict=True))
    table.insert(pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA))
    enabled.sql(f"CREATE TABLE trips USING hudi LOCATION '{tmp_path / 't'}'")
    changes = enabled.createDataFrame(CHANGES, "id bigint, city string, fare double, ts bigint, op string")
    changes.createOrReplaceTempView("changes")
    return lambda: sorted(tuple(row.values()) for row in table.refresh().scan(SCHEMA.names).to_arrow().to_pylist())


def test_the_statements_of_the_page_do_what_it_says(enabled: SparkSession, now: Now) -> None:
    if not hasattr(DataFrame, "mergeInto"):
        pytest.skip("PySpark 3.5 has no DataFrame.mergeInto")
    (block,) = (b for b in blocks(ROOT / "docs" / "merge.md") if b.tested_by == "tests/spark/test_sql_dml.py")

    exec(compile(block.code, "page", "exec"), {"spark": enabled, "changes": enabled.table("changes"), "expr": expr})

    assert now() == [(1, "oslo", 5.5, 2), (4, "bern", 16.0, 3), (9, "wien", 9.0, 2)]


def test_expressions_casts_and_names_in_any_case_mean_what_spark_takes_them_for(
    enabled: SparkSession, now: Now
) -> None:
    enabled.sql(
        """merge /* a comment */ into Trips as T using (select '1' as k, 'rome' as town, 2 as more
           union all select '8', 'a; when matched', 3) s on cast(s.K as bigint) = t.ID
           when matched and t.fare > case when s.more = 2 then 1 else 100 end
             then update set t.City = s.town, TS = ts + s.more, fare = fare * case more when 2 then 10 else 0 end
           when not matched then insert (id, CITY, ts) values (cast(k as bigint), town, more);"""
    )
    enabled.sql("update trips as x set fare = (select max(fare) from changes), ts = x.ts + 1 where x.id in (2, 8)")
    enabled.sql("delete from `trips` where city = 'bern' and exists (select 1 from changes c where c.id = trips.id)")

    enabled.sql(
        "merge into trips t using (select 2L as id, null as fare, interval 1 day as pause) s on t.id = s.id "
        "when matched then update set fare = s.fare"
    )

    assert now() == [(1, "rome", 50.0, 3), (2, "oslo", None, 2), (3, "rome", 7.0, 1), (8, "a; when matched", 9.0, 4)]


def test_merge_into_of_a_data_frame_and_the_builder_make_the_same_merge(
    enabled: SparkSession, now: Now, tmp_path: Path
) -> None:
    changes = enabled.table("changes")
    if not hasattr(DataFrame, "mergeInto"):
        pytest.skip("PySpark 3.5 has no DataFrame.mergeInto")

    (
        changes.mergeInto("trips", changes["id"] == col("trips.id"))
        .whenMatched(changes["op"] == "D")
        .delete()
        .whenMatched()
        .update({"trips.fare": changes["fare"] + col("trips.fare"), "ts": lit(5)})
        .whenNotMatched()
        .insertAll()
        .whenNotMatchedBySource(col("trips.fare") == 0)
        .delete()
        .merge()
    )
    table = pyhudi.HudiTable.for_path(tmp_path / "t")
    merge = table.merge(changes, on=col("target.id") == col("source.id"))
    merge.when_matched_update(set={"ts": "source.ts + 10"}, condition=col("source.id") == 9).execute()

    assert now() == [(1, "oslo", 10.5, 5), (4, "bern", 16.0, 5), (9, "wien", 9.0, 12)]
    with pytest.raises(UnsupportedFeatureError, match="does not change the columns"):
        changes.mergeInto("trips", lit(True)).withSchemaEvolution()


UNFIT = (
    "update trips set ts = 'x'",
    "update trips set ts = 1e30, fare = 1 where id = 1",
    (
        "merge into trips t using (select 1L id, 'oslo' city, 1.0D fare, 1e30 ts) s on t.id = s.id and t.city = s.city "
        "when matched then update set *"
    ),
    "merge into trips t using changes s on t.id = s.id when matched then update set ts = 's' || s.ts, fare = 0",
)


def test_literal_of_an_insert_clause_is_no_column_of_the_source(enabled: SparkSession, now: Now) -> None:
    enabled.sql(
        "merge into trips t using (select 5L as id, 0 union all select 6L, 1) s on t.id = s.id "
        "when not matched then insert (id, city, ts, fare) values (s.id, 'oslo', 0, 0)"
    )
    enabled.sql(
        "merge into trips t using (select 7L as id, null union all select 8L, 1) s on t.id = s.id "
        "when not matched then insert (id, city, ts, fare) values (s.id, 'oslo', 0, null)"
    )

    assert [row[2:] for row in now() if row[0] > 4] == [(0.0, 0), (0.0, 0), (None, 0), (None, 0)]


BY_KEY = "t.id = s.id and t.city = s.city"
ALL = "when matched then update set * when not matched then insert *"


@pytest.mark.parametrize(
    ("on", "clauses", "at"),
    [
        (BY_KEY, ALL, 2),
        ("t.id = s.id", ALL, 2),
        (BY_KEY, "when matched then update set id = s.id, city = s.city, fare = s.fare, ts = s.ts", 2),
        (BY_KEY, "when matched then update set id = s.id, city = s.city, fare = s.fare, ts = s.TS", 9),
        ("t.id = s.id", "when matched then update set ts = s.TS, fare = s.fare", 9),
    ],
)
def test_columns_that_differ_in_letter_case_are_told_apart_where_spark_does(
    enabled: SparkSession, now: Now, on: str, clauses: str, at: int
) -> None:
    rows = "select 3L ID, 1L id, 'oslo' city, 6D fare, 2L ts, 9L TS"
    with temporarily(enabled, {"spark.sql.caseSensitive": "true"}):
        enabled.sql(f"merge into trips t using ({rows}) s on {on} {clauses}")

    assert now() == [(1, "oslo", 6.0, at), *STORED[1:]]


@pytest.mark.parametrize(
    ("columns", "on", "clauses", "message"),
    [
        ("id, city, fare, ts TS", BY_KEY, ALL, "lacks columns of the table, which all are asked for: ts"),
        ("id ID, city, fare, ts", BY_KEY, "when matched then update set ts = s.ts", "`s`.`id` cannot be resolved"),
        ("id, city, fare, ts TS", BY_KEY, "when matched then update set ts = s.ts", "`s`.`ts` cannot be resolved"),
    ],
)
def test_column_of_the_source_in_another_letter_case_is_refused_where_spark_refuses_it(
    enabled: SparkSession, now: Now, columns: str, on: str, clauses: str, message: str
) -> None:
    with (
        temporarily(enabled, {"spark.sql.caseSensitive": "true"}),
        pytest.raises((ConfigError, SqlStatementError), match=message),
    ):
        enabled.sql(f"merge into trips t using (select {columns} from changes) s on {on} {clauses}")

    assert now() == STORED


def test_columns_that_differ_in_letter_case_are_ambiguous_where_it_does_not_count(
    enabled: SparkSession, now: Now
) -> None:
    with pytest.raises(Exception, match="AMBIGUOUS_REFERENCE"):
        enabled.sql(f"merge into trips t using (select id, city, fare, ts, 9L TS from changes) s on {BY_KEY} {ALL}")

    assert now() == STORED


def test_named_columns_of_the_source_are_merged_by_the_index_if_each_gets_its_namesake(
    enabled: SparkSession, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins: list[bool] = []
    changes_of_merge = row_changes.changes_of_merge

    def watched(*args: Any, **named: Any) -> tuple[DataFrame, bool]:
        found = changes_of_merge(*args, **named)
        joins.append(found[1])
        return found

    monkeypatch.setattr(row_changes, "changes_of_merge", watched)
    merge = "merge into trips t using changes s on t.id = s.id and t.city = s.city "
    columns = "insert (id, city, fare, ts) values (s.id, s.city, {0}, s.TS)"
    enabled.sql(f"{merge} when matched then update set id = s.id, `city`=`S`.`city`, t.FARE = s.fare, ts = s.ts")
    enabled.sql(f"{merge} when not matched then {columns.format('s.`fare`')}")
    enabled.sql(f"{merge} when matched and s.id = 1 then update set id = s.id, city = s.city, fare = s.ts, ts = s.ts")

    assert joins == [False, False, True]
    assert now() == [(1, "oslo", 2.0, 2), STORED[1], (3, "rome", 0.0, 2), (4, "bern", 8.0, 2), (9, "wien", 9.0, 2)]


@pytest.mark.parametrize("change", ["update set *", "delete"])
def test_condition_of_matched_rows_that_both_sides_could_mean_is_refused(
    enabled: SparkSession, now: Now, change: str
) -> None:
    with pytest.raises(SqlStatementError, match="fare"):
        enabled.sql(
            f"merge into trips t using changes s on t.id = s.id and t.city = s.city when matched and fare > 1 "
            f"then {change} when not matched and fare > 1 then insert *"
        )
    enabled.sql(
        "merge into trips t using changes s on t.id = s.id and t.city = s.city when not matched and fare > 1 then "
        "insert *"
    )

    assert now() == [*STORED, (9, "wien", 9.0, 2)]


def test_columns_of_a_source_that_are_named_as_those_of_a_merge_keep_their_values(
    enabled: SparkSession, now: Now
) -> None:
    enabled.sql(
        "merge into trips t using (select 1L id, 'a' `#in_source`, 'b' `#clause`, 'c' `#0 fare`, 'd' `##1 fare`) s "
        "on t.id = s.id when matched and s.`#clause` = 'b' then update set "
        "fare = length(s.`#in_source`) * 10.5, city = s.`#in_source` || s.`#clause` || s.`#0 fare` || s.`##1 fare`"
    )
    enabled.sql(
        "merge into trips t using (select 9L id, 'wien' city, 9.0D fare, 3L ts, 5 `#stored`, 6 `#change`) s "
        "on t.id = s.id and t.city = s.city "
        "when matched and s.`#stored` = 5 then update set * when not matched and s.`#stored` = 5 then insert *"
    )

    assert (1, "abcd", 10.5, 1) in now()
    assert (9, "wien", 9.0, 3) in now()


CLAUSES_OF_SOME_ROWS = [
    # clauses, and the fare of id 9; at the row of id 1 their values would fail
    ("when not matched then insert (id, city, ts, fare) values (s.id, 'oslo', 1, 8 / s.x)", 2.0),
    ("when not matched then insert (id, city, ts, fare) values (id, 'oslo', 1, 8 / x)", 2.0),
    ("when not matched and 8 / s.x > 1 then insert (id, city, ts, fare) values (s.id, 'oslo', 1, 3)", 3.0),
    (
        """when matched and s.x = 0 then update set ts = 9
        when not matched and s.x = 0 then insert (id) values (s.id)
        when not matched and 8 / x > 1 then insert (id, city, ts, fare) values (id, 'oslo', 1, 8 / s.x)""",
        2.0,
    ),
]


@pytest.mark.parametrize(("clauses", "expected"), CLAUSES_OF_SOME_ROWS)
def test_clause_is_evaluated_for_its_rows_alone(enabled: SparkSession, now: Now, clauses: str, expected: float) -> None:
    enabled.sql(f"merge into trips t using (select 1L as id, 0 as x union all select 9L, 4) s on t.id = s.id {clauses}")

    assert [row[2] for row in now() if row[0] == 9] == [expected]


def test_clause_of_rows_without_a_source_is_evaluated_for_them_alone(enabled: SparkSession, now: Now) -> None:
    enabled.sql(
        "merge into trips t using (select id, fare from trips where fare = 0) s on t.id = s.id "
        "when not matched by source and 35 / fare = 5 then update set ts = 35 / fare "
        "when not matched by source then delete"
    )

    assert now() == [(2, "oslo", 0.0, 1), (3, "rome", 7.0, 5)]


def test_merge_whose_condition_names_the_target_logs_no_error(
    enabled: SparkSession, now: Now, caplog: pytest.LogCaptureFixture
) -> None:
    loggers = pytest.importorskip("pyspark.logger", reason="PySpark 3.5 logs no queries")
    logger = loggers.PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(caplog.handler)
    try:
        enabled.sql(
            "merge into trips t using changes s on t.id = s.id and t.city = s.city "
            "when matched and t.fare < s.fare then update set * when not matched then insert *"
        )
    finally:
        logger.removeHandler(caplog.handler)

    assert now()[0] == (1, "oslo", 5.5, 2)
    assert caplog.records == []


def test_a_value_that_does_not_fit_its_column_is_an_error_whatever_the_session_says(
    enabled: SparkSession, now: Now
) -> None:
    if IS_4:  # before, a session that sets nothing is such a one
        enabled.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for statement in UNFIT:
            with pytest.raises((PySparkException, Py4JJavaError), match="does not fit the column ts, bigint"):
                enabled.sql(statement)
        enabled.sql("update trips set fare = 1 / 0, ts = '7' where id = 1")
    finally:
        enabled.conf.unset("spark.sql.ansi.enabled")

    assert now() == [(1, "oslo", None, 7), *STORED[1:]]


ONE = "merge into trips t using changes s on t.id = s.id when "
WRONG = {
    # The statement, and the word at which the error points.
    "merge into trips t using changes s on t.id = s.idd when matched then delete": "s.idd",
    ONE + "matched and s.op = 'D' and ts > 1 then delete": "ts > 1",
    ONE + "matched then update set fare = 1, far = 1": "far = 1",
    "merge into trips t using nothing s on t.id = s.id when matched then delete": "nothing",
    ONE + "matched then updte set x = 1": "updte",
    ONE + "not matched then insert (id) values (1, 2)": "(1, 2)",
    "merge into trips t using changes s on t.id = s.id": "",
    "update trips set fare = foo(1)": "foo",
    "update trips set a.b.c = 1": "a.b.c",
    "update trips set fare = 1, FARE = 2": "FARE",
    "delete from trips where": "",
    "delete from trips where case when id = 1 then true": "case",
}


def test_what_is_wrong_is_refused_with_its_place(enabled: SparkSession, now: Now) -> None:
    for statement, word in WRONG.items():
        with pytest.raises(SqlStatementError) as caught:
            enabled.sql(statement)
        place = caught.value.context["column"] - 1
        assert statement[place:].startswith(word), statement
        assert bool(word) == bool(statement[place:]), statement
    with pytest.raises(RecordKeyError):
        enabled.sql("update trips set id = 77 where id = 1")
    with pytest.raises(AmbiguousChangeError):
        enabled.sql(
            "merge into trips t using (values (1), (1)) s(i) on t.id = s.i when matched then update set fare = 1"
        )

    assert now() == STORED
