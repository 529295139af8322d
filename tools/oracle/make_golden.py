"""Write the golden tables: small tables as real Hudi leaves them, with the rows that real Hudi reads from them.

`tests/golden/` then proves reading without a JVM. Run it again only when a case is added or a release changes:

    .venv/bin/python tools/oracle/setup.py
    .venv/bin/python tools/oracle/make_golden.py [release ...]

Each archive holds `table/` (with the empty folders, `.crc` files and modification times that Hudi leaves: version 6
has no other record of completion times) and `expected/*.parquet`; `manifest.json` says what each of them answers.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from golden_archives import pack, read_options  # noqa: E402
from tests.interop.life import Operation, Turn, life_of  # noqa: E402
from tests.interop.parties import operation_options  # noqa: E402
from tests.interop.shapes import ODD_CITIES, Shape  # noqa: E402
from tests.interop.timeline_folder import CompletedWrite, completed_writes  # noqa: E402
from tests.interop.zoo import zoo  # noqa: E402
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle  # noqa: E402

GOLDEN = REPOSITORY / "tests" / "golden"
MANIFEST = GOLDEN / "manifest.json"
#: Hudi stores absolute paths in its plans, so this folder's name ends up in the archives.
WORKSHOP = Path("/tmp/golden")


@dataclass(frozen=True, slots=True)
class Case:
    """A table to write: its options, its commits, and how many of its last commits can still be asked for.

    `settings` are Spark's, for as long as the process lives.
    """

    name: str
    options: Mapping[str, str]
    turns: Sequence[Turn]
    askable: int = 99
    settings: Mapping[str, str] = field(default_factory=dict)


def cases(table_version: int) -> list[Case]:
    shapes = [
        Shape(name="none", table_version=table_version),
        Shape(name="hive", table_version=table_version, partition_by=("city",), hive_style=True, metadata=False),
        Shape(
            name="encoded-complex",
            table_version=table_version,
            record_key=("region", "id"),
            partition_by=("city",),
            url_encode=True,
            cities=ODD_CITIES,
        ),
        Shape(
            name="levels",
            table_version=table_version,
            record_key=("region", "id"),
            partition_by=("city", "year"),
            hive_style=True,
        ),
    ]
    lives = [Case(shape.name, shape.jvm_options, life_of(shape)) for shape in shapes]
    types = [
        _types("types-of-rows", Operation.BULK_INSERT, zoo(shorts=False)),
        _types("types-of-avro", Operation.INSERT, zoo()),
    ]
    # From 1.2.0 on, real Hudi writes no INT96 any more, whatever it is told.
    old_instants = [_int96()] if table_version < 9 else []
    return [*lives, *types, _by_time(), _archived(table_version), *old_instants]


def _by_time() -> Case:
    """Partitions `yyyy/MM/dd` made from milliseconds since the epoch."""
    options = {
        **Shape(name="t", table_version=0, partition_by=("event_ms",), metadata=False).jvm_options,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    first = _timed(range(12), ts=1)
    turns = [
        Turn(Operation.BULK_INSERT, first),
        Turn(Operation.INSERT, _timed(range(12, 16), ts=1)),
        Turn(Operation.UPSERT, _timed(range(2, 18, 3), ts=2)),
        Turn(Operation.DELETE, first.slice(4, 3)),
        Turn(Operation.UPSERT, _timed(range(1, 20, 5), ts=3)),
    ]
    return Case("by-time", options, turns)


def _timed(numbers: Sequence[int], *, ts: int) -> pa.Table:
    start = int(dt.datetime(2024, 2, 28, 22, tzinfo=dt.UTC).timestamp() * 1000)
    return pa.table(
        {
            "id": [f"k{n:02}" for n in numbers],
            "event_ms": pa.array([start + n % 4 * 14_400_000 for n in numbers], pa.int64()),
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "note": [f"{n} at {ts}" for n in numbers],
        }
    )


def _types(name: str, operation: Operation, rows: pa.Table) -> Case:
    """All types in the files of one of Hudi's two writers: of rows (bulk_insert) and of Avro (insert)."""
    options = {**Shape(name="t", table_version=0).jvm_options, "hoodie.parquet.small.file.limit": "0"}
    others = rows.set_column(0, "id", pa.array([f"m{i}" for i in range(rows.num_rows)]))
    return Case(name, options, [Turn(operation, rows), Turn(operation, others)])


def _int96() -> Case:
    """Instants as INT96 at every depth, in a base file that a log updates."""
    options = {
        **Shape(name="t", table_version=0, metadata=False).jvm_options,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.parquet.outputtimestamptype": "INT96",
        "hoodie.compact.inline": "false",
    }
    rebase = [f"{kind}RebaseModeIn{way}" for kind in ("datetime", "int96") for way in ("Read", "Write")]
    settings = {f"spark.sql.parquet.{name}": "CORRECTED" for name in rebase}
    first = _instants(1, [2024, 9999, 1600, None])
    turns = [Turn(Operation.BULK_INSERT, first), Turn(Operation.UPSERT, _instants(2, [2025]))]
    return Case("int96", options, turns, settings=settings)


