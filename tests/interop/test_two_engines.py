"""JVM Hudi and we write to one table at the same time, under one lock: nothing is lost, no key is there twice."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.neighbours import (
    Row,
    SharedTable,
    assert_everybody_sees,
    assert_nothing_left_over,
    batch,
    file_lock,
    let_heartbeats_expire,
    zookeeper_lock,
)
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError
from tests.support.zookeeper import zookeeper

from pyhudi.errors import LockLostError, WriteConflictError

__all__ = ["zookeeper"]

_log = logging.getLogger(__name__)
OracleOf = Callable[[str], Oracle]

PARTITIONS = ("p0", "p1", "p2")
LEAD = 2
"""By how many commits one may be ahead: so that both are at it until the end, and the slower one gets through."""
ATTEMPTS_PER_COMMIT = 10
PAUSE_SECONDS = 0.5
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",  # its name for JVM Hudi 1.2
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.index.type": "RECORD_INDEX",
}
COMPACTING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """How the two meet: on partitions of their own, or on the same ones; how often each commits."""

    version: int
    kind: str
    lock: str
    overlapping: bool = True
    commits: int = 15
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        ground = "same" if self.overlapping else "own"
        indexed = "-indexed" if "hoodie.metadata.enable" in self.options else ""
        return f"v{self.version}-{self.kind[:5].lower()}-{self.lock}-{ground}-{self.commits}{indexed}"


MEETINGS = [
    pytest.param(Meeting(version=9, kind=COW, lock="file", commits=100), marks=pytest.mark.timeout(3600)),
    Meeting(version=9, kind=MOR, lock="zookeeper", options=COMPACTING),
    Meeting(version=6, kind=MOR, lock="file", options=COMPACTING),
    Meeting(version=9, kind=COW, lock="zookeeper", commits=8, options=INDEXED),
    *(
        pytest.param(meeting, marks=pytest.mark.thorough)
        for meeting in (
            Meeting(version=9, kind=COW, lock="zookeeper", overlapping=False),
            Meeting(version=9, kind=MOR, lock="file"),
            Meeting(version=9, kind=MOR, lock="zookeeper", commits=8, options={**INDEXED, **COMPACTING}),
            Meeting(version=8, kind=COW, lock="zookeeper", commits=8, options=INDEXED),
            Meeting(version=8, kind=MOR, lock="zookeeper", commits=8, options={**INDEXED, **COMPACTING}),
            Meeting(version=6, kind=COW, lock="zookeeper", commits=8, options=INDEXED),
            Meeting(version=6, kind=MOR, lock="zookeeper", commits=8, options={**INDEXED, **COMPACTING}),
            Meeting(version=8, kind=COW, lock="zookeeper"),
            Meeting(version=8, kind=MOR, lock="file", overlapping=False, options=COMPACTING),
            Meeting(version=8, kind=MOR, lock="zookeeper"),
            Meeting(version=6, kind=COW, lock="file"),
            Meeting(version=6, kind=MOR, lock="zookeeper"),
        )
    ),
]


@dataclass
class Side:
    """One of the two writers: what it was told was committed, and what it tries next."""

    name: str
    parts: tuple[str, ...]
    shared_keys: Mapping[str, str]
    times: Iterator[int]
    chance: random.Random
    committed: int = 0
    seconds: float = 0
    conflicts: int = 0
    lost_locks: int = 0
    own: dict[str, Row] = field(default_factory=dict)
    shared: dict[str, Row] = field(default_factory=dict)

    def next_rows(self) -> tuple[list[Row], list[Row]]:
        """Rows of one partition: new keys, changed ones, one that both sides change; and now and then one to delete."""
        part, time = self.chance.choice(self.parts), next(self.times)
        says = f"{self.name} {self.committed}"
        keys = [f"{self.name}-{self.committed}-{number}" for number in range(2)]
        known = [key for key, row in self.own.items() if row[1] == part]
        old = self.chance.sample(known, min(3, len(known)))
        gone = old[:1] if self.committed % 4 == 3 else []
        common = [key for key, its_part in self.shared_keys.items() if its_part == part][:1]
        rows = [(key, part, time, says) for key in [*keys, *old, *common] if key not in gone]
        return rows, [(key, part, time, says) for key in gone]

    def acknowledge(self, rows: list[Row], gone: list[Row]) -> None:
        for row in rows:
            (self.shared if row[0] in self.shared_keys else self.own)[row[0]] = row
        for row in gone:
            del self.own[row[0]]
        self.committed += 1


def take_part(side: Side, other: Side, commits: int, write: Callable[[pa.Table], None], stop: threading.Event) -> None:
    """Commit so many batches, each as often as it takes, side by side with the other one."""
    for _ in range(commits):
        while side.committed - other.committed >= LEAD and not stop.is_set():
            time.sleep(0.02)
        # Not right behind the other one's commit, where the two would never meet.
        time.sleep(side.chance.uniform(0, PAUSE_SECONDS))
        rows, gone = side.next_rows()
        changes = batch(rows, gone)
        for attempt in itertools.count(1):
            if stop.is_set():
                return
            began = time.monotonic()
            try:
                write(changes)
                side.seconds = time.monotonic() - began
                break
            except WriteConflictError:
                side.conflicts += 1
            except LockLostError:
                # Closing the JVM's lock provider deletes the file of the lock, whoever holds it.
                side.lost_locks += 1
            except OracleError as error:
                if "ConcurrentModification" not in str(error):
                    raise
                side.conflicts += 1
            assert attempt < ATTEMPTS_PER_COMMIT, f"{side.name} does not get through"
        side.acknowledge(rows, gone)


def meet(table: SharedTable, oracle: Oracle, meeting: Meeting) -> tuple[Side, Side, list[Row]]:
    """Let both write at the same time; gives the sides and the rows that must be there in the end."""
    times = itertools.count(1)
    seeds = [(f"both-{part}", part, next(times), "seed") for part in PARTITIONS] if meeting.overlapping else []
    seeds += [(f"still-{part}", part, next(times), "seed") for part in PARTITIONS]
    table.write_with_jvm(oracle, batch(seeds))
    common = {row[0]: row[1] for row in seeds if row[0].startswith("both")}
    grounds = (PARTITIONS, PARTITIONS) if meeting.overlapping else (("jvm",), ("us",))
    jvm, us = (
        Side(name, parts, common, times, random.Random(name))
        for name, parts in zip(("jvm", "us"), grounds, strict=True)
    )

    def write_and_look(changes: pa.Table) -> None:
        # About as long as JVM Hudi takes: either must be able to lose.
        table.write_with_us_slowly(changes, us.chance.uniform(0, jvm.seconds))
        written = set(changes.filter(pc.invert(changes["_hoodie_is_deleted"]))["id"].to_pylist()) - set(common)
        seen = [row[0] for row in table.rows_of_ours()]
        assert written <= set(seen)
        assert len(seen) == len(set(seen))

    stop = threading.Event()

    def run(side: Side, other: Side, write: Callable[[pa.Table], None]) -> None:
        try:
            take_part(side, other, meeting.commits, write, stop)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(run, jvm, us, lambda changes: table.write_with_jvm(oracle, changes)),
            pool.submit(run, us, jvm, write_and_look),
        ]
        for one in both:
            one.result()
    newest = {row[0]: row for row in seeds}
    for row in [*jvm.shared.values(), *us.shared.values()]:
        newest[row[0]] = max(newest[row[0]], row, key=lambda one: one[2])
    return jvm, us, [*newest.values(), *jvm.own.values(), *us.own.values()]


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize("meeting", MEETINGS, ids=str)
def test_both_engines_write_at_the_same_time_and_nothing_is_lost(
    meeting: Meeting,
    oracle_of: OracleOf,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    lock = file_lock() if meeting.lock == "file" else zookeeper_lock(request.getfixturevalue("zookeeper"))
    table = SharedTable(tmp_path / "t", meeting.version, meeting.kind, {**lock, **meeting.options})
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[meeting.version])

    jvm, us, expected = meet(table, oracle, meeting)

    _log.info("%s: conflicts of the JVM %d, ours %d (%d locks)", meeting, jvm.conflicts, us.conflicts, us.lost_locks)
    assert jvm.committed == us.committed == meeting.commits
    if not meeting.overlapping:
        assert jvm.conflicts == us.conflicts == 0
    assert_everybody_sees(table, oracle, expected, "at the end")
    let_heartbeats_expire(table.path)
    table.open().recovery.roll_back_failed_writes(eager=True)
    assert_nothing_left_over(table)
    assert_everybody_sees(table, oracle, expected, "tidied up")
    assert table.open().inspect.metadata_check().to_pylist() == []
    if table.open().handle.state.config.metadata_partitions:
        oracle.sql(f"CREATE TABLE met_{meeting.kind} USING hudi LOCATION '{table.path}'")
        assert oracle.sql(f"CALL validate_metadata_table_files(table => 'met_{meeting.kind}')") == []
