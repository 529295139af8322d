"""A zoo of damaged tables: the doctor finds each damage, mends what can be mended, and accuses no healthy table."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.compactions import plan_with_a_dead_run
from tests.support.compactions import prepared as merge_on_read
from tests.support.hooks import once_at
from tests.support.sources import parquet_source
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import LATER_MS, StepClock, environment, open_table

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.doctor.finding import Mend
from pyhudi.format.metadata_table.index_definitions import DEFINITIONS_PATH
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

TIMELINE = ".hoodie/timeline"
INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


def opened(storage: Storage) -> pyhudi.HudiTable:
    """The table, long after all that happened to it."""
    return open_table(storage, env=environment(StepClock(LATER_MS)))


def findings(storage: Storage, files: int = 1000) -> list[dict[str, str]]:
    return opened(storage).inspect.findings(files=files).to_pylist()


def accusations(storage: Storage) -> list[tuple[str, str]]:
    return [(one["problem"], one["path"]) for one in findings(storage) if one["severity"] != "note"]


def slices(storage: Storage) -> list[FileSlice]:
    state = load_table(storage)
    return [one for group in load_view(storage, state.timeline).latest.values() for one in group]


def base_path(storage: Storage, place: int = 0) -> str:
    base = slices(storage)[place].base
    assert base is not None
    return base.path


def table(**options: str) -> Storage:
    builder = TableBuilder(9, "cow", options=options) if options else TableBuilder(9, "cow")
    return builder.commit(rows=9).delta_commit(updates=3).build()


def newest_instant(storage: Storage, ending: str) -> str:
    return max(info.path for info in storage.list_folder(TIMELINE).files if info.path.endswith(ending))


def rewritten(storage: Storage, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in a base file, under its old footer, and not smaller than it was."""
    before = storage.read(path)
    file = pq.ParquetFile(pa.BufferReader(before))
    rows = change(file.read())
    sink = io.BytesIO()
    footer = {**(file.metadata.metadata or {}), b"padding": b"x" * len(before)}
    footer.pop(b"ARROW:schema", None)
    with pq.ParquetWriter(sink, rows.schema.with_metadata(None)) as writer:
        writer.write_table(rows.replace_schema_metadata(None))
        writer.add_key_value_metadata(footer)
    storage.put(path, sink.getvalue())


def with_column(name: str, value: str) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(name)
        return rows.set_column(at, name, pa.array([value] * rows.num_rows))

    return change


# --- the damages -------------------------------------------------------------------------------------------


def missing_file() -> Storage:
    storage = table()
    storage.delete(base_path(storage))
    return storage


def truncated_file() -> Storage:
    storage = table()
    path = base_path(storage)
    storage.put(path, storage.read(path)[:-100])
    return storage


def overwritten_footer() -> Storage:
    storage = table()
    path = base_path(storage)
    storage.put(path, storage.read(path)[:-100] + b"\0" * 100)
    return storage


def missing_log() -> Storage:
    storage = merge_on_read()
    storage.delete(slices(storage)[0].logs[0].path)
    return storage


def empty_commit() -> Storage:
    storage = table()
    storage.put(newest_instant(storage, ".commit"), b"")
    return storage


def damaged_savepoint() -> Storage:
    storage = table()
    open_table(storage).savepoints.create()
    storage.put(newest_instant(storage, ".savepoint"), b"Obj\x01")
    return storage


def dead_writer() -> Storage:
    return TableBuilder(9, "cow").commit(rows=6).dead_writer(stage="written").build()


def writer_without_heartbeat() -> Storage:
    storage = table()
    storage.put(f"{TIMELINE}/20991231000000000.commit.requested", b"")
    return storage


def dead_compaction() -> Storage:
    storage = merge_on_read()
    plan_with_a_dead_run(storage)
    return storage


def damaged_compaction_plan() -> Storage:
    storage = TableBuilder(9, "mor").commit(rows=6).delta_commit(updates=3).pending_compaction().build()
    storage.put(newest_instant(storage, ".compaction.requested"), b"Obj\x01")
    return storage


