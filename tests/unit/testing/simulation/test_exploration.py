"""The part of the exploration that runs with the tests; `make sim` does the rest. And that it can find something."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.mutants.catalogue import NO_CONFLICT_CHECK

from pyhudi.testing.simulation.campaign import AT_RANDOM, CRASHES, FAULTS, PAUSES, Report, Task, run_campaign, tasks
from pyhudi.testing.simulation.explore import Budget, Result, explore
from pyhudi.testing.simulation.scenarios import Scenario, matrix, scenario_of
from pyhudi.testing.simulation.scheduler import Powers

Recorder = Callable[[str, object], None]
CORE = ("update+update", "new+new", "both+drop", "update+overwrite", "update+recover", "new+follow", "update+read")
OF_LOGS = ("update+compact", "update+schedule", "compact+compact", "update+update+read")
CORE_SCENARIOS = [
    scenario_of(f"{kind}/{lock}/{roles}")
    for first, kind in enumerate(("cow6", "cow8", "mor6", "mor8"))
    for number, roles in enumerate((*CORE, *(OF_LOGS if kind.startswith("mor") else ())))
    for lock in (("lock", "lease")[(first + number) % 2],)
]
"""Each kind and roles with one of the locks; `make sim` takes both."""
CLUSTERING = [
    scenario_of(f"{kind}/lease/{roles}")
    for kind in ("cow8", "mor6")
    for roles in ("update+cluster", "preferred+cluster", "cluster+cluster")
]
WHOLE = [
    scenario_of(f"whole-{kind}/lock/{roles}") for kind in ("cow8", "mor6") for roles in ("both+update", "new+drop")
]
OUTLIVED = [
    scenario_of(f"{kind}/{lock}/{roles}")
    for kind, lock in (("cow6", "lease"), ("cow8", "lock"), ("mor6", "lock"), ("mor8", "lease"))
    for roles in ("outlived+attempt+read", "abandoned+attempt+update", "abandoned+attempt+late")
]
WHOLE_OUTLIVED = [
    scenario_of(f"whole-{kind}/lock/{roles}")
    for kind in ("cow8", "mor6", "mor8")
    for roles in ("outlived+attempt+read", "abandoned+attempt+update")
]


def checked(scenario: Scenario, budget: Budget, seed: int | None = None) -> int:
    """The number of schedules, none of which violated anything."""
    outcome = explore(scenario, budget, seed=seed)
    failure = outcome.failure
    assert failure is None, f"{failure.violation}\nreplay: '{failure.schedule}'\n" + "\n".join(failure.trace)
    return outcome.schedules


@pytest.mark.parametrize("scenario", CORE_SCENARIOS, ids=str)
def test_in_every_order_with_one_deviation_all_invariants_hold(scenario: Scenario, record_property: Recorder) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=150)))


RESTORES = [
    scenario_of(f"{kind}/{lock}/{roles}")
    for kind, lock in (("cow6", "lease"), ("cow8", "lock"), ("mor6", "lock"), ("mor8", "lease"))
    for roles in ("both+restore", "restore+restore", "update+restore+clean", "overwrite+save+clean")
]


@pytest.mark.parametrize("powers", [Powers(), CRASHES, PAUSES], ids=["order", "crash", "pause"])
@pytest.mark.parametrize("scenario", RESTORES, ids=str)
def test_savepoints_and_restores_beside_others_hold_all_invariants(
    scenario: Scenario, powers: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=60, powers=powers)))


SELDOM = [
    scenario_of(f"{kind}/{lock}/{roles}")
    for kind, lock in (("cow8", "lease"), ("mor8", "lock"), ("cow6", "lock"))
    for roles in ("update+expire", "both+expire+read", *(("update+versions",) if kind != "cow6" else ()))
]


@pytest.mark.parametrize("mishaps", [Powers(), CRASHES, PAUSES, FAULTS], ids=["order", "crash", "pause", "fault"])
@pytest.mark.parametrize("scenario", SELDOM, ids=str)
def test_expiry_and_changes_of_version_beside_writes_hold_all_invariants(
    scenario: Scenario, mishaps: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=40, powers=mishaps)))


@pytest.mark.parametrize("mishaps", [CRASHES, FAULTS, PAUSES], ids=["crash", "fault", "pause"])
@pytest.mark.parametrize("scenario", CORE_SCENARIOS[::2], ids=str)
def test_with_one_mishap_all_invariants_hold(scenario: Scenario, mishaps: Powers, record_property: Recorder) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=60, powers=mishaps)))


@pytest.mark.parametrize("mishaps", [Powers(), CRASHES, FAULTS], ids=["order", "crash", "fault"])
@pytest.mark.parametrize("scenario", CLUSTERING, ids=str)
def test_clusterings_beside_writes_keep_all_invariants(
    scenario: Scenario, mishaps: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=60, powers=mishaps)))


@pytest.mark.parametrize("scenario", matrix()[::15], ids=str)
def test_at_random_with_everything_that_can_go_wrong_all_invariants_hold(
    scenario: Scenario, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, replace(AT_RANDOM, schedules=12), seed=3))


@pytest.mark.parametrize("powers", [Powers(), CRASHES, PAUSES, FAULTS], ids=["order", "crash", "pause", "fault"])
@pytest.mark.parametrize("scenario", OUTLIVED, ids=str)
def test_a_task_that_outlives_its_write_is_never_seen_and_leaves_nothing(
    scenario: Scenario, powers: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=2, schedules=60, powers=powers)))


@pytest.mark.parametrize("scenario", WHOLE_OUTLIVED, ids=str)
def test_a_task_that_outlives_its_whole_write_is_never_seen_and_leaves_nothing(
    scenario: Scenario, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, replace(AT_RANDOM, deviations=3, schedules=12), seed=1))


@pytest.mark.parametrize("scenario", WHOLE, ids=str)
def test_whole_writes_at_random_keep_all_invariants(scenario: Scenario, record_property: Recorder) -> None:
    record_property("schedules", checked(scenario, replace(AT_RANDOM, schedules=8), seed=1))


COMPUTED = [
    scenario_of(f"{kind}/{lock}/{roles}")
    for kind, lock in (("cow8", "lease"), ("mor6", "lock"))
    for roles in ("claim+claim", "merge+update-b+read", "extend+discard", "merge+undo+update", "extend+late")
]


@pytest.mark.parametrize("powers", [Powers(), CRASHES, PAUSES], ids=["order", "crash", "pause"])
@pytest.mark.parametrize("scenario", COMPUTED, ids=str)
def test_what_a_merge_decided_by_the_rows_that_it_read_still_holds_when_it_is_committed(
    scenario: Scenario, powers: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=40, powers=powers)))


CAPTURED = [
    scenario_of(f"captured-{kind}/lock/{roles}")
    for kind, roles in (
        ("cow8", "merge+update+capture"),
        ("mor6", "update+compact+capture"),
        ("cow6", "both+drop+capture"),
        ("mor8", "update+rename+capture"),
        ("cow8", "rename+add"),
        ("mor8", "compact+widen"),
    )
]


@pytest.mark.parametrize("scenario", CAPTURED, ids=str)
def test_who_follows_captured_changes_has_the_rows_of_the_table(scenario: Scenario, record_property: Recorder) -> None:
    record_property("schedules", checked(scenario, replace(AT_RANDOM, schedules=8), seed=1))


def test_a_campaign_counts_what_it_did_and_ends_in_time() -> None:
    report = run_campaign(seconds=3.0, seed=1, processes=1, wanted="cow8/lock/update+update")
    assert report.failures == []
    assert report.schedules.total() > 0
    assert "order, 1 deviation" in str(report)


def test_a_campaign_without_scenarios_ends() -> None:
    assert list(tasks(1, wanted="no such scenario")) == []


def test_a_campaign_goes_on_at_random_with_another_seed_each_round() -> None:
    random = (task for task in tasks(7, wanted="cow8/lock/update+update+read") if task.seed is not None)
    assert [task.seed for task in itertools.islice(random, 4)] == [7, 7, 8, 8]


def test_a_report_of_a_failure_says_how_to_run_it_again() -> None:
    scenario = scenario_of("cow8/lock/update+update")
    report = Report()
    with NO_CONFLICT_CHECK.put_in():
        outcome = explore(scenario, Budget(deviations=1))
    report.add(Task("order", scenario, Budget(), None), outcome)
    assert isinstance(outcome.failure, Result)
    assert f"replay: '{outcome.failure.schedule}'" in str(report)


LISTED = [
    scenario_of(f"listed-{kind}/{lock}/{roles}")
    for kind, lock in (("cow8", "lock"), ("mor6", "lease"))
    for roles in ("update+update", "both+undo", "both+update+undo", "update+late")
]
"""Each write compacts the metadata table before it begins."""


@pytest.mark.parametrize("powers", [Powers(), CRASHES, PAUSES, FAULTS], ids=["order", "crash", "pause", "fault"])
@pytest.mark.parametrize("scenario", LISTED, ids=str)
def test_compactions_of_the_metadata_table_before_writes_hold_all_invariants(
    scenario: Scenario, powers: Powers, record_property: Recorder
) -> None:
    record_property("schedules", checked(scenario, Budget(deviations=1, schedules=30, powers=powers)))
