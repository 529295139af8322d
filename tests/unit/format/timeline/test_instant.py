"""Instants: file names of all table versions, collapsing of states, and the arithmetic of times."""

from __future__ import annotations

import contextlib
import tracemalloc
from datetime import UTC, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError, CorruptDataError, InternalError, UnsupportedFeatureError
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    InstantTime,
    advanced,
    collapse,
    completed_action,
    format_instant_time,
    instant_file_name,
    instant_time_from_user,
    instants_of,
    next_instant_time,
    parse_instant_file_name,
    parse_instant_time,
)
from pyhudi.format.timeline.table_version import V6, V8, V9, TableVersion, table_version

T1 = InstantTime("20240102030405678")
T2 = InstantTime("20240102030406000")

every_version = pytest.mark.parametrize("version", [V6, V8, V9], ids=lambda version: f"v{version.number}")


def instant(action: Action, state: InstantState, version: TableVersion = V9, completed: str = T2) -> Instant:
    has_completion_time = state is InstantState.COMPLETED and version.has_completion_times
    return Instant(T1, action, state, InstantTime(completed) if has_completion_time else None)


@pytest.mark.parametrize(
    ("version", "action", "state", "name"),
    [
        (V6, Action.COMMIT, InstantState.REQUESTED, f"{T1}.commit.requested"),
        (V6, Action.COMMIT, InstantState.INFLIGHT, f"{T1}.inflight"),
        (V6, Action.COMMIT, InstantState.COMPLETED, f"{T1}.commit"),
        (V9, Action.COMMIT, InstantState.REQUESTED, f"{T1}.commit.requested"),
        (V9, Action.COMMIT, InstantState.INFLIGHT, f"{T1}.inflight"),
        (V9, Action.COMMIT, InstantState.COMPLETED, f"{T1}_{T2}.commit"),
        (V8, Action.DELTA_COMMIT, InstantState.INFLIGHT, f"{T1}.deltacommit.inflight"),
        (V8, Action.DELTA_COMMIT, InstantState.COMPLETED, f"{T1}_{T2}.deltacommit"),
        (V6, Action.REPLACE_COMMIT, InstantState.INFLIGHT, f"{T1}.replacecommit.inflight"),
        (V9, Action.CLUSTERING, InstantState.REQUESTED, f"{T1}.clustering.requested"),
        (V9, Action.COMPACTION, InstantState.INFLIGHT, f"{T1}.compaction.inflight"),
        (V9, Action.LOG_COMPACTION, InstantState.REQUESTED, f"{T1}.logcompaction.requested"),
        (V6, Action.CLEAN, InstantState.COMPLETED, f"{T1}.clean"),
        (V9, Action.ROLLBACK, InstantState.COMPLETED, f"{T1}_{T2}.rollback"),
        (V9, Action.RESTORE, InstantState.INFLIGHT, f"{T1}.restore.inflight"),
        (V9, Action.SAVEPOINT, InstantState.INFLIGHT, f"{T1}.savepoint.inflight"),
        (V9, Action.INDEXING, InstantState.COMPLETED, f"{T1}_{T2}.indexing"),
    ],
)
def test_file_name_of_real_writers_parses_and_formats(
    version: TableVersion, action: Action, state: InstantState, name: str
) -> None:
    expected = instant(action, state, version)
    assert parse_instant_file_name(name, version) == expected
    assert instant_file_name(expected, version) == name


@every_version
@pytest.mark.parametrize("state", InstantState)
@pytest.mark.parametrize("action", Action)
def test_any_instant_formatted_then_parsed_keeps_time_and_state(
    action: Action, state: InstantState, version: TableVersion
) -> None:
    original = instant(action, state, version)
    parsed = parse_instant_file_name(instant_file_name(original, version), version)
    assert parsed is not None
    assert (parsed.requested_time, parsed.state) == (T1, state)
    assert completed_action(parsed.action) == completed_action(action)


@pytest.mark.parametrize(
    ("action", "word"),
    [(Action.COMPACTION, "commit"), (Action.LOG_COMPACTION, "deltacommit"), (Action.CLUSTERING, "replacecommit")],
)
def test_action_that_changes_its_word_completes_under_the_new_one(action: Action, word: str) -> None:
    assert instant_file_name(instant(action, InstantState.COMPLETED), V9) == f"{T1}_{T2}.{word}"


