"""Many writers, kill -9 at random, and a judge: `python -m tests.chaos --minutes 10 --store local --writers 8`.

Ends with 1 and a list of problems when something is wrong; the folder with the journals, and with a local table, stays.
"""

# ruff: noqa: T201 - it talks to whoever runs it
from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.chaos.judge import finish, judge
from tests.chaos.jvm import problems_of_jvm_hudi
from tests.chaos.run import run
from tests.chaos.setting import Kind, Setting
from tests.interop.neighbours import let_heartbeats_expire, zookeeper_lock
from tests.support import minio, zookeeper

PROBLEMS_SHOWN = 40
SHORT_LEASE = {
    "hoodie.write.lock.provider": "StorageBasedLockProvider",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
"""Who is killed with the lock in an object store stops all others until it has ended: not for a minute each time."""


def main() -> int:
    """Run what the command line asks for; 0 where nothing was found."""
    asked = _arguments()
    kinds = [Kind.parse(text) for text in asked.tables.split(",")]
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-chaos-", dir=asked.folder))
    failed = False
    with _store(asked.store, folder) as (root, options), _shared_lock("jvm" in asked.beside, folder) as lock:
        for kind in kinds:
            seconds = 60 * asked.minutes / len(kinds)
            failed |= not _one(asked, kind, folder / str(kind), f"{root}/{kind}", {**options, **lock}, seconds)
    if failed:
        print(f"see {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _one(
    asked: argparse.Namespace, kind: Kind, folder: Path, path: str, options: Mapping[str, str], seconds: float
) -> bool:
    """One table; whether nothing was wrong."""
    folder.mkdir()
    setting = Setting(path=path, kind=kind, folder=folder, seed=asked.seed, options=options)
    setting.create()
    happened = run(setting, writers=asked.writers, seconds=seconds, kill_every=asked.kill_every, beside=asked.beside)
    if "jvm" in asked.beside:
        # JVM Hudi 0.15.0 leaves those of writes that lost a conflict.
        let_heartbeats_expire(Path(path))
    found = finish(setting)
    verdict = judge(setting)
    print(f"\n{kind} on {asked.store}: {asked.writers} writers, {happened.seconds:.0f} s, {happened.kills} kills")
    for name, count in {**verdict.counts, **found}.items():
        print(f"  {name:28} {count}")
    problems = [*happened.ended_badly, *verdict.problems]
    if asked.jvm:
        problems += problems_of_jvm_hudi(setting)
        print("  JVM Hudi was asked, too")
    print(f"  {len(problems) or 'no'} problems")
    for problem in problems[:PROBLEMS_SHOWN]:
        print(f"  PROBLEM {problem}")
    sys.stdout.flush()
    return not problems


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="over all tables together")
    parser.add_argument("--store", choices=("local", "s3"), default="local")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--tables", default="mor9", help="kinds of tables one after the other: cow6,cow9,mor6,mor8")
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds between two kills, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--beside",
        nargs="+",
        choices=("spark", "jvm"),
        default=(),
        help="further writers, which nobody kills: pyhudi on Spark, and JVM Hudi (local; all under a ZooKeeper lock)",
    )
    parser.add_argument("--jvm", action="store_true", help="let JVM Hudi read and write the table in the end (local)")
    parser.add_argument("--folder", type=Path, help="where journals and local tables lie; a temporary one by default")
    asked = parser.parse_args()
    if asked.store != "local" and (asked.jvm or "jvm" in asked.beside):
        parser.error("JVM Hudi reaches local tables only here: take --store local, or leave it out")
    return asked


@contextlib.contextmanager
def _store(name: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Where tables go, and the options that reach it."""
    if name == "local":
        yield str(folder / "tables"), {}
        return
    (folder / "data" / minio.BUCKET).mkdir(parents=True)
    with minio.running(minio.server_program(), folder) as server:
        yield server.new_root(), {**server.options, **SHORT_LEASE}


@contextlib.contextmanager
def _shared_lock(is_shared: bool, folder: Path) -> Iterator[dict[str, str]]:
    """Where JVM Hudi writes along: a lock that it knows, and that ends with its holder."""
    if not is_shared:
        yield {}
        return
    (folder / "zookeeper").mkdir()
    with zookeeper.running(folder / "zookeeper") as server:
        yield {**zookeeper_lock(server), "hoodie.write.lock.zookeeper.session_timeout_ms": "4000"}


if __name__ == "__main__":
    sys.exit(main())