def damaged_clean_plan() -> Storage:
    storage = table()
    storage.put(f"{TIMELINE}/20991231000000000.clean.requested", b"Obj\x01")
    return storage


def dead_rollback() -> Storage:
    storage = TableBuilder(9, "cow").commit(rows=6).delta_commit(updates=3).build()
    newest = load_table(storage).timeline.completed_writes[-1].requested_time

    def die() -> None:
        raise SimulatedCrash

    with suppress(SimulatedCrash):
        dying = FaultStorage(storage, before=once_at("put_if_absent", ".rollback.inflight", die))
        open_table(dying).recovery.rollback(newest)
    return storage


def orphan() -> Storage:
    storage = table()
    path = base_path(storage)
    folder, _, name = path.rpartition("/")
    begin, _, rest = name.rpartition("_")
    other = str(int(rest.removesuffix(".parquet")) - 1)
    storage.put(f"{folder}/{begin}_{other}.parquet", storage.read(path))
    return storage


def base_file_of_a_lost_attempt() -> Storage:
    storage = table(**{"hoodie.metadata.enable": "true"})
    path = base_path(storage)
    group, _, instant = path.split("_")
    storage.put(f"{group}_77-7-7_{instant}", storage.read(path))
    return storage


def damaged_index_definitions() -> Storage:
    storage = with_secondary_index()
    storage.put(DEFINITIONS_PATH, b"{")
    return storage


def missing_metafile() -> Storage:
    storage = table()
    storage.delete(f"{slices(storage)[0].partition_path}/.hoodie_partition_metadata")
    return storage


def row_of_another_partition() -> Storage:
    storage = table()
    rewritten(storage, base_path(storage), with_column("_hoodie_partition_path", "elsewhere"))
    return storage


def row_of_another_file() -> Storage:
    storage = table()
    rewritten(storage, base_path(storage), with_column("_hoodie_file_name", "another.parquet"))
    return storage


def key_not_in_footer() -> Storage:
    storage = table()
    rewritten(storage, base_path(storage), with_column("_hoodie_record_key", "zzz"))
    return storage


def key_twice() -> Storage:
    again = {"hoodie.combine.before.insert": "false", "hoodie.parquet.small.file.limit": "0"}
    return TableBuilder(9, "cow").commit(rows=6).insert((0, "oslo", 1, "again"), **again).build()


def metadata_table_lacks_a_file() -> Storage:
    storage = table(**METADATA)
    for info in storage.list_recursive(".hoodie/metadata/files"):
        storage.delete(info.path)
    return storage


def left_heartbeat() -> Storage:
    storage = table()
    storage.put(".hoodie/.heartbeat/20200101000000000", b'{"given_up": true}')
    return storage


def left_markers() -> Storage:
    storage = table()
    instant = load_table(storage).timeline.completed_writes[0].requested_time
    storage.put(f".hoodie/.temp/{instant}/MARKERS.type", b"DIRECT")
    return storage


def died_change_of_properties() -> Storage:
    storage = table()
    storage.put(".hoodie/hoodie.properties.backup", storage.read(".hoodie/hoodie.properties"))
    return storage


def with_property(storage: Storage, change: Callable[[str], str]) -> Storage:
    path = ".hoodie/hoodie.properties"
    lines = storage.read(path).decode().splitlines()
    kept = [line for line in lines if not line.startswith("hoodie.table.checksum")]
    storage.put(path, change("\n".join(kept)).encode())
    return storage


def event_time_without_an_order() -> Storage:
    order = r"(?m)^hoodie\.table\.(precombine\.field|ordering\.fields)=.*$"
    return with_property(table(), lambda text: re.sub(order, "", text))


def with_secondary_index(storage: Storage | None = None) -> Storage:
    storage = TableBuilder(9, "cow", options=INDEXED).commit(rows=9).build(storage)
    open_table(storage).indexes.create("by_note", "secondary", "note", hudi_options=INDEXED)
    return storage


