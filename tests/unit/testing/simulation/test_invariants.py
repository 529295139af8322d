"""Each invariant is violated once, so that one can see that it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.errors import CommitOutcomeUnknownError, WriteConflictError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.table.state import load_table
from pyhudi.testing.simulation.file_invariants import check_metadata_table
from pyhudi.testing.simulation.history import Answer, History, Verdict
from pyhudi.testing.simulation.invariants import (
    Facts,
    check_answers,
    check_at_rest,
    check_attempts,
    check_conflicts,
    check_endings,
    check_files,
    check_followers,
    check_order,
    check_readers,
    check_recovered,
    check_rows,
    facts_of,
)
from pyhudi.testing.simulation.key_value_writes import STRAY, Request, read_thinly
from pyhudi.testing.simulation.start_tables import KINDS, START, observer, prepared
from pyhudi.testing.simulation.world import World

TIMELINE = ".hoodie/timeline"


def answer_of(**values: object) -> Answer:
    return replace(Answer(actor="w", verdict=Verdict.DONE, began=0, ended=1), **values)  # type: ignore[arg-type]


def facts(world: World, history: History | None = None) -> Facts:
    history = history or History()
    history.requests.update(KINDS["cow8"].start)
    return facts_of(load_table(observer(world)), read_thinly, history)


def start() -> tuple[World, str, str]:
    """A table after its first write, that write's instant, and the path of its completed instant."""
    world = prepared(KINDS["cow8"])
    completed = next(path for path in world.objects if path.endswith(".commit"))
    return world, completed.rpartition("/")[2].partition("_")[0], completed


def data_file(world: World) -> str:
    return next(path for path in world.objects if path.startswith("a/"))


def test_a_table_at_rest_violates_nothing() -> None:
    world, instant, _ = start()
    history = History(
        answers=[answer_of(actor="start", instant=instant), answer_of(began=2, rows=(*sorted(START.items()),))]
    )
    history.answers[1] = replace(history.answers[1], seen=frozenset({instant}))
    assert list(check_at_rest(facts(world, history), unique=True, ordered=True)) == []
    assert list(check_recovered(facts(world), excused=())) == []


def test_rows_that_no_write_made_are_a_violation_of_visibility() -> None:
    world, _, _ = start()
    world.set(data_file(world), b'{"a1": "somebody", "a2": "start"}')
    assert [one[:2] for one in check_rows(facts(world), unique=True)] == ["K1", "K1"]


def test_a_key_in_two_file_groups_is_a_violation_of_uniqueness() -> None:
    world, _, _ = start()
    other = next(path for path in world.objects if path.startswith("b/"))
    world.set(other, b'{"a1": "start", "b1": "start"}')
    assert {one[:2] for one in check_rows(facts(world), unique=True)} == {"K4"}


def test_partial_read_is_a_violation_of_atomicity() -> None:
    world, instant, _ = start()
    history = History(answers=[answer_of(rows=(("a1", "start"),), seen=frozenset({instant}))])
    assert [one[:2] for one in check_readers(facts(world, history))] == ["K2"]


def test_read_without_an_acknowledged_write_is_a_violation_of_durability() -> None:
    world, instant, _ = start()
    history = History(answers=[answer_of(actor="start", instant=instant), answer_of(began=5, rows=())])
    assert [one[:2] for one in check_readers(facts(world, history))] == ["K3"]


@pytest.mark.parametrize(
    "answer",
    [
        answer_of(instant="20990101000000000"),
        answer_of(actor="start", verdict=Verdict.REFUSED, error=WriteConflictError("lost")),
    ],
    ids=["acknowledged and not there", "refused and there"],
)
def test_an_answer_that_is_not_true_is_a_violation_of_durability(answer: Answer) -> None:
    world, _, _ = start()
    history = History(requests={"w": Request(operation=WriteOperation.UPSERT)}, answers=[answer])
    assert [one[:2] for one in check_answers(facts(world, history))] == ["K3"]


def test_an_unknown_outcome_is_no_violation_as_long_as_it_can_be_found_out() -> None:
    world, instant, _ = start()
    error = CommitOutcomeUnknownError("who knows", instant=instant)
    history = History(answers=[answer_of(actor="start", verdict=Verdict.UNKNOWN, error=error)])
    assert list(check_answers(facts(world, history))) == []


@pytest.mark.parametrize(
    "damage",
    [lambda world: world.remove(data_file(world)), lambda world: world.set(data_file(world), b"{}")],
    ids=["missing", "shorter"],
)
def test_a_file_that_is_not_as_its_commit_says_is_a_violation_of_reference(damage: Callable[[World], None]) -> None:
    world, _, _ = start()
    damage(world)
    assert [one[:2] for one in check_files(facts(world))] == ["K6"]


