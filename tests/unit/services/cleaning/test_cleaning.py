"""Cleaning of whole tables: what it deletes, what it leaves readable, and what a death on the way leaves behind."""

from __future__ import annotations

import itertools
import logging
import random

import pyarrow as pa
import pytest
from tests.support.cleaning import save
from tests.support.crashes import copied, crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import Row, StepClock, contents, environment, open_table

import pyhudi
from pyhudi.config.options_cleaning import CleaningOptions
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import CorruptDataError, HistoryNotRetainedError, PermissionDeniedError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container
from pyhudi.format.metadata.clean import CleaningPolicy, CleanPlan, encode_clean_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.cleaning import plan as cleaning_plan
from pyhudi.services.cleaning.execute import clean, pending_cleans, schedule_clean
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.protocol import Storage
from pyhudi.table import written_files
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table, update_properties
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

KINDS = [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
RETAIN_TWO = {"hoodie.clean.commits.retained": "2"}
NO_CLEAN = {"hoodie.clean.automatic": "false"}


def call_of(storage: Storage, *, clock: StepClock | None = None, **options: str) -> ServiceCall:
    table = open_table(storage, env=environment(clock) if clock else None, **options)
    return table.handle.service_call({}, call="clean")


def state_of(table: pa.Table) -> set[Row]:
    return {tuple(row.values()) for row in table.select(["id", "city", "ts", "note"]).to_pylist()}  # type: ignore[misc]


def updated(storage: Storage, times: int, **options: str) -> list[str]:
    """The record 1 of `BEFORE` written so many times more; the instants of these writes."""
    return [opened(storage, **options).upsert(rows((1, "oslo", 10 + n, f"u{n}"))).instant for n in range(times)]


def base_files(storage: Storage, partition: str) -> int:
    return sum(one.path.endswith(".parquet") for one in list_data_files(storage) if one.path.startswith(partition))


@EVERY_KIND
def test_write_after_the_retained_commits_deletes_older_slices_and_no_retained_state_changes(kind):
    storage = prepared(kind)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    options = {**RETAIN_TWO, **(compacts if kind.is_merge_on_read else {})}
    states: dict[str, set[Row]] = {}
    for number in range(12):
        written = opened(storage, **options).upsert(rows((1, "oslo", 10 + number, f"u{number}")))
        states[written.instant] = contents(storage)
    assert base_files(storage, "city=oslo") <= 4
    table = opened(storage)
    retained = [one.requested_time for one in load_table(storage).timeline.completed_writes][-2:]
    for instant, expected in states.items():
        try:
            assert state_of(table.scan(as_of=instant).to_arrow()) == expected, instant
        except HistoryNotRetainedError:
            assert instant < retained[0]
    assert not pending_cleans(load_table(storage).timeline)


@pytest.mark.parametrize("seed", range(6))
def test_random_lives_answer_every_retained_state_exactly_and_refuse_the_others(seed):
    choose = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    policies = [
        {"hoodie.clean.commits.retained": str(choose.randint(1, 4))},
        {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "2"},
        {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "1"},
        {"hoodie.clean.incremental.enabled": "false", "hoodie.clean.commits.retained": "3"},
    ]
    storage, clock = prepared(kind), StepClock()
    states: dict[str, set[Row]] = {}
    for number in range(25):
        clock.ms += choose.choice([1, 600_000, 4_000_000])
        options = {**choose.choice(policies), "hoodie.compact.inline": choose.choice(["true", "false"])}
        table = open_table(storage, env=environment(clock), **options)
        one = (choose.randint(1, 5), choose.choice(["oslo", "rome", "lima"]), 100 + number, f"n{number}")
        step = choose.random()
        if step < 0.6:
            written = table.upsert(rows(one))
        elif step < 0.75:
            written = table.insert_overwrite(rows(one))
        elif step < 0.85 and any(row[1] == one[1] for row in contents(storage)):
            written = table.delete_partition([f"city={one[1]}"])
        else:
            written = table.delete(rows(one))
        states[written.instant] = contents(storage)
    table = opened(storage)
    refused = 0
    for instant, expected in states.items():
        try:
            assert state_of(table.scan(as_of=instant).to_arrow()) == expected, instant
        except HistoryNotRetainedError:
            refused += 1
    assert contents(storage) == list(states.values())[-1]
    assert 0 < refused < len(states)


@EVERY_KIND
def test_clean_that_dies_anywhere_is_finished_by_the_next_write(kind):
    storage = prepared(kind)
    updated(
        storage, 5, **NO_CLEAN, **({"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"})
    )
    before = contents(storage)
    for name, image in crash_images(storage, lambda table: clean(_with(table, RETAIN_TWO))):
        assert contents(image) == before, name
        opened(image, later=True, **RETAIN_TWO).upsert(rows((1, "oslo", 20, "next")))
        assert not pending_cleans(load_table(image).timeline), name
        assert base_files(image, "city=oslo") <= 4, name


def _with(table: pyhudi.HudiTable, options: dict[str, str]) -> ServiceCall:
    return table.handle.service_call(options, call="clean")


def test_file_that_cannot_be_deleted_leaves_the_clean_planned_and_the_next_clean_retries(caplog):
    inner = prepared(TableBuilder(9, "cow"))

    def refuse(name: str, path: str) -> None:
        if name == "delete" and path.endswith(".parquet"):
            raise PermissionDeniedError("not allowed", path=path)

    storage = FaultStorage(inner, before=refuse)
    with caplog.at_level(logging.WARNING):
        updated(storage, 5, **RETAIN_TWO)
    assert "the clean after it failed" in caplog.text
    assert len(pending_cleans(load_table(inner).timeline)) == 1
    held = base_files(inner, "city=oslo")
    opened(inner, later=True, **RETAIN_TWO).upsert(rows((1, "oslo", 20, "next")))
    assert not pending_cleans(load_table(inner).timeline)
    assert base_files(inner, "city=oslo") < held


@EVERY_KIND
def test_savepoint_keeps_its_state_readable_under_every_policy(kind):
    storage = prepared(kind)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    kept = updated(storage, 1, **compacts)[-1]
    newest = load_table(storage).timeline.completed_writes[-1].requested_time
    expected = contents(storage)
    save(storage, newest)
    for policy in ("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"):
        updated(
            storage,
            4,
            **{
                "hoodie.clean.policy": policy,
                "hoodie.clean.commits.retained": "1",
                "hoodie.clean.fileversions.retained": "1",
                "hoodie.clean.hours.retained": "0",
                **compacts,
            },
        )
        assert state_of(opened(storage).scan(as_of=newest).to_arrow()) == expected, policy
    assert kept <= newest


def test_deleted_savepoint_releases_its_files_at_the_next_clean():
    storage = prepared(TableBuilder(9, "cow"))
    newest = load_table(storage).timeline.completed_writes[-1].requested_time
    save(storage, newest)
    updated(storage, 5, **RETAIN_TWO)
    held = base_files(storage, "city=oslo")
    for info in storage.list_folder(".hoodie/timeline").files:
        if ".savepoint" in info.name:
            storage.delete(info.path)
    updated(storage, 1, **RETAIN_TWO)
    assert base_files(storage, "city=oslo") < held


def test_replaced_groups_stay_for_the_retained_states_and_go_afterwards():
    storage = prepared(TableBuilder(9, "cow"))
    before, first = contents(storage), load_table(storage).timeline.completed_writes[-1].requested_time
    opened(storage, **RETAIN_TWO).insert_overwrite_table(rows((9, "oslo", 1, "new")))
    assert state_of(opened(storage).scan(as_of=first).to_arrow()) == before
    for number in range(4):
        opened(storage, **RETAIN_TWO).upsert(rows((9, "oslo", 2 + number, "new")))
    assert base_files(storage, "city=rome") == 0
    with pytest.raises(HistoryNotRetainedError):
        opened(storage).scan(as_of=first).to_arrow()


def test_partition_that_was_deleted_ends_with_its_folder_and_can_come_back():
    storage = prepared(TableBuilder(9, "cow"))
    opened(storage, **RETAIN_TWO).delete_partition(["city=rome"])
    updated(storage, 4, **RETAIN_TWO)
    assert not storage.list_folder("city=rome").files
    opened(storage).insert(rows((7, "rome", 1, "back")))
    assert (7, "rome", 1, "back") in contents(storage)


def test_pending_write_keeps_the_state_that_it_began_from():
    storage = prepared(TableBuilder(9, "cow"))
    table = load_table(storage)
    began = InstantTime(str(int(table.timeline.latest_time) + 1))
    storage.put(instant_path(Instant(began, Action.COMMIT, InstantState.REQUESTED), table.version), b"")
    before = contents(storage)
    updated(storage, 5, **RETAIN_TWO, **{"hoodie.clean.failed.writes.policy": "NEVER"})
    at = table.timeline.completed_writes[-1].requested_time
    assert state_of(opened(storage).scan(as_of=at).to_arrow()) == before


def test_append_only_table_gets_a_clean_for_many_writes_and_not_for_each():
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(30):
        options = {**RETAIN_TWO, "hoodie.parquet.small.file.limit": "0"}
        opened(storage, **options).insert(rows((100 + number, "oslo", 1, "x")))
    cleans = [one for one in load_table(storage).timeline.instants if one.action is Action.CLEAN]
    assert 1 <= len(cleans) <= 4


def test_plan_made_before_a_savepoint_is_not_put_on_the_timeline():
    storage = prepared(TableBuilder(9, "cow"))
    updated(storage, 5, **NO_CLEAN)
    call = call_of(storage, **RETAIN_TWO)
    save(storage, load_table(storage).timeline.completed_writes[0].requested_time)
    assert schedule_clean(call) is None
    assert not pending_cleans(load_table(storage).timeline)


def test_plan_that_names_the_newest_slice_is_refused_before_anything_is_deleted():
    storage = prepared(TableBuilder(9, "cow"))
    table = load_table(storage)
    (newest,) = load_view(storage, table.timeline).latest["city=oslo"]
    assert newest.base is not None
    time = InstantTime(str(int(table.timeline.latest_time) + 1))
    plan = CleanPlan(policy="KEEP_LATEST_COMMITS", files={"city=oslo": (newest.base.path,)})
    path = instant_path(Instant(time, Action.CLEAN, InstantState.REQUESTED), table.version)
    storage.put(path, encode_clean_plan(plan, table_uri=storage.uri))
    with pytest.raises(CorruptDataError, match="names files that the table needs"):
        opened(storage).services.run(time)
    assert contents(storage)


@pytest.mark.parametrize("incremental", ["true", "false"])
def test_table_without_partitions_is_cleaned(incremental):
    storage = TableBuilder(9, "cow", is_partitioned=False).insert((1, "oslo", 1, "a")).build()
    for number in range(6):
        table = open_table(storage, **RETAIN_TWO, **{"hoodie.clean.incremental.enabled": incremental})
        table.upsert(TableBuilder().batch((1, "oslo", 2 + number, "u")))
    assert sum(one.path.endswith(".parquet") for one in list_data_files(storage)) == 3


def test_table_in_a_folder_of_the_table_keeps_its_files():
    storage = prepared(TableBuilder(9, "cow"))
    for path in ("other/.hoodie/hoodie.properties", "other/a-0_1-0-1_20200101000000000.parquet"):
        storage.put(path, b"x")
    storage.put("other/a-0_1-0-1_20200101000000001.parquet", b"x")
    updated(storage, 5, **RETAIN_TWO, **{"hoodie.clean.incremental.enabled": "false"})
    assert len(storage.list_folder("other").files) == 2


def test_clean_of_selected_partitions_leaves_the_others_for_the_next_one():
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(5):
        opened(storage, **NO_CLEAN).upsert(rows((1, "oslo", 10 + number, "o"), (3, "rome", 10 + number, "r")))
    clean(call_of(storage, **RETAIN_TWO, **{"hoodie.clean.partition.filter.selected": "city=rome"}))
    assert base_files(storage, "city=rome") < base_files(storage, "city=oslo")
    clean(call_of(storage, **RETAIN_TWO))
    assert base_files(storage, "city=rome") == base_files(storage, "city=oslo")


def test_clean_of_partitions_by_pattern_leaves_the_others_for_the_next_one():
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(5):
        opened(storage, **NO_CLEAN).upsert(rows((1, "oslo", 10 + number, "o"), (3, "rome", 10 + number, "r")))
    before = base_files(storage, "city=rome")
    clean(call_of(storage, **RETAIN_TWO, **{"hoodie.clean.partition.filter.regex": "r[oa]me"}))  # a part of the path
    assert base_files(storage, "city=rome") == before
    clean(call_of(storage, **RETAIN_TWO, **{"hoodie.clean.partition.filter.regex": ".*r[oa]me"}))
    assert base_files(storage, "city=rome") < base_files(storage, "city=oslo")
    clean(call_of(storage, **RETAIN_TWO))
    assert base_files(storage, "city=rome") == base_files(storage, "city=oslo")


def test_clean_takes_so_many_commits_at_a_time_and_the_next_one_goes_on():
    """A table that was not cleaned for a long time is cleaned in steps."""
    storage = prepared(TableBuilder(9, "cow"))
    updated(storage, 2, **NO_CLEAN)
    steps = {**RETAIN_TWO, "hoodie.clean.max.commits.to.clean": "2"}
    clean(call_of(storage, **RETAIN_TWO))
    updated(storage, 9, **NO_CLEAN)
    left = [base_files(storage, "city=oslo")]
    for _ in range(5):
        clean(call_of(storage, **steps))
        left.append(base_files(storage, "city=oslo"))
    at_once = left[-1]
    assert [one - other for one, other in itertools.pairwise(left)] == [2, 2, 2, 2, 1]
    clean(call_of(storage, **RETAIN_TWO))
    assert base_files(storage, "city=oslo") == at_once


def test_writes_clean_after_so_many_commits():
    storage = prepared(TableBuilder(9, "cow"))
    rare = {**RETAIN_TWO, "hoodie.clean.trigger.max.commits": "4"}
    updated(storage, 9, **rare)
    actions = [one.action for one in load_table(storage).timeline.instants]
    assert actions.count(Action.CLEAN) == 2


def test_body_of_a_clean_is_what_jvm_hudi_writes():
    plan = CleanPlan(policy="KEEP_LATEST_COMMITS", earliest=("1", "commit"), files={"p": ("p/f.parquet",)})
    record = decode_container(encode_clean_plan(plan, table_uri="file:/t"), path="plan")
    assert record.values["filePathsToBeDeletedPerPartition"] == {
        "p": [{"filePath": "file:/t/p/f.parquet", "isBootstrapBaseFile": False}]
    }


def test_replaced_group_that_a_pending_compaction_reads_keeps_its_files():
    storage = prepared(TableBuilder(9, "mor"))
    planned = opened(storage).services.schedule()
    assert planned is not None
    opened(storage, **RETAIN_TWO).insert_overwrite_table(rows((9, "oslo", 1, "new")))
    for number in range(4):
        opened(storage, **RETAIN_TWO).upsert(rows((9, "oslo", 2 + number, "new")))
    clean(call_of(storage, **RETAIN_TWO))

    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["done"]


def test_table_that_pyhudi_must_not_write_is_not_cleaned():
    storage = prepared(TableBuilder(9, "cow"))
    updated(storage, 5, **NO_CLEAN)
    update_properties(storage, {"hoodie.index.type": "BUCKET", "hoodie.no.such.property": "x"})
    before = base_files(storage, "city=oslo")

    for call in (clean, schedule_clean):
        with pytest.raises(UnsupportedFeatureError, match=r"hoodie\.no\.such\.property"):
            call(call_of(storage, **RETAIN_TWO))
    assert base_files(storage, "city=oslo") == before


def test_clean_that_another_process_may_be_executing_is_left_to_it():
    storage = prepared(TableBuilder(9, "cow"))
    updated(storage, 5, **NO_CLEAN)
    planned = schedule_clean(call_of(storage, **RETAIN_TWO))
    assert planned is not None
    table = load_table(storage)
    inflight = Instant(planned, Action.CLEAN, InstantState.INFLIGHT)
    storage.put(instant_path(inflight, table.version), b"")
    before = base_files(storage, "city=oslo")

    assert clean(call_of(storage, clock=StepClock(now_of(storage)), **RETAIN_TWO)) is None
    assert base_files(storage, "city=oslo") == before
    clean(opened(storage, later=True, **RETAIN_TWO).handle.service_call({}, call="clean"))
    assert base_files(storage, "city=oslo") < before
    assert not pending_cleans(load_table(storage).timeline)


def now_of(storage: Storage) -> int:
    """The time of the store, which its files carry."""
    return max(one.modified_ms for one in storage.list_recursive(".hoodie"))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_inflight_file_of_a_clean_has_the_plan_in_version_6_and_is_empty_later(version):
    storage = prepared(TableBuilder(version, "cow"))
    updated(storage, 5, **RETAIN_TWO)
    folder = load_table(storage).version.timeline_folder
    paths = [f"{folder}/{name}" for name in storage.list_names(folder) if ".clean." in name]
    plans = {storage.read(path) for path in paths if path.endswith(".clean.requested")}
    inflight = {storage.read(path) for path in paths if path.endswith(".clean.inflight")}
    assert inflight == (plans if version == 6 else {b""})


def test_damaged_plan_is_named_and_the_table_is_cleaned_without_it(caplog):
    storage = prepared(TableBuilder(9, "cow"))
    table = load_table(storage)
    time = InstantTime(str(int(table.timeline.latest_time) + 1))
    path = instant_path(Instant(time, Action.CLEAN, InstantState.REQUESTED), table.version)
    storage.put(path, b"Obj\x01 and no more")

    with caplog.at_level(logging.WARNING):
        updated(storage, 6, **RETAIN_TWO)

    assert path in caplog.text
    assert base_files(storage, "city=oslo") <= 4
    assert [one.requested_time for one in pending_cleans(load_table(storage).timeline)] == [time]
    with pytest.raises(CorruptDataError):
        opened(storage).services.run(time)


VERSIONS_TWO = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "2"}