def secondary_index_without_record_index(storage: Storage | None = None) -> Storage:
    return with_property(with_secondary_index(storage), lambda text: re.sub(r"record_index,|,record_index\b", "", text))


def secondary_index_of_other_values() -> Storage:
    storage = with_secondary_index()
    rewritten(storage, base_path(storage), with_column("note", "zzz"))
    return storage


def compaction_overdue() -> Storage:
    builder = TableBuilder(9, "mor").commit(rows=6)
    for _ in range(6):
        builder = builder.delta_commit(updates=3)
    return builder.build()


def unserved(commits: int) -> Storage:
    """A table whose writer runs no service."""
    builder = TableBuilder(9, "cow", options={"hoodie.table.services.enabled": "false"}).commit(rows=3)
    for _ in range(commits):
        builder = builder.delta_commit(updates=1)
    return builder.build()


def clean_overdue() -> Storage:
    return unserved(12)


def archiving_overdue() -> Storage:
    return unserved(33)


def timeline_gone() -> Storage:
    storage = table()
    storage.delete_folder(TIMELINE)
    return storage


def completed_twice() -> Storage:
    storage = table()
    path = newest_instant(storage, ".commit")
    begin, _, completed = path.removesuffix(".commit").rpartition("_")
    storage.put(f"{begin}_{int(completed) + 1}.commit", storage.read(path))
    return storage


def with_completion_time(completed: str) -> Storage:
    storage = table()
    path = newest_instant(storage, ".commit")
    storage.put(f"{path.rpartition('_')[0]}_{completed}.commit", storage.read(path))
    storage.delete(path)
    return storage


def completed_before_it_began() -> Storage:
    return with_completion_time("20200101000000000")


def completed_in_the_future() -> Storage:
    return with_completion_time("20991231000000000")


def inflight_without_requested() -> Storage:
    storage = table()
    storage.put(f"{TIMELINE}/20260921235959000.inflight", b"")
    return storage


def damaged_rollback_plan() -> Storage:
    storage = table()
    storage.put(f"{TIMELINE}/20991231000000000.rollback.requested", b"")
    return storage


def rollback_without_its_plan() -> Storage:
    storage = table()
    storage.put(f"{TIMELINE}/20991231000000000.rollback.inflight", b"")
    return storage


def damaged_pages() -> Storage:
    storage = table()
    damage_pages(storage, base_path(storage))
    return storage


def damage_pages(storage: Storage, path: str) -> None:
    """Put other bytes into the pages of a column, in a file of the same length with its footer."""
    data = bytearray(storage.read(path))
    begin, end = data.index(b"PAR1"), data.rindex(b"PAR1") + 4
    file = pq.ParquetFile(pa.BufferReader(bytes(data[begin:end])))
    chunk = file.metadata.row_group(0).column(file.schema_arrow.get_field_index("note"))
    for place in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size):
        data[begin + place] ^= 0xFF
    storage.put(path, bytes(data))


def damaged_log() -> Storage:
    storage = merge_on_read()
    damage_pages(storage, slices(storage)[0].logs[0].path)
    return storage


