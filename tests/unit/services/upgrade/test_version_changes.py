"""Upgrades and downgrades of whole tables: answers, crashes, readers and writers in between, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.crashes import BEFORE, COW, MOR, copied, crash_images, effects_of, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock, acting_at_staging, contents, environment, new_table, open_table

import pyhudi
from pyhudi.errors import (
    ConfigError,
    HistoryNotRetainedError,
    HudiError,
    InvalidRequestError,
    LockNotAcquiredError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.avro.container import encode_container
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.services.upgrade import change as version_change
from pyhudi.services.upgrade.steps import STEPS, Step
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table import state
from pyhudi.table.archive.history import history_files, times_in
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import PROPERTIES_PATH, load_table, update_properties
from pyhudi.testing.faults import FaultStorage, Hook

KEEP = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "6", "hoodie.clean.commits.retained": "3"}
CLUSTERS = {"hoodie.clustering.plan.strategy.small.file.limit": "100000000"}
LEGS = [*STEPS]
EVERY_LEG = pytest.mark.parametrize("leg", LEGS, ids=lambda leg: f"{leg[0]}-{leg[1]}")


def change(table: pyhudi.HudiTable, to: int) -> pyhudi.VersionChanged:
    is_upgrade = to >= table.handle.state.version.number
    return (table.alter.upgrade if is_upgrade else table.alter.downgrade)(to)


def version_of(storage: Storage) -> int:
    return load_table(storage).version.number


def lived_in(version: int) -> Storage:
    """A copy-on-write table with every kind of action that pyhudi performs on one, on its timeline and archived."""
    storage = prepared(TableBuilder(version, "cow", has_delete_flag=True))
    for number in range(9):
        opened(storage).upsert(rows((1, "oslo", 10 + number, f"u{number}"), (4, "bern", number, "b")))
        if number in (2, 6):
            opened(storage).insert_overwrite(rows((5, "rome", number, f"o{number}")))
        if number == 4:
            opened(storage).delete_partition("city=bern")
            opened(storage).services.cluster(hudi_options=CLUSTERS)
        opened(storage).services.clean(hudi_options=KEEP)
    opened(storage).services.archive(hudi_options=KEEP)
    opened(storage).services.cluster(hudi_options=CLUSTERS)
    opened(storage).savepoints.create(name="kept")
    for note in ("undone", "restored away"):
        undone = opened(storage).upsert(rows((2, "oslo", 99, note)))
        if note == "undone":
            opened(storage).recovery.rollback(undone.instant)
    opened(storage).recovery.restore("kept")
    opened(storage).upsert(rows((2, "oslo", 50, "after all")))
    return storage


def answers(storage: Storage) -> dict[str, Any]:
    """What a user may ask, without the positions of version 8 and 9, which version 6 does not have."""
    table = opened(storage)
    history = table.inspect.history().to_pylist()
    told: dict[str, Any] = {"now": contents(storage), "writes": [one["instant"] for one in history]}
    for write in history:
        instant = write["instant"]
        told[f"outcome {instant}"] = table.recovery.outcome_of(instant)
        told[f"as of {instant}"] = rows_or_refusal(lambda time=instant: table.scan(as_of=time))
    told["changes"] = rows_or_refusal(lambda: table.changes("0" * 14))
    told["savepoints"] = table.savepoints.list().select(["instant", "name"]).to_pylist()
    told["as of kept"] = rows_or_refusal(lambda: table.scan(as_of="kept"))
    return told


def rows_or_refusal(ask: Any) -> Any:
    try:
        return sorted(map(str, ask().to_arrow().select(["id", "city", "ts", "note"]).to_pylist()))
    except HudiError as error:
        return type(error).__name__


def files_of_other_layout(storage: Storage) -> list[str]:
    """Files of a timeline that a table of this version does not have."""
    is_6 = version_of(storage) == 6
    strange = ".hoodie/timeline/" if is_6 else ".hoodie/archived/"
    files = storage.list_recursive(".hoodie")
    moved = [info.path for info in files if info.name[:14].isdigit() and ("/timeline/" in info.path) is is_6]
    return moved + [info.path for info in files if info.path.startswith(strange)]


def test_table_to_be_changed_has_every_kind_of_action() -> None:
    storage = lived_in(9)
    table = load_table(storage)
    active = {one.action for one in table.timeline.instants}
    assert {Action.COMMIT, Action.REPLACE_COMMIT, Action.CLEAN, Action.SAVEPOINT, Action.RESTORE} <= active
    archived = {
        action
        for file in history_files(storage, table.version)
        for _, _, action in times_in(storage, table.version, file)
    }
    assert {"commit", "replacecommit", "clean"} <= archived


def test_every_answer_stays_the_same_from_9_to_8_to_6_to_8_to_9() -> None:
    storage = lived_in(9)
    expected = answers(storage)
    for to in (8, 6, 8, 9):
        done = change(opened(storage), to)
        assert (done.after, version_of(storage)) == (to, to)
        assert answers(storage) == expected, to
        assert files_of_other_layout(storage) == []
        opened(storage).upsert(rows((6, "oslo", to, f"v{to}")))
        expected = answers(storage)


def test_table_of_6_with_an_archive_keeps_its_history_in_9() -> None:
    storage = lived_in(9)
    change(opened(storage), 6)
    expected = answers(storage)
    assert opened(storage).alter.upgrade().steps[0] == "6 to 8: recover"
    assert answers(storage) == expected


def check_crashes(kind: str, leg: tuple[int, int]) -> None:
    """A crash at each effect leaves a whole table of one version; a write goes on, or the same call ends it."""
    start, to = leg
    given = prepared(next(each for each in (COW if kind == "cow" else MOR) if each.version == start))
    for place, image in crash_images(given, lambda table: change(table, to)):
        assert version_of(image) in leg, place
        assert contents(image) == BEFORE, place
        going_on = copied(image)
        opened(going_on, later=True).upsert(rows((3, "rome", 7, "later")))
        changed = BEFORE - {(3, "rome", 1, "a")} | {(3, "rome", 7, "later")}
        assert contents(going_on) == changed, place
        # After a write there are logs again in a merge-on-read table, and version 6 could not hold them.
        ended = ((image, BEFORE), (going_on, changed)) if kind == "cow" else ((image, BEFORE),)
        for table, found in ended:
            change(opened(table, later=True), to)
            assert version_of(table) == to, place
            assert contents(table) == found, place
            assert files_of_other_layout(table) == [], place


@EVERY_LEG
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_crash_at_any_effect_leaves_a_whole_table_that_the_same_call_finishes(kind: str, leg: tuple[int, int]) -> None:
    check_crashes(kind, leg)


def ordered(leg: tuple[int, int], *names: str) -> dict[tuple[int, int], tuple[Step, ...]]:
    """The table of steps, with these steps of a leg in this order in the place of its own."""
    by_name = {step.name: step for step in STEPS[leg]}
    return {**STEPS, leg: tuple(by_name[name] for name in names)}


@pytest.mark.parametrize(
    ("leg", "names"),
    [
        # The switch before the timeline that it leads to.
        ((6, 8), ("recover", "make room", "switch", "convert the archive", "convert the timeline")),
        ((8, 6), ("recover", "make room", "switch", "convert the archive", "convert the timeline")),
        # The old timeline goes while it is the one that counts.
        ((6, 8), ("recover", "make room", "convert the timeline", "delete the old timeline", "switch")),
        # What an earlier crash left stays between the instants of now.
        ((6, 8), ("recover", "convert the archive", "convert the timeline", "switch")),
        # The old timeline stays, to be found by a later change.
        ((8, 6), ("recover", "make room", "convert the timeline", "switch")),
    ],
    ids=str,
)
def test_other_orders_of_the_steps_are_found_by_the_crashes(
    leg: tuple[int, int], names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_change, "STEPS", ordered(leg, *names))
    with pytest.raises((AssertionError, HudiError)):
        check_crashes("cow", leg)


class HalfAReader(FaultStorage):
    """A store for a reader that read the properties before a change began, and looks at the rest only now."""

    def __init__(self, properties: bytes, now: Storage) -> None:
        super().__init__(now)
        self._stale: bytes | None = properties

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if path == PROPERTIES_PATH and self._stale is not None:
            stale, self._stale = self._stale, None
            return stale
        return super().read(path, offset=offset, length=length)


def check_readers(leg: tuple[int, int]) -> None:
    start, to = leg
    given = prepared(next(each for each in COW if each.version == start))
    stale = given.read(PROPERTIES_PATH)
    places = 0
    for place, image in crash_images(given, lambda table: change(table, to)):
        places += 1
        assert contents(HalfAReader(stale, image)) == BEFORE, place
    assert places > 10


@pytest.mark.parametrize("leg", [(6, 8), (8, 6)], ids=str)
def test_reader_between_properties_and_timeline_never_sees_a_part_of_either(leg: tuple[int, int]) -> None:
    check_readers(leg)


def test_reader_that_does_not_know_the_mark_of_a_left_timeline_sees_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LEFT_MARK", "another name")
    with pytest.raises((AssertionError, HudiError)):
        check_readers((6, 8))


@EVERY_LEG
def test_write_that_loaded_the_table_before_is_refused_and_may_be_run_again(leg: tuple[int, int]) -> None:
    start, to = leg
    storage = prepared(next(each for each in COW if each.version == start))
    changed: list[pyhudi.VersionChanged] = []

    def meanwhile() -> None:
        changed.append(change(opened(storage), to))

    with pytest.raises(WriteConflictError, match="version"):
        acting_at_staging(opened(storage), meanwhile).upsert(rows((3, "rome", 7, "later")))
    assert contents(storage) == BEFORE
    opened(storage).upsert(rows((3, "rome", 7, "later")))
    assert (3, "rome", 7, "later") in contents(storage)


def before_effect(number: int, act: Callable[[], None]) -> Hook:
    """A hook that acts before the effect of this number, counted from 1; 0: never."""
    seen: list[str] = []

    def hook(_: str, path: str) -> None:
        seen.append(path)
        if len(seen) == number:
            act()

    return hook


@EVERY_LEG
def test_change_between_any_two_effects_of_a_write_leaves_both_or_one_of_them(leg: tuple[int, int]) -> None:
    start, to = leg
    given = prepared(next(each for each in COW if each.version == start))
    write = (3, "rome", 7, "later")
    effects = effects_of(given, lambda table: table.upsert(rows(write)))
    outcomes = set()
    for number in range(len(effects) + 1):
        storage = copied(given)
        told: list[str] = []

        def meet(inner: Storage = storage, told: list[str] = told) -> None:
            try:
                change(opened(inner, **{"hoodie.write.lock.wait_time_ms": "1"}), to)
                told.append("changed")
            except (WriteConflictError, LockNotAcquiredError) as error:
                told.append(type(error).__name__)

        try:
            writer = opened(FaultStorage(storage, before=before_effect(number, meet)))
            (writer if number else acting_at_staging(writer, meet)).upsert(rows(write))
            told.append("written")
        except WriteConflictError:
            told.append("gave way")
        outcomes.add(tuple(told))
        assert version_of(storage) == (to if "changed" in told else start), (number, told)
        after = BEFORE - {(3, "rome", 1, "a")} | {write} if "written" in told else BEFORE
        assert contents(storage) == after, (number, told)
        change(opened(storage, later=True), to)
        assert (version_of(storage), contents(storage)) == (to, after), (number, told)
    assert {("changed", "gave way"), ("WriteConflictError", "written"), ("changed", "written")} <= outcomes


def test_living_writer_stops_the_change_before_anything_is_changed() -> None:
    storage = prepared(COW[2])
    before = {info.path for info in storage.list_recursive("")}
    told: list[str] = []

    def ask(_: str, path: str) -> None:
        if not told and path.endswith(".inflight"):
            told.append("")
            with pytest.raises(WriteConflictError) as raised:
                change(opened(storage), 8)
            told[0] = raised.value.context["action"]

    opened(FaultStorage(storage, before=ask)).upsert(rows((3, "rome", 7, "later")))
    assert told == ["commit"]
    assert version_of(storage) == 9
    assert before <= {info.path for info in storage.list_recursive("")}


@pytest.mark.parametrize("action", ["restore.requested", "indexing.inflight", "clustering.inflight"])
def test_pending_actions_of_jvm_hudi_stop_the_change(action: str) -> None:
    storage = prepared(COW[2])
    storage.put(f".hoodie/timeline/20990101000000000.{action}", b"")
    with pytest.raises(WriteConflictError):
        change(opened(storage), 8)
    assert version_of(storage) == 9


def test_downgrade_to_6_compacts_and_cleans_the_logs_by_itself_and_says_so_before() -> None:
    storage = prepared(MOR[2])
    opened(storage).services.compact()
    opened(storage).upsert(rows((2, "oslo", 9, "log")))
    expected = contents(storage)
    planned = opened(storage).alter.plan_version(6).to_pylist()
    assert [one["step"] for one in planned if one["to_version"] == 6][:4] == [
        "recover",
        "compact",
        "clean",
        "make room",
    ]

    done = opened(storage).alter.downgrade(to=6)

    assert (version_of(storage), contents(storage)) == (6, expected)
    assert not any(".log." in info.name for info in list_data_files(storage))
    assert "8 to 6: clean" in done.steps
    opened(storage).upsert(rows((3, "rome", 7, "later")))
    change(opened(storage), 9)
    assert contents(storage) == expected - {(3, "rome", 1, "a")} | {(3, "rome", 7, "later")}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    "last",
    [
        lambda table: table.services.cluster(),
        lambda table: table.insert_overwrite(rows((7, "oslo", 9, "new"))),
        lambda table: table.insert_overwrite_table(rows((7, "oslo", 9, "new"))),
        lambda table: table.delete_partition("city=oslo"),
    ],
    ids=["clustering", "overwrite", "overwrite of the table", "delete_partition"],
)
def test_downgrade_to_6_works_when_the_last_write_replaced_groups_with_logs(
    last: Callable[[pyhudi.HudiTable], object], version: int
) -> None:
    storage = TableBuilder(version, "mor", options=CLUSTERS).commit(rows=4).delta_commit(updates=4).build()
    last(opened(storage))
    expected = contents(storage)

    change(opened(storage), 6)

    assert (version_of(storage), contents(storage)) == (6, expected)
    assert not any(".log." in info.name for info in list_data_files(storage))


def test_downgrade_to_6_is_refused_while_a_savepoint_keeps_logs_and_changes_nothing() -> None:
    storage = prepared(MOR[2])
    kept = opened(storage).savepoints.create(name="logs")
    held = {info.path for info in storage.list_recursive("")}

    with pytest.raises(UnsupportedFeatureError, match="savepoint keeps logs") as refused:
        opened(storage).alter.plan_version(6)
    with pytest.raises(UnsupportedFeatureError, match="savepoint keeps logs"):
        change(opened(storage), 6)
    assert refused.value.context["savepoint"] == kept.instant
    assert {info.path for info in storage.list_recursive("")} == held
    opened(storage).savepoints.delete("logs")
    change(opened(storage), 6)
    assert contents(storage) == BEFORE


@pytest.mark.parametrize("leg", [(6, 8), (8, 9), (9, 8), (8, 6)], ids=str)
def test_logs_that_come_after_the_compaction_stop_the_change(leg: tuple[int, int]) -> None:
    start, to = leg
    storage = prepared(next(each for each in MOR if each.version == start))
    written: list[pyhudi.WriteResult] = []

    def write_after_compaction(name: str, path: str) -> None:
        # The compaction ends by deleting its heartbeat.
        if not written and name == "delete" and "/.heartbeat/" in path:
            written.append(opened(storage).upsert(rows((3, "rome", 7, "later"))))

    with pytest.raises(WriteConflictError, match="logs"):
        change(opened(FaultStorage(storage, after=write_after_compaction)), to)
    assert written
    assert version_of(storage) == start
    change(opened(storage), to)
    assert contents(storage) == BEFORE - {(3, "rome", 1, "a")} | {(3, "rome", 7, "later")}


def test_unsupported_features_are_refused_before_anything_is_changed() -> None:
    storage = prepared(COW[2])
    update_properties(storage, {"hoodie.datasource.write.drop.partition.columns": "true"})
    with pytest.raises(UnsupportedFeatureError, match="without the partition columns"):
        change(opened(storage), 8)
    assert version_of(storage) == 9


def test_change_in_the_wrong_direction_or_to_an_unknown_version_is_refused() -> None:
    table = opened(prepared(COW[1]))
    with pytest.raises(InvalidRequestError, match="downgrade"):
        table.alter.upgrade(to=6)
    with pytest.raises(InvalidRequestError, match="upgrade"):
        table.alter.downgrade(to=9)
    for number in (7, True, "8"):
        with pytest.raises(ConfigError):
            table.alter.upgrade(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*COW, *MOR], ids=str)
@pytest.mark.parametrize("to", [*TABLE_VERSIONS])
def test_plan_lists_the_steps_that_the_change_takes_and_writes_nothing(kind: TableBuilder, to: int) -> None:
    storage = prepared(kind)
    recorder = FaultStorage(storage)
    plan = opened(recorder).alter.plan_version(to)
    assert not recorder.effects
    steps = [f"{each['from_version']} to {each['to_version']}: {each['step']}" for each in plan.to_pylist()]
    assert all(each["what"] and each["why"] for each in plan.to_pylist())
    assert list(change(opened(storage), to).steps) == steps


def test_metadata_table_of_the_old_version_is_gone_after_a_change() -> None:
    storage = prepared(COW[1])
    update_properties(storage, {"hoodie.table.metadata.partitions": "files"})
    storage.put(".hoodie/metadata/.hoodie/hoodie.properties", b"x")
    change(opened(storage), 9)
    assert load_table(storage).config.metadata_partitions == ()
    assert storage.list_recursive(".hoodie/metadata") == ()


@EVERY_LEG
def test_crash_never_leaves_a_metadata_table_of_another_version(leg: tuple[int, int]) -> None:
    start, to = leg
    given = prepared(next(each for each in COW if each.version == start))
    update_properties(given, {"hoodie.table.metadata.partitions": "files"})
    given.put(".hoodie/metadata/.hoodie/hoodie.properties", b"hoodie.table.version=%d" % start)
    for place, image in crash_images(given, lambda table: change(table, to)):
        assert bool(load_table(image).config.metadata_partitions) is (version_of(image) == start), place
        change(opened(image, later=True), to)
        assert load_table(image).config.metadata_partitions == (), place
        assert image.list_recursive(".hoodie/metadata") == (), place


def test_planned_clustering_is_taken_along_under_the_name_of_the_version() -> None:
    storage = prepared(COW[0])
    plan = encode_container(
        REQUESTED_REPLACE_METADATA, {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": []}}
    )
    storage.put(".hoodie/20990101000000000.replacecommit.requested", plan)
    change(opened(storage), 8)
    assert storage.read(".hoodie/timeline/20990101000000000.clustering.requested") == plan
    change(opened(storage), 6)
    assert storage.read(".hoodie/20990101000000000.replacecommit.requested") == plan


def test_same_version_changes_nothing_but_removes_what_a_crash_left() -> None:
    storage = prepared(COW[2])
    storage.put(".hoodie/20200101000000000.commit", b"{}")
    assert change(opened(storage), 9).steps == ()
    assert files_of_other_layout(storage) == []
    assert contents(storage) == BEFORE


def test_logs_of_version_6_stay_readable_when_the_upgraded_table_archives_their_writes() -> None:
    storage, clock = MemoryStorage(), StepClock()
    captured = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    }
    new_table(storage, version=6, **captured)

    def table() -> pyhudi.HudiTable:
        held = {
            "hoodie.archive.automatic": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
        }
        return open_table(storage, env=environment(clock), **held)

    times = []
    for number in range(4):
        table().upsert(rows((1, "oslo", number, f"v{number}")))
        times.append(table().inspect.timeline()["instant"].to_pylist()[-1])
    table().alter.upgrade(9)
    ends = [one["completion_time"] for one in table().inspect.timeline().to_pylist() if one["instant"] in times]
    for number in range(4, 7):
        table().upsert(rows((2, "oslo", number, "later")))
    table().services.archive(
        hudi_options={
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "hoodie.clean.commits.retained": "1",
        }
    )
    assert not set(times) & set(table().inspect.timeline()["instant"].to_pylist())
    for number, (time, end) in enumerate(zip(times, ends, strict=True)):
        assert table().scan(["note"], as_of=time).to_arrow()["note"].to_pylist() == [f"v{number}"]
        changed = table().changes(end=end, format="cdc_typed").to_arrow()["after"].to_pylist()
        assert [after["note"] for after in changed] == [f"v{each}" for each in range(number + 1)]
        for begin in ["000", *ends[:number]]:
            assert table().changes(begin, end).to_arrow()["note"].to_pylist() == [f"v{number}"]
    table().services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})
    for begin, end in itertools.pairwise(ends):
        with pytest.raises(HistoryNotRetainedError):
            table().changes(begin, end).to_arrow()
