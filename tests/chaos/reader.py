"""Two processes that read until they are told to stop (SIGTERM): one takes snapshots, one follows the changes."""

from __future__ import annotations

import signal
import threading
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.chaos.journal import Journal, Work
from tests.chaos.setting import Setting, split_list

import pyhudi
from pyhudi.errors import HudiError
from pyhudi.table.timeline import position_of
from pyhudi.testing.isolation import Ending

PAUSE_SECONDS = 0.2
"""Between two reads: the writers are the ones who are to be busy."""
_COLUMNS = ("id", "call", "rows", "list")


def run_reader(setting: Setting, name: str) -> None:
    """Take snapshots until the end."""
    seen: frozenset[str] = frozenset()
    journal = Journal(setting.folder, name)
    for _ in _until_told():
        seen = take_snapshot(setting, journal, seen)


def run_follower(setting: Setting, name: str) -> None:
    """Follow the changes until the end."""
    position = ""
    journal = Journal(setting.folder, name)
    for _ in _until_told():
        position = pull(setting, journal, position)


def _until_told() -> Iterable[None]:
    warnings.simplefilter("error")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while not stop.wait(PAUSE_SECONDS):
        yield


def take_snapshot(setting: Setting, journal: Journal, seen: frozenset[str]) -> frozenset[str]:
    """Read all rows and write down what they are; the calls whose rows are written once that this reader knows of.

    `seen`: those of its snapshot before this one.
    """
    name = journal.begin(Work.SNAPSHOT)
    try:
        rows = setting.open().scan(_COLUMNS).to_arrow().to_pylist()
    except HudiError as error:
        journal.end(name, Ending.FAILED, error=type(error).__name__, why=str(error))
        return seen
    once, torn = _calls_of_once(rows)
    twice = [key for key, count in Counter(row["id"] for row in rows).items() if count > 1]
    journal.end(
        name,
        Ending.OK,
        lists=_lists_of(rows),
        torn=torn,
        twice=twice,
        new=sorted(once - seen),
        gone=sorted(seen - once),
    )
    return once


def pull(setting: Setting, journal: Journal, position: str) -> str:
    """Read what was written after a position and write down what it is; the position until which that was."""
    name = journal.begin(Work.PULL, after=position)
    try:
        table = setting.open()
        until = latest_position(table)
        rows = table.changes(position or None, columns=_COLUMNS).to_arrow().to_pylist() if until > position else []
    except HudiError as error:
        journal.end(name, Ending.FAILED, error=type(error).__name__, why=str(error))
        return position
    once, torn = _calls_of_once(rows)
    journal.end(name, Ending.OK, lists=_lists_of(rows), torn=torn, once=sorted(once), until=until)
    return until


def latest_position(table: pyhudi.HudiTable) -> str:
    """Up to where an incremental read of this table sees everything."""
    return max((position_of(one) for one in table.handle.state.timeline.completed_writes), default="")


def _lists_of(rows: Iterable[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    return {row["id"]: split_list(row["list"]) for row in rows if row["list"] is not None}


def _calls_of_once(rows: Iterable[dict[str, Any]]) -> tuple[frozenset[str], dict[str, int]]:
    """The calls whose rows are written once, and of those that are not all there how many are."""
    counts: Counter[str] = Counter()
    wanted: dict[str, int] = {}
    for row in rows:
        if row["list"] is None:
            counts[row["call"]] += 1
            wanted[row["call"]] = row["rows"]
    torn = {call: count for call, count in counts.items() if count != wanted[call]}
    return frozenset(counts), torn
