"""Lives of tables that JVM Hudi cleans, archives, clusters and savepoints, and what their history must answer.

What each state was is read from JVM Hudi at the time, when nothing of it was cleaned yet. From these states follow the
answers of every question about the past: all rows of the state, or those of the range in the state at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.interop.timeline_folder import completed_writes
from tests.support.oracle import Oracle, OracleError

import pyhudi
from pyhudi.errors import HistoryNotRetainedError

CITIES = ("oslo", "lima", "pune")
Rows = list[list[Any]]
"""[id, commit time, value] of each row, by id."""
Read = Callable[[Mapping[str, str]], pa.Table]
"""Reads a table with options of Spark's reader."""

_QUERY = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
FALL_BACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"

_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
_KEEPS_TIMELINE = {"hoodie.keep.min.commits": "40", "hoodie.keep.max.commits": "50"}
_ARCHIVES = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
_MERGES = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
_CLUSTERS = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
SAVEPOINT = "savepoint"


@dataclass(frozen=True, slots=True)
class Write:
    """One write. `keys` are numbers of records; of a dropped partition the city is `drops`."""

    operation: str
    keys: Sequence[int] = ()
    drops: str = ""
    clusters: bool = False


_UPSERTS = (
    Write("insert", range(12)),
    Write("upsert", (0, 1)),
    Write("upsert", (3, 6)),
    Write("upsert", (1, 2, 12)),
    Write("upsert", (0, 5)),
    Write("delete", (4,)),
)
_DROPS = (
    Write("insert", range(12)),
    Write("upsert", (0, 1)),
    Write("delete_partition", (0,), drops="lima"),
    Write("upsert", (3, 1)),
    Write("upsert", (2, 4)),
    Write("upsert", (0, 2)),
)
LIVES: dict[str, tuple[dict[str, str], tuple[Write | str, ...]]] = {
    "cleaned": (_KEEPS_TIMELINE, _UPSERTS),
    "savepointed": (_KEEPS_TIMELINE, (*_UPSERTS[:2], SAVEPOINT, *_UPSERTS[2:])),
    "dropped": (_KEEPS_TIMELINE, _DROPS),
    "clustered": (_KEEPS_TIMELINE, (*_UPSERTS[:2], Write("upsert", (3,), clusters=True), *_UPSERTS[3:])),
    "archived": (_ARCHIVES, (*_UPSERTS, Write("upsert", (0, 12)), Write("upsert", (2,)))),
    "merged": ({**_ARCHIVES, **_MERGES}, (*_UPSERTS, Write("upsert", (0, 12)), Write("upsert", (2,)))),
}


@dataclass(frozen=True, slots=True)
class State:
    """A table after a write: the instants that are new then, with their positions on the timeline, and its rows."""

    instants: Mapping[str, str]
    rows: Rows


@dataclass(frozen=True, slots=True)
class History:
    """The states that a table went through, oldest first."""

    states: tuple[State, ...]

    @property
    def positions(self) -> dict[str, str]:
        """Where the writes stand, by instant."""
        return {instant: position for state in self.states for instant, position in state.instants.items()}

    def state_at(self, counts: Callable[[str], bool]) -> Rows | None:
        """The rows after all writes that count; None where only some of those of one state do."""
        rows: Rows = []
        for state in self.states:
            new = [counts(instant) for instant in state.instants]
            if all(new):
                rows = state.rows
            elif any(new):
                return None
        return rows

    def as_of(self, instant: str) -> Rows | None:
        """What a time travel must give."""
        return self.state_at(lambda write: write <= instant)

    def changes(self, begin: str | None, end: str | None) -> Rows | None:
        """What an incremental read must give."""
        positions = self.positions
        last = end or max(positions.values())
        rows = self.state_at(lambda write: positions[write] <= last)
        return rows and [row for row in rows if (begin or "") < positions[row[1]] <= last]

    def ranges(self) -> Iterator[tuple[str | None, str | None]]:
        """All steps, all beginnings, all ends, and some between."""
        positions = sorted(self.positions.values())
        yield None, None
        for position in positions:
            yield position, None
            yield None, position
        yield from pairwise(positions)
        yield from zip(positions, positions[2:], strict=False)


