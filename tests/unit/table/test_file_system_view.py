"""Which base file and which logs make up a slice: by names in version 6, by completion times from version 8 on."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.compaction import CompactionOperation, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.archive.writes import load_archived_writes
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView, view_of
from pyhudi.table.timeline import Timeline, instant_path
from pyhudi.testing.faults import FaultStorage

GROUP = FileGroupId("p", "f-0")


@dataclass
class World:
    """A timeline and files, made by hand. Times are two digits: requested, then completed."""

    version: int = 9
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    instants: list[Instant] = field(default_factory=list)
    files: list[FileInfo] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    def wrote(self, requested: str, completed: str | None = None, action: Action = Action.DELTA_COMMIT) -> Instant:
        """A write; pending without a completion time."""
        state = InstantState.INFLIGHT if completed is None else InstantState.COMPLETED
        ended = InstantTime(completed) if completed and self.version > 6 else None
        instant = Instant(InstantTime(requested), action, state, ended)
        self.instants.append(instant)
        return instant

    def plans(self, requested: str, *files: str) -> None:
        """A compaction that is planned."""
        instant = Instant(InstantTime(requested), Action.COMPACTION, InstantState.REQUESTED)
        self.instants.append(instant)
        operation = CompactionOperation(
            file_id=GROUP.file_id, partition_path="p", base_instant_time="10", delta_files=files
        )
        path = instant_path(instant, table_version(self.version))
        self.storage.put(path, encode_compaction_plan(CompactionPlan(operations=(operation,))))

    def says(self, instant: Instant, **metadata: object) -> None:
        """What a write's metadata say; else that it wrote all files with its time in their names."""
        self.told.add(instant.requested_time)
        said = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={})
        body = encode_commit_metadata(replace(said, **metadata), table_version(self.version))  # type: ignore[arg-type]
        self.storage.put(instant_path(instant, table_version(self.version)), body)

    def base(self, instant: str, token: str = "0-0-0") -> str:
        name = f"f-0_{token}_{instant}.parquet"
        self.files.append(FileInfo(f"p/{name}", 100, 0))
        return name

    def log(self, instant: str, version: int = 1, token: str = "0-0-0") -> str:
        name = f".f-0_{instant}.log.{version}_{token}"
        self.files.append(FileInfo(f"p/{name}", 10, 0))
        return name

    @property
    def view(self) -> FileSystemView:
        timeline = Timeline(table_version(self.version), tuple(sorted(self.instants, key=lambda i: i.requested_time)))
        for instant in timeline.completed_writes:
            if instant.requested_time not in self.told:
                self.says(instant, stats_by_partition={"p": self._stats(instant.requested_time)})
                self.told.remove(instant.requested_time)
        # A store of its own: nothing of a previous view is kept.
        return view_of(FaultStorage(self.storage), timeline, self.files)

    def _stats(self, instant_time: str) -> tuple[WriteStat, ...]:
        return tuple(
            WriteStat(file_id="f-0", path=info.path, partition_path="p", file_size_in_bytes=info.size)
            for info in self.files
            for name in [parse_data_file(info.name)]
            if name is not None and name.instant_time == instant_time and not info.name.endswith(".cdc")
        )

    @property
    def latest(self) -> FileSlice | None:
        return only(self.view)


def only(view: FileSystemView, until: str | None = None) -> FileSlice | None:
    slices = [one for group in view.latest_until(until).values() for one in group]
    assert len(slices) <= 1
    return slices[0] if slices else None


def names(one: FileSlice | None) -> tuple[str | None, list[str]] | None:
    """Base file and logs in their order."""
    return None if one is None else (str(one.base.name) if one.base else None, [str(log.name) for log in one.logs])


def started(version: int = 9) -> tuple[World, str]:
    """A group with a base file of the write 10."""
    world = World(version)
    world.wrote("10", "11", Action.COMMIT)
    return world, world.base("10")


# -- versions 8 and 9 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [8, 9])
def test_logs_are_in_the_order_in_which_their_writes_completed(version: int) -> None:
    world, base = started(version)
    world.wrote("20", "39")
    world.wrote("30", "35")
    slow, fast = world.log("20"), world.log("30")

    assert names(world.latest) == (base, [fast, slow])


def test_logs_of_one_write_are_in_the_order_of_their_versions() -> None:
    world, base = started()
    world.wrote("20", "21")
    second, tenth, first = (world.log("20", version) for version in (2, 10, 1))

    assert names(world.latest) == (base, [first, second, tenth])


@pytest.mark.parametrize(
    ("begun", "ended", "stays"),
    [
        pytest.param("20", "22", False, id="before the compaction was planned"),
        pytest.param("20", "30", True, id="at the moment of the plan"),
        pytest.param("20", "32", True, id="while it was pending"),
        pytest.param("31", "32", True, id="begun after the plan"),
        pytest.param("40", "41", True, id="after the compaction"),
    ],
)
def test_a_log_changes_the_compacted_file_if_its_write_completed_after_the_plan(
    begun: str, ended: str, stays: bool
) -> None:
    world, _ = started()
    world.wrote(begun, ended)
    log = world.log(begun)
    world.wrote("30", "35", Action.COMMIT)
    compacted = world.base("30")

    assert names(world.latest) == (compacted, [log] if stays else [])


