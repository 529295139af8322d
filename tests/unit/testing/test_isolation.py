"""The checker of histories: every anomaly is seen where it is, and none where there is none."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import InvalidRequestError
from pyhudi.testing.isolation import Anomaly, AnomalyKind, Ending, Transaction, check_history

OK, FAILED, UNKNOWN = Ending.OK, Ending.FAILED, Ending.UNKNOWN


def lists(texts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """`{"x": "ab"}` is the key x with the values a and b."""
    return {key: tuple(text) for key, text in texts.items()}


def done(
    name: str,
    reads: dict[str, str] | None = None,
    appends: dict[str, str] | None = None,
    ending: Ending = OK,
    **times: float,
) -> Transaction:
    return Transaction(name=name, ending=ending, reads=lists(reads or {}), appends=lists(appends or {}), **times)


def kinds(*transactions: Transaction) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in check_history(transactions)}


def test_appends_one_after_the_other_are_no_anomaly() -> None:
    first = done("t1", {"x": ""}, {"x": "a"}, began=0, ended=1)
    second = done("t2", {"x": "a", "y": ""}, {"x": "b", "y": "c"}, began=2, ended=3)
    assert not kinds(first, second, done("r", {"x": "ab", "y": "c"}, began=4, ended=5))


ANOMALIES: dict[str, tuple[AnomalyKind, tuple[Transaction, ...]]] = {
    "a value of nobody": (AnomalyKind.GARBAGE, (done("r", {"x": "a"}),)),
    "a value twice": (AnomalyKind.REPEATED, (done("t", {}, {"x": "a"}), done("r", {"x": "aa"}))),
    "a value of a failed write": (
        AnomalyKind.ABORTED_READ,
        (done("t", {"x": ""}, {"x": "a"}, FAILED), done("r", {"x": "a"})),
    ),
    "half of a write to one key": (AnomalyKind.INTERMEDIATE_READ, (done("t", {}, {"x": "ab"}), done("r", {"x": "a"}))),
    "two orders": (
        AnomalyKind.ORDERS_DIFFER,
        (done("t1", {}, {"x": "a"}), done("t2", {}, {"x": "b"}), done("r1", {"x": "ab"}), done("r2", {"x": "ba"})),
    ),
    "an update over another one": (
        AnomalyKind.LOST_UPDATE,
        (done("t1", {"x": ""}, {"x": "a"}), done("t2", {"x": ""}, {"x": "b"}), done("r", {"x": "b"})),
    ),
    "an acknowledged append that nobody sees": (
        AnomalyKind.LOST_APPEND,
        (done("t", {}, {"x": "a"}, began=0, ended=1), done("r", {"x": ""}, began=2, ended=3)),
    ),
    "an acknowledged append that is seen too late": (
        AnomalyKind.LOST_APPEND,
        (
            done("t", {}, {"x": "a"}, began=0, ended=1),
            done("r1", {"x": ""}, began=2, ended=3),
            done("r2", {"x": "a"}, began=4, ended=5),
        ),
    ),
    "a read that goes back": (
        AnomalyKind.STALE_READ,
        (
            done("t", {}, {"x": "a"}, UNKNOWN),
            done("r1", {"x": "a"}, began=0, ended=1),
            done("r2", {"x": ""}, began=2, ended=3),
        ),
    ),
    "writes in two orders on two keys": (
        AnomalyKind.DIRTY_WRITE,
        (done("t1", {}, {"x": "a", "y": "b"}), done("t2", {}, {"x": "c", "y": "d"}), done("r", {"x": "ac", "y": "db"})),
    ),
    "two that saw one another": (
        AnomalyKind.CIRCULAR_FLOW,
        (done("t1", {"y": "b"}, {"x": "a"}), done("t2", {"x": "a"}, {"y": "b"})),
    ),
    "half of a write to two keys": (
        AnomalyKind.READ_SKEW,
        (
            done("t", {}, {"x": "a", "y": "b"}),
            done("r", {"x": "a", "y": ""}),
            done("later", {"x": "a", "y": "b"}),
        ),
    ),
    "two readers that see two writes in two orders": (
        AnomalyKind.NO_SNAPSHOT,
        (
            done("t1", {}, {"x": "a"}),
            done("t2", {}, {"y": "b"}),
            done("r1", {"x": "a", "y": ""}),
            done("r2", {"x": "", "y": "b"}),
        ),
    ),
}


@pytest.mark.parametrize(("kind", "history"), ANOMALIES.values(), ids=ANOMALIES)
def test_an_anomaly_is_named(kind: AnomalyKind, history: tuple[Transaction, ...]) -> None:
    assert kind in kinds(*history)
    assert all(str(anomaly) for anomaly in check_history(history))


def test_write_skew_is_allowed() -> None:
    first = done("t1", {"x": "", "y": ""}, {"x": "a"})
    second = done("t2", {"x": "", "y": ""}, {"y": "b"})
    assert not kinds(first, second, done("r", {"x": "a", "y": "b"}))


def test_reads_of_a_failed_transaction_do_not_count() -> None:
    assert not kinds(done("t", {"x": "nonsense"}, {}, FAILED))


@pytest.mark.parametrize("seen", ["", "a"])
def test_an_unknown_ending_may_be_either(seen: str) -> None:
    dead = done("t", {"x": ""}, {"x": "a"}, UNKNOWN, began=0)
    assert not kinds(dead, done("r", {"x": seen}, began=1, ended=2))


def test_an_unseen_unknown_append_loses_no_update() -> None:
    dead = done("t1", {"x": ""}, {"x": "a"}, UNKNOWN)
    assert not kinds(dead, done("t2", {"x": ""}, {"x": "b"}), done("r", {"x": "b"}))


def test_calls_at_the_same_time_may_be_in_either_order() -> None:
    assert not kinds(done("t", {}, {"x": "a"}, began=0, ended=2), done("r", {"x": ""}, began=1, ended=3))


def test_a_value_that_is_appended_twice_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="appended twice"):
        check_history([done("t1", {}, {"x": "a"}), done("t2", {}, {"x": "a"})])


def test_two_transactions_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="one name"):
        check_history([done("t"), done("t")])


def snapshot_history(seed: int, *, steps: int, loses: bool = False) -> list[Transaction]:
    """Random transactions on a store with snapshot isolation; `loses`: it lets two write over one another."""
    dice = random.Random(seed)
    store: list[dict[str, tuple[str, ...]]] = [dict.fromkeys("xyz", ())]
    open_ones: list[dict[str, Any]] = []
    found: list[Transaction] = []
    for step in range(steps):
        if open_ones and dice.random() < 0.5:
            one = open_ones.pop(dice.randrange(len(open_ones)))
            changed = {key for state in store[one["at"] :] for key in one["keys"] if state[key] != one["reads"][key]}
            is_fine = loses or not changed
            if is_fine and one["keys"]:
                made = {key: (*one["reads"][key], f"{one['name']}{key}") for key in one["keys"]}
                store.append({**store[-1], **made})
            ending = OK if is_fine else FAILED
            appends = {key: (f"{one['name']}{key}",) for key in one["keys"]}
            shown = dice.choice([ending, UNKNOWN]) if one["keys"] else ending
            found.append(
                Transaction(
                    name=one["name"], ending=shown, reads=one["reads"], appends=appends, began=one["began"], ended=step
                )
            )
        else:
            keys = dice.choice(["", "x", "y", "xy", "yz"])
            open_ones.append(
                {"name": f"t{step}", "keys": keys, "reads": store[-1], "at": len(store) - 1, "began": step - 0.5}
            )
    final = Transaction(name="final", ending=OK, reads=store[-1], began=steps, ended=steps + 1)
    return [*found, *(_unanswered(one) for one in open_ones), final]


def _unanswered(one: dict[str, Any]) -> Transaction:
    appends = {key: (f"{one['name']}{key}",) for key in one["keys"]}
    return Transaction(name=one["name"], ending=UNKNOWN, reads=one["reads"], appends=appends, began=one["began"])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_histories_of_a_store_with_snapshot_isolation_have_no_anomaly(seed: int) -> None:
    assert check_history(snapshot_history(seed, steps=40)) == ()


def test_histories_of_a_store_that_loses_updates_have_anomalies() -> None:
    caught = [seed for seed in range(20) if check_history(snapshot_history(seed, steps=40, loses=True))]
    assert len(caught) >= 15


def test_an_anomaly_tells_who_and_where() -> None:
    (found,) = check_history([done("t", {"x": ""}, {"x": "a"}, FAILED), done("r", {"x": "a"})])
    assert found == Anomaly(AnomalyKind.ABORTED_READ, ("r", "t"), "'a' in x")
    assert str(found).startswith("G1a")