def test_pending_clustering_in_version_6_is_called_replacecommit() -> None:
    name = instant_file_name(instant(Action.CLUSTERING, InstantState.REQUESTED, V6), V6)
    assert name == f"{T1}.replacecommit.requested"
    assert parse_instant_file_name(f"{T1}.clustering.requested", V6) is None


@every_version
@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        "history",
        "archived",
        ".aux",
        f".{T1}.commit.crc",
        f"{T1}.commit.requested.crc",
        f"{T1}.commit.inflight",
        f"{T1}.requested",
        f"{T1}.schemacommit",
        f"{T1}_{T2}.commit.requested",
        f"{T1}_{T2}.inflight",
        f"{T1}.compaction",
        f"{T1}.",
        f"{T1}",
        f"{T1}.commit\n",
        f"{T1}.COMMIT",
        "a.commit",
        "١٢٣.commit",
        "",
        ".",
    ],
)
def test_foreign_name_is_no_instant(name: str, version: TableVersion) -> None:
    assert parse_instant_file_name(name, version) is None


@pytest.mark.parametrize(("name", "version"), [(f"{T1}.commit", V9), (f"{T1}.clean", V8), (f"{T1}_{T2}.commit", V6)])
def test_completed_name_of_another_version_is_refused(name: str, version: TableVersion) -> None:
    with pytest.raises(CorruptDataError) as caught:
        parse_instant_file_name(name, version)
    assert caught.value.context["path"].endswith(name)


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        (V9, Instant(T1, Action.COMMIT, InstantState.COMPLETED)),
        (V6, Instant(T1, Action.COMMIT, InstantState.COMPLETED, T2)),
        (V9, Instant(T1, Action.COMMIT, InstantState.INFLIGHT, T2)),
    ],
)
def test_completion_time_that_does_not_belong_is_refused(version: TableVersion, wrong: Instant) -> None:
    with pytest.raises(InternalError):
        instant_file_name(wrong, version)


def test_states_of_one_action_collapse_to_the_completed_one() -> None:
    states = [instant(Action.COMMIT, state) for state in InstantState]
    for order in (states, states[::-1]):
        assert collapse(order) == (states[-1],)


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING])
def test_completed_instant_stands_for_the_action_that_changed_its_word(action: Action) -> None:
    completed = instant(completed_action(action), InstantState.COMPLETED)
    pending = [instant(action, InstantState.REQUESTED), instant(action, InstantState.INFLIGHT)]
    assert collapse([*pending, completed]) == (completed,)
    assert collapse(pending) == (pending[1],)


def test_savepoint_at_the_time_of_its_commit_stays_beside_it() -> None:
    commit, savepoint = (instant(action, InstantState.COMPLETED) for action in (Action.COMMIT, Action.SAVEPOINT))
    assert set(collapse([savepoint, commit])) == {commit, savepoint}


def test_collapsed_instants_are_in_the_order_of_requested_times() -> None:
    times = ["20240102030405678", "00000000000000000", "20240102030405", "20231231235959999"]
    instants = [Instant(InstantTime(time), Action.CLEAN, InstantState.REQUESTED) for time in times]
    assert [found.requested_time for found in collapse(instants)] == sorted(times)


def test_action_that_completed_twice_counts_as_completed_the_first_time() -> None:
    twice = [instant(Action.COMMIT, InstantState.COMPLETED, completed=time) for time in (f"{T2[:-1]}9", T2)]
    assert collapse(twice) == collapse(twice[::-1]) == (twice[1],)


@pytest.mark.parametrize("number", [0, 5, 7, 10])
def test_table_version_of_others_is_refused_by_number(number: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=str(number)):
        table_version(number)


def test_table_version_of_ours_is_found() -> None:
    assert [table_version(number) for number in (6, 8, 9)] == [V6, V8, V9]
    assert [version.timeline_folder for version in (V6, V8, V9)] == [".hoodie", ".hoodie/timeline", ".hoodie/timeline"]