def test_readers_merge_both_sides_of_a_pending_compaction() -> None:
    world, base = started()
    world.wrote("20", "21")
    before = world.log("20")
    world.plans("30", before)
    world.wrote("40", "41")
    after = world.log("40")

    assert names(world.latest) == (base, [before, after])
    assert world.view.pending_compactions == {GROUP: "30"}


def test_the_base_file_of_a_compaction_that_is_not_completed_is_invisible() -> None:
    world, base = started()
    world.wrote("20", "21")
    log = world.log("20")
    world.plans("30", log)
    world.base("30")

    assert names(world.latest) == (base, [log])


def test_logs_of_a_pending_write_are_invisible() -> None:
    world, base = started()
    world.wrote("20")
    world.log("20")

    assert names(world.latest) == (base, [])


def test_a_group_of_logs_alone_is_a_slice_that_begins_with_the_first() -> None:
    world = World()
    world.wrote("20", "29")
    world.wrote("22", "25")
    second, first = world.log("20"), world.log("22")

    assert names(world.latest) == (None, [first, second])
    assert world.latest is not None
    assert world.latest.instant_time == "22"


def test_cdc_logs_and_foreign_files_are_passed_over() -> None:
    world, base = started()
    world.wrote("20", "21")
    log = world.log("20")
    world.files.append(FileInfo("p/.f-0_20.log.1_0-0-0.cdc", 10, 0))
    world.files.append(FileInfo("p/.hoodie_partition_metadata", 10, 0))

    assert names(world.latest) == (base, [log])


def test_the_slice_as_of_a_write_has_no_logs_of_later_ones() -> None:
    world, base = started()
    world.wrote("20", "21")
    world.wrote("30", "31")
    world.wrote("40", "45", Action.COMMIT)
    first, second, compacted = world.log("20"), world.log("30"), world.base("40")

    assert names(only(world.view, "10")) == (base, [])
    assert names(only(world.view, "20")) == (base, [first])
    assert names(only(world.view, "39")) == (base, [first, second])
    assert names(only(world.view, "40")) == (compacted, [])
    assert only(world.view, "09") is None


def test_the_slice_as_of_a_write_that_completed_after_the_plan_has_it_on_either_side() -> None:
    world, base = started()
    world.wrote("20", "35")
    world.wrote("30", "32", Action.COMMIT)
    log, compacted = world.log("20"), world.base("30")

    assert names(only(world.view, "20")) == (base, [log])
    assert names(only(world.view, "30")) == (compacted, [log])


# -- attempts that were lost, groups that were replaced ---------------------------------------------------------------


def test_of_two_attempts_at_a_log_the_one_that_the_commit_lists_counts() -> None:
    world, base = started()
    write = world.wrote("20", "21")
    world.log("20", token="0-0-0")
    kept = world.log("20", token="0-0-1")
    stat = WriteStat(file_id="f-0", path=f"p/{kept}", partition_path="p")
    world.says(write, stats_by_partition={"p": (stat,)})

    assert names(world.latest) == (base, [kept])


def test_logs_of_one_version_that_a_commit_lists_all_count() -> None:
    world, base = started()
    write = world.wrote("20", "21")
    kept = [world.log("20", token=token) for token in ("2-0-0", "10-0-0")]
    stats = tuple(WriteStat(file_id="f-0", path=f"p/{name}", partition_path="p") for name in kept)
    world.says(write, stats_by_partition={"p": stats})

    assert names(world.latest) == (base, kept)


@pytest.mark.parametrize("version", [6, 9])
def test_a_replaced_group_is_gone_with_its_logs_but_not_as_of_before(version: int) -> None:
    world, base = started(version)
    world.wrote("20", "21")
    log = world.log("10" if version == 6 else "20")
    replacing = world.wrote("30", "31", Action.REPLACE_COMMIT)
    world.says(replacing, operation=WriteOperation.INSERT_OVERWRITE, replaced_file_ids={"p": ("f-0",)})

    assert world.latest is None
    assert names(only(world.view, "20")) == (base, [log])


# -- logs of writes that were archived --------------------------------------------------------------------------------


def archive(world: World, *times: tuple[str, str], file: str = "20_29_0.parquet") -> None:
    """An archive of these writes, requested and completed."""
    columns = {
        "instantTime": [requested for requested, _ in times],
        "completionTime": [completed for _, completed in times],
        "action": ["deltacommit"] * len(times),
        "metadata": pa.nulls(len(times), pa.binary()),
    }
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    folder = table_version(world.version).history_folder
    world.storage.put(f"{folder}/{file}", data.getvalue())
    manifest = {"files": [{"fileName": file, "fileLen": len(data.getvalue())}]}
    world.storage.put(f"{folder}/manifest_1", json.dumps(manifest).encode())
    world.storage.put(f"{folder}/_version_", b"1")


