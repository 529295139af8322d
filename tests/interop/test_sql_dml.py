"""MERGE INTO, UPDATE and DELETE FROM: scripts run by JVM Hudi and by us on copies of one table, rows compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.interop.compare import WRITER_META, assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.spark import spark

import pyhudi
from pyhudi.sql.enable import disable

__all__ = ["spark"]

COLUMNS: Final = (
    "id bigint, name string, price double, amount decimal(12,3), flag boolean, day date, at timestamp, raw binary, "
    "place struct<x:int,y:string>, tags array<string>, extra map<string,double>, ts bigint, p string"
)
ROW: Final = (
    "select {id}L id, '{name}' name, {id}.5D price, cast({id}.125 as decimal(12,3)) amount, {id} % 2 = 0 flag, "
    "date'2024-01-0{id}' day, timestamp'2024-01-0{id} 10:00:00Z' at, cast('{name}' as binary) raw, "
    "named_struct('x', {id}, 'y', '{name}') place, array('{name}', 't') tags, map('{name}', {id}.5D) extra, "
    "{ts}L ts, '{p}' p"
)
NULLS: Final = (
    "select {id}L id, cast(null as string) name, cast(null as double) price, cast(null as decimal(12,3)) amount, "
    "cast(null as boolean) flag, cast(null as date) day, cast(null as timestamp) at, cast(null as binary) raw, "
    "cast(null as struct<x:int,y:string>) place, cast(null as array<string>) tags, "
    "cast(null as map<string,double>) extra, {ts}L ts, '{p}' p"
)


def rows(*given: tuple[int, str, int, str]) -> str:
    """A query for rows of (id, name, ts, p); those without a name are null."""
    parts = [(ROW if n else NULLS).format(id=i, name=n, ts=ts, p=p) for i, n, ts, p in given]
    return " union all ".join(parts)


STORED: Final = rows(
    (1, "a", 10, "x"), (2, "b", 10, "x"), (3, "c", 10, "y"), (4, "", 10, "y"), (5, "e", 10, "z"), (6, "f", 10, "z")
)
UPDATE_ALL, INSERT_ALL = "when matched then update set *", "when not matched then insert *"


def merge(source: str, *clauses: str) -> str:
    """A merge by record key and partition."""
    return f"merge into @ as t using ({source}) s on t.id = s.id and t.p = s.p {' '.join(clauses)}"


OF_TARGET: Final = "some columns, with values of the target"
SOME_COLUMNS: Final = "some columns of the source"
REFUSED_ON_MOR: Final = {6: (OF_TARGET, SOME_COLUMNS)}
"""What JVM Hudi refuses in a merge-on-read table, by version; in other versions only values of the target's columns."""
OPERATIONS: Final = "select *, case when id = 3 then 'D' else 'U' end op from "
SCRIPTS: Final = {
    "all columns": merge(
        rows((1, "A", 11, "x"), (4, "D", 11, "y"), (7, "G", 1, "y"), (5, "", 11, "z")), UPDATE_ALL, INSERT_ALL
    ),
    "older rows": merge(rows((1, "late", 9, "x"), (2, "even", 10, "x")), UPDATE_ALL),
    "an operation column": merge(
        f"{OPERATIONS} ({rows((3, 'x', 12, 'y'), (6, 'F', 12, 'z'), (8, 'H', 2, 'x'))})",
        "when matched and s.op = 'D' then delete when matched and s.op = 'U' then update set *",
        "when not matched and s.op <> 'D' then insert *",
    ),
    OF_TARGET: merge(
        rows((1, "q", 13, "x"), (6, "r", 13, "z")),
        "when matched and t.id > 0 then update set price = t.price + s.price, amount = s.amount, place = s.place,",
        "ts = s.ts, day = date_add(t.day, 1)",
    ),
    SOME_COLUMNS: merge(
        # No deleted record: JVM Hudi 1.2.0 would bring it back, or could not read its own table.
        rows((1, "q", 14, "x"), (6, "r", 14, "z")),
        "when matched then update set price = s.price * 2, amount = s.amount, place = s.place, ts = s.ts, id = s.id,",
        "p = s.p",
    ),
    "inserts only": merge(rows((1, "no", 99, "x"), (9, "I", 3, "new")), INSERT_ALL),
    "named columns of inserts": merge(
        rows((9, "no", 99, "new"), (2, "j", 4, "w")),
        "when not matched and s.flag then insert (id, name, amount, at, ts, p)",
        "values (s.id, concat(s.name, '!'), s.amount * 2, s.at, s.ts, s.p)",
    ),
    "an update of every type": (
        "update @ set name = upper(name), price = price / 2, amount = amount - 0.125, flag = not flag, "
        "day = date'2020-02-29', at = timestamp'2020-02-29 23:59:59.123456Z', raw = cast('raw' as binary), "
        "tags = array('t'), extra = map('k', 1.0D), ts = ts + 20 where p = 'x' or amount > 6"
    ),
    "an update to null": (
        "update @ set name = null, place = null, tags = null, at = null, ts = ts + 1 where id in (5, 6)"
    ),
    "an update to a smaller ordering value": "update @ set name = 'ignored', ts = 0 where id = 7",
    "a deletion by types": (
        "delete from @ where day = date'2020-02-29' and at < timestamp'2021-01-01 00:00:00Z' "
        "and amount between 0 and 2.1"
    ),
    "a deletion of what is null": "delete from @ where name is null and ts > 10",
    "a deletion in a merge": merge(
        rows((7, "g", 50, "y"), (9, "i", 50, "new"), (8, "zz", 1, "y")), "when matched then delete"
    ),
    "the deleted ones again": merge(rows((7, "again", 60, "y"), (3, "again", 61, "y")), UPDATE_ALL, INSERT_ALL),
}


