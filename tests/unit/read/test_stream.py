"""Offsets of streams, without Spark: where they start, how limits cut what is there, and whose they are."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.errors import ConfigError, HistoryNotRetainedError, InvalidRequestError
from pyhudi.format.properties import table_checksum
from pyhudi.read.arrow import read_batches
from pyhudi.read.cdc.rows import read_changes
from pyhudi.read.stream import (
    Limits,
    StreamOffset,
    first_offset,
    newest_position,
    next_offset,
    plan_batch,
    plan_change_batch,
)
from pyhudi.storage.open import open_storage
from pyhudi.table.state import TableState, load_table, update_properties

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
CITIES = ("bonn", "oslo", "rome")
CONFIG = ReadConfig()
KEEP_ONE = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


def made(path: Path, version: int = 9, table_type: str = "cow", **options: str) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="n",
        table_version=version,
        table_type=table_type,
        hudi_options={"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false", **options},
    )


def rows(turn: int, ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "city": [CITIES[i % 3] for i in ids], "n": [turn] * len(ids)}, SCHEMA)


def state(path: Path) -> TableState:
    return load_table(open_storage(str(path)))


def renamed_to(name: str, path: Path) -> TableState:
    """The table under another name, as `ALTER TABLE … RENAME TO` leaves it."""
    now = state(path)
    checksum = str(table_checksum(now.config.database, name))
    update_properties(now.storage, {"hoodie.table.name": name, "hoodie.table.checksum": checksum})
    return state(path)


def followed(path: Path, limits: Limits, start: str | StreamOffset = "earliest") -> list[list[tuple[int, int]]]:
    """The micro-batches that a query of these limits gets, each offset by way of its JSON."""
    table = state(path)
    offset = start if isinstance(start, StreamOffset) else first_offset(table, start)
    target = newest_position(table)
    assert target is not None
    found = []
    while (end := next_offset(table, CONFIG, offset, target, limits)) != offset:
        end = StreamOffset.from_json(json.loads(json.dumps(end.to_json(table.version))))
        plan = plan_batch(table, CONFIG, offset, end)
        batches = read_batches(table.storage, plan, ["id", "n"], None)
        found.append(sorted((row["id"], row["n"]) for batch in batches for row in batch.to_pylist()))
        offset = end
    assert offset.position == target
    assert offset.until is None
    return found


@pytest.mark.parametrize(("version", "table_type"), [(9, "cow"), (9, "mor"), (8, "mor"), (6, "cow")])
def test_limits_cut_what_is_there_into_micro_batches_that_have_every_row_once(
    tmp_path: Path, version: int, table_type: str
) -> None:
    table = made(tmp_path, version, table_type)
    for turn in range(4):
        table.insert(rows(turn, range(10 * turn, 10 * turn + 10)))
    everything = [(i, i // 10) for i in range(40)]
    assert followed(tmp_path, Limits()) == [everything]
    by_commit = followed(tmp_path, Limits(commits=1))
    assert by_commit == [everything[10 * turn : 10 * turn + 10] for turn in range(4)]
    assert [len(batch) for batch in followed(tmp_path, Limits(commits=3))] == [30, 10]
    for limits in (Limits(files=1), Limits(bytes=1), Limits(files=2, bytes=1)):
        batches = followed(tmp_path, limits)
        assert len(batches) == len(CITIES)
        assert sorted(row for batch in batches for row in batch) == everything
        assert all(len({i % 3 for i, _ in batch}) == 1 for batch in batches)
    assert len(followed(tmp_path, Limits(bytes=10**9))) == 1
    both = followed(tmp_path, Limits(commits=2, files=2))
    assert sorted(row for batch in both for row in batch) == everything
    assert len(both) == 4


def changes(path: Path, limits: Limits) -> list[list[tuple[str, int]]]:
    """The micro-batches of change data, as operations and keys."""
    table, config = state(path), ReadConfig.of_stream({"hoodie.datasource.query.incremental.format": "cdc"})
    offset, target = first_offset(table, "earliest"), newest_position(table)
    assert target is not None
    found = []
    while (end := next_offset(table, config, offset, target, limits)) != offset:
        plan = plan_change_batch(table, config, offset, end)
        batches = [batch for task in plan.tasks for batch in read_changes(table.storage, plan, task)]
        rows_ = [row for batch in batches for row in batch.to_pylist()]
        found.append(
            sorted((row["op"], (json.loads(row["after"]) or json.loads(row["before"]))["id"]) for row in rows_)
        )
        offset = end
    return found


def test_change_data_comes_commit_by_commit_with_its_deletes(tmp_path: Path) -> None:
    table = made(tmp_path, **{"hoodie.table.cdc.enabled": "true"})
    table.insert(rows(0, range(3)))
    table.upsert(rows(1, range(2, 4)))
    table.delete(pa.table({"id": [0], "city": ["bonn"]}))
    every = [[("i", 0), ("i", 1), ("i", 2)], [("i", 3), ("u", 2)], [("d", 0)]]
    assert changes(tmp_path, Limits(commits=1)) == every
    assert changes(tmp_path, Limits(commits=2)) == [sorted([*every[0], *every[1]]), every[2]]
    assert changes(tmp_path, Limits()) == [sorted(row for batch in every for row in batch)]
    table.services.clean(hudi_options=KEEP_ONE)
    with pytest.raises(HistoryNotRetainedError) as lost:
        changes(tmp_path, Limits())
    assert first_offset(state(tmp_path), lost.value.context["earliest"]).position == lost.value.context["earliest"]


def test_stream_of_changes_of_a_table_that_does_not_capture_them_is_refused(tmp_path: Path) -> None:
    made(tmp_path).insert(rows(0, range(3)))
    with pytest.raises(InvalidRequestError, match="does not capture"):
        changes(tmp_path, Limits())


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.datasource.query.type": "read_optimized"},
        {"as.of.instant": "2026-01-01"},
        {"hoodie.datasource.read.begin.instanttime": "2026-01-01"},
        {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.end.instanttime": "2026-01-01"},
    ],
)
def test_stream_with_a_range_or_a_query_type_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="startOffset"):
        ReadConfig.of_stream(options)


def test_commits_that_come_while_a_range_is_split_wait_for_its_end(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.insert(rows(0, range(9)))
    start, limits = StreamOffset(EARLIEST), Limits(files=2)
    part = next_offset(state(tmp_path), CONFIG, start, first.completion_time, limits)
    newest = table.upsert(rows(1, range(9))).completion_time
    table.services.cluster()
    now = state(tmp_path)
    rest = next_offset(now, CONFIG, part, newest, limits)
    assert rest == StreamOffset(first.completion_time)
    assert next_offset(now, CONFIG, part, newest, Limits()) == rest
    found = [
        row
        for ends in ((start, part), (part, rest))
        for batch in read_batches(now.storage, plan_batch(now, CONFIG, *ends), ["id", "n"], None)
        for row in batch.to_pylist()
    ]
    assert sorted((row["id"], row["n"]) for row in found) == [(i, 0) for i in range(9)]


@pytest.mark.parametrize("version", [6, 9])
def test_clustering_that_was_planned_before_the_end_of_a_range_repeats_no_row(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, **{"hoodie.parquet.small.file.limit": "0"})
    for turn in range(2):
        table.insert(rows(turn, range(3 * turn, 3 * turn + 3)))
    table.refresh().services.schedule("clustering")
    table.refresh().insert(rows(2, range(6, 9)))
    limits, offset, found = Limits(files=2), first_offset(state(tmp_path), "earliest"), []
    for is_first in (True, *([False] * 9)):
        source = state(tmp_path)
        end = next_offset(source, CONFIG, offset, newest_position(source) or "", limits)
        if end != offset:
            batches = read_batches(source.storage, plan_batch(source, CONFIG, offset, end), ["id"], None)
            found += [row["id"] for batch in batches for row in batch.to_pylist()]
        offset = end
        if is_first:
            assert (len(found) == 9) is (version == 6)
            table.refresh().services.cluster()

    assert sorted(found) == list(range(9))


def test_split_range_whose_files_are_cleaned_is_an_error_and_never_a_part_of_the_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.insert(rows(0, range(9)))
    part = next_offset(state(tmp_path), CONFIG, StreamOffset(EARLIEST), first.completion_time, Limits(files=1))
    table.upsert(rows(1, range(9)))
    table.services.clean(hudi_options=KEEP_ONE)
    falling_back = ReadConfig(fall_back_to_full_scan=True)
    for config in (CONFIG, falling_back):
        with pytest.raises(HistoryNotRetainedError):
            next_offset(state(tmp_path), config, part, first.completion_time, Limits(files=1))
        with pytest.raises(HistoryNotRetainedError):
            plan_batch(state(tmp_path), config, part, StreamOffset(first.completion_time))


def test_micro_batch_is_longer_where_cleaners_have_left_no_state_between(tmp_path: Path) -> None:
    table = made(tmp_path)
    for turn in range(3):
        table.upsert(rows(turn, range(3)))
    table.services.clean(hudi_options=KEEP_ONE)
    table.upsert(rows(3, range(3, 6)))
    assert followed(tmp_path, Limits(commits=1)) == [[(i, 2) for i in range(3)], [(i, 3) for i in range(3, 6)]]


@pytest.mark.parametrize("version", [9, 6])
def test_stream_starts_after_an_instant_a_time_or_at_an_end(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    first = table.insert(rows(0, range(3)))
    second = table.insert(rows(1, range(3, 6)))
    later = [[(i, 1) for i in range(3, 6)]]
    assert followed(tmp_path, Limits(), start=first.instant) == later
    assert followed(tmp_path, Limits(), start=first.completion_time) == later
    assert followed(tmp_path, Limits(), start="2020-01-01") == [[(i, i // 3) for i in range(6)]]
    assert followed(tmp_path, Limits(), start="Latest") == []
    assert first_offset(state(tmp_path), "latest").position == second.completion_time
    with pytest.raises(ConfigError, match="no instant time"):
        first_offset(state(tmp_path), "yesterday")


def test_archived_instant_stands_for_its_completion_too(tmp_path: Path) -> None:
    archiving = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table = made(tmp_path, **archiving)
    writes = [table.upsert(rows(turn, range(3 * turn, 3 * turn + 3))) for turn in range(6)]
    table.services.clean(hudi_options=archiving)
    table.services.archive(hudi_options=archiving)
    assert state(tmp_path).timeline.first_time > writes[0].instant
    assert first_offset(state(tmp_path), writes[0].instant).position == writes[0].completion_time


def test_restore_that_removes_the_newest_commits_stops_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.insert(rows(0, range(3)))
    last = table.insert(rows(1, range(3, 6)))
    seen = StreamOffset(last.completion_time)
    table.recovery.rollback(last.instant)
    now = state(tmp_path)
    target = newest_position(now)
    assert target is not None
    assert target < seen.position
    assert next_offset(now, CONFIG, seen, target, Limits(commits=1)) == seen


def test_offset_of_another_kind_of_source_is_refused() -> None:
    for name in ("position", "commitTime"):
        assert StreamOffset.from_json({name: "000"}).position == "000"
    for foreign in ({"logOffset": 4}, {"offsetCommitTime": 5}, {"offsetCommitTime": "x"}):
        with pytest.raises(ConfigError, match="another kind"):
            StreamOffset.from_json(foreign)


@pytest.mark.parametrize("version", [9, 6])
def test_table_that_was_made_anew_at_its_path_is_not_taken_for_the_old_one(tmp_path: Path, version: int) -> None:
    made(tmp_path, version).insert(rows(0, range(3)))
    before = state(tmp_path)
    starts = [first_offset(before, start) for start in ("earliest", "latest", "2026-01-01")]
    shutil.rmtree(tmp_path)
    made(tmp_path, version).insert(rows(0, range(3)))
    for offset in starts:
        again = StreamOffset.from_json(offset.to_json(before.version))
        again.check(before)
        with pytest.raises(ConfigError, match="one that stood here before"):
            again.check(state(tmp_path))


@pytest.mark.parametrize("version", [9, 6])
def test_table_under_another_name_keeps_its_streams_also_those_of_earlier_releases(
    tmp_path: Path, version: int
) -> None:
    made(tmp_path, version).insert(rows(0, range(3)))
    newest = newest_position(state(tmp_path))
    assert newest is not None
    before = state(tmp_path)
    named = {"offsetCommitTime": newest, "table": before.config.name}
    for offset in (first_offset(before, "latest"), StreamOffset.from_json(named), StreamOffset(newest)):
        offset.check(renamed_to("after", tmp_path))
    with pytest.raises(ConfigError, match="another table"):
        StreamOffset.from_json({**named, "offsetCommitTime": "20200101000000000"}).check(state(tmp_path))


def test_write_that_a_stream_has_seen_may_be_archived_rolled_back_or_restored_away(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.insert(rows(0, range(3)))
    offsets = [first_offset(state(tmp_path), "latest")]
    table.recovery.rollback(first.instant)
    kept = table.refresh().insert(rows(1, range(3)))
    table.refresh().savepoints.create(kept.instant)
    table.refresh().insert(rows(2, range(3)))
    offsets.append(first_offset(state(tmp_path), "latest"))
    table.refresh().recovery.restore(kept.instant)
    archiving = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table.refresh().savepoints.delete(kept.instant)
    offsets.append(first_offset(state(tmp_path), "latest"))
    for turn in range(3, 9):
        table.refresh().upsert(rows(turn, range(3)))
    for offset in offsets:
        offset.check(state(tmp_path))
    table.refresh().services.clean(hudi_options=archiving)
    table.refresh().services.archive(hudi_options=archiving)
    assert state(tmp_path).timeline.first_time > kept.instant
    for offset in offsets:
        offset.check(state(tmp_path))


@pytest.mark.parametrize("version", [9, 6])
def test_offset_is_known_by_its_position_where_nothing_is_left_of_its_newest_write(
    tmp_path: Path, version: int
) -> None:
    table = made(tmp_path, version)
    table.insert(rows(0, range(3)))
    earlier = first_offset(state(tmp_path), "latest")
    newest = table.refresh().insert(rows(1, range(3, 6)))
    caught_up = first_offset(state(tmp_path), "latest")
    behind = replace(caught_up, position=earlier.position)
    table.refresh().recovery.rollback(newest.instant)
    for rollback in tmp_path.rglob(".hoodie/**/*.rollback*"):  # as where the archive with it was deleted
        rollback.unlink()

    behind.check(state(tmp_path))
    with pytest.raises(ConfigError, match=r"that one's rollback, was removed .*startOffset"):
        caught_up.check(state(tmp_path))


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", [9, 6])
def test_writes_that_change_no_row_are_no_micro_batch(tmp_path: Path, version: int, table_type: str) -> None:
    table = made(tmp_path, version, table_type)
    last = table.insert(rows(0, range(6)))
    seen = StreamOffset(last.completion_time)
    elsewhere = pa.table({"id": [77], "city": ["oslo"], "n": [1]}, SCHEMA)
    empty = {"hoodie.allow.empty.commit": "true"}
    table.merge(elsewhere, on=["id", "city"]).when_matched_update_all().execute(hudi_options=empty)
    table.merge(elsewhere, on="n").when_matched_delete().execute(hudi_options=empty)
    table.update({"n": 5}, [("id", "==", 77)], hudi_options=empty)
    table.delete_where([("id", "==", 77)], hudi_options=empty)
    table.refresh().upsert(elsewhere.slice(0, 0))
    now = state(tmp_path)
    target = newest_position(now)
    assert target is not None
    assert target > seen.position
    for limits in (Limits(), Limits(commits=1), Limits(files=1)):
        assert next_offset(now, CONFIG, seen, target, limits) == seen
    written = table.refresh().upsert(elsewhere)
    assert next_offset(state(tmp_path), CONFIG, seen, written.completion_time, Limits()).position != seen.position


@pytest.mark.parametrize("version", [9, 6])
def test_services_of_the_source_bring_no_row_again(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, "mor")
    table.insert(rows(0, range(6)))
    seen = StreamOffset(table.upsert(rows(1, range(3))).completion_time)
    table.services.compact()
    table.refresh().services.cluster()
    now = state(tmp_path)
    target = newest_position(now)
    assert target is not None
    assert target > seen.position
    assert next_offset(now, CONFIG, seen, target, Limits()) == seen
    table.refresh().upsert(rows(2, range(2, 4)))
    found = [row for batch in followed(tmp_path, Limits(commits=1)) for row in batch]
    changed = [(i, turn) for turn, ids in enumerate((range(6), range(3), range(2, 4))) for i in ids]
    assert sorted(found) == sorted(changed)


@pytest.mark.parametrize("is_split", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize(("version", "table_type"), [(9, "mor"), (8, "cow"), (6, "cow")])
def test_stream_gets_all_rows_of_a_table_that_was_made_anew_under_its_name(
    tmp_path: Path, version: int, table_type: str, is_split: bool
) -> None:
    made(tmp_path / "t", version, table_type).insert(rows(0, range(10)))
    previous = state(tmp_path / "t")
    target = newest_position(previous)
    assert target is not None
    limits = Limits(files=1) if is_split else Limits()
    offset = next_offset(previous, CONFIG, first_offset(previous, "earliest"), target, limits)
    assert (offset.until is not None) is is_split
    shutil.rmtree(tmp_path / "t")
    anew = made(tmp_path / "t", version, table_type)
    anew.insert(rows(1, range(5)))
    anew.insert(rows(2, range(5, 10)))

    batches = followed(tmp_path / "t", limits, offset)

    assert sorted(row for batch in batches for row in batch) == [(i, 1 + i // 5) for i in range(10)]