def test_a_write_that_is_completed_twice_violates_that_it_ends_once() -> None:
    world, instant, completed = start()
    world.set(f"{TIMELINE}/{instant}_20990101000000000.deltacommit", world.objects[completed].data)
    assert any(one.startswith("K7") for one in check_endings(facts(world)))


def test_two_writes_at_one_moment_violate_the_order_of_time() -> None:
    world, instant, completed = start()
    position = completed.rpartition("_")[2]
    world.set(f"{TIMELINE}/{int(instant) - 1}_{position}", world.objects[completed].data)
    assert [one[:2] for one in check_order(facts(world))] == ["K8"]


def test_incremental_read_without_a_write_is_a_violation_of_increments() -> None:
    world, _, _ = start()
    history = History(answers=[answer_of(since="", position="99999999999999999")])
    assert [one[:3] for one in check_followers(facts(world, history))] == ["K12"]


@pytest.mark.parametrize(
    "path",
    [
        f"{TIMELINE}/20990101000000000.commit.requested",
        ".hoodie/.temp/20990101000000000/a/f.parquet.marker.CREATE",
        ".hoodie/.heartbeat/20990101000000000",
        ".hoodie/.aux/.intents/20990101000000000",
        "a/00000000-0000-0000-0000-000000000001-0_0-0-0_20990101000000000.parquet",
    ],
)
def test_leftover_of_a_dead_writer_is_a_violation_of_recovery(path: str) -> None:
    world, _, _ = start()
    world.set(path, b"")
    assert [one[:3] for one in check_recovered(facts(world), excused=())] == ["K14"]
    assert list(check_recovered(facts(world), excused=["20990101000000000", path])) == []


def test_row_of_an_abandoned_attempt_is_a_violation_wherever_it_is_seen() -> None:
    world, instant, _ = start()
    seen = answer_of(rows=(("a1", STRAY),), seen=frozenset({instant}))
    assert [one[:3] for one in check_attempts(facts(world, History(answers=[seen])), are_swept=False)] == ["K15"]
    world.set(data_file(world), f'{{"a1": "{STRAY}", "a2": "start"}}'.encode())
    assert [one[:3] for one in check_attempts(facts(world), are_swept=False)] == ["K15"]


def test_a_file_of_a_write_that_was_rolled_back_is_a_violation_once_a_later_write_has_looked() -> None:
    world, _, _ = start()
    world.set("a/00000000-0000-0000-0000-000000000001-0_0-0-0_20200101000000000.parquet", b"{}")
    assert list(check_attempts(facts(world), are_swept=False)) == []
    assert [one[:3] for one in check_attempts(facts(world), are_swept=True)] == ["K15"]


def test_blocks_of_a_dead_write_without_a_command_behind_them_are_a_violation_of_recovery() -> None:
    from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block, rollback_block

    world = prepared(KINDS["mor6"])
    base = data_file(world).rpartition("/")[2]
    group, _, instant = base.removesuffix(".parquet").split("_")
    headers = {BlockHeader.INSTANT_TIME: "20990101000000000", BlockHeader.SCHEMA: '"string"'}
    block = b"".join(encode_block(BlockType.AVRO_DATA, headers, b"{}"))
    world.set(f"a/.{group}_{instant}.log.5_0-1-0", block)
    assert [one[:3] for one in check_recovered(facts(world), excused=())] == ["K14"]
    world.set(f"a/.{group}_{instant}.log.6_0-1-0", rollback_block("20990101000000001", "20990101000000000"))
    assert list(check_recovered(facts(world), excused=())) == []


def test_conflict_without_another_commit_is_a_false_conflict() -> None:
    error = WriteConflictError("lost")
    history = History(
        requests={
            "a-0": Request(operation=WriteOperation.UPSERT, values={"a1": "x"}),
            "b-1": Request(operation=WriteOperation.UPSERT, values={"b1": "x"}),
        },
        answers=[answer_of(actor="a-0", verdict=Verdict.REFUSED, error=error)],
    )
    assert [one[:3] for one in check_conflicts(history)] == ["K13"]
    history.requests["a-2"] = history.requests["a-0"]
    assert list(check_conflicts(history)) == []


def violations(world: World) -> list[str]:
    found = facts(world)
    return list(check_metadata_table(found.table, found.metadata))


def test_committed_file_that_the_metadata_table_does_not_know_is_a_violation() -> None:
    world = prepared(KINDS["listed-cow8"])
    assert violations(world) == []
    known = data_file(world)
    world.set(known, world.objects[known].data + b" ")
    assert [one[:3] for one in violations(world)] == ["K18"]


def test_write_that_the_metadata_table_lacks_is_a_violation() -> None:
    world = prepared(KINDS["listed-cow8"])
    for path in [path for path in world.objects if ".hoodie/metadata/.hoodie/timeline/2" in path]:
        world.remove(path)
    assert [one[:3] for one in violations(world)] == ["K18"]
