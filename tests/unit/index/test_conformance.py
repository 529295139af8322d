"""What every index promises: each record is found, wherever it is, and no key is ever in the table twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from tests.support.hooks import once
from tests.support.indexes import CASES, GLOBAL_CASES, IndexCase
from tests.support.tables import (
    SCHEMA,
    Row,
    StepClock,
    contents,
    end_the_process_of,
    environment,
    new_table,
    open_table,
    rows,
)

import pyhudi
from pyhudi.errors import RecordKeyError, UnsupportedFeatureError, WriteConflictError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

CITIES = ("oslo", "rome", "bern")
every_index = pytest.mark.parametrize(("index", "kind"), CASES, ids=[f"{index}-{kind}" for index, kind in CASES])
every_global_index = pytest.mark.parametrize(
    ("index", "kind"), GLOBAL_CASES, ids=[f"{index}-{kind}" for index, kind in GLOBAL_CASES]
)


@dataclass
class Written:
    """A table that is written with an index, and beside it the rows that it must hold."""

    index: IndexCase
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema = SCHEMA
    storage: Storage = field(default_factory=MemoryStorage)
    expected: dict[object, Row] = field(default_factory=dict)
    clock: StepClock = field(default_factory=StepClock)

    def __post_init__(self) -> None:
        new_table(self.storage, schema=self.schema, **self.index.of(self.kind, **self.options))

    def opened(self, storage: Storage | None = None) -> pyhudi.HudiTable:
        """The table for one write, as it is now."""
        options = self.index.of(self.kind, **self.options)
        return open_table(storage or self.storage, env=environment(self.clock), **options)

    def batch(self, values: Iterable[Row]) -> pa.Table:
        return rows(*values).cast(self.schema)

    def upsert(self, *values: Row) -> pyhudi.WriteResult:
        """Upsert rows, of which no two have one identity."""
        result = self.opened().upsert(self.batch(values))
        self.expected.update({self.identity(row): row for row in values})
        return result

    def delete(self, *values: Row) -> pyhudi.WriteResult:
        result = self.opened().delete(self.batch(values))
        for row in values:
            self.expected.pop(self.identity(row), None)
        return result

    def identity(self, row: Row) -> object:
        return row[0] if self.index.is_global else row[:2]

    def assert_as_expected(self) -> None:
        """The table holds just the expected rows, each once."""
        table = open_table(self.storage).scan(SCHEMA.names).to_arrow()
        found = [tuple(row.values()) for row in table.to_pylist()]
        assert Counter(found) == Counter(self.expected.values())

    def assert_counts(self, result: pyhudi.WriteResult, *, updated: int, inserted: int) -> None:
        """What the result says, as far as an index that does not look rows up can know it."""
        if self.kind == "mor" and not self.index.counts_logs:
            assert result.updated + result.inserted == updated + inserted
        else:
            assert (result.updated, result.inserted) == (updated, inserted)


@every_index
def test_empty_table_gets_its_first_rows(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)

    first = table.upsert((1, "oslo", 1, "a"), (2, "rome", 1, "a"))
    second = table.upsert((1, "oslo", 2, "b"), (3, "oslo", 1, "a"))

    table.assert_as_expected()
    assert (first.inserted, first.updated) == (2, 0)
    table.assert_counts(second, updated=1, inserted=1)


@every_index
def test_deletes_and_keys_that_are_not_there_leave_the_other_rows(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert(*((n, CITIES[n % 3], 1, "a") for n in range(9)))

    table.delete((0, "oslo", 1, ""), (4, "rome", 1, ""), (99, "rome", 1, ""))
    table.assert_as_expected()

    table.upsert((0, "oslo", 1, "again"), (5, "bern", 2, "b"))
    table.assert_as_expected()


@every_index
def test_batch_with_versions_of_one_record_stores_the_newest(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert((1, "oslo", 1, "a"))

    table.opened().upsert(rows((1, "oslo", 3, "c"), (1, "oslo", 2, "b"), (2, "rome", 1, "x"), (2, "rome", 2, "y")))

    assert contents(table.storage) == {(1, "oslo", 3, "c"), (2, "rome", 2, "y")}


@every_index
def test_key_in_another_partition_is_another_record_or_moves(index: IndexCase, kind: str) -> None:
    table = Written(index, kind, {index.moves_by: "true"} if index.moves_by else {})
    table.upsert((1, "oslo", 1, "a"), (2, "oslo", 1, "a"))

    table.upsert((1, "rome", 2, "b"))
    table.assert_as_expected()
    table.upsert((1, "rome", 3, "c"), (2, "oslo", 2, "b"))

    table.assert_as_expected()


@every_global_index
def test_record_that_may_not_move_is_updated_where_it_is(index: IndexCase, kind: str) -> None:
    if index.moves_by is None:
        pytest.fail("a global index says by which option its records move")
    table = Written(index, kind, {index.moves_by: "false"})
    table.upsert((1, "oslo", 1, "a"), (2, "rome", 1, "a"))

    result = table.opened().upsert(rows((1, "rome", 2, "b"), (2, "rome", 2, "b")))

    assert contents(table.storage) == {(1, "oslo", 2, "b"), (2, "rome", 2, "b")}
    assert (result.inserted, result.updated) == (0, 2)


@every_global_index
def test_late_version_in_another_partition_does_not_move_its_record(index: IndexCase, kind: str) -> None:
    event_time = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    table = Written(index, kind, {**event_time, **({index.moves_by: "true"} if index.moves_by else {})})
    table.upsert((1, "oslo", 5, "a"))

    table.opened().upsert(rows((1, "rome", 4, "late")))

    table.assert_as_expected()


@every_global_index
def test_keys_that_move_fifty_times_are_there_once(index: IndexCase, kind: str) -> None:
    table = Written(index, kind, {index.moves_by: "true"} if index.moves_by else {})
    dice = random.Random(f"{index}{kind}")
    for turn in range(9):
        moved = dice.sample(range(9), 6)
        table.upsert(*((key, dice.choice(CITIES), turn, f"{turn}") for key in moved))
        if kind == "mor" and dice.random() < 0.2:
            table.opened().services.compact()
        if dice.random() < 0.2:
            table.delete((dice.randrange(9), dice.choice(CITIES), turn, ""))

    table.assert_as_expected()


@every_index
def test_keys_in_many_files_are_found(index: IndexCase, kind: str) -> None:
    table = Written(index, kind, {"hoodie.parquet.small.file.limit": "0"})
    for turn in range(6):
        table.upsert(*((n, CITIES[n % 3], 1, "a") for n in range(turn * 10, turn * 10 + 10)))

    result = table.upsert(*((n, CITIES[n % 3], 2, "b") for n in range(0, 70, 3)))

    table.assert_as_expected()
    table.assert_counts(result, updated=20, inserted=4)


@every_index
def test_row_without_a_key_is_refused_and_nothing_is_written(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert((1, "oslo", 1, "a"))

    with pytest.raises(RecordKeyError):
        table.opened().upsert(table.batch([(None, "oslo", 2, "b"), (1, "oslo", 2, "b")]))  # type: ignore[list-item]

    table.assert_as_expected()


@every_index
def test_keys_beyond_the_basic_plane_and_odd_ones_are_found(index: IndexCase, kind: str) -> None:
    schema = SCHEMA.set(0, pa.field("id", pa.string()))
    table = Written(index, kind, {"hoodie.parquet.small.file.limit": "0"}, schema)
    # U+FFFF sorts below U+10000 by bytes, and above it by the UTF-16 units of Java.
    keys = ["\uffff", "\U00010000", "\ue000", "\U0001f600", "a", "é", "a,b:c", "k" * 4000, " ", "\x01"]

    def values(turn: int) -> list[Row]:
        return [(key, "oslo", turn, str(turn)) for key in keys]  # type: ignore[misc]

    def write(chosen: list[Row]) -> None:
        columns = [pa.array(column, f.type) for column, f in zip(zip(*chosen, strict=True), schema, strict=True)]
        table.opened().upsert(pa.table(columns, schema=schema))
        table.expected.update({table.identity(row): row for row in chosen})

    write(values(1)[:5])
    write(values(1)[5:])
    write(values(2))

    table.assert_as_expected()


@every_index
def test_records_are_found_after_clustering(index: IndexCase, kind: str) -> None:
    table = Written(index, kind, {"hoodie.parquet.small.file.limit": "0"})
    for turn in range(3):
        table.upsert(*((n, "oslo", 1, "a") for n in range(turn * 5, turn * 5 + 5)))
    if index.clusters:
        assert table.opened().services.cluster().num_rows
    else:
        with pytest.raises(UnsupportedFeatureError):
            table.opened().services.cluster()

    alone = table.upsert((0, "oslo", 2, "b"))
    result = table.upsert(*((n, "oslo", 3, "c") for n in range(0, 20, 2)))

    table.assert_as_expected()
    table.assert_counts(alone, updated=1, inserted=0)
    table.assert_counts(result, updated=8, inserted=2)


@every_index
def test_records_are_found_after_a_write_died(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert((1, "oslo", 1, "a"), (2, "rome", 1, "a"))

    def dies(name: str, path: str) -> None:
        if name.startswith("put") and path.endswith(("commit", ".deltacommit")) and "requested" not in path:
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        table.opened(FaultStorage(table.storage, before=dies)).upsert(
            rows((1, "oslo", 2, "lost"), (3, "oslo", 2, "lost"), (4, "bern", 2, "lost"))
        )
    end_the_process_of(table.storage, load_table(table.storage).timeline.pending_writes[-1].requested_time)

    result = table.upsert((3, "oslo", 3, "c"), (4, "bern", 3, "c"), (1, "oslo", 3, "c"))
    table.upsert((3, "oslo", 4, "d"), (2, "rome", 4, "d"))

    table.assert_as_expected()
    assert (result.updated, result.inserted) == (1, 2)


@every_index
def test_records_are_found_after_a_write_was_rolled_back(index: IndexCase, kind: str) -> None:
    table = Written(index, kind, {"hoodie.parquet.small.file.limit": "0"})
    table.upsert((1, "oslo", 1, "a"), (2, "rome", 1, "a"))
    before = dict(table.expected)
    undone = table.upsert((1, "oslo", 2, "b"), (3, "oslo", 2, "b"), (4, "bern", 2, "b"))
    table.opened().recovery.rollback(undone.instant)
    table.expected = before

    table.upsert((1, "oslo", 3, "c"), (3, "rome", 3, "c"))
    table.upsert((3, "rome", 4, "d"), (4, "bern", 4, "d"))

    table.assert_as_expected()


@every_index
def test_partitions_that_were_overwritten_or_dropped_hold_their_new_keys(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert((1, "oslo", 1, "a"), (2, "rome", 1, "a"), (3, "bern", 1, "a"))
    table.opened().insert_overwrite(rows((5, "oslo", 1, "o")))
    table.opened().delete_partition("city=rome")
    table.expected = {table.identity(row): row for row in ((5, "oslo", 1, "o"), (3, "bern", 1, "a"))}

    result = table.upsert((1, "oslo", 2, "b"), (2, "rome", 2, "b"), (3, "bern", 2, "b"), (5, "oslo", 2, "b"))

    table.assert_as_expected()
    assert (result.updated, result.inserted) == (2, 2)


@every_index
def test_rows_of_a_bulk_insert_and_of_another_index_are_found(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.opened().bulk_insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    table.upsert((1, "oslo", 2, "b"))
    if index.name not in ("BUCKET",):  # their tables take no writes of others
        plain = {k: v for k, v in index.of(kind).items() if "index" not in k}
        open_table(table.storage, env=environment(table.clock), **plain).upsert(rows((3, "rome", 1, "a")))

    table.upsert((2, "rome", 2, "b"), (3, "rome", 2, "b"), (1, "oslo", 3, "c"))

    table.assert_as_expected()


@every_index
def test_of_two_writers_with_one_new_key_one_gives_way(index: IndexCase, kind: str) -> None:
    table = Written(index, kind)
    table.upsert((1, "oslo", 1, "a"))

    def other() -> None:
        table.opened().upsert(rows((7, "oslo", 1, "first")))

    is_beginning = once(lambda name, path: name == "put_if_absent" and path.endswith("inflight"), other)
    with pytest.raises(WriteConflictError):
        table.opened(FaultStorage(table.storage, before=is_beginning)).upsert(rows((7, "oslo", 2, "second")))
    table.expected[table.identity((7, "oslo", 1, "first"))] = (7, "oslo", 1, "first")
    table.assert_as_expected()

    table.upsert((7, "oslo", 2, "second"))
    table.assert_as_expected()
