"""A damaged plan of a service is named, with what to do about it, and holds up nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.support.archiving import AUTOMATIC, KEEP, commits, updated
from tests.support.crashes import COW, copied, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents

from pyhudi.errors import CorruptDataError, InvalidRequestError, LockNotAcquiredError, WriteConflictError
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.read.stream import newest_position
from pyhudi.services.cleaning.execute import pending_cleans, schedule_clean
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

EVERY_LAYOUT = pytest.mark.parametrize("version", [6, 9])
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "note,id"}
RETAIN_ONE = {"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "false"}
NO_CLEAN = {**KEEP, "hoodie.clean.automatic": "false"}


def put_plan(storage: Storage, action: Action, state: InstantState = InstantState.REQUESTED) -> str:
    """A damaged plan at the end of the timeline; its instant."""
    table = load_table(storage)
    plan = Instant(InstantTime(str(int(table.timeline.latest_time) + 1)), action, InstantState.REQUESTED)
    storage.put(instant_path(plan, table.version), b"Obj\x01 and no more")
    if state is InstantState.INFLIGHT:
        storage.put(instant_path(replace(plan, state=state), table.version), b"")
    return plan.requested_time


def clustering_in(version: int) -> Action:
    return Action.REPLACE_COMMIT if version == 6 else Action.CLUSTERING


def pending(storage: Storage) -> list[str]:
    instants = load_table(storage).timeline.instants
    return [one.requested_time for one in instants if one.state is not InstantState.COMPLETED]


@EVERY_LAYOUT
@pytest.mark.parametrize("state", [InstantState.REQUESTED, InstantState.INFLIGHT])
def test_damaged_clean_goes_when_its_writer_must_be_dead(
    version: int, state: InstantState, caplog: pytest.LogCaptureFixture
) -> None:
    storage = prepared(TableBuilder(version, "cow"))
    plan = put_plan(storage, Action.CLEAN, state)
    opened(storage).upsert(rows((1, "oslo", 5, "young")))
    assert plan in pending(storage)

    with caplog.at_level(logging.WARNING):
        for ts in range(6, 10):
            opened(storage, later=True, **{"hoodie.clean.commits.retained": "1"}).upsert(rows((1, "oslo", ts, "old")))

    assert f"{plan}.clean.requested" in caplog.text
    assert pending(storage) == []
    assert any(one.action is Action.CLEAN for one in load_table(storage).timeline.instants)


@EVERY_LAYOUT
@pytest.mark.parametrize("kind", ["clean", "clustering"])
def test_damaged_plan_does_not_hold_the_archive(version: int, kind: str) -> None:
    """In version 6 a clustering has the name of a write, for which a clean would wait."""
    storage = prepared(TableBuilder(version, "cow"))
    updated(storage, 2, **NO_CLEAN)
    plan = put_plan(storage, Action.CLEAN if kind == "clean" else clustering_in(version))
    newest = commits(storage)[-1]

    cleans = {} if kind == "clustering" else {"hoodie.clean.automatic": "false"}
    updated(storage, 12, **AUTOMATIC, **cleans)

    assert plan in pending(storage)
    assert newest not in commits(storage)


@EVERY_LAYOUT
def test_damaged_clustering_is_passed_over_by_writes_and_named_by_its_service_alone(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = prepared(TableBuilder(version, "cow"))
    plan = put_plan(storage, clustering_in(version))
    path = f"{plan}.{clustering_in(version).value}.requested"
    expected = contents(storage)

    with caplog.at_level(logging.WARNING):
        opened(storage).upsert(rows((1, "oslo", 7, "later")))
    assert path in caplog.text
    assert f'recovery.rollback("{plan}")' in caplog.text
    runs = opened(storage, later=True).services.run()
    failed = {run["service"]: run["message"] for run in runs.to_pylist() if run["outcome"] == "failed"}
    assert set(failed) == {"clustering"}
    assert path in failed["clustering"]
    with pytest.raises(CorruptDataError) as named:
        opened(storage, later=True).services.run(plan)
    assert named.value.context["path"].endswith(path)
    assert plan in pending(storage)
    assert newest_position(load_table(storage)) > plan
    opened(storage, later=True).services.schedule("clustering", hudi_options=SORTED)
    assert opened(storage, later=True).services.cluster(hudi_options=SORTED).num_rows == 2
    assert pending(storage) == [plan]

    opened(storage).recovery.rollback(plan)

    assert pending(storage) == []
    opened(storage).services.cluster(hudi_options=SORTED)
    assert contents(storage) == expected - {(1, "oslo", 2, "b")} | {(1, "oslo", 7, "later")}


def test_damaged_clustering_that_a_process_began_stops_writes_and_says_what_frees_them() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    plan = put_plan(storage, Action.CLUSTERING, InstantState.INFLIGHT)

    with pytest.raises(CorruptDataError, match=rf'recovery\.rollback\("{plan}"\)') as named:
        opened(storage, later=True).upsert(rows((1, "oslo", 7, "later")))
    assert named.value.context["path"].endswith(f"{plan}.clustering.requested")

    opened(storage, later=True).recovery.rollback(plan)
    opened(storage, later=True).upsert(rows((1, "oslo", 7, "later")))
    assert (1, "oslo", 7, "later") in contents(storage)


def planned_clean(storage: Storage) -> tuple[str, str]:
    """A write, and a planned clean that names files of its state."""
    target = opened(storage, **RETAIN_ONE).upsert(rows((1, "oslo", 5, "kept"))).instant
    for ts in (6, 7):
        opened(storage, **RETAIN_ONE).upsert(rows((1, "oslo", ts, "later")))
    planned = schedule_clean(opened(storage, **RETAIN_ONE).handle.service_call({}, call="clean"))
    assert planned is not None
    return target, planned


@EVERY_LAYOUT
def test_restore_says_how_a_planned_clean_in_its_way_is_given_up(version: int) -> None:
    storage = prepared(TableBuilder(version, "cow"))
    target, planned = planned_clean(storage)
    with pytest.raises(WriteConflictError, match=rf'recovery\.rollback\("{planned}"\)'):
        opened(storage).recovery.restore(target)

    opened(storage).recovery.rollback(planned)
    opened(storage).recovery.restore(target)

    assert (1, "oslo", 5, "kept") in contents(storage)
    assert pending(storage) == []


def test_clean_that_has_begun_is_not_given_up() -> None:
    storage = prepared(COW[2])
    target, planned = planned_clean(storage)
    (plan,) = pending_cleans(load_table(storage).timeline)
    storage.put(instant_path(replace(plan, state=InstantState.INFLIGHT), load_table(storage).version), b"")

    for later in (False, True):
        with pytest.raises(InvalidRequestError, match="this clean"):
            opened(storage, later=later).recovery.rollback(planned)
    assert planned in pending(storage)
    with pytest.raises(WriteConflictError, match="about to delete"):
        opened(storage).recovery.restore(target)


NO_WAIT = {"hoodie.write.lock.wait_time_ms": "1"}
ANSWERS = (InvalidRequestError, WriteConflictError, LockNotAcquiredError)


def give_up(storage: Storage, planned: str) -> None:
    with suppress(*ANSWERS):
        opened(storage, later=False, **NO_WAIT).recovery.rollback(planned)


def execute(storage: Storage, planned: str) -> None:
    with suppress(*ANSWERS):
        opened(storage, later=False, **NO_WAIT).services.run(planned, hudi_options=NO_WAIT)


@pytest.mark.parametrize(("first", "second"), [(give_up, execute), (execute, give_up)])
def test_clean_that_begins_while_it_is_given_up_deletes_nothing_or_stays_planned(
    first: Callable[[Storage, str], None], second: Callable[[Storage, str], None]
) -> None:
    """Before each effect of the one, all of the other happens."""
    storage = prepared(COW[2])
    _, planned = planned_clean(storage)
    files = data_files(storage)
    counted = FaultStorage(copied(storage))
    first(counted, planned)
    outcomes = set()
    for number in range(1, 1 + len(counted.effects)):
        image = copied(storage)
        effects: list[str] = []

        def meet(name: str, path: str, image: Storage = image, number: int = number, seen: list[str] = effects) -> None:
            seen.append(path)
            if len(seen) == number:
                second(image, planned)

        first(FaultStorage(image, before=meet), planned)
        stands = any(one.requested_time == planned for one in load_table(image).timeline.instants)
        assert stands or data_files(image) == files, number
        outcomes.add(stands)
        opened(image, later=True).services.run()
        assert planned not in pending(image)
    assert outcomes == {True, False} or first is give_up


def data_files(storage: Storage) -> set[str]:
    return {info.path for info in list_data_files(storage)}


def test_two_actions_with_one_instant_time_are_not_guessed_between() -> None:
    storage = prepared(COW[2])
    write = commits(storage)[-1]
    twin = Instant(InstantTime(write), Action.CLUSTERING, InstantState.REQUESTED)
    storage.put(instant_path(twin, load_table(storage).version), b"")

    with pytest.raises(InvalidRequestError, match="several actions") as refused:
        opened(storage).recovery.rollback(write)
    assert refused.value.context["actions"] == ["commit (completed)", "clustering (requested)"]
    assert write in commits(storage)
