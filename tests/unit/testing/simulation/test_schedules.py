"""Schedules as texts, runs that repeat themselves, and what the scheduler does to its actors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.mutants.catalogue import NO_CONFLICT_CHECK

from pyhudi.errors import InvalidRequestError
from pyhudi.testing.__main__ import main
from pyhudi.testing.simulation.explore import ALL_POWERS, Budget, execute, explore, replay, shrunk
from pyhudi.testing.simulation.scenarios import matrix, scenario_of
from pyhudi.testing.simulation.schedule import MEANING, Schedule, parse_schedule
from pyhudi.testing.simulation.scheduler import Powers

CHOICES = st.tuples(st.integers(0, 999), st.sampled_from([*MEANING, "0", "1", "12"]))


@given(st.lists(CHOICES, max_size=6, unique_by=lambda choice: choice[0]))
def test_a_schedule_is_read_back_from_its_text(choices: list[tuple[int, str]]) -> None:
    schedule = Schedule("cow8/lock/update+drop", tuple(sorted(choices)))
    assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "cow8/lock/update", "cow8/lock/update : 1", "cow8/lock/update : 1=", ": 1=c"])
def test_another_text_is_refused_as_a_schedule(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_schedule(text)


@pytest.mark.parametrize(
    "name", ["cow8", "cow7/lock/update", "cow8/door/update", "cow8/lock/upsert", "cow8/lock/update/x"]
)
def test_an_unknown_scenario_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        scenario_of(name)


def test_every_scenario_is_found_by_its_name() -> None:
    for scenario in (*matrix(), *matrix(whole=True)):
        assert scenario_of(str(scenario)) == scenario


SEEDED = """
from pyhudi.testing.__main__ import main
from pyhudi.testing.simulation.explore import ALL_POWERS, replay
from pyhudi.testing.simulation.schedule import parse_schedule
for text in (
    "cow8/lease/both+update : 3=1 17=c",
    "mor6/lock/update+update+read : 5=1 20=j 31=2 44=h",
    "mor8/lease/update+compact : 9=p 30=e 41=1",
    "whole-mor8/lock/update+drop : 12=1 40=c",
):
    print(replay(parse_schedule(text)).digest)
"""


def test_a_schedule_is_the_same_run_in_every_process() -> None:
    digests = [
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 4


def test_a_seed_explores_the_same_schedules_again() -> None:
    budget = Budget(deviations=4, mishaps=2, schedules=15, powers=Powers(crashes=True, pauses=True, faults=True))
    scenario = scenario_of("mor8/lease/both+update")
    assert explore(scenario, budget, seed=5) == explore(scenario, budget, seed=5)
    assert explore(scenario, budget, seed=5).points != explore(scenario, budget, seed=6).points


def test_without_deviations_each_actor_runs_to_its_end() -> None:
    result = execute(scenario_of("cow8/lock/update+drop"), lambda _run, _point: "", Powers())
    actors = [line.partition(":")[0] for line in result.trace]
    assert actors == sorted(actors, key=["update-0", "drop-1", "last"].index)
    assert result.violation is None


def test_a_dead_actor_does_nothing_more_and_the_lock_is_free() -> None:
    result = replay(parse_schedule("cow8/lock/update+update : 6=c"))
    died = result.trace.index("-- 6=c")
    assert result.trace[died - 1].startswith("update-0: read")  # under the lock of `begin`
    assert not any(line.startswith("update-0") for line in result.trace[died:])
    assert any(line.startswith("update-1: put_if_absent") and line.endswith(".commit") for line in result.trace)


def test_a_heartbeat_goes_on_in_a_jump_of_time_and_not_while_its_process_stands_still() -> None:
    jumped = replay(parse_schedule("cow8/lock/update+recover : 14=j 15=1"))
    asleep = replay(parse_schedule("cow8/lock/update+recover : 14=h"))
    assert not any("rollback" in line for line in jumped.trace)
    assert any("rollback" in line for line in asleep.trace)


def test_a_choice_that_is_not_possible_is_left_out() -> None:
    result = replay(parse_schedule("cow8/lock/update : 2=1 3=l 999=c"))
    assert result.schedule.choices == ()


def test_a_failure_is_shrunk_to_the_deviations_that_it_takes() -> None:
    with NO_CONFLICT_CHECK.put_in():
        long = replay(parse_schedule("cow8/lock/update+update : 10=1 21=j 25=j 31=j 36=b"))
        assert len(long.schedule.choices) == 5
        assert long.violation is not None
        short = shrunk(long, ALL_POWERS)
    assert short.violation is not None
    assert short.violation[:3] == long.violation[:3]
    assert str(short.schedule) == "cow8/lock/update+update : 10=1"


def test_the_command_shows_a_schedule_and_says_what_was_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyhudi.testing", "--replay", "cow8/lock/update+update : 10=1 21=c"])
    assert main() == 0
    assert "the actor dies before the call" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["pyhudi.testing", "--replay", "cow8/lock/update+update : 10=1"])
    with NO_CONFLICT_CHECK.put_in():
        assert main() == 1
    assert "K1: as of now" in capsys.readouterr().out
