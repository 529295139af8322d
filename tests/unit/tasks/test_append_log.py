"""What a write leaves in the logs of a merge-on-read table: names, blocks, deletes, and the stats that tell of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.audit import audit, log_contents
from tests.support.table_builder import ONE_GROUP, TableBuilder, every_version
from tests.support.tables import (
    EVENT_TIME,
    MOR,
    SCHEMA,
    SplitEngine,
    contents,
    log_files,
    new_table,
    newest_stats,
    open_table,
    rehandled,
    rows,
)

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockHeader, BlockType, LogBlock
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.io.log.scan import open_log
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

FLAGGED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))


def filled(version: int = 9, **options: str) -> Storage:
    return TableBuilder(version, "mor", options={**EVENT_TIME, **options}).insert(*ONE_GROUP).build()


def name_of(path: str) -> LogFileName:
    name = parse_data_file(path.rpartition("/")[2])
    assert isinstance(name, LogFileName)
    return name


def blocks_of(storage: MemoryStorage, path: str) -> list[LogBlock]:
    with open_log(storage, path) as reader:
        return list(reader.blocks())


@dataclass(frozen=True)
class Deleted:
    """A delete as a log has it; no ordering values: by key alone."""

    key: str
    ordering: tuple[Any, ...] | None


def deletes_in(storage: MemoryStorage, path: str, *types: pa.DataType) -> list[Deleted]:
    found = []
    with open_log(storage, path) as reader:
        for block in reader.blocks():
            if block.kind is BlockType.DELETE:
                one = decode_delete_block(
                    reader.content(block), types or [pa.int64()], path=path, offset=block.content_offset
                )
                assert one.ordering is not None
                ordering = zip(*(column.to_pylist() for column in one.ordering), strict=True)
                for key, by_key, values in zip(one.record_keys.to_pylist(), one.by_commit_time, ordering, strict=True):
                    found.append(Deleted(key, None if by_key.as_py() else values))
    return found


# -- names and stats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [8, 9])
def test_a_log_carries_the_instant_of_its_write_and_a_stat_that_knows_no_other_log(version: int) -> None:
    storage = filled(version)
    (base,) = newest_stats(storage)
    open_table(storage, **MOR).upsert(rows((1, "oslo", 6, "b")))

    result = open_table(storage, **MOR).upsert(rows((1, "oslo", 7, "c"), (2, "oslo", 7, "c")))

    (stat,) = newest_stats(storage)
    name = name_of(stat.path)
    assert (name.file_id, name.instant_time, name.version) == (base.file_id, result.instant, 1)
    assert stat == stat_of_append(storage, stat.path, base.file_id, prev_commit=result.instant, rows=2)
    assert stat.log_files == (str(name),)
    assert (stat.log_version, stat.log_offset, stat.base_file) == (1, 0, "")


def test_version_6_log_has_the_instant_of_its_slice_and_its_stat_lists_earlier_logs() -> None:
    storage = filled(6)
    (base,) = newest_stats(storage)
    first = open_table(storage).handle.state.timeline.completed_writes[0].requested_time
    open_table(storage, **MOR).upsert(rows((1, "oslo", 6, "b")))
    (before,) = newest_stats(storage)

    open_table(storage, **MOR).upsert(rows((1, "oslo", 7, "c"), (2, "oslo", 7, "c")))

    (stat,) = newest_stats(storage)
    assert [name_of(one.path).version for one in (before, stat)] == [1, 2]
    assert {name_of(one.path).instant_time for one in (before, stat)} == {first}
    assert stat == stat_of_append(storage, stat.path, base.file_id, prev_commit=first, rows=2)
    assert stat.log_files == (str(name_of(before.path)), str(name_of(stat.path)))
    assert (stat.log_version, stat.log_offset) == (2, 0)
    assert stat.base_file == base.path.rpartition("/")[2]


def stat_of_append(storage: MemoryStorage, path: str, file_id: str, *, prev_commit: str, rows: int) -> WriteStat:
    """What JVM Hudi says of an append of so many updates, but for the names of logs (checked apart)."""
    size = len(storage.read(path))
    (stat,) = newest_stats(storage)
    return replace(
        stat,
        file_id=file_id,
        path=path,
        partition_path="city=oslo",
        prev_commit=prev_commit,
        num_writes=rows,
        num_inserts=0,
        num_update_writes=rows,
        num_deletes=0,
        total_write_bytes=size,
        file_size_in_bytes=size,
        prev_base_file=None,
    )


def test_in_version_6_a_planned_compaction_begins_the_names_anew() -> None:
    storage = filled(6)
    open_table(storage, **MOR).upsert(rows((1, "oslo", 6, "b")))
    planned = open_table(storage, **MOR).services.schedule()

    open_table(storage, **MOR).upsert(rows((1, "oslo", 7, "c")))

    (stat,) = newest_stats(storage)
    assert (name_of(stat.path).instant_time, name_of(stat.path).version) == (planned, 1)
    assert (stat.prev_commit, stat.base_file, stat.log_files) == (planned, "", (stat.path.rpartition("/")[2],))


@pytest.mark.parametrize("version", [6, 9])
def test_logs_of_a_table_without_partitions_lie_beside_its_base_files(version: int) -> None:
    storage = filled(version, **{"hoodie.datasource.write.partitionpath.field": ""})

    open_table(storage, **MOR).upsert(rows((1, "oslo", 7, "c")))

    (path,) = log_files(storage)
    assert "/" not in path
    assert {row["_hoodie_partition_path"] for row in log_contents(storage, path).rows} == {""}
    audit(storage)


@pytest.mark.parametrize(("version", "kind"), [(6, "APPEND"), (8, "CREATE"), (9, "CREATE")])
def test_a_marker_announces_a_log_before_it_is_there(version: int, kind: str) -> None:
    storage = filled(version)

    def dies(operation: str, path: str) -> None:
        if operation == "open_output" and ".log." in path:
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        open_table(FaultStorage(storage, before=dies), **MOR).upsert(rows((1, "oslo", 7, "c")))

    (marker,) = [info.path for info in storage.list_recursive(".hoodie/.temp") if ".log." in info.path]
    assert marker.endswith(f".marker.{kind}")


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "kind"), [("avro", BlockType.AVRO_DATA), ("parquet", BlockType.PARQUET_DATA)], ids=["avro", "parquet"]
)
def test_rows_are_stored_with_the_meta_columns_of_their_write(chosen: str, kind: BlockType) -> None:
    storage = filled()

    result = open_table(storage, **MOR, **{"hoodie.logfile.data.block.format": chosen}).upsert(
        rows((1, "oslo", 7, "c"), (3, "oslo", 7, "c"))
    )

    (path,) = log_files(storage)
    (block,) = blocks_of(storage, path)
    assert (block.kind, block.instant_time) == (kind, result.instant)
    assert set(block.headers) == {BlockHeader.INSTANT_TIME, BlockHeader.SCHEMA}
    found = sorted(log_contents(storage, path).rows, key=lambda row: row["id"])
    assert [(row["id"], row["ts"], row["note"]) for row in found] == [(1, 7, "c"), (3, 7, "c")]
    assert {row["_hoodie_commit_time"] for row in found} == {result.instant}
    assert {row["_hoodie_file_name"] for row in found} == {name_of(path).file_id}
    assert [row["_hoodie_record_key"] for row in found] == ["1", "3"]
    assert len({row["_hoodie_commit_seqno"] for row in found}) == 2


def test_updates_leave_the_base_file_alone() -> None:
    storage = filled()
    before = newest_stats(storage)[0].path
    data = storage.read(before)

    open_table(storage, **MOR).upsert(rows((1, "oslo", 7, "c")))

    assert open_table(storage).inspect.files().column("path").to_pylist() == [before]
    assert storage.read(before) == data


def many(table_options: dict[str, str]) -> MemoryStorage:
    """Twelve records in one group, all updated over three splits, so that rows arrive in several batches."""
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*((n, "oslo", 1, "a") for n in range(12))))
    table = rehandled(open_table(storage, **MOR, **table_options), engine=SplitEngine())
    table.upsert(rows(*((n, "oslo", 2, "b") for n in range(12))))
    return storage


def test_a_block_that_has_reached_its_size_is_followed_by_another() -> None:
    storage = many({"hoodie.logfile.data.block.max.size": "1"})

    (path,) = log_files(storage)
    assert [block.kind for block in blocks_of(storage, path)] == [BlockType.PARQUET_DATA] * 3
    assert contents(storage) == {(n, "oslo", 2, "b") for n in range(12)}
    audit(storage)


def test_rows_below_the_size_of_a_block_are_one_block() -> None:
    storage = many({})

    (path,) = log_files(storage)
    assert len(blocks_of(storage, path)) == 1


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_that_has_reached_its_size_is_followed_by_another(version: int) -> None:
    storage = filled(version)
    small = {"hoodie.logfile.data.block.max.size": "1", "hoodie.logfile.max.size": "1"}
    table = rehandled(open_table(storage, **MOR, **small), engine=SplitEngine(splits=2))

    table.upsert(rows(*((n, city, 7, "c") for n, city, _, _ in ONE_GROUP)))

    stats = newest_stats(storage)
    assert [name_of(stat.path).version for stat in stats] == [stat.log_version for stat in stats] == [1, 2]
    assert sum(stat.num_update_writes for stat in stats) == 3
    assert stats[1].log_files == tuple(str(name_of(stat.path)) for stat in stats)
    assert contents(storage) == {(n, city, 7, "c") for n, city, _, _ in ONE_GROUP}
    audit(storage)


# -- deletes ----------------------------------------------------------------------------------------------------------


def test_a_delete_by_key_has_no_ordering_values_and_wins_whatever_is_stored() -> None:
    storage = filled()

    result = open_table(storage, **MOR).delete(rows((1, "oslo", 0, ""), (77, "oslo", 0, "")))

    (path,) = log_files(storage)
    assert deletes_in(storage, path) == [Deleted("1", None)]
    assert [block.kind for block in blocks_of(storage, path)] == [BlockType.DELETE]
    assert result.deleted == 1
    assert contents(storage) == set(ONE_GROUP[1:])
    audit(storage)


@every_version
@pytest.mark.parametrize("deletes", [False, True], ids=["move", "delete"])
def test_deletes_by_rows_of_another_partition_have_the_partition_path_of_the_group(version: int, deletes: bool) -> None:
    storage = filled(version)
    table = open_table(storage, **MOR, **{"hoodie.index.type": "GLOBAL_SIMPLE"})

    batch = rows((1, "rome", 9, "b"))
    table.delete(batch) if deletes else table.upsert(batch)

    path = next(one for one in log_files(storage) if one.startswith("city=oslo"))
    with open_log(storage, path) as reader:
        (block,) = [one for one in reader.blocks() if one.kind is BlockType.DELETE]
        found = decode_delete_block(reader.content(block), [pa.int64()], path=path, offset=block.content_offset)
    assert found.partition_paths.to_pylist() == ["city=oslo"]
    audit(storage)


def flagged(*values: tuple[int, int, bool]) -> pa.Table:
    """Rows (id, ts, whether it deletes) of oslo."""
    found = [{"id": n, "city": "oslo", "ts": ts, "note": "x", "_hoodie_is_deleted": gone} for n, ts, gone in values]
    return pa.Table.from_pylist(found, FLAGGED)


@every_version
def test_rows_that_delete_by_their_flag_have_ordering_values_and_follow_the_data(version: int) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version, schema=FLAGGED, **EVENT_TIME, **MOR).insert(
        flagged((1, 5, False), (2, 5, False), (3, 5, False))
    )

    open_table(storage, **MOR).upsert(flagged((1, 6, True), (2, 4, True), (3, 6, False)))

    (path,) = log_files(storage)
    assert sorted(deletes_in(storage, path), key=lambda one: one.key) == [Deleted("1", (6,)), Deleted("2", (4,))]
    assert [block.kind for block in blocks_of(storage, path)] == [BlockType.PARQUET_DATA, BlockType.DELETE]
    # In version 6 a delete that is left over reaches the stored row whatever its ordering value is.
    assert {row[0] for row in contents(storage)} == ({3} if version == 6 else {2, 3})
    (stat,) = newest_stats(storage)
    assert (stat.num_writes, stat.num_update_writes, stat.num_deletes) == (3, 1, 2)
    audit(storage)


def test_deletes_by_several_ordering_fields_carry_all_of_them() -> None:
    schema = FLAGGED.append(pa.field("seq", pa.int32()))

    def batch(*values: tuple[int, int, int, bool]) -> pa.Table:
        plain = flagged(*((n, ts, gone) for n, ts, _, gone in values))
        return plain.append_column("seq", pa.array([seq for _, _, seq, _ in values], pa.int32()))

    storage = MemoryStorage()
    fields = {"hoodie.table.ordering.fields": "ts,seq"}
    new_table(storage, schema=schema, **EVENT_TIME, **MOR, **fields).insert(batch((1, 5, 5, False), (2, 5, 5, False)))

    open_table(storage, **MOR).upsert(batch((1, 5, 6, True), (2, 5, 4, True)))

    (path,) = log_files(storage)
    found = deletes_in(storage, path, pa.int64(), pa.int32())
    assert sorted(found, key=lambda one: one.key) == [Deleted("1", (5, 6)), Deleted("2", (5, 4))]
    assert {row[0] for row in contents(storage)} == {2}


def test_rows_with_the_delete_marker_of_the_table_delete() -> None:
    storage = filled(
        **{"hoodie.payload.delete.field": "note", "hoodie.payload.delete.marker": "gone"},
    )

    open_table(storage, **MOR).upsert(rows((1, "oslo", 6, "gone"), (2, "oslo", 6, "stays")))

    (path,) = log_files(storage)
    assert deletes_in(storage, path) == [Deleted("1", (6,))]
    assert contents(storage) == {(2, "oslo", 6, "stays"), ONE_GROUP[2]}


def test_rows_of_one_key_that_were_not_combined_leave_their_newest_version() -> None:
    storage = filled()

    open_table(storage, **MOR, **{"hoodie.combine.before.upsert": "false"}).upsert(
        rows((1, "oslo", 6, "b"), (1, "oslo", 8, "d"), (1, "oslo", 7, "c"))
    )

    (path,) = log_files(storage)
    assert [(row["id"], row["note"]) for row in log_contents(storage, path).rows] == [(1, "d")]
    assert contents(storage) == {(1, "oslo", 8, "d"), *ONE_GROUP[1:]}
