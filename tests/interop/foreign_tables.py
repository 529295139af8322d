"""Tables as JVM Hudi's users make them: by SQL, with services, indexes and schema changes. Recipes, one per table.

Every table has the columns `id`, `name`, `price`, `ts` and the columns of its partitions, and holds the rows with the
ids 1 to 6 but for what its own recipe takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from tests.support.oracle import Oracle

NEW = ("1.2.0",)
ALL = ("1.2.0", "1.0.2", "0.15.0")
SINCE_1_0 = ("1.2.0", "1.0.2")

_COLUMNS = "id INT, name STRING, price DOUBLE, ts BIGINT"
_SERVICES_OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table under its name in the session of one release."""

    oracle: Oracle
    path: Path
    name: str

    def sql(self, *statements: str) -> None:
        """Run statements in which `{t}` is the table and `{path}` its folder."""
        for statement in statements:
            self.oracle.sql(statement.replace("{t}", self.name).replace("{path}", str(self.path)))

    def with_settings(self, settings: Mapping[str, str], *statements: str) -> None:
        """Run statements with options of the session, and take these back."""
        for key, value in settings.items():
            self.oracle.sql(f"SET {key}={value}")
        try:
            self.sql(*statements)
        finally:
            for key in settings:
                self.oracle.sql(f"RESET {key}")


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A recipe, and what pyhudi makes of the table.

    `writes`: None where they must be right, else a part of the text with which they are refused by name.
    `has_meta_columns`: changes can be asked for. `not_compared`: columns that JVM Hudi's incremental reads give other
    values than its snapshots. `read_options`: what JVM Hudi needs to read it. `key`: the columns that identify a row;
    none for a table whose keys are generated. `price`: the name of the column `price` in the end.
    """

    id: str
    make: Callable[[MadeTable], None]
    releases: tuple[str, ...] = ALL
    has_meta_columns: bool = True
    not_compared: tuple[str, ...] = ()
    writes: str | None = None
    key: tuple[str, ...] = ("id",)
    price: str = "price"
    sql_settings: Mapping[str, str] = field(default_factory=dict)
    read_options: Mapping[str, str] = field(default_factory=dict)


def _create(
    table: MadeTable,
    *,
    kind: str = "cow",
    partition: str = "",
    columns: str = "",
    primary_key: str | None = "id",
    properties: Mapping[str, str] | None = None,
) -> None:
    said = {"type": kind, "preCombineField": "ts", **({} if primary_key is None else {"primaryKey": primary_key})}
    said |= properties or {}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in said.items())
    by = f"PARTITIONED BY ({partition})" if partition else ""
    every = f"{_COLUMNS}, {columns}" if columns else _COLUMNS
    table.sql(f"CREATE TABLE {{t}} ({every}) USING hudi {by} TBLPROPERTIES ({listed}) LOCATION '{{path}}'")


def _row(number: int, partition: str = "") -> str:
    row = f"{number}, 'n{number}', {number}.5D, CAST({number} AS BIGINT)"
    return f"({row}, {partition})" if partition else f"({row})"


def _insert(table: MadeTable, numbers: range, partition: Callable[[int], str] = lambda _: "") -> None:
    table.sql("INSERT INTO {t} VALUES " + ", ".join(_row(number, partition(number)) for number in numbers))


def _two_commits(table: MadeTable, partition: Callable[[int], str] = lambda _: "") -> None:
    _insert(table, range(1, 5), partition)
    _insert(table, range(5, 7), partition)


def _plain(
    kind: str, partition: str = "", columns: str = "", values: Callable[[int], str] = lambda _: "", **rest: object
) -> Callable[[MadeTable], None]:
    def make(table: MadeTable) -> None:
        _create(table, kind=kind, partition=partition, columns=columns, **rest)  # type: ignore[arg-type]
        _two_commits(table, values)

    return make


def _city(number: int) -> str:
    return "'oslo'" if number % 2 else "'rome'"


def _updated(kind: str) -> Callable[[MadeTable], None]:
    def make(table: MadeTable) -> None:
        _plain(kind, "city", "city STRING", _city)(table)
        table.sql("UPDATE {t} SET price = 99.5, ts = 50 WHERE id = 2", "DELETE FROM {t} WHERE id = 3")

    return make


def _merged(kind: str) -> Callable[[MadeTable], None]:
    def make(table: MadeTable) -> None:
        _plain(kind)(table)
        # In a merge-on-read table JVM Hudi 1.2.0 makes nulls of the columns that a MERGE does not set.
        update = "SET price = s.price, ts = s.ts" if kind == "cow" else "SET *"
        table.sql(
            "MERGE INTO {t} USING (SELECT 2 AS id, 'm2' AS name, 22.5D AS price, 60L AS ts UNION ALL "
            f"SELECT 7, 'm7', 77.5D, 60L) s ON {{t}}.id = s.id WHEN MATCHED THEN UPDATE {update} "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    return make


def _created_from_query(table: MadeTable) -> None:
    rows = " UNION ALL ".join(
        f"SELECT {n} AS id, 'n{n}' AS name, {n}.5D AS price, {n}L AS ts, {_city(n)} AS city" for n in range(1, 7)
    )
    table.sql(
        "CREATE TABLE {t} USING hudi PARTITIONED BY (city) TBLPROPERTIES ('primaryKey' = 'id', 'preCombineField' = "
        f"'ts', 'type' = 'cow') LOCATION '{{path}}' AS {rows}"
    )


def _evolved(kind: str, *changes: str) -> Callable[[MadeTable], None]:
    """Changes of columns under schema on read, between writes."""

    def make(table: MadeTable) -> None:
        _create(table, kind=kind)
        _insert(table, range(1, 4))
        table.sql(*changes)
        table.sql("INSERT INTO {t} VALUES (4, 'n4', 4.5D, 4L), (5, 'n5', 5.5D, 5L), (6, 'n6', 6.5D, 6L)")

    return make


def _dropped_column(table: MadeTable) -> None:
    _create(table, columns="note STRING")
    _insert(table, range(1, 4), lambda number: f"'note{number}'")
    table.sql("ALTER TABLE {t} DROP COLUMN note")
    _insert(table, range(4, 7))


def _added_column(kind: str) -> Callable[[MadeTable], None]:
    def make(table: MadeTable) -> None:
        _create(table, kind=kind)
        _insert(table, range(1, 4))
        table.sql("ALTER TABLE {t} ADD COLUMNS (note STRING)")
        _insert(table, range(4, 7), lambda number: f"'note{number}'")

    return make


def _busy(
    settings: Mapping[str, str], *afterwards: str, kind: str = "cow", commits: int = 5
) -> Callable[[MadeTable], None]:
    """Many small commits under options of the table services."""

    def make(table: MadeTable) -> None:
        _create(table, kind=kind, partition="city", columns="city STRING")

        def statements() -> list[str]:
            first = "INSERT INTO {t} VALUES " + ", ".join(_row(n, _city(n)) for n in range(1, 7))
            updates = [
                f"UPDATE {{t}} SET price = {n}.25, ts = {100 + n} WHERE id = {1 + n % 6}" for n in range(commits)
            ]
            return [first, *updates, *afterwards]

        table.with_settings(settings, *statements())

    return make


def _dropped_partition(table: MadeTable) -> None:
    _plain("cow", "city", "city STRING", _city)(table)
    table.sql("ALTER TABLE {t} DROP PARTITION (city = 'oslo')")


def _overwritten(table: MadeTable) -> None:
    _plain("cow", "city", "city STRING", _city)(table)
    table.sql("INSERT OVERWRITE {t} VALUES " + ", ".join(_row(n, "'oslo'") for n in (1, 3)))


def _savepointed(table: MadeTable) -> None:
    _plain("cow", "city", "city STRING", _city)(table)
    instant = table.oracle.sql(f"CALL show_commits(table => '{table.name}')")[0]["commit_time"]
    table.sql(f"CALL create_savepoint(table => '{{t}}', commit_time => '{instant}')")
    table.sql("UPDATE {t} SET price = 1.25, ts = 70 WHERE id = 1")


def _restored(table: MadeTable) -> None:
    _savepointed(table)
    instant = table.oracle.sql(f"CALL show_savepoints(table => '{table.name}')")[0]["savepoint_time"]
    table.sql(f"CALL rollback_to_savepoint(table => '{{t}}', instant_time => '{instant}')")
    table.sql("UPDATE {t} SET price = 2.25, ts = 71 WHERE id = 2")


def _rolled_back(table: MadeTable) -> None:
    _plain("mor", "city", "city STRING", _city)(table)
    table.sql("UPDATE {t} SET price = 1.25, ts = 70 WHERE id = 1")
    instant = table.oracle.sql(f"CALL show_commits(table => '{table.name}')")[0]["commit_time"]
    table.sql(f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{instant}')")
    table.sql("UPDATE {t} SET price = 2.25, ts = 71 WHERE id = 2")


def _bucketed(engine: str, kind: str = "mor") -> Callable[[MadeTable], None]:
    settings = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.index.bucket.engine": engine,
        "hoodie.storage.layout.type": "BUCKET",
        "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    }

    def make(table: MadeTable) -> None:
        _create(table, kind=kind)
        table.with_settings(
            settings,
            "INSERT INTO {t} VALUES " + ", ".join(_row(n) for n in range(1, 7)),
            "UPDATE {t} SET price = 1.25, ts = 70 WHERE id = 1",
        )

    return make


def _indexed(settings: Mapping[str, str], *afterwards: str, kind: str = "cow") -> Callable[[MadeTable], None]:
    def make(table: MadeTable) -> None:
        _create(table, kind=kind, partition="city", columns="city STRING", properties=dict(settings))
        table.with_settings(settings, "INSERT INTO {t} VALUES " + ", ".join(_row(n, _city(n)) for n in range(1, 7)))
        table.with_settings(settings, *afterwards, "UPDATE {t} SET price = 1.25, ts = 70 WHERE id = 1")

    return make


_SCHEMA_ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
_LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
_RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
_SMALL_ARCHIVE = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
_SMALL_ARCHIVE_OLD = {"hoodie.cleaner.commits.retained": "1", **_SMALL_ARCHIVE}
_CLUSTER = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}

FOREIGN_TABLES = (
    ForeignTable("unpartitioned-cow", _plain("cow")),
    ForeignTable("unpartitioned-mor", _plain("mor")),
    ForeignTable("by-text-cow", _plain("cow", "city", "city STRING", _city)),
    ForeignTable("by-text-mor", _plain("mor", "city", "city STRING", _city)),
    ForeignTable("by-number", _plain("cow", "area", "area INT", lambda n: str(n % 2))),
    ForeignTable("by-long", _plain("mor", "area", "area BIGINT", lambda n: f"{n % 2}L")),
    ForeignTable("by-flag", _plain("cow", "flag", "flag BOOLEAN", lambda n: "true" if n % 2 else "false")),
    ForeignTable("by-date", _plain("cow", "day", "day DATE", lambda n: f"DATE '2024-01-0{1 + n % 2}'")),
    ForeignTable(
        "by-decimal", _plain("cow", "rate", "rate DECIMAL(5,2)", lambda n: f"CAST({n % 2}.5 AS DECIMAL(5,2))")
    ),
    ForeignTable("by-two", _plain("cow", "city, area", "city STRING, area INT", lambda n: f"{_city(n)}, {n % 3}")),
    ForeignTable(
        "by-odd-text",
        _plain("cow", "city", "city STRING", lambda n: "'a b/c'" if n % 2 else "'x=%y'"),
        not_compared=("city",),
    ),
    ForeignTable(
        "by-null", _plain("cow", "city", "city STRING", lambda n: "'oslo'" if n % 2 else "CAST(NULL AS STRING)")
    ),
    ForeignTable("two-keys", _plain("cow", "city", "city STRING", _city, primary_key="id,name"), key=("id", "name")),
    ForeignTable("text-key", _plain("mor", primary_key="name"), key=("name",)),
    ForeignTable("generated-keys", _plain("cow", primary_key=None), key=()),
    ForeignTable("created-from-query", _created_from_query),
    ForeignTable("updated-cow", _updated("cow")),
    ForeignTable("updated-mor", _updated("mor")),
    ForeignTable("merged-cow", _merged("cow")),
    ForeignTable("merged-mor", _merged("mor")),
    ForeignTable("added-column-cow", _added_column("cow")),
    ForeignTable("added-column-mor", _added_column("mor")),
    ForeignTable(
        "renamed-column-cow",
        _evolved("cow", "ALTER TABLE {t} RENAME COLUMN price TO fare"),
        sql_settings=_SCHEMA_ON_READ,
        read_options=_SCHEMA_ON_READ,
        price="fare",
    ),
    ForeignTable(
        "renamed-column-mor",
        _evolved("mor", "ALTER TABLE {t} RENAME COLUMN price TO fare"),
        sql_settings=_SCHEMA_ON_READ,
        read_options=_SCHEMA_ON_READ,
        price="fare",
    ),
    ForeignTable(
        "widened-column",
        _evolved("cow", "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"),
        sql_settings=_SCHEMA_ON_READ,
        read_options=_SCHEMA_ON_READ,
    ),
    ForeignTable(
        "dropped-column",
        _dropped_column,
        sql_settings=_SCHEMA_ON_READ,
        read_options=_SCHEMA_ON_READ,
    ),
    ForeignTable("cleaned", _busy({"hoodie.cleaner.commits.retained": "1", "hoodie.clean.commits.retained": "1"})),
    ForeignTable("archived-cow", _busy(_SMALL_ARCHIVE_OLD, commits=6)),
    ForeignTable(
        "archived-mor",
        _busy(
            {**_SMALL_ARCHIVE_OLD, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"},
            kind="mor",
            commits=2,
        ),
    ),
    ForeignTable("clustered", _busy(_CLUSTER, commits=3)),
    ForeignTable(
        "compacted",
        _busy({"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}, kind="mor", commits=3),
    ),
    ForeignTable(
        "pending-compaction",
        _busy(
            _SERVICES_OFF,
            "CALL run_compaction(op => 'schedule', table => '{t}')",
            "UPDATE {t} SET price = 3.25, ts = 200 WHERE id = 3",
            kind="mor",
            commits=2,
        ),
    ),
    ForeignTable("dropped-partition", _dropped_partition),
    ForeignTable("overwritten", _overwritten),
    ForeignTable("savepointed", _savepointed),
    ForeignTable("restored", _restored),
    ForeignTable("rolled-back", _rolled_back),
    ForeignTable("bucketed-simple", _bucketed("SIMPLE")),
    ForeignTable("bucketed-simple-cow", _bucketed("SIMPLE", "cow")),
    ForeignTable("bucketed-consistent", _bucketed("CONSISTENT_HASHING")),
    ForeignTable("record-index", _indexed(_RECORD_INDEX), SINCE_1_0),
    ForeignTable("record-index-mor", _indexed(_RECORD_INDEX, kind="mor"), SINCE_1_0),
    ForeignTable(
        "secondary-index",
        _indexed({**_RECORD_INDEX, **_LOCK}, "CREATE INDEX by_name ON {t} (name)"),
        NEW,
    ),
    ForeignTable(
        "column-stats",
        _indexed({"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}),
    ),
    ForeignTable(
        "bloom-in-metadata",
        _indexed({"hoodie.metadata.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}),
    ),
    ForeignTable("cdc", _plain("cow", properties={"hoodie.table.cdc.enabled": "true"})),
    ForeignTable(
        "no-meta-columns",
        _plain("cow", properties={"hoodie.populate.meta.fields": "false"}),
        has_meta_columns=False,
        writes="_hoodie_",
    ),
    ForeignTable(
        "no-partition-columns",
        _plain(
            "cow", "city", "city STRING", _city, properties={"hoodie.datasource.write.drop.partition.columns": "true"}
        ),
        writes="partition columns",
    ),
)


def made_tables(marks: Callable[[ForeignTable, str], Sequence[pytest.MarkDecorator]]) -> list[ParameterSet]:
    """One test parameter for each recipe and release: `(recipe, release)`, with the marks that it gets."""
    return [
        pytest.param((table, release), id=f"{table.id}-{release}", marks=marks(table, release))
        for table in FOREIGN_TABLES
        for release in table.releases
    ]


@contextmanager
def made_table(
    recipe: ForeignTable, oracle: Oracle, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[MadeTable]:
    """The table that the recipe makes in a folder, under the settings of the session that it wants, and more."""
    table = MadeTable(oracle, folder / "table", f"t_{abs(hash(str(folder)))}")
    settings = {**(settings or {}), **recipe.sql_settings}
    for key, value in settings.items():
        oracle.sql(f"SET {key}={value}")
    recipe.make(table)
    yield table
    for key in settings:
        oracle.sql(f"RESET {key}")
    table.sql("DROP TABLE IF EXISTS {t}")
