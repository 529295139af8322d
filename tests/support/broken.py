"""Defects that the exploration must find, each in one function of the shipped protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from pyhudi.services.rollback import execute as rollback_run
from pyhudi.services.rollback import rollback
from pyhudi.table import instant_times
from pyhudi.testing.simulation.campaign import CLOCKS, CRASHES, PAUSES
from pyhudi.testing.simulation.explore import Budget
from pyhudi.testing.simulation.scheduler import Powers
from pyhudi.transaction import heartbeat, transaction
from pyhudi.transaction.conflicts.footprint import UniqueKeys, footprint_of


def _nothing(*_: Any, **__: Any) -> None:
    """A check that was forgotten."""


@contextmanager
def without_conflict_check() -> Iterator[None]:
    with patch.object(transaction, "check_conflicts", _nothing):
        yield


@contextmanager
def without_unique_keys() -> Iterator[None]:
    with patch.object(transaction, "footprint_of", lambda metadata, _=UniqueKeys.NOWHERE: footprint_of(metadata)):
        yield


@contextmanager
def without_looking_whether_it_was_rolled_back() -> Iterator[None]:
    with patch.object(transaction, "check_still_ours", _nothing):
        yield


@contextmanager
def without_looking_at_intents() -> Iterator[None]:
    with patch.object(transaction, "check_intents", _nothing):
        yield


@contextmanager
def with_a_rollback_that_misses_a_file() -> Iterator[None]:
    plan = rollback.plan_rollback

    def forgetful(base_uri: str, instant: Any, leftovers: Any) -> Any:
        return plan(base_uri, instant, replace(leftovers, files=leftovers.files[1:]))

    with patch.object(rollback, "plan_rollback", forgetful):
        yield


@contextmanager
def with_a_rollback_that_does_not_tidy_up() -> Iterator[None]:
    with patch.object(rollback, "tidy_up", _nothing), patch.object(rollback_run, "tidy_up", _nothing):
        yield


@contextmanager
def with_completion_times_of_the_clock() -> Iterator[None]:
    def by_clock(_timeline: Any, config: Any, clock: Any) -> str:
        zone = instant_times.table_zone(config)
        return instant_times.format_instant_time(clock.now_ms(), zone)

    with patch.object(instant_times, "next_time", by_clock):
        yield


@contextmanager
def without_heartbeats() -> Iterator[None]:
    with patch.object(heartbeat.Heartbeat, "start", _nothing):
        yield


@contextmanager
def with_heartbeats_that_stop() -> Iterator[None]:
    with patch.object(heartbeat.Heartbeat, "_beat_again", lambda _self: True):
        yield


ORDER = Budget(deviations=1)
DEFECTS = [
    (without_conflict_check, "cow8/lock/update+update", ORDER, "K1"),
    (without_conflict_check, "mor6/lock/update+update", ORDER, "K1"),
    (without_unique_keys, "cow8/lock/new+new", ORDER, "K4"),
    (without_looking_whether_it_was_rolled_back, "cow8/lock/update+recover", Budget(powers=PAUSES), "K13"),
    (without_looking_at_intents, "cow8/lease/update+update", Budget(powers=Powers(pauses=True)), "K1"),
    (with_a_rollback_that_misses_a_file, "cow8/lock/update+recover", Budget(powers=CRASHES), "K14"),
    (with_a_rollback_that_does_not_tidy_up, "cow8/lock/update+recover", Budget(powers=CRASHES), "K14"),
    (with_completion_times_of_the_clock, "cow8/lock/update+update", ORDER, "K8"),
    (without_heartbeats, "cow8/lock/update+recover", Budget(powers=CRASHES), "K14"),
    (with_heartbeats_that_stop, "cow8/lock/update+update", Budget(powers=CLOCKS), "K9"),
]
"""Defects, the scenario and budget that show them, and the invariant that they violate."""
