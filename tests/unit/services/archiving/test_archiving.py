"""Archiving of whole tables: what leaves the active timeline, what stays, and that every answer stays the same."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any, cast

import fastavro
import pytest
from tests.support.archiving import AUTOMATIC, KEEP, answers, archived, commits, updated
from tests.support.cleaning import completed_at, save
from tests.support.crashes import crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import aged, contents

import pyhudi
from pyhudi.errors import ConfigError, CorruptDataError, LockLostError, UnsupportedFeatureError
from pyhudi.format.log.blocks import parse_block
from pyhudi.format.markers import MARKERS_ROOT, marker_folder
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.lsm_history import HistoryRow, encode_history_file
from pyhudi.format.timeline.table_version import V9
from pyhudi.services.archiving import into_history
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import history_files
from pyhudi.table.lister import list_data_files
from pyhudi.table.outcome import Outcome
from pyhudi.table.state import load_table, update_properties
from pyhudi.table.timeline import instant_path

KINDS = [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)


@EVERY_KIND
def test_archiving_changes_no_answer_about_history(kind: TableBuilder) -> None:
    storage = prepared(kind)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    updated(storage, 15, **KEEP, **compacts)
    before = answers(storage)
    held = len(commits(storage))

    done = opened(storage).services.archive(hudi_options=KEEP)

    assert done is not None
    assert done.instants > 0
    assert 4 <= len(commits(storage)) < held
    assert answers(storage) == before
    assert all(before[one["instant"]] is Outcome.COMMITTED for one in before["history"])


@EVERY_KIND
def test_table_that_archives_after_writes_keeps_a_short_timeline_and_its_whole_history(kind: TableBuilder) -> None:
    storage = prepared(kind)
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    results = updated(storage, 40, **AUTOMATIC, **compacts, **{"hoodie.timeline.compaction.batch.size": "3"})

    table = load_table(storage)
    assert len(table.timeline.completed_writes) <= 7
    assert len(table.timeline.instants) <= 16
    known = set(opened(storage).inspect.history()["instant"].to_pylist())
    assert {one.instant for one in results} <= known
    # Of no action is an older instant left, so that the timeline has no holes.
    newest_archived = max(known - {one.requested_time for one in table.timeline.instants})
    assert all(one.requested_time > newest_archived for one in table.timeline.instants)
    if table.version.has_completion_times:
        files = history_files(storage, table.version)
        assert max(file.level for file in files) >= 2
        assert len(files) <= 8
    assert contents(storage) == {(1, "oslo", 49, "u39"), (2, "oslo", 1, "a"), (3, "rome", 1, "a")}


@EVERY_KIND
def test_archiving_that_dies_anywhere_changes_no_answer_and_is_finished_by_the_next(kind: TableBuilder) -> None:
    storage = prepared(kind)
    updated(storage, 9, **KEEP)
    all_answers, few_answers = answers(storage), answers(storage, states=False)

    def act(table: pyhudi.HudiTable) -> object:
        return table.services.archive(hudi_options={**KEEP, "hoodie.timeline.manifest.retained.versions": "2"})

    for number, (name, image) in enumerate(crash_images(storage, act)):
        # The rows of all states at every fourth death, each table type and version at others.
        asks_all = (
            number % 7 == 2 if kind.version == 6 else number % 4 == kind.version % 8 + (2 if kind.kind == "mor" else 0)
        )
        before = all_answers if asks_all else few_answers
        assert answers(image, states=asks_all) == before, name
        opened(image).services.archive(hudi_options=KEEP)
        assert answers(image, states=asks_all) == before, name
        assert 4 <= len(commits(image)) <= 6, name
        entries = archived(image)
        assert len(entries) == len(set(entries)), name


def put_instant(storage: Storage, time: str, action: Action, state: InstantState) -> None:
    table = load_table(storage)
    ended = InstantTime(str(int(table.timeline.latest_time) + 1)) if state is InstantState.COMPLETED else None
    storage.put(instant_path(Instant(InstantTime(time), action, state, ended), table.version), b"")


@pytest.mark.parametrize(
    ("action", "state"), [(Action.COMMIT, InstantState.REQUESTED), (Action.SAVEPOINT, InstantState.INFLIGHT)]
)
def test_what_is_pending_holds_the_rest_of_the_timeline(action: Action, state: InstantState) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    time = commits(storage)[-1] if action is Action.SAVEPOINT else str(int(commits(storage)[-1]) + 5)
    updated(storage, 1, **KEEP)
    put_instant(storage, time, action, state)
    updated(storage, 9, **KEEP, **{"hoodie.clean.failed.writes.policy": "NEVER"})

    opened(storage).services.archive(hudi_options=KEEP)

    assert min(commits(storage)) <= time
    assert len(commits(storage)) > 9


@EVERY_KIND
def test_plan_names_what_is_archived_and_writes_nothing(kind: TableBuilder) -> None:
    storage = prepared(kind)
    updated(storage, 12, **KEEP)
    files = {info.path for info in storage.list_recursive("")}
    planned = opened(storage).services.plan_archive(hudi_options=KEEP).to_pylist()
    assert {info.path for info in storage.list_recursive("")} == files
    active = {(one.requested_time, one.action.value) for one in load_table(storage).timeline.instants}
    assert {(row["instant"], row["action"]) for row in planned} == active

    opened(storage).services.archive(hudi_options=KEEP)

    left = {(one.requested_time, one.action.value) for one in load_table(storage).timeline.instants}
    assert {(row["instant"], row["action"]) for row in planned if row["archives"]} == active - left
    assert {row["reason"] for row in planned if row["archives"]} == {
        "the options keep fewer commits, and nothing needs it"
    }
    again = opened(storage).services.plan_archive(hudi_options=KEEP)
    assert set(again["reason"].to_pylist()) == {"there are 4 completed commits, and 6 may be there"}


@pytest.mark.parametrize("held_by", ["savepoint", "pending", "replacement", "metadata table"])
def test_plan_says_what_holds_the_timeline(held_by: str) -> None:
    listed = {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "100"}
    options = {**KEEP, **(listed if held_by == "metadata table" else {})}
    storage = TableBuilder(9, "cow", options=options).insert((1, "oslo", 1, "a")).build()
    time = updated(storage, 1, **options)[0].instant
    if held_by == "savepoint":
        save(storage, time)
    elif held_by == "pending":
        put_instant(storage, str(int(time) + 1), Action.COMMIT, InstantState.REQUESTED)
    elif held_by == "replacement":
        opened(storage).insert_overwrite_table(rows((1, "oslo", 3, "new")))
        options["hoodie.clean.automatic"] = "false"
    updated(storage, 9, **options, **{"hoodie.clean.failed.writes.policy": "NEVER"})
    before = commits(storage)
    planned = opened(storage).services.plan_archive(hudi_options=options).to_pylist()
    reasons = {
        "savepoint": f"the write {time} has a savepoint",
        "pending": f"; an action is pending since {int(time) + 1}",
        "replacement": "replaced are not cleaned",
        "metadata table": "the metadata table has not merged what",
    }
    told = [row["reason"] for row in planned if row["instant"] in before and not row["archives"]]
    assert any(reasons[held_by] in reason for reason in told), told
    opened(storage).services.archive(hudi_options=options)
    gone = {row["instant"] for row in planned if row["archives"] and row["action"] != "clean"}
    assert set(before) - set(commits(storage)) == gone


@pytest.mark.parametrize("beyond", [False, True])
def test_write_that_completed_after_a_savepoint_is_not_archived_though_it_began_before(beyond: bool) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    late, time = (one.instant for one in updated(storage, 2, **KEEP))
    save(storage, time)
    after = updated(storage, 9, **KEEP)[0]
    completed_at(storage, late, str(int(after.completion_time) + 1))
    options = {**KEEP, "hoodie.archive.beyond.savepoint": str(beyond).lower()}
    planned = opened(storage).services.plan_archive(hudi_options=options).to_pylist()

    opened(storage).services.archive(hudi_options=options)

    assert (late in commits(storage)) is not beyond
    (why,) = (row["reason"] for row in planned if row["instant"] == late)
    assert beyond or why == f"the write {late} completed after one that has a savepoint"


def test_write_that_began_long_ago_and_completed_last_is_not_archived_before_the_next_one() -> None:
    """Whoever pulls changes goes on from the newest completion that it sees, and would be given that write again."""
    storage = prepared(TableBuilder(9, "cow"))
    late = updated(storage, 1, **KEEP)[0].instant
    seen = updated(storage, 9, **KEEP)[-1].completion_time
    completed_at(storage, late, str(int(seen) + 1))

    opened(storage).services.archive(hudi_options=KEEP)

    table = opened(storage)
    assert late in commits(storage)
    assert table.changes(table.inspect.position()).count() == 0
    updated(storage, 1, **KEEP)
    opened(storage).services.archive(hudi_options=KEEP)
    assert late not in commits(storage)


@EVERY_KIND
def test_table_that_retains_more_commits_than_archiving_keeps_is_cleaned_and_archived(kind: TableBuilder) -> None:
    """If archiving took the commits that a clean has to count, none would ever come, and the table would only grow."""
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    options = {**AUTOMATIC, **compacts, "hoodie.clean.commits.retained": "9"}
    storage = kind.insert((1, "oslo", 1, "a")).build()
    results = updated(storage, 40, **options)

    assert 9 <= len(commits(storage)) <= 11
    assert len(list_data_files(storage)) <= 14
    for number, result in enumerate(results[-5:], 35):
        rows_then = opened(storage).scan(["note"], as_of=result.instant).to_arrow()
        assert rows_then["note"].to_pylist() == [f"u{number}"]


def test_replacement_whose_groups_are_not_cleaned_stays_on_the_timeline() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    no_clean = {"hoodie.clean.automatic": "false"}
    replaced = opened(storage, **no_clean).insert_overwrite_table(rows((1, "oslo", 1, "new"))).instant
    updated(storage, 9, **no_clean)
    expected = contents(storage)

    opened(storage).services.archive(hudi_options={**KEEP, "hoodie.clean.commits.retained": "1"})

    assert replaced in commits(storage)
    assert contents(storage) == expected


@EVERY_KIND
def test_markers_that_tasks_left_after_their_writes_go_with_the_instants(kind: TableBuilder) -> None:
    storage = prepared(kind)
    updated(storage, 9)
    first, *_, newest = commits(storage)
    left = [f"{marker_folder(instant)}/oslo/late.parquet.marker.CREATE" for instant in (first, newest)]
    for path in left:
        storage.put(path, b"")

    opened(storage).services.archive(hudi_options=KEEP)

    assert first not in commits(storage)
    assert [info.path for info in storage.list_recursive(MARKERS_ROOT)] == left[1:]


def test_short_timeline_is_left_alone() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    assert opened(storage).services.archive(hudi_options=KEEP) is None


def test_archive_of_version_6_has_every_state_of_each_instant_in_numbered_files() -> None:
    storage = prepared(TableBuilder(6, "mor"))
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    updated(storage, 12, **AUTOMATIC, **compacts)
    updated(storage, 4, **AUTOMATIC)

    names = list(storage.list_names(".hoodie/archived"))
    assert names == [f".commits_.archive.{number}_1-0-1" for number in range(1, len(names) + 1)]
    assert len(names) >= 2
    states: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for entry in entries_of(storage.read(f".hoodie/archived/{name}")):
            states.setdefault((entry["commitTime"], entry["actionType"]), []).append(entry["actionState"])
    found = {(action, *reached) for (_, action), reached in states.items()}
    assert found == {
        ("deltacommit", "REQUESTED", "INFLIGHT", "COMPLETED"),
        ("clean", "REQUESTED", "INFLIGHT", "COMPLETED"),
        ("compaction", "REQUESTED", "INFLIGHT"),
        ("commit", "COMPLETED"),
    }


def entries_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The records of an archive file, by fastavro."""
    at = 0
    while at < len(data):
        block = parse_block(lambda start, size: data[start : start + size], at, len(data), path="", needs_headers=False)
        content = io.BytesIO(data[block.content_offset : block.content_offset + block.content_size])
        _, count = struct.unpack(">iI", content.read(8))
        schema = fastavro.parse_schema(json.loads(block.schema or ""))
        for _ in range(count):
            content.read(4)
            yield cast(dict[str, Any], fastavro.schemaless_reader(content, schema))
        at = block.end


