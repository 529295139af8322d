"""Write the golden merge-on-read tables: as real Hudi leaves them, with the rows that real Hudi reads from them.

Run it again only when a case is added or a release changes:

    .venv/bin/python tools/oracle/setup.py
    .venv/bin/python tools/oracle/make_golden_mor.py [--release 1.2.0] [--case basic] ...

`tests/golden/mor/README.md` says what the archives and the manifest hold.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from filelock import FileLock

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from golden_archives import pack, read_options  # noqa: E402
from mor_cases import Case, KillLast, Sql, Step, Write, cases  # noqa: E402
from tests.interop.timeline_folder import CompletedWrite, completed_writes  # noqa: E402
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError  # noqa: E402

GOLDEN = REPOSITORY / "tests" / "golden" / "mor"
MANIFEST = GOLDEN / "manifest.json"
#: Hudi stores absolute paths in its plans, so this folder's name ends up in the archives.
WORKSHOP = Path("/tmp/golden-mor")


def make(oracle: Oracle, table_version: int, case: Case) -> dict[str, Any]:
    """Write one table, ask real Hudi for its rows, pack both; returns its entry of the manifest."""
    name = f"v{table_version}-{case.name}"
    folder = WORKSHOP / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "expected").mkdir(parents=True)
    table = folder / "table"
    options = case.options_of(name)
    for step in case.steps:
        take(oracle, table, options, step)
    writes = completed_writes(table)
    answered, refused = [], []
    for question in questions(writes):
        try:
            rows = oracle.read(table, read_options(question))
        except OracleError as error:
            refused.append({**question, "error": str(error)})
            continue
        question["rows"] = rows.num_rows
        doubt = case.doubts.get(f"v{table_version} {Path(question['file']).stem}")
        if doubt:
            question["doubt"] = doubt
        pq.write_table(rows, folder / question["file"], compression="none")
        answered.append(question)
    archive = pack(folder, GOLDEN / f"{name}.tar.xz")
    shutil.rmtree(folder)
    print(f"{name}: {len(writes)} writes, {archive.stat().st_size / 1024:.0f} kB", *refused, flush=True)
    return {
        "name": name,
        "about": case.about,
        "archive": archive.name,
        "release": oracle.release,
        "table_version": table_version,
        "operations": [step.operation if isinstance(step, Write) else step.name for step in case.steps],
        "writes": [
            {"requested": write.requested, "completed": write.completed, "action": write.action} for write in writes
        ],
        "expected": answered,
        "refused": refused,
    }


def take(oracle: Oracle, table: Path, options: Mapping[str, str], step: Step) -> None:
    """One step of a table's life."""
    match step:
        case Write():
            operation = {"hoodie.datasource.write.operation": step.operation}
            oracle.write(table, step.rows, {**options, **operation, **step.options})
        case Sql():
            oracle.sql("DROP TABLE IF EXISTS t")
            oracle.sql(f"CREATE TABLE t USING hudi LOCATION '{table}'")
            # Statements of SQL take the writer's options from the session.
            for key, value in options.items():
                if not key.startswith("hoodie.datasource.write") and key != "hoodie.table.name":
                    oracle.sql(f"SET {key}={value}")
            for statement in step.statements:
                oracle.sql(statement.replace("{last}", completed_writes(table)[-1].requested))
            for key in options:
                oracle.sql(f"RESET {key}")
        case KillLast():
            kill_last(table)


def kill_last(table: Path) -> None:
    """Take the completed instant of the last write away: what a writer leaves that dies just before it."""
    last = completed_writes(table)[-1]
    names = f"{last.requested}.{last.action}", f"{last.requested}_{last.completed}.{last.action}"
    for folder in (table / ".hoodie", table / ".hoodie" / "timeline"):
        for name in names:
            (folder / name).unlink(missing_ok=True)
            (folder / f".{name}.crc").unlink(missing_ok=True)


def questions(writes: Sequence[CompletedWrite]) -> list[dict[str, Any]]:
    """The head in both kinds of snapshot, every moment before it, and the changes of three spans."""
    as_of = [
        {"query": "as_of", "instant": write.requested, "file": f"expected/as-of-{number}.parquet"}
        for number, write in enumerate(writes[:-1])
    ]
    first, middle = writes[0].position, writes[len(writes) // 2].position
    spans = [("first-to-head", first, None), ("first-to-middle", first, middle), ("middle-to-head", middle, None)]
    changes = [
        {"query": "changes", "begin": begin, "end": end, "file": f"expected/changes-{name}.parquet"}
        for name, begin, end in spans
    ]
    return [
        {"query": "snapshot", "file": "expected/snapshot.parquet"},
        {"query": "read_optimized", "file": "expected/read-optimized.parquet"},
        *as_of,
        *changes,
    ]


def store(entry: dict[str, Any]) -> None:
    """Put an entry into the manifest, which the makers of several releases may write at once."""
    with FileLock(WORKSHOP / "manifest.lock"):
        entries = {e["name"]: e for e in json.loads(MANIFEST.read_text())} if MANIFEST.exists() else {}
        entries[entry["name"]] = entry
        MANIFEST.write_text(json.dumps([entries[name] for name in sorted(entries)], indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", action="append", default=[])
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--but", action="append", default=[], help="cases to leave out")
    arguments = parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    WORKSHOP.mkdir(exist_ok=True)
    for table_version, release in RELEASE_OF_TABLE_VERSION.items():
        if arguments.release and release not in arguments.release:
            continue
        oracle = Oracle(release)
        for case in cases():
            chosen = case.name in arguments.case if arguments.case else case.name not in arguments.but
            if table_version not in case.versions or not chosen:
                continue
            try:
                store(make(oracle, table_version, case))
            except OracleError as error:
                print(f"v{table_version}-{case.name}: FAILED {error}", flush=True)
        oracle.stop()


if __name__ == "__main__":
    main()
