"""A short chaos run, so that `make test` notices what breaks the long one; and the judge's own eyes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.judge import finish, judge
from tests.chaos.run import run
from tests.chaos.setting import Kind, Setting


@pytest.mark.parametrize("kind", ["cow9", "mor6"])
def test_writers_that_are_killed_lose_nothing_and_leave_nothing(kind: str, tmp_path: Path) -> None:
    setting = Setting(path=str(tmp_path / "table"), kind=Kind.parse(kind), folder=tmp_path, seed=20260101)
    setting.create()
    happened = run(setting, writers=3, seconds=6.0, kill_every=1.0)
    finish(setting)
    verdict = judge(setting)
    assert not [*happened.ended_badly, *verdict.problems]
    assert verdict.counts["commits"] > 3
    assert happened.kills > 3