def _instants(ts: int, years: Sequence[int | None]) -> pa.Table:
    moments = [None if year is None else dt.datetime(year, 12, 31, 23, 59, 59, 999999, dt.UTC) for year in years]
    instant = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "id": [f"k{number}" for number in range(len(years))],
            "ts": pa.array([ts] * len(years), pa.int64()),
            "moment": pa.array(moments, instant),
            "nested": pa.array([{"at": at, "n": 1} for at in moments], pa.struct([("at", instant), ("n", pa.int64())])),
            "list": pa.array([[at] for at in moments if at] + [None] * moments.count(None), pa.list_(instant)),
        }
    )


def _archived(table_version: int) -> Case:
    """Twelve commits of which most are archived and their files cleaned."""
    shape = Shape(
        name="archived",
        table_version=table_version,
        partition_by=("city",),
        metadata=False,
        more_options={
            "hoodie.clean.commits.retained": "2",
            "hoodie.cleaner.commits.retained": "2",
            "hoodie.keep.min.commits": "4",
            "hoodie.keep.max.commits": "5",
        },
    )
    first, second, *_ = life_of(shape)
    turns = [first, second]
    for number in range(10):
        chosen = first.rows.slice(number, 6)
        column = pa.array([5000 + number] * chosen.num_rows, pa.int64())
        turns.append(Turn(Operation.UPSERT, chosen.set_column(chosen.column_names.index("ts"), "ts", column)))
    return Case("archived", shape.jvm_options, turns, askable=2)


def make(oracle: Oracle, table_version: int, case: Case) -> dict[str, Any]:
    """Write one table, ask real Hudi for its rows, pack both; returns its entry of the manifest."""
    name = f"v{table_version}-{case.name}"
    folder = WORKSHOP / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "expected").mkdir(parents=True)
    table = folder / "table"
    for name_of_setting, value in case.settings.items():
        oracle.sql(f"SET {name_of_setting}={value}")
    for turn in case.turns:
        options = {**case.options, **operation_options(turn)}
        oracle.write(table, turn.rows, options)
    writes = completed_writes(table)
    questions = _questions(writes, case.askable)
    for question in questions:
        rows = oracle.read(table, read_options(question))
        question["rows"] = rows.num_rows
        pq.write_table(rows, folder / question["file"], compression="zstd")
    archive = pack(folder, GOLDEN / f"{name}.tar.xz")
    print(f"{name}: {len(writes)} commits, {archive.stat().st_size / 1024:.0f} kB", flush=True)
    return {
        "name": name,
        "archive": archive.name,
        "release": oracle.release,
        "table_version": table_version,
        "operations": [turn.operation.value for turn in case.turns],
        "writes": [{"requested": write.requested, "completed": write.completed} for write in writes],
        "expected": questions,
    }


def _questions(writes: Sequence[CompletedWrite], askable: int) -> list[dict[str, Any]]:
    """The head, two moments before it, and the changes between two commits and up to the head."""
    asked = writes[-askable:]
    moments = asked[len(asked) // 4], asked[len(asked) // 2]
    as_of = [
        {"query": "as_of", "instant": moment.requested, "file": f"expected/as-of-{number}.parquet"}
        for number, moment in enumerate(dict.fromkeys(moments))
    ]
    begin, end = asked[0].position, asked[-1].position
    middle = asked[len(asked) // 2].position
    changes = [{"query": "changes", "begin": begin, "end": None, "file": "expected/changes-to-head.parquet"}]
    if middle not in (begin, end):
        changes.append(
            {"query": "changes", "begin": begin, "end": middle, "file": "expected/changes-to-middle.parquet"}
        )
    return [{"query": "snapshot", "file": "expected/snapshot.parquet"}, *as_of, *changes]


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    entries = {entry["name"]: entry for entry in json.loads(MANIFEST.read_text())} if MANIFEST.exists() else {}
    for table_version, release in RELEASE_OF_TABLE_VERSION.items():
        if sys.argv[1:] and release not in sys.argv[1:]:
            continue
        oracle = Oracle(release)
        for case in cases(table_version):
            entry = make(oracle, table_version, case)
            entries[entry["name"]] = entry
            MANIFEST.write_text(json.dumps([entries[name] for name in sorted(entries)], indent=1) + "\n")
        oracle.stop()
    shutil.rmtree(WORKSHOP, ignore_errors=True)


if __name__ == "__main__":
    main()