def test_moment_in_a_zone_is_written_in_the_local_time_of_it() -> None:
    assert format_instant_time(1704164645678, UTC) == T1
    assert format_instant_time(1704164645678, timezone(timedelta(hours=-5))) == "20240101220405678"
    assert format_instant_time(1719792000000, ZoneInfo("Europe/Berlin")) == "20240701020000000"


def test_moment_without_a_zone_is_written_in_that_of_the_machine() -> None:
    text = format_instant_time(1704164645678, None)
    assert parse_instant_time(text, None) == 1704164645678


@given(st.integers(min_value=0, max_value=253402214400000))
@settings(max_examples=60, deadline=None)
def test_any_moment_formatted_then_parsed_is_the_same(epoch_ms: int) -> None:
    assert parse_instant_time(format_instant_time(epoch_ms, UTC), UTC) == epoch_ms


def test_time_to_the_second_stands_for_its_last_millisecond() -> None:
    assert parse_instant_time("20240102030405", UTC) == 1704164645999


@pytest.mark.parametrize(
    "text",
    ["00000000000000000", "00000000000000010", "20241302030405006", "2024", "", "2024010203040567x", "\uff11" * 17],
)
def test_made_up_time_has_no_moment(text: str) -> None:
    assert parse_instant_time(text, UTC) is None


@pytest.mark.parametrize("text", ["00010101000000000", "99991231235959999"])
def test_time_at_the_edge_of_the_calendar_has_no_moment_outside_it(text: str) -> None:
    assert parse_instant_time(text, timezone(timedelta(hours=14 if text[0] == "0" else -12))) is None


@pytest.mark.parametrize(
    ("after", "following"),
    [
        ("20240102030405678", "20240102030405679"),
        ("20231231235959999", "20240101000000000"),
        ("20240228235959999", "20240229000000000"),
        ("20230228235959999", "20230301000000000"),
        ("20240102030405", "20240102030406000"),
        ("00000000000000000", "00000000000000001"),
        ("00000000000000009", "00000000000000010"),
        ("20240102030405678001", "20240102030405679"),
        ("20240230000000000", "20240230000000001"),
    ],
)
def test_next_time_is_the_smallest_above(after: str, following: str) -> None:
    assert next_instant_time(InstantTime(after)) == following
    assert following > after


@pytest.mark.parametrize("after", ["99999999999999999", "99991231235959999", "", "abc", "9" * 5000])
def test_time_that_nothing_can_follow_is_refused(after: str) -> None:
    with pytest.raises(CorruptDataError):
        next_instant_time(InstantTime(after))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20240102030405678", "20240102030405678"),
        ("20240102030405", "20240102030405"),
        ("2024-01-02 03:04:05.678", "20240102030405678"),
        ("2024-01-02T03:04:05.678", "20240102030405678"),
        ("2024-01-02 03:04:05", "20240102030405999"),
        ("2024-01-02", "20240102000000000"),
        (" 2024-01-02 ", "20240102000000000"),
        ("00000000000000000", "00000000000000000"),
    ],
)
def test_time_that_a_user_wrote_is_understood_as_in_hudi(text: str, expected: str) -> None:
    assert instant_time_from_user(text, UTC) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02T03:04:05Z", "20240102050405999"),
        ("2024-01-02 03:04:05.678+05:30", "20240101233405678"),
        ("2024-01-02 03:04:05 -0130", "20240102063405999"),
        ("2024-01-02T03:04:05.678901+00:00", "20240102050405678"),
    ],
)
def test_time_with_an_offset_becomes_the_instant_of_the_zone(text: str, expected: str) -> None:
    assert instant_time_from_user(text, timezone(timedelta(hours=2))) == expected


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2024-13-01", "2024-02-30 00:00:00", "20241302030405006", "2024-01-02 25:00:00", "2024-1-2",
     "2024-01-02 03:04", "2024-01-02 03:04:05.678901", "2024-01-02+01:00", "20240102030405Z",
     "0001-01-01 00:00:00+14:00", "2024-13-02T03:04:05Z", "1704164645678", "2024010203040567",
     "2024-01-02 03:04:05.67"],
)  # fmt: skip
def test_time_that_a_user_wrote_wrong_is_refused_with_the_formats(text: str) -> None:
    with pytest.raises(ConfigError, match=r"yyyyMMddHHmmss.*yyyy-MM-dd HH:mm:ss.*yyyy-MM-dd"):
        instant_time_from_user(text, UTC)