def test_damaged_commit_of_version_6_is_named_and_nothing_is_archived() -> None:
    storage = prepared(TableBuilder(6, "cow"))
    updated(storage, 9, **KEEP)
    first, *_ = held = commits(storage)
    body = storage.read(f".hoodie/{first}.commit")
    storage.put(f".hoodie/{first}.inflight", body[:-9])

    with pytest.raises(CorruptDataError) as refused:
        opened(storage).services.archive(hudi_options=KEEP)
    assert refused.value.context["path"].endswith(f"{first}.inflight")
    assert commits(storage) == held
    assert archived(storage) == []


def test_write_of_version_6_that_may_have_completed_beside_a_pending_one_stays() -> None:
    """The pending write looks for conflicts among those that completed since it began."""
    storage = prepared(TableBuilder(6, "cow"))
    updated(storage, 9, **KEEP)
    early, *_ = held = commits(storage)
    hours = 3_600_000
    for name in storage.list_names(".hoodie"):
        if name[:14].isdigit() and not name.startswith(early):
            storage = aged(storage, name, by_ms=2 * hours)
    storage = aged(storage, f"{early}.commit", by_ms=1 * hours)  # the last to complete
    pending = str(int(held[-1]) + 1)
    storage.put(f".hoodie/{pending}.commit.requested", b"")
    beside = aged(storage, f"{pending}.commit.requested", by_ms=hours + hours // 2)  # begins before `early` completes

    options = {**KEEP, "hoodie.clean.failed.writes.policy": "NEVER"}
    assert opened(beside).services.archive(hudi_options=options) is None
    assert commits(beside) == held
    assert opened(storage).services.archive(hudi_options=options) is not None
    assert early not in commits(storage)


def test_more_to_keep_than_there_may_be_is_a_contradiction() -> None:
    options = {"hoodie.keep.min.commits": "6", "hoodie.keep.max.commits": "6"}
    with pytest.raises(ConfigError, match=r"hoodie\.keep\.min\.commits=6 must be below"):
        opened(prepared(TableBuilder(9, "cow"))).services.archive(hudi_options=options)


def test_replacement_stays_while_files_of_its_groups_do_whatever_cleans_have_passed() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    kept = commits(storage)[-1]
    save(storage, kept)
    replaced = opened(storage, **KEEP).insert_overwrite_table(rows((1, "oslo", 1, "new"))).instant
    updated(storage, 9, **KEEP)
    for info in storage.list_folder(".hoodie/timeline").files:
        if ".savepoint" in info.name:
            storage.delete(info.path)
    expected = contents(storage)

    opened(storage).services.archive(hudi_options=KEEP)

    assert replaced in commits(storage)
    assert contents(storage) == expected


def test_write_that_completed_beside_a_pending_one_stays_for_its_look_at_conflicts() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    table = load_table(storage)
    # The pending write began after `early` and `other` had begun, and before `early` completed.
    early, other, other_ended, pending, early_ended = (str(int(table.timeline.latest_time) + n) for n in range(1, 6))
    body = storage.read(instant_path(table.timeline.completed_writes[-1], table.version))
    for time, ended in ((early, early_ended), (other, other_ended)):
        done = Instant(InstantTime(time), Action.COMMIT, InstantState.COMPLETED, InstantTime(ended))
        storage.put(instant_path(done, table.version), body)
    put_instant(storage, pending, Action.COMMIT, InstantState.REQUESTED)
    updated(storage, 9, **KEEP, **{"hoodie.clean.failed.writes.policy": "NEVER"})

    opened(storage).services.archive(hudi_options={**KEEP, "hoodie.keep.max.commits": "5"})

    assert early in commits(storage)


def test_table_that_pyhudi_must_not_write_is_not_archived() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    updated(storage, 9, **KEEP)
    update_properties(storage, {"hoodie.no.such.property": "x"})
    held = commits(storage)

    with pytest.raises(UnsupportedFeatureError, match=r"hoodie\.no\.such\.property"):
        opened(storage).services.archive(hudi_options=KEEP)
    assert commits(storage) == held


def history_row(time: str, content: bytes = b"x") -> HistoryRow:
    return HistoryRow(time, time, "commit", content, None)


def test_archiver_that_was_paused_never_writes_over_the_file_of_the_next_one() -> None:
    """Both archive from the first to the last of the same instants, and the other one found more between them."""
    storage, version = prepared(TableBuilder(9, "cow")), V9.in_folders("timeline", "history")
    first, between, last = "20260101000000001", "20260101000000002", "20260101000000003"
    number = into_history._next_manifest(storage, version)
    into_history._publish(storage, version, [history_row(one) for one in (first, between, last)], number)

    with pytest.raises(LockLostError):
        into_history._publish(storage, version, [history_row(one) for one in (first, last)], number)

    assert [time for time, _ in archived(storage)] == [first, between, last]


def test_file_that_a_dead_archiver_left_without_a_manifest_stops_no_archiving() -> None:
    storage, version = prepared(TableBuilder(9, "cow")), V9.in_folders("timeline", "history")
    first, last = "20260101000000001", "20260101000000003"
    left = f"{version.history_folder}/{first}_{last}_0.parquet"
    for data in (encode_history_file([history_row(first), history_row(last)]), b"half a file"):
        storage.put(left, data)
        rows_now = [history_row(first), history_row(last)]
        into_history._publish(storage, version, rows_now, into_history._next_manifest(storage, version))
        (file, *_) = history_files(storage, version)[-1:]
        assert storage.read(f"{version.history_folder}/{file.name}") == encode_history_file(rows_now)
        assert storage.read(left) == data
        storage.delete_folder(version.history_folder)
