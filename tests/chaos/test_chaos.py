"""A short chaos run, so that `make test` notices what breaks the long one; and whether the judge sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.journal import Journal, Work
from tests.chaos.judge import finish, judge
from tests.chaos.reader import take_snapshot
from tests.chaos.run import run
from tests.chaos.setting import CALL_METADATA, Kind, Setting, rows_of

from pyhudi.testing.isolation import Ending

KILLS = 4


@pytest.mark.parametrize("kind", ["cow9", "mor6"])
def test_writers_that_are_killed_lose_nothing_and_leave_nothing(kind: str, tmp_path: Path) -> None:
    setting = new_setting(tmp_path, kind)
    happened = run(setting, writers=3, kills=KILLS, kill_every=1.0)
    finish(setting)
    verdict = judge(setting)
    assert not [*happened.ended_badly, *verdict.problems]
    assert happened.kills > KILLS
    assert verdict.counts["commits"] > 3


def new_setting(folder: Path, kind: str) -> Setting:
    setting = Setting(path=str(folder / "table"), kind=Kind.parse(kind), folder=folder, seed=20260101)
    setting.create()
    return setting


Misdeed = Callable[[Setting, Journal], None]


def forget_a_write(_: Setting, journal: Journal) -> None:
    journal.end(journal.begin(Work.ONCE, rows=1), Ending.OK, result="20260101000000000")


def do_what_was_refused(setting: Setting, journal: Journal) -> None:
    name = journal.begin(Work.ONCE, rows=1)
    setting.open().upsert(rows_of(name, {(f"{name}/0", "once-0"): None}), hudi_options={CALL_METADATA: name})
    journal.end(name, Ending.FAILED, error="WriteConflictError", why="")


def write_a_key_twice(setting: Setting, journal: Journal) -> None:
    for _ in range(2):
        name = journal.begin(Work.ONCE, rows=1)
        result = setting.open().bulk_insert(
            rows_of(name, {("a key", "once-1"): None}), hudi_options={CALL_METADATA: name}
        )
        journal.end(name, Ending.OK, result=result.instant)
    take_snapshot(setting, journal, frozenset())


def write_a_part(setting: Setting, journal: Journal) -> None:
    name = journal.begin(Work.ONCE, rows=2)
    rows = rows_of(name, {(f"{name}/{n}", "once-1"): None for n in range(2)})
    result = setting.open().bulk_insert(rows.slice(0, 1), hudi_options={CALL_METADATA: name})
    journal.end(name, Ending.OK, result=result.instant)
    take_snapshot(setting, journal, frozenset())


def overwrite_an_append(setting: Setting, journal: Journal) -> None:
    for _ in range(2):
        name = journal.begin(Work.APPEND, reads={"list-0/0/0": ()}, appends=["list-0/0/0"])
        rows = rows_of(name, {("list-0/0/0", "list-0"): (name,)})
        journal.end(name, Ending.OK, result=setting.open().upsert(rows, hudi_options={CALL_METADATA: name}).instant)


def leave_something(setting: Setting, _: Journal) -> None:
    setting.open().handle.state.storage.put(".hoodie/.temp/20260101000000000/list-0/a.marker.CREATE", b"")


def meet_a_bug(_: Setting, journal: Journal) -> None:
    journal.end(journal.begin(Work.APPEND, reads={}, appends=[]), Ending.UNKNOWN, error="InternalError", why="")


@pytest.mark.parametrize(
    ("misdeed", "says"),
    [
        (forget_a_write, "lost"),
        (do_what_was_refused, "refused"),
        (write_a_key_twice, "twice"),
        (write_a_part, "torn"),
        (overwrite_an_append, "lost update"),
        (leave_something, "audit"),
        (meet_a_bug, "InternalError"),
    ],
)
def test_the_judge_sees_what_is_wrong(misdeed: Misdeed, says: str, tmp_path: Path) -> None:
    setting = new_setting(tmp_path, "cow9")
    misdeed(setting, Journal(tmp_path, "w0-0"))
    finish(setting)
    assert says in " ".join(judge(setting).problems)


def test_the_judge_sees_nothing_wrong_in_one_write_after_the_other(tmp_path: Path) -> None:
    setting = new_setting(tmp_path, "mor9")
    finish(setting)
    assert judge(setting).problems == ()
