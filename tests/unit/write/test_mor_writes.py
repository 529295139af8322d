"""Whole lives of merge-on-read tables against a dictionary: every operation, every version, every index."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.audit import audit
from tests.support.table_builder import every_version
from tests.support.tables import (
    EVENT_TIME,
    MOR,
    SCHEMA,
    Row,
    SplitEngine,
    contents,
    environment,
    log_files,
    new_table,
    newest_stats,
    open_table,
    rehandled,
    rows,
    values_of,
)

import pyhudi
from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
GOLDEN = Path(__file__).parents[2] / "golden" / "mor"


@dataclass
class Life:
    """A table, and what it must hold. After every step both are compared, duplicates and all."""

    storage: MemoryStorage
    options: dict[str, str]
    expected: dict[Any, Row] = field(default_factory=dict)
    past: list[tuple[str, list[Row]]] = field(default_factory=list)
    env: Environment = field(default_factory=environment)

    @classmethod
    def of(cls, version: int, index: str) -> Life:
        storage = MemoryStorage()
        new_table(storage, version=version, **EVENT_TIME, **MOR)
        # Every state stays readable, for the comparison as of each write.
        return cls(storage, {**MOR, "hoodie.index.type": index, "hoodie.clean.automatic": "false"})

    @property
    def table(self) -> pyhudi.HudiTable:
        return rehandled(open_table(self.storage, env=self.env, **self.options), engine=SplitEngine(splits=2))

    def identity(self, row: Row) -> Any:
        return row[0] if self.options["hoodie.index.type"].startswith("GLOBAL") else row[:2]

    def upsert(self, *values: Row) -> None:
        self.table.upsert(rows(*values))
        for row in values:
            stored = self.expected.get(self.identity(row))
            if stored is None or row[2] >= stored[2]:
                self.expected[self.identity(row)] = row
        self.check()

    def insert(self, *values: Row, bulk: bool = False) -> None:
        (self.table.bulk_insert if bulk else self.table.insert)(rows(*values))
        assert not {self.identity(row) for row in values} & self.expected.keys()
        self.expected |= {self.identity(row): row for row in values}
        self.check()

    def delete(self, *values: Row) -> None:
        self.table.delete(rows(*values))
        for row in values:
            self.expected.pop(self.identity(row), None)
        self.check()

    def overwrite(self, *values: Row, everywhere: bool = False) -> None:
        (self.table.insert_overwrite_table if everywhere else self.table.insert_overwrite)(rows(*values))
        touched = {row[1] for row in values}
        self.expected = {k: row for k, row in self.expected.items() if not everywhere and row[1] not in touched}
        self.expected |= {self.identity(row): row for row in values}
        self.check()

    def drop(self, city: str) -> None:
        self.table.delete_partition(f"city={city}")
        self.expected = {k: row for k, row in self.expected.items() if row[1] != city}
        self.check()

    def compact(self, instant: str | None = None) -> None:
        services = self.table.services
        assert len(services.compact() if instant is None else services.run(instant)) == 1
        self.check()

    def check(self) -> None:
        assert values_of(self.table.scan().to_arrow(), SCHEMA.names) == self.now
        self.past.append((self.table.handle.state.timeline.completed_writes[-1].requested_time, self.now))

    @property
    def now(self) -> list[Row]:
        return sorted(self.expected.values())

    def read_optimized(self) -> list[tuple[object, ...]]:
        return values_of(self.table.scan(query_type="read_optimized").to_arrow(), SCHEMA.names)


@pytest.mark.parametrize("index", INDEXES)
@every_version
def test_any_life_of_a_table_is_that_of_a_dictionary_now_and_as_of_every_write(version: int, index: str) -> None:
    life = Life.of(version, index)
    life.insert(*((n, "oslo" if n < 4 else "rome", 5, "a") for n in range(1, 7)))
    life.upsert((1, "oslo", 6, "b"), (2, "oslo", 5, "same"), (3, "oslo", 4, "late"))
    life.upsert((1, "oslo", 5, "late"), (2, "oslo", 7, "c"), (7, "bern", 1, "new"))
    life.delete((4, "rome", 0, ""), (99, "rome", 0, ""))
    life.upsert((4, "rome", 8, "again"), (8, "oslo", 1, "beside logs"))
    life.insert((9, "oslo", 1, "d"), (10, "rome", 1, "d"), bulk=True)
    life.upsert((5, "oslo", 9, "moves"), (6, "oslo", 1, "comes too late to move"))
    life.upsert((5, "rome", 10, "back"))
    life.compact()
    assert life.read_optimized() == life.now
    life.upsert((1, "oslo", 9, "e"), (8, "oslo", 9, "e"), (5, "rome", 11, "e"))
    life.delete((2, "oslo", 0, ""))
    life.overwrite((7, "bern", 0, "over"), (20, "bern", 0, "over"))
    life.upsert((20, "bern", 1, "f"), (21, "bern", 1, "f"))
    life.drop("rome")
    life.upsert((4, "rome", 1, "g"))
    planned = life.table.services.schedule()
    assert planned is not None
    life.upsert((1, "oslo", 10, "after the plan"), (20, "bern", 2, "after the plan"))
    life.delete((3, "oslo", 0, ""))
    life.compact(planned)
    assert life.read_optimized() != life.now
    life.compact()
    assert life.read_optimized() == life.now
    life.overwrite((30, "oslo", 1, "h"), (31, "wien", 1, "h"), everywhere=True)
    life.upsert((30, "oslo", 2, "i"))

    audit(life.storage)
    for instant, then in life.past:
        assert values_of(life.table.scan(as_of=instant).to_arrow(), SCHEMA.names) == then, instant


@every_version
def test_each_operation_has_its_action_on_the_timeline(version: int) -> None:
    life = Life.of(version, "SIMPLE")
    life.insert((1, "oslo", 1, "a"))
    life.upsert((1, "oslo", 2, "b"))
    life.insert((2, "oslo", 1, "a"), bulk=True)
    life.compact()
    life.overwrite((3, "oslo", 1, "a"))
    life.drop("oslo")

    actions = [str(instant.action.value) for instant in life.table.handle.state.timeline.completed_writes]
    assert actions == ["deltacommit"] * 3 + ["commit"] + ["replacecommit"] * 2


# -- incremental reads ------------------------------------------------------------------------------------------------


@every_version
def test_changes_are_the_rows_that_later_writes_left_wherever_they_are_stored(version: int) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version, **EVENT_TIME, **MOR)
    env = environment()

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=env, **MOR)

    ends = [table().insert(rows(*((n, "oslo", 1, "a") for n in range(4)))).completion_time]
    ends.append(table().upsert(rows((0, "oslo", 2, "b"), (1, "oslo", 2, "b"))).completion_time)
    ends.append(table().upsert(rows((1, "oslo", 3, "c"), (9, "rome", 3, "c"))).completion_time)
    ends.append(table().delete(rows((2, "oslo", 0, ""))).completion_time)

    def changed(begin: int, end: int | None = None) -> list[tuple[object, ...]]:
        until = None if end is None else ends[end]
        return values_of(table().changes(ends[begin], until).to_arrow(), ["id", "note"])

    def check() -> None:
        assert changed(0) == [(0, "b"), (1, "c"), (9, "c")]
        assert changed(1) == [(1, "c"), (9, "c")]
        assert changed(2) == []

    check()
    assert changed(0, 1) == [(0, "b"), (1, "b")]
    table().services.compact()
    check()


# -- small files ------------------------------------------------------------------------------------------------------


def group_of(path: str) -> str:
    return path.rpartition("/")[2].lstrip(".").partition("_")[0]


def packed(**options: str) -> MemoryStorage:
    """One small base file with the records 1 and 2."""
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR, **options).insert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    return storage


def test_new_records_join_a_small_base_file_and_its_updates_are_merged_with_them() -> None:
    storage = packed()
    (before,) = newest_stats(storage)

    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b"), (3, "oslo", 1, "a")))

    (stat,) = newest_stats(storage)
    assert (stat.file_id, stat.num_update_writes, stat.num_inserts) == (before.file_id, 1, 1)
    assert log_files(storage) == []
    assert stat.path.endswith(".parquet")
    assert contents(storage) == {(1, "oslo", 2, "b"), (2, "oslo", 1, "a"), (3, "oslo", 1, "a")}


def test_new_records_do_not_join_a_group_that_has_logs() -> None:
    storage = packed()
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))
    (log,) = log_files(storage)

    open_table(storage, **MOR).upsert(rows((2, "oslo", 2, "b"), (3, "oslo", 1, "a")))

    stats = {stat.file_id: stat for stat in newest_stats(storage)}
    mine = stats.pop(group_of(log))
    (other,) = stats.values()
    assert ".log." in mine.path
    assert (mine.num_update_writes, other.num_inserts) == (1, 1)
    assert other.path.endswith(".parquet")


def test_new_records_do_not_join_a_group_that_is_to_be_compacted() -> None:
    storage = packed()
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))
    (log,) = log_files(storage)
    assert open_table(storage, **MOR).services.schedule() is not None

    open_table(storage, **MOR).upsert(rows((3, "oslo", 1, "a")))

    assert [stat.file_id == group_of(log) for stat in newest_stats(storage)] == [False]


def test_new_records_join_a_group_again_once_it_was_compacted() -> None:
    storage = packed()
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))
    (log,) = log_files(storage)
    open_table(storage, **MOR).services.compact()

    open_table(storage, **MOR).upsert(rows((3, "oslo", 1, "a")))

    assert [stat.file_id for stat in newest_stats(storage)] == [group_of(log)]


@pytest.mark.parametrize(("limit", "joined"), [(1, 1), (2, 2), (0, 0)])
def test_so_many_small_files_of_a_partition_take_new_records_as_the_option_says(limit: int, joined: int) -> None:
    storage = packed()
    open_table(storage, **MOR).insert(rows((5, "oslo", 1, "a")), hudi_options={"hoodie.parquet.small.file.limit": "0"})
    before = {group_of(path) for path in open_table(storage).inspect.files().column("path").to_pylist()}
    size = max(open_table(storage).inspect.files().column("size").to_pylist())
    options = {
        "hoodie.merge.small.file.group.candidates.limit": str(limit),
        # Each of the two has room for one record.
        "hoodie.parquet.max.file.size": str(size + 1500),
        "hoodie.parquet.small.file.limit": str(size + 1400),
        "hoodie.copyonwrite.record.size.estimate": "1024",
    }

    open_table(storage, **MOR).upsert(rows(*((n, "oslo", 1, "a") for n in (6, 7, 8))), hudi_options=options)

    assert len({stat.file_id for stat in newest_stats(storage)} & before) == joined
    assert {row[0] for row in contents(storage)} == {1, 2, 5, 6, 7, 8}


# -- keys in logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_a_version_that_lost_against_the_newest_one_in_a_log_does_not_move_its_record(index: str) -> None:
    life = Life.of(9, index)
    life.insert((1, "oslo", 5, "a"), (2, "oslo", 5, "a"))
    life.upsert((1, "oslo", 9, "newest, in a log"), (2, "oslo", 9, "newest, in a log"))

    life.upsert((1, "rome", 7, "newer than the base file only"), (2, "rome", 10, "newer than all"))

    assert life.now == [(1, "oslo", 9, "newest, in a log"), (2, "rome", 10, "newer than all")]


def test_record_kept_in_its_partition_is_found_by_its_value_before_and_after_compaction() -> None:
    storage = MemoryStorage()
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    table = new_table(storage, **MOR, **options)
    table.insert(rows((1, "oslo", 5, "a"), (2, "rome", 5, "a")))

    table.upsert(rows((1, "rome", 9, "b"), (2, None, 9, "b")))

    for _ in range(2):
        now = table.refresh()
        assert contents(storage) == {(1, "oslo", 9, "b"), (2, "rome", 9, "b")}
        assert now.scan(where=[("city", "==", "oslo")]).to_arrow()["id"].to_pylist() == [1]
        assert now.scan(where=[("city", "==", "rome")]).to_arrow()["id"].to_pylist() == [2]
        now.services.compact()


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_a_record_that_a_log_deleted_is_new_wherever_it_comes_again(index: str) -> None:
    life = Life.of(9, index)
    life.insert((1, "oslo", 5, "a"), (2, "oslo", 5, "a"))
    life.delete((1, "oslo", 0, ""))

    life.upsert((1, "rome", 1, "again"))

    result = life.table.delete(rows((1, "wien", 0, "")))
    assert result.deleted == 1
    assert contents(life.storage) == {(2, "oslo", 5, "a")}


@pytest.mark.parametrize("index", INDEXES)
def test_inserts_that_refuse_or_drop_known_keys_know_those_that_were_updated_in_logs(index: str) -> None:
    life = Life.of(9, index)
    life.insert((1, "oslo", 5, "a"))
    life.upsert((1, "oslo", 9, "b"))

    with pytest.raises(InvalidRequestError, match="in the table already"):
        life.table.insert(rows((1, "oslo", 1, "x")), hudi_options={"hoodie.datasource.insert.dup.policy": "fail"})
    life.table.insert(
        rows((1, "oslo", 1, "x"), (2, "oslo", 1, "x")), hudi_options={"hoodie.datasource.insert.dup.policy": "drop"}
    )

    assert values_of(life.table.scan().to_arrow(), SCHEMA.names) == [(1, "oslo", 9, "b"), (2, "oslo", 1, "x")]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", ["v6-bucket", "v8-bucket", "v9-bucket"])
def test_records_that_jvm_hudi_put_into_logs_alone_are_found_and_not_made_twice(
    name: str, index: str, tmp_path: Path
) -> None:
    """Some indexes of JVM Hudi insert into logs, so that base files do not have all keys of their groups.

    The table's is a bucket index, to which nothing may be written; with other file ids it is as that of HBase.
    """
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = str(tmp_path / "table")
    _take_buckets_out_of_file_ids(tmp_path / "table")
    before = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    base_keys = (
        pyhudi.HudiTable.for_path(path).scan(query_type="read_optimized").to_arrow().column("_hoodie_record_key")
    )
    assert set(before.column("_hoodie_record_key").to_pylist()) - set(base_keys.to_pylist())
    data = before.drop_columns(list(META_COLUMNS))

    options = {"hoodie.index.type": index, "hoodie.compact.inline": "false"}
    pyhudi.HudiTable.for_path(path, hudi_options=options).upsert(data)

    after = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    keys = ["_hoodie_partition_path", "_hoodie_record_key"]
    assert values_of(after, keys) == values_of(before, keys)
    assert _plain(after, data.column_names) == _plain(before, data.column_names)
    newest = pyhudi.HudiTable.for_path(path).handle.state.timeline.completed_writes[-1].requested_time
    assert set(after.column("_hoodie_commit_time").to_pylist()) == {newest}


def _take_buckets_out_of_file_ids(folder: Path) -> None:
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        if file.suffix == ".crc":
            file.unlink()
            continue
        if file.suffix != ".parquet":
            file.write_bytes(re.sub(rb"0000000([0-9])-", rb"a000000\1-", file.read_bytes()))
        file.rename(file.with_name(re.sub(r"0000000([0-9])-", r"a000000\1-", file.name)))


def _plain(table: pa.Table, names: Iterable[str]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.select(list(names)).to_pylist())


# -- two at once ------------------------------------------------------------------------------------------------------


class Overwriting(MemoryStorage):
    """A store that cannot tell that a name is taken, as object stores."""

    def _refuse_taken(self, path: str) -> None:
        del path


@pytest.mark.parametrize("store", [MemoryStorage, Overwriting])
@pytest.mark.parametrize("at", ["open_output", "close_output"])
@every_version
def test_of_two_writers_that_append_to_one_slice_the_second_loses_and_harms_nothing(
    version: int, at: str, store: type[MemoryStorage]
) -> None:
    """In version 6 both number their logs alike, as the names are those of the slice."""
    storage = store()
    new_table(storage, version=version, **EVENT_TIME, **MOR).insert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    done: list[str] = []

    def another(operation: str, path: str) -> None:
        if operation == at and ".log." in path and not done:
            done.append(path)
            open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "theirs")))

    with pytest.raises(WriteConflictError):
        open_table(FaultStorage(storage, before=another), **MOR).upsert(rows((1, "oslo", 3, "mine")))

    assert contents(storage) == {(1, "oslo", 2, "theirs"), (2, "oslo", 1, "a")}
    open_table(storage, **MOR).upsert(rows((1, "oslo", 3, "mine")))
    assert contents(storage) == {(1, "oslo", 3, "mine"), (2, "oslo", 1, "a")}
    open_table(storage, **MOR).services.compact()
    assert contents(storage) == {(1, "oslo", 3, "mine"), (2, "oslo", 1, "a")}
    audit(storage)


# -- what real engines count ------------------------------------------------------------------------------------------


def test_a_write_reports_what_it_put_into_logs_and_base_files() -> None:
    storage = packed()
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))

    result = open_table(storage, **MOR).upsert(rows((2, "oslo", 2, "b"), (3, "rome", 1, "a")))
    gone = open_table(storage, **MOR).delete(rows((1, "oslo", 0, "")))

    assert (result.inserted, result.updated, result.deleted) == (1, 1, 0)
    assert (gone.inserted, gone.updated, gone.deleted) == (0, 0, 1)
    table = load_table(storage)
    assert table.config.values["hoodie.table.type"] == "MERGE_ON_READ"
    assert open_table(storage).inspect.detail().logs == 3
    assert WriteOperation.DELETE.value.lower() in open_table(storage).inspect.history().column("operation").to_pylist()


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_without_partitions_lives_like_any_other(version: int) -> None:
    storage = MemoryStorage()
    flat = {"hoodie.datasource.write.partitionpath.field": ""}
    new_table(storage, version=version, **EVENT_TIME, **MOR, **flat).insert(rows((1, "x", 1, "a"), (2, "y", 1, "a")))

    open_table(storage, **MOR).upsert(rows((1, "z", 2, "b")))
    open_table(storage, **MOR).delete([2])

    assert contents(storage) == {(1, "z", 2, "b")}
    open_table(storage, **MOR).services.compact()
    assert contents(storage) == {(1, "z", 2, "b")}
    assert pc.all(pc.equal(open_table(storage).inspect.files().column("log_size"), 0)).as_py()
    audit(storage)


def test_a_column_added_in_a_log_is_null_in_older_rows_before_and_after_compaction() -> None:
    storage = packed()
    wider = rows((1, "oslo", 2, "b")).append_column("extra", pa.array([7]))

    open_table(storage, **MOR).upsert(wider)

    for _ in range(2):
        found = open_table(storage).scan(["id", "extra"]).to_arrow()
        assert values_of(found, ["id", "extra"]) == [(1, 7), (2, None)]
        open_table(storage, **MOR).services.compact()