@given(st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_gives_an_instant_or_a_typed_error(text: str) -> None:
    for name in (text, f"{T1}.{text}"):
        for version in (V6, V9):
            try:
                parse_instant_file_name(name, version)
            except CorruptDataError:
                assert name.startswith(T1)
    parse_instant_time(text, UTC)
    with contextlib.suppress(ConfigError):
        instant_time_from_user(text, UTC)


TIME_TEXTS = st.sampled_from(["1", "15", "20260101000000", T1[:14], T1, T2, T1[:16] + "9", "99999999999999999"])
NAMES = st.one_of(
    st.builds(
        lambda time, suffix: f"{time}.{suffix}",
        TIME_TEXTS,
        st.sampled_from(
            ["commit.requested", "inflight", "deltacommit.inflight", "compaction.requested", "clean.inflight"]
        ),
    ),
    st.builds(
        lambda time, completed, action: f"{time}_{completed}.{action}",
        TIME_TEXTS,
        TIME_TEXTS,
        st.sampled_from(["commit", "deltacommit", "clean"]),
    ),
    st.sampled_from(["hoodie.properties", "archived", "2026.txt", ".hidden", "20260101000000x.commit"]),
)


@given(st.lists(NAMES, unique=True, max_size=25), st.randoms())
def test_names_taken_second_by_second_spell_what_all_of_them_spell_together(names: list[str], order: Any) -> None:
    parsed = [parse_instant_file_name(name, V9) for name in sorted(names)]
    together = collapse(instant for instant in parsed if instant is not None)
    order.shuffle(names)

    assert instants_of(names, V9) == together


# -- transitions ------------------------------------------------------------------------------------------------------

REQUESTED, INFLIGHT, COMPLETED = InstantState


@pytest.mark.parametrize("state", InstantState, ids=lambda state: state.name.lower())
@pytest.mark.parametrize("to", InstantState, ids=lambda state: state.name.lower())
def test_instant_goes_from_requested_over_inflight_to_completed_and_no_other_way(
    state: InstantState, to: InstantState
) -> None:
    before = instant(Action.COMMIT, state)
    if (state, to) in {(REQUESTED, INFLIGHT), (INFLIGHT, COMPLETED)}:
        assert advanced(before, to).state is to
        return
    with pytest.raises(InternalError, match=f"an instant that is {state.name} cannot become {to.name}"):
        advanced(before, to)


def test_compaction_that_is_completed_is_a_commit() -> None:
    inflight = instant(Action.COMPACTION, INFLIGHT)
    assert advanced(inflight, COMPLETED, T2) == Instant(T1, Action.COMMIT, COMPLETED, T2)


def test_many_listings_of_a_growing_timeline_are_not_all_remembered() -> None:
    """A write lists the timeline several times, and a second may have hundreds of files."""
    names: list[str] = []
    tracemalloc.start()
    try:
        for number in range(600):
            names.append(f"20310102030405{number:03d}.commit.requested")
            instants_of([name[:1] + name[1:] for name in names], V9)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


@pytest.mark.parametrize("version", [V6, V8, V9], ids=str)
@pytest.mark.parametrize("action", Action)
def test_whole_instant_that_is_alone_in_its_second_is_parsed_as_any_other(
    action: Action, version: TableVersion
) -> None:
    completion = InstantTime("20240102030405999") if version.has_completion_times else None
    requested = Instant(InstantTime("20240102030405001"), action, InstantState.REQUESTED)
    inflight = advanced(requested, InstantState.INFLIGHT)
    instants = (requested, inflight, advanced(inflight, InstantState.COMPLETED, completion))
    names = [instant_file_name(instant, version) for instant in instants]
    assert instants_of(names, version) == collapse(
        found for name in names if (found := parse_instant_file_name(name, version)) is not None
    )
    for odd in ("20240102030405002.commit.requested", "2024010203040500x.inflight"):
        assert {one.requested_time for one in instants_of([*names, odd], version)} >= {requested.requested_time}