@pytest.fixture
def enabled(spark: Any) -> Any:
    yield pyhudi.enable(spark)
    disable()


@pytest.mark.parametrize(
    ("version", "kind", "mode"),
    [
        pytest.param(9, "cow", "EVENT_TIME_ORDERING", marks=pytest.mark.quick),
        (9, "mor", "EVENT_TIME_ORDERING"),
        pytest.param(9, "cow", "COMMIT_TIME_ORDERING", marks=pytest.mark.thorough),
        pytest.param(9, "mor", "COMMIT_TIME_ORDERING", marks=pytest.mark.thorough),
        pytest.param(8, "cow", "EVENT_TIME_ORDERING", marks=pytest.mark.thorough),
        pytest.param(8, "mor", "EVENT_TIME_ORDERING", marks=pytest.mark.thorough),
        pytest.param(6, "cow", "EVENT_TIME_ORDERING", marks=pytest.mark.thorough),
        pytest.param(6, "mor", "EVENT_TIME_ORDERING", marks=pytest.mark.thorough),
    ],
)
def test_scripts_give_the_rows_that_jvm_hudi_gives(
    oracle_of: Callable[[str], Oracle], enabled: Any, tmp_path: Path, version: int, kind: str, mode: str
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    name = f"dml_{version}_{kind}_{mode[:2].lower()}"
    ordering = "preCombineField" if version < 9 else "orderingFields"
    merging = "" if version == 6 else f", 'hoodie.record.merge.mode' = '{mode}'"
    if version == 8:  # JVM Hudi 1.0.2 fails where it makes statistics of null for logs
        merging += ", 'hoodie.metadata.index.column.stats.enable' = 'false'"
    oracle.sql(
        f"create table {name} ({COLUMNS}) using hudi partitioned by (p) location '{theirs}' tblproperties "
        f"(primaryKey = 'id', {ordering} = 'ts', type = '{kind}', 'hoodie.compact.inline' = 'false'{merging})"
    )
    oracle.sql(f"insert into {name} {STORED}")
    shutil.copytree(theirs, ours)
    oracle.sql(f"create table {name}_ours using hudi location '{ours}'")

    for title, script in SCRIPTS.items():
        if kind == "mor" and title in REFUSED_ON_MOR.get(version, (OF_TARGET,)):
            continue
        oracle.sql(script.replace("@", name))
        enabled.sql(script.replace("@", f"hudi.`{ours}`"))
        expected, found = oracle.read(theirs), pyhudi.HudiTable.for_path(ours).scan().to_arrow()
        assert_same_rows(expected, found, ignore=(*WRITER_META, "_hoodie_commit_time"), hint=title)
        by_jvm_hudi = oracle.read(ours)
        assert_same_rows(by_jvm_hudi, found, hint=f"{title}, read by JVM Hudi")

    # By commit time, JVM Hudi cannot read its own logs that have some columns of a record, a deletion, and the record.
    # JVM Hudi 1.0.2 cannot read its own logs that have a deletion and a later record, whose ordering value is a long.
    cannot_be_back = kind == "mor" and (mode == "COMMIT_TIME_ORDERING" or version == 8)
    brought_back = () if cannot_be_back else ((6, "last", 90, "z"),)
    last = merge(rows((1, "last", 90, "x"), *brought_back), UPDATE_ALL, INSERT_ALL)
    oracle.sql(last.replace("@", f"{name}_ours"))
    oracle.sql(last.replace("@", name))
    after = pyhudi.HudiTable.for_path(ours).scan().to_arrow()
    assert_same_rows(oracle.read(theirs), after, ignore=(*WRITER_META, "_hoodie_commit_time"), hint="JVM Hudi goes on")
