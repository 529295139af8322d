"""A stream that is killed again and again: `python -m tests.chaos.streams --kills 100`.

A process streams from one table into another, one commit to a micro-batch. It is killed with signal 9 at random
moments, and started again. In the end the copy has to have every row once, and each micro-batch one commit.
"""

# ruff: noqa: T201 - it talks to whoever runs it
from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import pyhudi
from pyhudi.table.archive.history import archived_values
from pyhudi.table.commits import load_commit_metadata
from pyhudi.transaction.idempotence import BATCH_ID_METADATA

PROGRAM = Path(__file__).with_name("stream_program.py")
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "copy",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.table.ordering.fields": "n",
    "hoodie.compact.inline.max.delta.commits": "3",
}
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
ROWS_PER_COMMIT = 20
COMMITS_AHEAD = 20
EFFECTS_MAX = 24
"""A micro-batch shows itself in about eight files of the timeline and the checkpoint."""
SECONDS_MAX = 0.4
SECONDS_WITHOUT_EFFECT_MAX = 90
SECONDS_AT_THE_END_MAX = 900


@dataclass(frozen=True, slots=True)
class Happened:
    """What a run saw: how many kills, how many commits the copy has, and what is wrong with it."""

    kills: int
    commits: int
    problems: tuple[str, ...]


Options = dict[str, str]


def end_in_a_process(folder: Path, options: Options) -> None:
    """Let the stream copy what is left, in a process of its own as those that were killed."""
    subprocess.run(
        [sys.executable, PROGRAM, folder, json.dumps(options), "once"],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS_AT_THE_END_MAX,
    )


def run(
    folder: Path,
    *,
    kind: str,
    operation: str,
    kills: int,
    seed: int,
    commits_ahead: int = COMMITS_AHEAD,
    effects_max: int = EFFECTS_MAX,
    end: Callable[[Path, Options], None] = end_in_a_process,
) -> Happened:
    """Kill a stream so often, let it end, and judge the copy.

    `commits_ahead`: how many commits the source has at first. `effects_max`: after how many effects it is killed at the
    latest.
    """
    chance = random.Random(seed)
    options = {
        **OPTIONS,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.table.type": TYPES[kind],
    }
    source = pyhudi.HudiTable.create(
        folder / "source",
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="n",
        hudi_options={"hoodie.clean.automatic": "false"},  # or the first micro-batch has most commits
    )
    turns = itertools.count()
    for _ in range(commits_ahead):
        _commit(source, next(turns), operation)
    for number in range(kills):
        _life(folder, options, effects=chance.randrange(1, effects_max), seconds=chance.uniform(0.0, SECONDS_MAX))
        for _ in range(chance.randrange(1, 4)):
            _commit(source, next(turns), operation)
        print(f"kill {number + 1}: {_commits(folder)} of {source.refresh().inspect.history().num_rows}", flush=True)
    problems: tuple[str, ...] = ()
    try:
        end(folder, options)
    except subprocess.CalledProcessError as error:
        problems = (error.stderr[-3000:],)
    return Happened(kills, _commits(folder), (*problems, *problems_of(folder)))


def _commit(source: pyhudi.HudiTable, turn: int, operation: str) -> None:
    """New rows; for a stream of upserts also changes of older ones."""
    ids = list(range(ROWS_PER_COMMIT * turn, ROWS_PER_COMMIT * (turn + 1)))
    if operation == "upsert" and turn:
        ids += range(0, ROWS_PER_COMMIT * turn, 1 + turn)
    table = pa.table({"id": ids, "city": [("bonn", "oslo")[i % 2] for i in ids], "n": [turn] * len(ids)}, SCHEMA)
    source.upsert(table)


def _life(folder: Path, options: Options, *, effects: int, seconds: float) -> None:
    """Start the stream, and kill its process so many seconds after so many effects."""
    with subprocess.Popen(
        [sys.executable, PROGRAM, folder, json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "ready":
            assert process.poll() is None, "the stream ended on its own"
        _wait_for_effects(folder, effects)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)


def _wait_for_effects(folder: Path, number: int) -> None:
    """Wait until so many files have come into the timeline and the checkpoint, or the stream stands still."""
    seen: set[str] = set(_effects(folder))
    new, last = 0, time.monotonic()
    while new < number and time.monotonic() - last < SECONDS_WITHOUT_EFFECT_MAX:
        time.sleep(0.01)
        names = set(_effects(folder))
        if names - seen:
            new, last = new + len(names - seen), time.monotonic()
            seen |= names


def _effects(folder: Path) -> Iterator[str]:
    for watched in ("copy/.hoodie/timeline", "checkpoint/offsets", "checkpoint/commits"):
        with suppress(FileNotFoundError):
            yield from (entry.path for entry in os.scandir(folder / watched) if not entry.name.startswith("."))


def _commits(folder: Path) -> int:
    copy = folder / "copy"
    return pyhudi.HudiTable.for_path(copy).inspect.history().num_rows if (copy / ".hoodie").exists() else 0


def problems_of(folder: Path) -> list[str]:
    """What is not as if nobody had killed anything."""
    copy, source = (pyhudi.HudiTable.for_path(folder / name) for name in ("copy", "source"))
    found, wanted = (
        Counter(tuple(row.values()) for row in table.scan(columns=SCHEMA.names).to_arrow().to_pylist())
        for table in (copy, source)
    )
    problems = [f"missing or too few: {row}" for row in (wanted - found)]
    problems += [f"too many: {row}" for row in (found - wanted)]
    state = copy.handle.state
    names = [
        load_commit_metadata(state.storage, each, state.version).extra.get(BATCH_ID_METADATA)
        for each in state.timeline.completed_writes
    ]
    # Compactions and clusterings have no number of a micro-batch.
    active = [name for name in names if name is not None]
    archived = set(archived_values(state.storage, state.version, BATCH_ID_METADATA))
    problems += [f"written twice: {name}" for name, times in Counter(active).items() if times > 1]
    problems += [f"written again after it was archived: {name}" for name in archived.intersection(active)]
    if len({name.partition("/")[0] for name in (*active, *archived)}) != 1:
        problems.append("the query has changed its id")
    return problems


def main() -> int:
    """Run what the command line asks for; 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.streams", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="over all tables together")
    parser.add_argument("--tables", default="cow,mor")
    parser.add_argument("--operations", default="insert,upsert")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    kinds = list(itertools.product(asked.tables.split(","), asked.operations.split(",")))
    failed = False
    for number, (kind, operation) in enumerate(kinds):
        kills = asked.kills // len(kinds) + (number < asked.kills % len(kinds))
        folder = Path(tempfile.mkdtemp(prefix=f"pyhudi-streams-{kind}-{operation}-"))
        began = time.monotonic()
        happened = run(folder, kind=kind, operation=operation, kills=kills, seed=asked.seed + number)
        seconds = time.monotonic() - began
        counts = f"{happened.commits} commits, {len(happened.problems) or 'no'} problems"
        print(f"{kind} {operation}: {happened.kills} kills in {seconds:.0f} s, {counts}; {folder}")
        for problem in happened.problems[:20]:
            print(f"  PROBLEM {problem}")
        failed |= bool(happened.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