def test_archived_writes_place_their_logs_by_the_completion_times_of_the_archive() -> None:
    world = World()
    archive(world, ("20", "45"), ("22", "25"))
    world.wrote("40", "41", Action.COMMIT)
    base = world.base("40")
    late = world.log("20")
    world.log("22")

    assert names(world.latest) == (base, [late])


@pytest.mark.parametrize("content", [None, b""], ids=["deleted", "not filled yet"])
def test_while_jvm_hudi_replaces_the_version_of_the_archive_its_newest_manifest_counts(content: bytes | None) -> None:
    world = World()
    archive(world, ("20", "45"), ("22", "25"))
    folder = table_version(9).history_folder
    world.storage.put(f"{folder}/manifest_10", world.storage.read(f"{folder}/manifest_1"))
    world.storage.put(f"{folder}/manifest_9", b'{"files": []}')
    world.storage.delete(f"{folder}/_version_")
    if content is not None:
        world.storage.put(f"{folder}/_version_", content)
    world.wrote("40", "41", Action.COMMIT)
    base = world.base("40")
    late = world.log("20")
    world.log("22")

    assert names(world.latest) == (base, [late])


def test_a_log_older_than_a_timeline_that_was_never_archived_is_a_leftover() -> None:
    world = World()
    world.wrote("40", "41", Action.COMMIT)
    base = world.base("40")
    world.log("20")

    assert names(world.latest) == (base, [])


def test_only_archive_files_that_span_an_asked_instant_are_opened() -> None:
    world = World()
    archive(world, ("20", "45"))
    folder = table_version(9).history_folder
    world.storage.put(f"{folder}/20_29_0.parquet", b"no Parquet")

    assert load_archived_writes(world.storage, table_version(9), {"31"}).completed == {}
    with pytest.raises(CorruptDataError, match="20_29_0"):
        load_archived_writes(world.storage, table_version(9), {"25"})


# -- version 6 --------------------------------------------------------------------------------------------------------


def test_in_version_6_a_log_belongs_to_the_slice_in_its_name() -> None:
    world, _ = started(6)
    world.wrote("20", "21")
    world.log("10")
    world.wrote("30", "31", Action.COMMIT)
    compacted = world.base("30")
    world.wrote("40", "41")
    log = world.log("30")

    assert names(world.latest) == (compacted, [log])


def test_in_version_6_readers_merge_both_sides_of_a_pending_compaction() -> None:
    world, base = started(6)
    world.wrote("20", "21")
    before = world.log("10")
    world.plans("30", before)
    world.wrote("40", "41")
    after = world.log("30")

    assert names(world.latest) == (base, [before, after])
    assert world.latest is not None
    assert world.view.slice_time_for_appends(world.latest) == "30"


def test_in_version_6_logs_of_all_attempts_are_taken_as_their_reader_judges_by_block() -> None:
    world, base = started(6)
    world.wrote("20", "21")
    logs = [world.log("10", 1, "0-0-0"), world.log("10", 1, "0-0-1"), world.log("10", 2, "0-0-0")]

    assert names(world.latest) == (base, logs)


def test_new_logs_go_to_the_newest_slice_where_no_compaction_is_planned() -> None:
    world, _ = started(6)

    assert world.latest is not None
    assert world.view.slice_time_for_appends(world.latest) == "10"


# -- what incremental reads ask ---------------------------------------------------------------------------------------


def test_slices_that_writes_may_have_changed_are_those_with_their_files() -> None:
    world, base = started()
    world.wrote("20", "21")
    world.wrote("30", "31")
    first, _ = world.log("20"), world.log("30")
    view = world.view

    def touched(*written: str) -> list[tuple[str | None, list[str]] | None]:
        latest = view.latest_of(lambda write: write in {"10", "20"}, written=set(written))
        return [names(one) for group in latest.values() for one in group]

    assert touched("20") == touched("10") == [(base, [first])]
    assert touched("30") == []


def test_in_version_6_every_slice_with_logs_may_have_been_changed() -> None:
    world, base = started(6)
    world.wrote("20", "21")
    log = world.log("10")

    latest = world.view.latest_of(lambda _: True, written={"20"})

    assert [names(one) for group in latest.values() for one in group] == [(base, [log])]


def test_in_version_6_logs_behind_a_planned_compaction_may_be_of_writes_that_have_ended() -> None:
    world, base = started(6)
    world.wrote("20", "21")
    before = world.log("10")
    world.plans("30", before)
    world.wrote("40", "41")
    after = world.log("30")

    latest = world.view.latest_of(lambda write: write in {"10", "20", "40"}, written={"40"})

    assert [names(one) for group in latest.values() for one in group] == [(base, [before, after])]
