"""Random SQL scripts on one table: which statement comes next depends on a seed and on the rows that are there.

What JVM Hudi 1.2.0 is known to do otherwise is left out, each with its reason, or is in `deviations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.interop.deviations import LOSES_COLUMNS_OF_PARTIAL_UPDATES, ONLY_INSERTS_ARE_PLAIN_INSERTS

OPTION_OF_INSERTS: Final = "hoodie.spark.sql.insert.into.operation"
TEXTS: Final = ["a", "B c", "it\\'s", "", 'say "x"', "100%_\\\\", "ünï→", "null", "; -- ", "a,b=c/d"]
DATES: Final = ["1969-12-31", "2000-02-29", "2024-01-05", "2026-07-01"]
TIMES: Final = ["1969-12-31 23:59:59.999999Z", "2024-03-10 02:30:00Z", "2026-01-01 00:00:00.000001Z"]
PATHS: Final[Mapping[str, Sequence[str]]] = {
    "string": ["'x'", "'y'", "'z z'", "'w=1'"],
    "int": ["1", "-20", "300"],
    "date": ["date'2024-01-05'", "date'1969-12-31'", "date'2026-07-01'"],
}
"""Types of partition columns, and their values."""


def text(r: Random) -> str:
    return f"'{r.choice(TEXTS)}'"


KINDS: Final[Mapping[str, Callable[[Random], str]]] = {
    "int": lambda r: str(r.choice([0, 1, -7, 2147483647, r.randrange(100)])),
    "bigint": lambda r: f"{r.choice([0, -1, 9007199254740993, r.randrange(1000)])}L",
    "double": lambda r: f"{r.choice([0.0, -1.5, 1e300, r.randrange(100) / 8])!r}D",
    "decimal(10,2)": lambda r: (
        f"cast('{r.choice(['0', '-1.25', '12345678.99', f'{r.randrange(100)}.5'])}' as decimal(10,2))"
    ),
    "decimal(25,6)": lambda r: (
        f"cast('{r.choice(['0.000001', '-9999999999999999.5', f'{r.randrange(100)}'])}' as decimal(25,6))"
    ),
    "boolean": lambda r: r.choice(["true", "false"]),
    "string": text,
    "date": lambda r: f"date'{r.choice(DATES)}'",
    "timestamp": lambda r: f"timestamp'{r.choice(TIMES)}'",
    "binary": lambda r: r.choice(["X''", "X'00FF'", "cast('raw' as binary)"]),
    "struct<x:int,y:string>": lambda r: f"named_struct('x', {r.randrange(9)}, 'y', {text(r)})",
    "array<string>": lambda r: f"array({', '.join(text(r) for _ in range(r.randrange(1, 3)))})",
    "array<int>": lambda r: f"array({', '.join(str(r.randrange(9)) for _ in range(r.randrange(1, 4)))})",
    "map<string,int>": lambda r: f"map({text(r)}, {r.randrange(9)})",
}
"""Types of columns, and what makes a literal of each."""

EXPRESSIONS: Final[Mapping[str, Sequence[str]]] = {
    "int": ["{c} % 7", "coalesce({c}, 3)", "length('abc')", "case when {c} > 5 then 1 else 2 end"],
    "bigint": ["{c} % 11", "abs({c})"],
    "double": ["{c} / 2", "round({c}, 1)"],
    "decimal(10,2)": ["{c} / 2", "cast({c} as int)"],
    "decimal(25,6)": ["-{c}"],
    "boolean": ["not {c}", "{c} is null"],
    "string": ["upper({c})", "concat({c}, '!')", "substr({c}, 2)", "cast({k} as string)", "replace({c}, 'a', '\\'')"],
    "date": ["date_add({c}, 1)", "last_day({c})"],
    "timestamp": ["{c} + interval 1 day"],
    "binary": ["cast('b' as binary)"],
    "struct<x:int,y:string>": ["named_struct('x', {c}.x, 'y', 'new')"],
    "array<string>": ["array('q')", "array_distinct({c})"],
    "array<int>": ["sort_array({c})"],
    "map<string,int>": ["map('k', 1)"],
}
CONDITIONS: Final[Mapping[str, Sequence[str]]] = {
    "int": ["{c} > 5", "{c} is null", "{c} <> 1", "{c} between 0 and 50"],
    "bigint": ["{c} < 500"],
    "double": ["{c} >= 0", "{c} < 1e10"],
    "decimal(10,2)": ["{c} > 1", "{c} = 0"],
    "decimal(25,6)": ["{c} < 10"],
    "boolean": ["{c}", "not {c}"],
    "string": ["{c} like 'a%'", "{c} is not null", "{c} = 'it\\'s'", "{c} in ('', 'null')", "length({c}) > 3"],
    "date": ["{c} < date'2020-01-01'", "year({c}) = 2024"],
    "timestamp": ["{c} > timestamp'2020-01-01 00:00:00Z'"],
    "binary": ["{c} = X''"],
    "struct<x:int,y:string>": ["{c}.x > 4", "{c} is null"],
    "array<string>": ["array_contains({c}, 'a')", "size({c}) = 2"],
    "array<int>": ["{c}[0] > 3"],
    "map<string,int>": ["map_keys({c})[0] = 'a'"],
}


@dataclass(frozen=True)
class Shape:
    """A table: the type of its key (without `has_key` a column as any other), of its partition column, and the others.

    `second_key`: whether the key has two columns. `ordered`: whether it has an ordering field.
    """

    kind: str
    key: str
    has_key: bool
    second_key: bool
    path: str | None
    ordered: bool
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_columns(self) -> dict[str, str]:
        """All columns in the order of the table."""
        second = {"k2": "string"} if self.second_key else {}
        ordering = {"ts": "bigint"} if self.ordered else {}
        path = {} if self.path is None else {"p": self.path}
        return {"k": self.key, **second, **self.columns, **ordering, **path}

    @property
    def identity(self) -> list[str]:
        """The columns that say which record a row is."""
        return [column for column in ("k", "k2", "p") if column in self.all_columns]

    @property
    def settable(self) -> list[str]:
        return list(self.columns)

    def create(self, name: str, path: str) -> str:
        columns = ", ".join(f"{column} {kind}" for column, kind in self.all_columns.items())
        properties = [f"type = '{self.kind}'"]
        properties += [f"primaryKey = '{'k,k2' if self.second_key else 'k'}'"] if self.has_key else []
        properties += ["orderingFields = 'ts'"] if self.ordered else []
        partitions = "" if self.path is None else "partitioned by (p) "
        return (
            f"create table {name} ({columns}) using hudi {partitions}location '{path}' "
            f"tblproperties ({', '.join(properties)})"
        )


def shape_of(seed: int) -> Shape:
    """The table of a seed. All forms of tables come up in any eight seeds that follow each other."""
    r = Random(f"shape {seed}")
    kinds = r.sample(sorted(KINDS), r.randrange(3, 6))
    has_key = seed % 6 != 5
    return Shape(
        "mor" if seed % 2 else "cow",
        r.choice(["int", "string", "bigint"]),
        has_key,
        has_key and seed % 3 == 2,
        r.choice(sorted(PATHS)) if seed // 2 % 2 == 0 else None,
        has_key and seed // 4 % 2 == 0,
        {f"c{number}": kind for number, kind in enumerate(kinds)},
    )


@dataclass
class Script:
    """The statements of a seed, one after the other. `@` is the table."""

    shape: Shape
    r: Random
    keys: int = 0
    has_deleted: bool = False

    def next(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """A statement for a table with these rows."""
        makers = [self.insert, self.insert, self.update, self.update, self.delete, self.merge, self.merge, self.merge]
        makers += [self.overwrite, *([self.upsert] if self.shape.has_key else [])]
        return self.insert(rows) if len(rows) < 2 else self.r.choice(makers)(rows)

    # --- values

    def new_key(self) -> str:
        self.keys += 1
        return f"'k{self.keys}'" if self.shape.key == "string" else str(self.keys)

    def literal_of(self, row: Mapping[str, Any], column: str) -> str:
        """The value of an identifying column of a row, as a literal."""
        value, kind = row[column], self.shape.all_columns[column]
        if value is None:
            return "null"
        return {"string": f"'{value}'", "date": f"date'{value}'"}.get(kind, str(value))

    def value(self, column: str) -> str:
        if column == "ts":
            return str(self.r.randrange(10, 20))
        if column == "k2":
            return self.r.choice(["'left'", "'right, side'"])
        if column == "p":
            return self.r.choice(PATHS[self.shape.path or "string"])
        kind = self.shape.columns[column]
        return "null" if self.r.random() < 0.2 else KINDS[kind](self.r)

    def row(self, key: str, fixed: Mapping[str, str] | None = None) -> dict[str, str]:
        given = {"k": key, **(fixed or {})}
        return {column: given.get(column) or self.value(column) for column in self.shape.all_columns}

    def new_rows(self, most: int = 4) -> list[dict[str, str]]:
        return [self.row(self.new_key()) for _ in range(self.r.randrange(1, most))]

    def source(self, rows: Sequence[Mapping[str, str]], more: str = "") -> str:
        """A query with these rows in the types of the table; their columns in any order."""
        columns = list(self.shape.all_columns)
        self.r.shuffle(columns)
        return " union all ".join(
            "select "
            + ", ".join(f"cast({row[c]} as {self.shape.all_columns[c]}) {c}" for c in columns)
            + more.format(**row)
            for row in rows
        )

    def condition(self) -> str:
        # JVM Hudi fails at conditions on binary columns that have statistics: ClassCastException.
        columns = [column for column in self.shape.settable if self.shape.columns[column] != "binary"]
        parts = []
        for _ in range(self.r.choice([1, 1, 2])):
            column = self.r.choice(columns)
            parts.append(self.r.choice(CONDITIONS[self.shape.columns[column]]).format(c=column))
        return self.r.choice([" and ", " or "]).join(parts)

    def where(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """A condition that some of the rows may meet."""
        chosen = [
            self.literal_of(row, "k") for row in self.r.sample(list(rows), min(len(rows), self.r.randrange(1, 4)))
        ]
        options = [f"k in ({', '.join(chosen)})", self.condition(), f"k = {chosen[0]} or ({self.condition()})"]
        if self.shape.path is not None:
            options.append(f"p = {self.value('p')} and ({self.condition()})")
        return self.r.choice(options)

    # --- statements

    def insert(self, _: Sequence[Mapping[str, Any]]) -> str:
        new = self.new_rows()
        columns = list(self.shape.all_columns)
        form = self.r.randrange(4)
        if form == 0:  # some columns, in any order
            left_out = set(self.r.sample(self.shape.settable, 1))
            columns = [column for column in columns if column not in left_out]
            self.r.shuffle(columns)
            listed = ", ".join(f"({', '.join(row[c] for c in columns)})" for row in new)
            return f"insert into @ ({', '.join(columns)}) values {listed}"
        if form == 1 and self.shape.path is not None:
            value = self.value("p")
            listed = ", ".join(f"({', '.join(row[c] for c in columns if c != 'p')})" for row in new)
            return f"insert into @ partition (p = {value}) values {listed}"
        if form == 2:  # a query has all columns, in any order
            return f"insert into @ {self.source(new)}"
        return "insert into @ values " + ", ".join(f"({', '.join(row[c] for c in columns)})" for row in new)

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """An insert whose rows replace those of their keys: three statements."""
        changed = self.changed(rows)
        listed = ", ".join(
            f"({', '.join(row[c] for c in self.shape.all_columns)})" for row in [*changed, *self.new_rows(2)]
        )
        return f"set {OPTION_OF_INSERTS} = upsert;; insert into @ values {listed};; reset {OPTION_OF_INSERTS}"

    def changed(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
        """New versions of some of the rows."""
        some = self.r.sample(list(rows), min(len(rows), self.r.randrange(1, 4)))
        fixed = [{column: self.literal_of(row, column) for column in self.shape.identity} for row in some]
        return [self.row(each["k"], each) for each in fixed]

    def assignments(self, *, expressions: bool, prefix: str = "") -> list[str]:
        found = []
        for column in self.r.sample(self.shape.settable, self.r.randrange(1, len(self.shape.settable) + 1)):
            kind = self.shape.columns[column]
            value = self.value(column)
            if expressions and self.r.random() < 0.5:
                value = self.r.choice(EXPRESSIONS[kind]).format(c=f"{prefix}{column}", k=f"{prefix}k")
            found.append(f"{column} = cast({value} as {kind})")
        return found

    def update(self, rows: Sequence[Mapping[str, Any]]) -> str:
        assigned = self.assignments(expressions=True)
        if self.shape.ordered and self.r.random() < 0.7:
            assigned.append(f"ts = ts + {self.r.choice(['1', '2', '(-1)'])}")
        return f"update @ set {', '.join(assigned)} where {self.where(rows)}"

    def delete(self, rows: Sequence[Mapping[str, Any]]) -> str:
        self.has_deleted = True
        return f"delete from @ where {self.where(rows)}"

    def overwrite(self, _: Sequence[Mapping[str, Any]]) -> str:
        new = self.new_rows()
        if self.shape.path is not None and self.r.random() < 0.7:
            value = self.value("p")
            listed = ", ".join(f"({', '.join(row[c] for c in self.shape.all_columns if c != 'p')})" for row in new)
            return f"insert overwrite @ partition (p = {value}) values {listed}"
        return f"insert overwrite @ {self.source(new)}"

    def merge(self, rows: Sequence[Mapping[str, Any]]) -> str:
        some = self.r.random() < 0.4 and self.may_update_some()
        # JVM Hudi may lose columns where a log updates some, and the source has rows besides: see `deviations.py`.
        inserts = not (some and self.shape.kind == "mor" and LOSES_COLUMNS_OF_PARTIAL_UPDATES)
        changed, new = self.changed(rows), self.new_rows(3) if inserts else []
        ops = iter(self.r.choices(["U", "U", "D"], k=len(changed) + len(new)))
        given = [{**row, "op": next(ops)} for row in [*changed, *new]]
        for row in given:
            if row["op"] == "D" and "ts" in row and self.shape.kind == "mor":
                row["ts"] = "99"  # JVM Hudi does not delete what is newer than the row of the source, and we do
        on = " and ".join(f"t.{column} = s.{column}" for column in self.shape.identity)
        source = self.source(given, ", '{op}' op")
        if some and self.r.random() < 0.3:
            return self.merge_of_other_names(source, on, inserts=inserts)
        return f"merge into @ t using ({source}) s on {on} {self.clauses(some=some, inserts=inserts)}"

    def merge_of_other_names(self, source: str, on: str, *, inserts: bool) -> str:
        """A merge whose source calls its values otherwise. JVM Hudi refuses other names for the key."""
        others = [column for column in self.shape.all_columns if column not in self.shape.identity]
        renamed = ", ".join([*self.shape.identity, *(f"{column} as s_{column}" for column in others)])
        values = [f"s.s_{column}" if column in others else f"s.{column}" for column in self.shape.all_columns]
        assigned = [f"{column} = s.s_{column}" for column in others]
        insert = f"when not matched then insert ({', '.join(self.shape.all_columns)}) values ({', '.join(values)})"
        return (
            f"merge into @ as t using (select {renamed} from ({source}) u) as s on {on} "
            f"when matched then update set {', '.join(assigned)} {insert if inserts else ''}"
        )

    def clauses(self, *, some: bool, inserts: bool) -> str:
        update = "update set *"
        if some:
            column = self.r.choice(self.shape.settable)
            kind = self.shape.columns[column]
            value = self.r.choice(["s.{c}", "cast({v} as {kind})"]).format(c=column, kind=kind, v=KINDS[kind](self.r))
            update = f"update set {column} = {value}" + (", ts = s.ts" if self.shape.ordered else "")
        if not inserts:
            condition = self.r.choice(["", "and s.op = 'U' "])
            return f"when matched {condition}then {update}"
        forms = [
            [f"when matched then {update}"],
            [f"when matched then {update}", "when not matched then insert *"],
            [f"when matched and s.op <> 'D' then {update}", "when not matched and s.op = 'U' then insert *"],
        ]
        if self.shape.ordered or not self.shape.has_key or not ONLY_INSERTS_ARE_PLAIN_INSERTS:
            forms.append(["when not matched then insert *"])
        if self.shape.ordered or self.shape.kind == "cow":
            forms += [
                [
                    "when matched and s.op = 'D' then delete",
                    f"when matched and s.op <> 'D' then {update}",  # see UPDATES_BEFORE_DELETES
                    "when not matched then insert *",
                ],
            ]
        chosen = self.r.choice(forms)
        self.has_deleted = self.has_deleted or any("delete" in clause for clause in chosen)
        return " ".join(chosen)

    def may_update_some(self) -> bool:
        """JVM Hudi brings a deleted record back, or cannot read the table, when a log updates columns of it."""
        return self.shape.kind == "cow" or not self.has_deleted


def script_of(seed: int) -> Script:
    return Script(shape_of(seed), Random(f"script {seed}"))
