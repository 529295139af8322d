"""When a compaction is due: commits and seconds at their limits, pending work, and both table layouts."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.enums import CompactionTrigger
from pyhudi.format.timeline.instant import parse_instant_time
from pyhudi.format.timeline.table_version import V6, V9, TableVersion
from pyhudi.services.compaction.schedule import (
    TriggerFacts,
    TriggerSettings,
    is_due,
    trigger_facts,
)
from pyhudi.table.timeline import Timeline, timeline_of

DAY = "20240102"


def at(clock: str) -> str:
    """The instant time at `hhmmss` of one day."""
    return f"{DAY}{clock}000"


def facts_at(
    names: list[str], now: str, *, compactions: tuple[str, ...] = (), version: TableVersion = V9
) -> TriggerFacts:
    timeline: Timeline = timeline_of(version, names)
    now_ms = parse_instant_time(now, UTC)
    assert now_ms is not None
    return trigger_facts(timeline, max(compactions, default=None), now_ms=now_ms, zone=UTC)


def delta(begin: str, end: str) -> str:
    return f"{at(begin)}_{at(end)}.deltacommit"


FIVE = [delta(f"10000{number}", f"10001{number}") for number in range(5)]


def test_without_compaction_everything_counts_from_the_first_delta_commit() -> None:
    facts = facts_at(FIVE, at("100100"))
    assert facts == TriggerFacts(delta_commits=5, delta_commits_after_request=5, since=at("100000"), seconds=60)


def test_after_a_compaction_only_later_completions_count() -> None:
    # The third was under way when the compaction was planned, so its log is not part of the plan.
    names = [
        delta("100000", "100001"),
        delta("100002", "100003"),
        delta("100004", "100020"),
        f"{at('100010')}_{at('100015')}.commit",
        delta("100030", "100031"),
    ]
    facts = facts_at(names, at("110010"), compactions=(at("100010"),))
    assert facts == TriggerFacts(delta_commits=2, delta_commits_after_request=1, since=at("100010"), seconds=3600)


def test_commit_that_is_no_compaction_does_not_count_as_one() -> None:
    names = [*FIVE, f"{at('100020')}_{at('100025')}.commit"]
    assert facts_at(names, at("100100")).delta_commits == 5


def test_newest_of_several_compactions_counts() -> None:
    names = [
        f"{at('100010')}_{at('100015')}.commit",
        delta("100020", "100021"),
        f"{at('100030')}_{at('100035')}.commit",
    ]
    facts = facts_at(names, at("100100"), compactions=(at("100030"), at("100010")))
    assert (facts.delta_commits, facts.since) == (0, at("100030"))


def test_version_6_counts_by_requested_time() -> None:
    names = [f"{at('100000')}.deltacommit", f"{at('100010')}.commit", f"{at('100020')}.deltacommit"]
    facts = facts_at(names, at("100021"), compactions=(at("100010"),), version=V6)
    assert (facts.delta_commits, facts.seconds) == (1, 11)


def test_pending_plan_counts_as_request_and_not_as_compaction() -> None:
    names = [*FIVE, f"{at('100030')}.compaction.requested", delta("100040", "100041")]
    facts = facts_at(names, at("100100"))
    assert (facts.delta_commits, facts.delta_commits_after_request) == (6, 1)
    settings_ = TriggerSettings(trigger=CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST)
    assert not is_due(settings_, facts).is_due
    assert is_due(TriggerSettings(), facts).is_due


def test_pending_log_compaction_is_no_request() -> None:
    assert facts_at([*FIVE, f"{at('100030')}.logcompaction.requested"], at("100100")).delta_commits_after_request == 5


def test_delta_commit_that_is_not_completed_does_not_count() -> None:
    names = [f"{at('090000')}.deltacommit.inflight", *FIVE, f"{at('100030')}.deltacommit.requested"]
    facts = facts_at(names, at("100100"))
    assert (facts.delta_commits, facts.delta_commits_after_request, facts.since) == (5, 5, at("100000"))


def test_seconds_are_whole_seconds_of_both_times() -> None:
    # As in Hudi: 10:00:00.999 to 10:00:01.000 is one second.
    facts = facts_at([f"{DAY}100000999_{DAY}100000999.deltacommit"], at("100001"))
    assert facts.seconds == 1


def test_made_up_instant_is_no_time_to_count_from() -> None:
    facts = facts_at(["00000000000000001_00000000000000002.deltacommit"], at("100000"))
    due = is_due(TriggerSettings(trigger=CompactionTrigger.TIME_ELAPSED), facts)
    assert not due.is_due
    assert "00000000000000001" in due.reason


@pytest.mark.parametrize("trigger", CompactionTrigger)
def test_table_without_delta_commits_is_never_due(trigger: CompactionTrigger) -> None:
    facts = facts_at([f"{at('100000')}_{at('100001')}.commit"], at("200000"))
    settings_ = TriggerSettings(trigger=trigger, max_delta_commits=0, max_delta_seconds=0)
    assert not is_due(settings_, facts).is_due


@pytest.mark.parametrize(
    ("commits", "seconds", "due"),
    [
        (4, 3599, {}),
        (5, 3599, {"NUM_COMMITS", "NUM_OR_TIME"}),
        (4, 3600, {"TIME_ELAPSED", "NUM_OR_TIME"}),
        (5, 3600, {"NUM_COMMITS", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"}),
        (0, 3600, {"TIME_ELAPSED", "NUM_OR_TIME"}),
    ],
)
def test_each_limit_counts_once_it_is_reached(commits: int, seconds: int, due: set[str]) -> None:
    facts = TriggerFacts(delta_commits=commits, delta_commits_after_request=0, since=at("100000"), seconds=seconds)
    found = {each.value for each in CompactionTrigger if is_due(TriggerSettings(trigger=each), facts).is_due}
    assert found == set(due)


@pytest.mark.parametrize(("commits", "due"), [(4, False), (5, True)])
def test_request_trigger_looks_at_commits_after_the_request_alone(commits: int, due: bool) -> None:
    facts = TriggerFacts(delta_commits=9, delta_commits_after_request=commits, since=at("100000"), seconds=10**6)
    assert is_due(TriggerSettings(trigger=CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST), facts).is_due is due


def test_reason_names_what_was_found_and_what_was_asked() -> None:
    facts = TriggerFacts(delta_commits=4, delta_commits_after_request=4, since=at("100000"), seconds=70)
    due = is_due(TriggerSettings(trigger=CompactionTrigger.NUM_OR_TIME), facts)
    assert due.reason == (
        f"4 of 5 delta commits since the last compaction, or 70 of 3600 seconds since the instant {at('100000')}"
    )


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_more_commits_or_time_never_make_a_compaction_less_due(
    commits: int, after: int, seconds: int, max_commits: int, max_seconds: int
) -> None:
    def due(trigger: CompactionTrigger, more: int) -> bool:
        facts = TriggerFacts(
            delta_commits=commits + more, delta_commits_after_request=after + more, since="1", seconds=seconds + more
        )
        limits = TriggerSettings(trigger=trigger, max_delta_commits=max_commits, max_delta_seconds=max_seconds)
        return is_due(limits, facts).is_due

    for trigger in CompactionTrigger:
        assert due(trigger, 9)
        assert due(trigger, 1) or not due(trigger, 0)
    one, other = due(CompactionTrigger.NUM_COMMITS, 0), due(CompactionTrigger.TIME_ELAPSED, 0)
    assert due(CompactionTrigger.NUM_AND_TIME, 0) is (one and other)
    assert due(CompactionTrigger.NUM_OR_TIME, 0) is (one or other)
