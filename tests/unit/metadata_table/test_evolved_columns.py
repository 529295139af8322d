"""Statistics and secondary indexes of columns that change: no row is lost, whatever values they had before."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import StepClock, environment, new_table, open_table

import pyhudi
from pyhudi.storage.memory import MemoryStorage

OPTIONS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
DAY = datetime.timedelta(days=1)
SPLIT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [-(2**31), -1, 0, 7, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 7, 2**31, 2**63 - 1],
    pa.float32(): [-0.0, 0.0, 1.5, float("nan"), float("inf")],
    pa.float64(): [-0.0, 0.0, 1.5, float("nan"), 1e300, float("-inf")],
    pa.string(): ["", "a", "z" * 3000, "é", "\ue000", "\U0001f600", "7"],
    pa.decimal128(9, 2): [Decimal("-1.00"), Decimal("0.01"), Decimal("100.00"), Decimal("2.00")],
    pa.timestamp("us", tz="UTC"): [
        SPLIT,
        SPLIT - datetime.timedelta(days=40_000),
        SPLIT + datetime.timedelta(microseconds=1),
    ],
    pa.date32(): [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2026, 1, 1)],
    pa.struct([("x", pa.int32())]): [{"x": -5}, {"x": 0}, {"x": 9}, {"x": None}],
}
TYPES = list(VALUES)
WIDER = {
    pa.int32(): [pa.int64(), pa.float64(), pa.string()],
    pa.int64(): [pa.float64(), pa.string()],
    pa.float32(): [pa.float64()],
    pa.decimal128(9, 2): [pa.decimal128(12, 2)],
}
VALUES[pa.decimal128(12, 2)] = [Decimal("-9999999999.00"), Decimal("2.00"), Decimal("9999999999.99")]
NAMES = {"a", "b", "c", "d", "e"}
INDEXED = "b"
"""It has a secondary index, and may not be changed."""
BASE = [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())]


def batch(chance: random.Random, columns: dict[str, pa.DataType], step: int) -> pa.Table:
    rows = [
        {
            "id": number,
            "city": "oslo" if number % 2 else "rome",
            "ts": step,
            **{name: chance.choice([*VALUES[kind], None]) for name, kind in columns.items()},
        }
        for number in chance.sample(range(24), 5)
    ]
    return pa.Table.from_pylist(rows, pa.schema([*BASE, *columns.items()]))


def changed(chance: random.Random, table: pyhudi.HudiTable, columns: dict[str, pa.DataType]) -> str:
    """One change of a column; its name."""
    name = chance.choice(sorted({*columns} - {INDEXED}))
    act = chance.choice(["rename", "widen", "again", "add"])
    if act == "rename":
        free = sorted(NAMES - {*columns})
        if not free:
            return "nothing"
        table.alter.rename_column(name, free[0])
        columns[free[0]] = columns.pop(name)
    elif act == "widen" and columns[name] in WIDER:
        kind = chance.choice(WIDER[columns[name]])
        table.alter.change_type(name, kind)
        columns[name] = kind
    elif act == "again":
        table.alter.drop_column(name)
        columns[name] = chance.choice(TYPES)
        table.refresh().alter.add_column(name, columns[name])
    elif act == "add" and len(columns) < 5:
        free = min(NAMES - {*columns})
        columns[free] = chance.choice(TYPES)
        table.alter.add_column(free, columns[free])
    return act


def conditions(chance: random.Random, columns: dict[str, pa.DataType]) -> list[Any]:
    found: list[Any] = []
    for name, kind in columns.items():
        found.append(pc.field(name).is_null())
        if pa.types.is_struct(kind):
            found.append(pc.field(name, "x") == pa.scalar(chance.choice([-5, 0, 9]), pa.int32()))
            continue
        value = pa.scalar(chance.choice(VALUES[kind]), kind)
        found += [pc.field(name) == value, pc.field(name) < value, pc.field(name) >= value, pc.field(name) != value]
    return found


@pytest.mark.parametrize(("kind", "version", "seed"), [("cow", 9, 1), ("mor", 8, 3)])
def test_scan_that_leaves_files_out_finds_all_rows_whatever_columns_were(kind: str, version: int, seed: int) -> None:
    chance, storage, clock = random.Random(seed), MemoryStorage(), environment(StepClock())
    columns: dict[str, pa.DataType] = {"a": pa.int32(), "b": pa.string(), "c": pa.float64()}
    table_type = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind]
    schema = pa.schema([*BASE, *columns.items()])
    new_table(storage, version=version, schema=schema, **{"hoodie.datasource.write.table.type": table_type})

    def opened(**more: str) -> pyhudi.HudiTable:
        return open_table(storage, env=clock, **{**OPTIONS, **more})

    opened().insert(batch(chance, columns, 0))
    if version > 6:
        opened().indexes.create("by_b", "secondary", INDEXED)
    for step in range(1, 14):
        done = "write"
        if step % 2:
            done = changed(chance, opened(), columns)
        if step % 5 == 4:
            opened().services.compact() if kind == "mor" else opened().services.cluster()
        opened().upsert(batch(chance, columns, step))
        assert opened().inspect.metadata_check().to_pylist() == [], f"step {step}: {done} {columns}"
        for where in chance.sample(conditions(chance, columns), 6):
            found, whole = (
                sorted(table.scan(["id"], where=where).to_arrow()["id"].to_pylist())
                for table in (opened(), opened(**{"hoodie.enable.data.skipping": "false"}))
            )
            assert found == whole, f"step {step}: {done} {where} {columns}"


@pytest.mark.parametrize("version", [8, 9])
def test_index_of_a_column_under_the_name_of_a_dropped_one_finds_the_rows_that_a_write_changed(version: int) -> None:
    storage, clock = MemoryStorage(), StepClock()
    schema = pa.schema([*BASE, ("a", pa.int64()), ("b", pa.int64())])
    new_table(storage, version=version, schema=schema)

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=environment(clock), **OPTIONS)

    table().upsert(pa.table([[1, 2], ["oslo"] * 2, [1, 1], [5, 6], [7, 8]], schema=schema))
    table().alter.drop_column("a")
    table().alter.rename_column("b", "a")
    table().indexes.create("by_a", "secondary", "a")
    table().upsert(pa.table([[1], ["oslo"], [2], [5]], schema=pa.schema([*BASE, ("a", pa.int64())])))
    assert table().scan(["id"], where=[("a", "==", 5)]).to_arrow()["id"].to_pylist() == [1]
    assert table().inspect.metadata_check().num_rows == 0


@pytest.mark.parametrize("was", [None, pa.float64()], ids=["without the column", "with another type"])
@pytest.mark.parametrize("kind", ["secondary", "expression"])
def test_restore_to_before_an_indexed_column_leaves_a_table_that_is_written_on(
    kind: Any, was: pa.DataType | None
) -> None:
    storage, clock = MemoryStorage(), StepClock()
    new_table(storage, schema=pa.schema(BASE))

    def upsert(number: int, **columns: tuple[pa.DataType, Any]) -> str | None:
        schema = pa.schema([*BASE, *((name, kind) for name, (kind, _) in columns.items())])
        values = [[number], ["oslo"], [1], *([value] for _, value in columns.values())]
        return table().upsert(pa.table(values, schema=schema)).instant

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=environment(clock), **OPTIONS)

    target = upsert(1)
    if was is not None:
        table().alter.add_column("a", was)
        target = table().inspect.history(1)["instant"].to_pylist()[0]
        table().alter.drop_column("a")
    table().alter.add_column("a", pa.string())
    upsert(2, a=(pa.string(), "x"))
    table().indexes.create("by_a", kind, "a", expression={"expr": "lower"} if kind == "expression" else None)
    assert target is not None
    table().recovery.restore(target)
    assert ("by_a" in table().indexes.list()["name"].to_pylist()) is (was is not None)
    if was is None:
        upsert(3)
        table().alter.add_column("a", pa.float64())
    upsert(4, a=(pa.float64(), 4.0))
    assert sorted(table().scan(["id"]).to_arrow()["id"].to_pylist()) == ([1, 3, 4] if was is None else [1, 4])
    assert table().inspect.metadata_check().num_rows == 0


@pytest.mark.parametrize("by_ids", [False, True])
def test_column_that_moves_up_among_the_indexed_ones_loses_no_rows(
    by_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 32 columns have statistics; when one is dropped, the next one has some in new files alone."""
    monkeypatch.setattr("pyhudi.read.skipping.column_statistics.FILES_MIN", 1)
    storage, clock = MemoryStorage(), StepClock()
    names = [f"c{number}" for number in range(1, 31)]
    schema = pa.schema([*BASE, *((name, pa.int64()) for name in names)])
    new_table(storage, schema=schema)

    def table(**options: str) -> pyhudi.HudiTable:
        return open_table(storage, env=environment(clock), **{**OPTIONS, **options})

    def upsert(number: int, city: str, value: int) -> None:
        values = [[number], [city], [1], *([value] for _ in schema.names[3:])]
        drop = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}
        table(**({} if by_ids else drop)).upsert(pa.table(values, schema=schema))

    upsert(1, "oslo", 100)
    if by_ids:
        table().alter.drop_column("c1")
    schema = schema.remove(schema.get_field_index("c1"))
    for number, city in enumerate(("oslo", "oslo", "rome"), start=2):
        upsert(number, city, number)
    if by_ids:
        table().services.cluster()
    for number, value in enumerate((100, 2, 3, 4), start=1):
        assert table().scan(["id"], where=[("c30", "==", value)]).to_arrow()["id"].to_pylist() == [number]
    assert table().inspect.metadata_check().num_rows == 0


def test_values_that_come_back_with_a_column_are_found_after_statistics_were_built_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns that go by names: one that is added again has its values in older files."""
    monkeypatch.setattr("pyhudi.read.skipping.column_statistics.FILES_MIN", 1)
    storage, clock = MemoryStorage(), StepClock()
    wide = pa.schema([*BASE, ("x", pa.int64())])
    new_table(storage, schema=wide)
    by_names = {key: value for key, value in OPTIONS.items() if "on.read" not in key}
    by_names["hoodie.datasource.write.schema.allow.auto.evolution.column.drop"] = "true"

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=environment(clock), **by_names)

    table().upsert(pa.table([[1, 2], ["oslo", "rome"], [1, 1], [100, 7]], schema=wide))
    table().upsert(pa.table([[3], ["oslo"], [1]], schema=pa.schema(BASE)))
    table().recovery.rebuild_metadata_table()
    table().upsert(pa.table([[4], ["oslo"], [1], [5]], schema=wide))
    for value, number in ((100, 1), (7, 2), (5, 4)):
        assert table().scan(["id"], where=[("x", "==", value)]).to_arrow()["id"].to_pylist() == [number]
    assert table().inspect.metadata_check().num_rows == 0