def examined(storage, **options):
    plan = opened(storage, **NO_CLEAN).services.plan_clean(hudi_options={**VERSIONS_TWO, **options})
    return set(plan["partition_path"].to_pylist())


@EVERY_KIND
def test_clean_by_versions_looks_only_where_writes_came_since_the_last_one(kind):
    storage = prepared(kind)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    updated(storage, 4, **VERSIONS_TWO, **compacts)
    assert base_files(storage, "city=oslo") == 2
    assert examined(storage) == set()
    assert examined(storage, **{"hoodie.clean.incremental.enabled": "false"}) == {"city=oslo", "city=rome"}
    assert examined(storage, **{"hoodie.clean.fileversions.retained": "1"}) == {"city=oslo", "city=rome"}

    updated(storage, 1, **NO_CLEAN, **compacts)
    assert examined(storage) == {"city=oslo"}
    updated(storage, 1, **VERSIONS_TWO, **compacts)
    assert base_files(storage, "city=oslo") == 2


def test_clean_by_versions_returns_to_what_a_savepoint_or_a_reader_held():
    storage = prepared(TableBuilder(9, "cow"))
    save(storage, updated(storage, 1, **NO_CLEAN)[0])
    updated(storage, 4, **VERSIONS_TWO)
    assert examined(storage) == {"city=oslo", "city=rome"}

    storage = prepared(TableBuilder(9, "cow"))
    for number in range(3):
        opened(storage, **NO_CLEAN).upsert(rows((3, "rome", 10 + number, "x")))
    opened(storage, **VERSIONS_TWO).insert_overwrite(rows((1, "oslo", 20, "over")))
    assert (base_files(storage, "city=rome"), base_files(storage, "city=oslo")) == (2, 3)
    opened(storage, **VERSIONS_TWO).upsert(rows((3, "rome", 20, "x")))
    assert (base_files(storage, "city=rome"), base_files(storage, "city=oslo")) == (2, 1)