def log_cut_in_the_middle() -> Storage:
    storage = merge_on_read()
    path = slices(storage)[0].logs[0].path
    data = storage.read(path)
    storage.put(path, data[: len(data) // 2])
    return storage


def metafile_of_another_depth() -> Storage:
    storage = table()
    path = f"{slices(storage)[0].partition_path}/.hoodie_partition_metadata"
    storage.put(path, storage.read(path).replace(b"partitionDepth=1", b"partitionDepth=5"))
    return storage


def empty_metafile() -> Storage:
    storage = table()
    storage.put(f"{slices(storage)[0].partition_path}/.hoodie_partition_metadata", b"")
    return storage


def stray_file() -> Storage:
    storage = table()
    path = base_path(storage)
    storage.put(f"{path.rpartition('/')[0]}/part-00000.parquet", storage.read(path))
    return storage


def left_lock() -> Storage:
    storage = table()
    storage.put(".hoodie/lock", b"")
    return storage


def savepoint_without_its_file() -> Storage:
    storage = table()
    open_table(storage).savepoints.create(name="monday")
    kept = slices(storage)[0]
    open_table(storage).upsert(TableBuilder(9, "cow").batch((0, "oslo", 99, "new"), (1, "rome", 99, "new")))
    open_table(storage).upsert(TableBuilder(9, "cow").batch((2, "bern", 99, "new")))
    assert kept.base is not None
    storage.delete(kept.base.path)
    return storage


def markers_of_a_rolled_back_write() -> Storage:
    storage = table()
    storage.put(".hoodie/.temp/20200101000000000/MARKERS.type", b"DIRECT")
    return storage


def archived() -> Storage:
    often = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5", "hoodie.clean.commits.retained": "2"}
    builder = TableBuilder(9, "cow", options=often).commit(rows=3)
    for _ in range(8):
        builder = builder.delta_commit(updates=1)
    storage = builder.build()
    open_table(storage).services.archive(hudi_options=often)
    return storage


def with_manifests(change: Callable[[Storage, str], None]) -> Storage:
    storage = archived()
    for info in storage.list_folder(f"{TIMELINE}/history").files:
        if "manifest" in info.name:
            change(storage, info.path)
    return storage


def damaged_archive_manifest() -> Storage:
    return with_manifests(lambda storage, path: storage.put(path, b'{"files":['))


def missing_archive_manifest() -> Storage:
    return with_manifests(lambda storage, path: storage.delete(path))


def metadata_table_behind() -> Storage:
    storage = table(**METADATA)
    writes = load_table(storage).timeline.completed_writes
    newest = writes[-1].requested_time
    for info in storage.list_recursive(".hoodie/metadata/.hoodie/timeline"):
        if info.name.startswith(newest):
            storage.delete(info.path)
    return storage


def record_index_lacks_a_key() -> Storage:
    storage = table(**INDEXED)
    logs = [info for info in storage.list_recursive(".hoodie/metadata/record_index") if ".log." in info.name]
    storage.delete(max(logs, key=lambda info: info.size).path)
    return storage


@dataclass(frozen=True)
class Damage:
    """A damaged table: what is found, and whether the doctor mends it."""

    plant: Callable[[], Storage]
    problem: str
    is_mended: bool = False
    is_note: bool = False


ZOO = [
    Damage(missing_file, "file is missing"),
    Damage(truncated_file, "file is cut off"),
    Damage(overwritten_footer, "file cannot be read"),
    Damage(missing_log, "file is missing"),
    Damage(empty_commit, "instant is damaged"),
    Damage(damaged_savepoint, "instant is damaged"),
    Damage(dead_writer, "write is dead", is_mended=True),
    Damage(writer_without_heartbeat, "write without a heartbeat"),
    Damage(dead_compaction, "execution of a plan is dead", is_mended=True),
    Damage(damaged_compaction_plan, "plan is damaged"),
    Damage(damaged_clean_plan, "plan is damaged", is_mended=True),
    Damage(dead_rollback, "rollback is pending", is_mended=True),
    Damage(orphan, "file of no write", is_mended=True),
    Damage(base_file_of_a_lost_attempt, "file that its write does not name"),
    Damage(damaged_index_definitions, "table cannot be read"),
    Damage(missing_metafile, "partition without its metafile", is_mended=True),
    Damage(row_of_another_partition, "row in the wrong partition"),
    Damage(row_of_another_file, "meta column names another file"),
    Damage(key_not_in_footer, "footer lacks keys"),
    Damage(key_twice, "key is there twice"),
    Damage(metadata_table_lacks_a_file, "metadata table: ", is_mended=True),
    Damage(left_heartbeat, "heartbeat is left over", is_mended=True, is_note=True),
    Damage(left_markers, "markers are left over", is_mended=True, is_note=True),
    Damage(died_change_of_properties, "change of properties died", is_mended=True),
    Damage(event_time_without_an_order, "properties contradict each other"),
    Damage(secondary_index_without_record_index, "properties contradict each other"),
    Damage(secondary_index_of_other_values, "metadata table: without entry", is_mended=True),
    Damage(compaction_overdue, "compaction is due", is_mended=True, is_note=True),
    Damage(clean_overdue, "clean is due", is_mended=True, is_note=True),
    Damage(archiving_overdue, "archive is due", is_mended=True, is_note=True),
    Damage(timeline_gone, "timeline is gone"),
    Damage(completed_twice, "instant is completed twice"),
    Damage(completed_before_it_began, "instant completed before it began"),
    Damage(completed_in_the_future, "instant is in the future"),
    Damage(inflight_without_requested, "write without a heartbeat"),
    Damage(damaged_rollback_plan, "plan is damaged", is_mended=True),
    Damage(rollback_without_its_plan, "plan is damaged"),
    Damage(damaged_pages, "file cannot be read"),
    Damage(damaged_log, "file cannot be read"),
    Damage(log_cut_in_the_middle, "file is cut off"),
    Damage(metafile_of_another_depth, "partition metafile is damaged", is_mended=True),
    Damage(empty_metafile, "partition metafile is damaged", is_mended=True),
    Damage(stray_file, "file is not Hudi's"),
    Damage(left_lock, "lock is left over"),
    Damage(savepoint_without_its_file, "savepoint lacks files"),
    Damage(markers_of_a_rolled_back_write, "markers are left over", is_mended=True, is_note=True),
    Damage(damaged_archive_manifest, "table cannot be read"),
    Damage(missing_archive_manifest, "table cannot be read"),
    Damage(metadata_table_behind, "metadata table: not valid", is_mended=True),
    Damage(record_index_lacks_a_key, "metadata table: without entry", is_mended=True),
]
every_damage = pytest.mark.parametrize("damage", ZOO, ids=lambda one: one.plant.__name__)


@every_damage
def test_planted_damage_is_found_with_its_severity(damage: Damage) -> None:
    found = [one for one in findings(damage.plant()) if one["problem"].startswith(damage.problem)]
    assert found
    assert {one["severity"] == "note" for one in found} == {damage.is_note}


@every_damage
def test_mending_takes_away_what_it_can_and_leaves_the_rest_found(damage: Damage) -> None:
    storage = damage.plant()
    with suppress(pyhudi.errors.CorruptDataError, pyhudi.errors.InvalidRequestError):
        opened(storage).recovery.mend()
    found = [one for one in findings(storage) if one["problem"].startswith(damage.problem)]
    assert bool(found) is not damage.is_mended


@pytest.mark.parametrize("builder", [*COW_TABLES, *MOR_TABLES], ids=str)
@pytest.mark.parametrize("metadata", [{}, METADATA], ids=["plain", "metadata table"])
def test_healthy_table_is_not_accused(builder: TableBuilder, metadata: dict[str, str]) -> None:
    made = TableBuilder(builder.version, builder.kind, options=metadata)
    storage = made.commit(rows=9).delta_commit(updates=4).delete((0, "oslo", 1, "x")).build()
    assert accusations(storage) == []
    if builder.is_merge_on_read:
        open_table(storage).services.compact()
        assert accusations(storage) == []


@pytest.mark.parametrize("same_size", [False, True])
def test_source_of_a_bootstrap_that_changed_is_found(tmp_path: Path, same_size: bool) -> None:
    source = parquet_source(tmp_path / "source")
    storage = LocalStorage(str(tmp_path / "t"))
    pyhudi.HudiTable.bootstrap(str(source), str(tmp_path / "t"), record_key="id")
    assert accusations(storage) == []
    changed = sorted(source.rglob("*.parquet"))[0]
    changed.write_bytes(changed.read_bytes() + (b"" if same_size else b"more"))
    assert [problem for problem, _ in accusations(storage)] == ["source has changed"]


NO_COMMAND = (
    base_file_of_a_lost_attempt,
    damaged_index_definitions,
    empty_commit,
    row_of_another_partition,
    row_of_another_file,
    key_not_in_footer,
    key_twice,
    event_time_without_an_order,
    timeline_gone,
    completed_twice,
    completed_before_it_began,
    completed_in_the_future,
    stray_file,
    left_lock,
    damaged_archive_manifest,
    missing_archive_manifest,
    rollback_without_its_plan,
)
"""Damages that no command mends: what is lost comes from a copy, or people decide."""
CAN_MOVE = [damage for damage in ZOO if damage.plant is not dead_rollback]
"""The plan of a rollback names the folder of its table."""


def on_disk(storage: Storage, folder: Path) -> LocalStorage:
    """The table in a folder, with files that are an hour old."""
    for info in storage.list_recursive(""):
        path = folder / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.read(info.path))
        os.utime(path, (path.stat().st_mtime - 7200,) * 2)
    return LocalStorage(str(folder))


@pytest.mark.parametrize("damage", CAN_MOVE, ids=lambda one: one.plant.__name__)
def test_command_of_a_finding_mends_it(damage: Damage, tmp_path: Path) -> None:
    storage = on_disk(damage.plant(), tmp_path / "t")

    def found() -> list[str | None]:
        listed = pyhudi.HudiTable.for_path(tmp_path / "t").inspect.findings().to_pylist()
        return [one["command"] for one in listed if one["problem"].startswith(damage.problem)]

    commands = {command for command in found() if command is not None}
    assert bool(commands) is (damage.plant not in NO_COMMAND)
    for command in commands:
        main(command.replace("PATH", storage.uri).split())
    assert bool(found()) is not bool(commands)


def test_index_that_another_needs_is_built_by_the_command_of_the_finding(tmp_path: Path) -> None:
    storage = secondary_index_without_record_index(LocalStorage(str(tmp_path / "t")))
    (finding,) = [one for one in findings(storage) if one["problem"] == "properties contradict each other"]
    assert main(finding["command"].split()) == 0
    assert accusations(storage) == []


def test_findings_are_sorted_by_severity_and_name_the_command() -> None:
    storage = dead_writer()
    storage.delete(base_path(storage))
    found = findings(storage)
    order = [["error", "warning", "note"].index(one["severity"]) for one in found]
    assert order == sorted(order)
    (dead,) = [one for one in found if one["problem"] == "write is dead"]
    assert dead["command"] == f"rollback {storage.uri}"


def test_budget_of_files_bounds_what_is_opened() -> None:
    storage = TableBuilder(9, "cow").commit(rows=30).build()
    counting = FaultStorage(storage)
    open_table(counting).inspect.findings(files=1)
    few = _opened(counting)
    open_table(counting).inspect.findings(files=1000)
    assert 0 < few < _opened(counting) - few


def _opened(storage: FaultStorage) -> int:
    """How many times a base file was opened."""
    return sum(one.path.endswith(".parquet") and not one.is_effect for one in storage.operations)


def test_looking_writes_nothing() -> None:
    storage = dead_writer()
    before = {info.path: info.size for info in storage.list_recursive("")}
    findings(storage)
    assert {info.path: info.size for info in storage.list_recursive("")} == before


def test_every_mend_has_a_damage_that_asks_for_it() -> None:
    asked = {one["mend"] for damage in ZOO for one in findings(damage.plant()) if one["mend"]}
    assert asked == {one.value for one in Mend}


def test_delta_commits_without_logs_are_no_reason_for_a_compaction() -> None:
    builder = TableBuilder(9, "mor")
    for key in range(7):
        builder = builder.insert((key, "oslo", 1, "a"))
    table = open_table(builder.build())

    due = table.services.due().filter(pc.field("service") == "compaction")
    assert due["due"].to_pylist() == [False]
    assert due["reason"].to_pylist() == ["7 of 5 delta commits since the last compaction, and no file slice to work on"]
    assert "compaction is due" not in table.inspect.findings()["problem"].to_pylist()