def live(oracle: Oracle, path: Path, life: str) -> History:
    """Let JVM Hudi write a table, and note its states."""
    options, writes = LIVES[life]
    options = {**_OPTIONS, **options}
    states: list[State] = []
    known: set[str] = set()
    for number, write in enumerate(writes):
        if isinstance(write, str):
            oracle.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{max(known)}')")
            continue
        more = {"hoodie.datasource.write.operation": write.operation, **(_CLUSTERS if write.clusters else {})}
        if write.drops:
            more["hoodie.datasource.write.partitions.to.delete"] = write.drops
        oracle.write(path, _rows(write.keys, number), {**options, **more})
        new = {one.requested: one.position for one in completed_writes(path) if one.requested not in known}
        known |= new.keys()
        states.append(State(new, rows_of(oracle.read(path))))
    return History(tuple(states))


def _rows(keys: Sequence[int], number: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{key:02}" for key in keys],
            "city": [CITIES[key % 3] for key in keys],
            "ts": pa.array([number] * len(keys), pa.int32()),
            "value": pa.array([number] * len(keys), pa.int64()),
        }
    )


def rows_of(table: pa.Table) -> Rows:
    """What is compared of rows."""
    return sorted([row["id"], row["_hoodie_commit_time"], row["value"]] for row in table.to_pylist())


def as_of_options(instant: str) -> dict[str, str]:
    """A time travel, as options."""
    return {"as.of.instant": instant}


def changes_options(begin: str | None, end: str | None) -> dict[str, str]:
    """An incremental read, as options."""
    return {_QUERY: "incremental", BEGIN: begin or "000", **({END: end} if end else {})}


def check_history(path: Path, history: History, read: Read, *, few: bool = False) -> list[dict[str, str]]:
    """Every answer is right, or refused because of a file that is gone; returns the questions that were refused.

    What can be answered whatever was cleaned must be: the newest state, and changes without an end. `few`: a part of
    the questions, for readers that take long.
    """
    questions = [
        *((as_of_options(instant), history.as_of(instant)) for instant in sorted(history.positions)),
        *((changes_options(begin, end), history.changes(begin, end)) for begin, end in history.ranges()),
    ][:: 7 if few else 1]
    refused, missing = [], []
    for question, expected in questions:
        if expected is None:
            continue
        try:
            found = rows_of(read(question))
        except HistoryNotRetainedError as error:
            refused.append(question)
            missing.append(path / error.context["path"])
            continue
        assert found == sorted(expected), question
    assert not [file for file in missing if file.exists()]
    answerable = [changes_options(begin, None) for begin in (None, *history.positions.values())]
    assert not [question for question in [*answerable, as_of_options(max(history.positions))] if question in refused]
    assert rows_of(read({})) == history.states[-1].rows
    return refused


def read_by_arrow(path: Path) -> Read:
    """Reads by pyhudi without Spark, from options of Spark's reader."""

    def read(options: Mapping[str, str]) -> pa.Table:
        table = pyhudi.HudiTable.for_path(str(path), hudi_options={k: v for k, v in options.items() if k == FALL_BACK})
        if _QUERY in options:
            begin = options[BEGIN]
            return table.changes(None if begin == "000" else begin, options.get(END)).to_arrow()
        return table.scan(as_of=options.get("as.of.instant")).to_arrow()

    return read


def answered_by(oracle: Oracle, path: Path, question: Mapping[str, str]) -> Rows | None:
    """What JVM Hudi gives from the files of the range, without a scan of the newest state; None: an error."""
    try:
        return rows_of(oracle.read(path, {**question, FALL_BACK: "false"}))
    except OracleError:
        return None