def test_appended_table_by_versions_gets_a_clean_for_many_writes_and_is_not_listed_for_each():
    storage = prepared(TableBuilder(9, "cow"))
    options = {**VERSIONS_TWO, "hoodie.parquet.small.file.limit": "0"}
    for number in range(12):
        opened(storage, **options).insert(rows((100 + number, "oslo", 1, "a")))
    cleans = [one for one in load_table(storage).timeline.instants if one.action is Action.CLEAN]
    assert len(cleans) == 1
    assert examined(storage) == set()


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_plan_made_a_partition_at_a_time_is_the_same(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    for turn in range(4):
        opened(storage, **{"hoodie.clean.automatic": "false"}).upsert(
            rows((1, "oslo", 10 + turn, ""), (3, "rome", 10 + turn, ""))
        )
    options = {
        "hoodie.clean.policy": policy,
        "hoodie.clean.commits.retained": "1",
        "hoodie.clean.fileversions.retained": "1",
    }
    whole = opened(storage).services.plan_clean(hudi_options=options)

    monkeypatch.setattr(cleaning_plan, "FILES_AT_ONCE", 1)
    by_partition = opened(storage).services.plan_clean(hudi_options=options)

    assert whole["deletes"].to_pylist().count(True) >= 4
    assert by_partition.sort_by("instant").sort_by("partition_path") == whole.sort_by("instant").sort_by(
        "partition_path"
    )


def test_plan_in_many_pieces_reads_each_commit_once_although_not_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(TableBuilder(9, "cow"))
    for turn in range(4):
        opened(made, **NO_CLEAN).upsert(rows((1, "oslo", 10 + turn, ""), (3, "rome", 10 + turn, "")))
    monkeypatch.setattr(cleaning_plan, "FILES_AT_ONCE", 1)
    monkeypatch.setattr(written_files, "KEPT_ENTRIES_MAX", 1)
    storage = FaultStorage(copied(made))
    table = load_table(storage)
    options = CleaningOptions(policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1, incremental=False)

    cleaning_plan.plan_clean(table, options, LocalEngine(), now_ms=0, zone=None)

    commits = {instant_path(write, table.version) for write in table.timeline.completed_writes}
    read = [call.path for call in storage.operations if call.name == "read" and call.path in commits]
    assert sorted(read) == sorted(commits)
