"""Which names of a statement are read as tables."""

from __future__ import annotations

import pytest

from pyhudi.errors import SqlStatementError
from pyhudi.sql.text.relations import relations_of

CASES = {
    "select * from t": ["t"],
    "SELECT a FROM db.t x, `u v` AS y JOIN cat.db.w ON x.a = y.a WHERE a IN (SELECT b FROM z)": [
        "db.t",
        "u v",
        "cat.db.w",
        "z",
    ],
    "select extract(year from ts), trim(both from a), a is distinct from b, c is not distinct from d from t": ["t"],
    "select substring(a from 2) from (select * from u) x": ["u"],
    "with t as (select * from t where a), u as (select * from t) select * from u join t join v": ["t", "v"],
    "with recursive r(n) as (select 1 union all select n + 1 from r) select * from r, s": ["s"],
    "with x as (select 1), y (a, b) as (select * from x, z) select * from y": ["z"],
    "select * from (with q as (select 1) select * from q) a join q": ["q"],
    "select * from f(1) join g('x') g1, h": ["h"],
    "select * from values (1, 2), (3, 4) as v(a, b)": [],
    "select * from values (1), (2) x, t, values (3) y join u": ["t", "u"],
    "select * from 2024_t, db.20x 3y join 1e5_": ["2024_t", "db.20x", "1e5_"],
    "select * from t with (`a.b` = 'c', d = 5) x, u with (e true)": ["t", "u"],
    "select * from t lateral view explode(a) e as k, v where k = 1": ["t"],
    "select * from t, lateral (select * from u) x, w": ["t", "u", "w"],
    "select * from (a join (b cross join c) on a.x = b.x) left semi join d using (x, y), e": ["a", "b", "c", "d", "e"],
    "select * from a order by b, c": ["a"],
    "select (select max(x) from m), count(*) filter (where y) from n group by p, q having r": ["m", "n"],
    "from t select a, b where c insert into z select d": ["t"],
    "select 1": [],
    "select * from hudi.`/a/b c`": ["hudi./a/b c"],
    "select a from t union all select b from u except (select c from v)": ["t", "u", "v"],
    "insert into x (a, b) select a, b from y": ["y"],
    "insert overwrite x partition (d = 'a') with q as (select * from y) select * from q": ["y"],
    "create table a using parquet as select * from b": ["b"],
    "explain extended select * from b": ["b"],
    "merge into d using h as s on d.id = s.id when matched then delete": ["h"],
    "merge into d using (select * from h) s on d.id = s.id when matched then update set d.a = s.b": ["h"],
    "delete from t where id in (select id from u)": ["u"],
    "show columns from t": [],
    "table t": ["t"],
    "table db.t order by a": ["db.t"],
    "explain formatted table t": ["t"],
    "(table t) union all table u": ["t", "u"],
    "select * from t where id in (table u)": ["t", "u"],
    "with x as (table t) table x": ["t"],
    "with x as (table t) table u": ["t", "u"],
    "select * from f(table t), u": ["u"],
    "select * from table(f(1)), u": ["u"],
    "insert into table x table t": ["t"],
    "insert into x table t": ["t"],
    "insert overwrite table x select * from t": ["t"],
    "create table a using parquet as table t": ["t"],
    "create table a (table int) using parquet": [],
    "cache lazy table a as table t": ["t"],
    "cache table a": [],
    "select a as table from t": ["t"],
    "select table from t": ["t"],
    "select distinct table from t": ["t"],
    "select all table from t": ["t"],
    "select 'from x' as `from y`, \"from z\" -- from c\n from /* from d */ t": ["t"],
    "select a.from, b from t": ["t"],
    "select * from t where exists (select 1 from u where u.a = t.a and b in (1, c))": ["t", "u"],
    "select * from t pivot (sum(a) for b in ('x', 'y')), u": ["t", "u"],
    "select cast(a as int), if(b, c, d) from t tablesample (10 percent) s, u tablesample (5 rows)": ["t", "u"],
}


@pytest.mark.parametrize("text", CASES)
def test_names_that_are_read_as_tables(text):
    assert [str(found.name) for found in relations_of(text)] == CASES[text]


@pytest.mark.parametrize(
    ("text", "moment", "alias"),
    [
        ("select * from t timestamp as of '2026-01-31' where a", "'2026-01-31'", False),
        ("select * from t for system_time as of date '2026-01-31' x", "date '2026-01-31'", True),
        ("select * from t version as of 20260131 as x", "20260131", True),
        ("select * from t timestamp as of date_sub(current_date(), 1), u", "date_sub(current_date(), 1)", False),
        ("select * from t for version as of ('2' || '0') join u", "('2' || '0')", False),
        ("select * from t", None, False),
        ("select * from t cross join u", None, False),
        ("select * from t timestamp", None, True),
    ],
)
def test_moment_and_alias_of_a_relation(text, moment, alias):
    found = relations_of(text)[0]
    assert (None if found.moment is None else str(found.moment)) == moment
    assert (found.alias_at is None) is alias


def test_alias_goes_behind_the_sample():
    text = "select * from t tablesample (10 percent) repeatable (3) where a"
    [found] = relations_of(text)
    assert text[: found.alias_at].endswith("repeatable (3)")


def test_moment_that_is_no_expression_is_an_error_at_its_place():
    with pytest.raises(SqlStatementError, match="line 1, column 33"):
        relations_of("select * from t timestamp as of + 1")
