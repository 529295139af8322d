"""How often a read asks an S3 server, by pyhudi and by JVM Hudi: `python benchmarks/reads_on_s3.py`.

Both read the same tables of JVM Hudi on one MinIO, through a relay that counts requests: 10,000 rows in four
partitions, and commits of 100 rows. A read opens the table anew, as a job does that runs once; the process is warm.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS, HUDI_METADATA, REPOSITORY, jar

ROWS, FEW, COMMITS, TURNS = 10_000, 100, 4, 3
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
FILES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
CASES = {
    "no metadata table": {"hoodie.metadata.enable": "false"},
    "files": FILES,
    "files and record index": {**FILES, "hoodie.metadata.global.record.level.index.enable": "true"},
}
READS = ("scan", "lookup", "incremental")
KEY = "key-4242"
DONE = "done "


def rows_of(turn: int) -> tuple[int, int]:
    """The first row of a write and how many it has: all in the first one, some of them in each upsert."""
    return (turn * FEW % ROWS, FEW) if turn else (0, ROWS)


def worker(folder: Path, jars: list[str]) -> None:
    """Do as each line on standard input says, in a session of JVM Hudi's, and say what was read."""
    from peers.jvm_hudi import WithMetadataTable

    peer = WithMetadataTable(folder, jars)
    peer.start()
    spark = peer.spark
    store: Any = spark.sparkContext._jsc  # Hadoop's settings have no other door
    for line in sys.stdin:
        asked = json.loads(line)
        for name, value in asked["store"].items():
            store.hadoopConfiguration().set(name, value)
        options, path = {**OPTIONS, **asked["options"]}, asked["path"]
        if asked["do"] == "write":
            turn = asked["turn"]
            first, found = rows_of(turn)
            rows = spark.range(first, first + found).selectExpr(
                "concat('key-', id) id", "concat('c', id % 4) city", f"cast({turn} as bigint) ts", "id / 7 fare"
            )
            kind = {"hoodie.datasource.write.operation": "upsert" if turn else "bulk_insert"}
            rows.write.format("hudi").options(**options, **kind).mode("append").save(path)
        else:
            reader = spark.read.format("hudi").options(**options)
            if asked["do"] == "incremental":
                reader = reader.option("hoodie.datasource.query.type", "incremental")
                reader = reader.option("hoodie.datasource.read.begin.instanttime", asked["begin"])
            rows = reader.load(path)
            found = len((rows.where(f"id = '{KEY}'") if asked["do"] == "lookup" else rows).collect())
        print(f"{DONE}{found}", flush=True)
    peer.stop()


def read_here(asked: Mapping[str, Any]) -> int:
    """The same reads by pyhudi without Spark: how many rows."""
    import pyhudi

    table = pyhudi.HudiTable.for_path(asked["path"], hudi_options={**asked["store"], **asked["read"]})
    if asked["do"] == "lookup":
        return int(table.lookup([KEY]).num_rows)
    scan = table.changes(begin=asked["begin"]) if asked["do"] == "incremental" else table.scan()
    return int(scan.to_arrow().num_rows)


@contextlib.contextmanager
def jvm_hudi(folder: str) -> Iterator[Callable[[Mapping[str, Any]], int]]:
    """What reads and writes in another process by JVM Hudi."""
    hudi = next(contestant for contestant in CONTESTANTS if contestant.name == HUDI_METADATA)
    jars = [*hudi.jars, jar("hadoop-aws"), jar("aws-sdk")]
    command = [str(hudi.python), __file__, folder, *map(str, jars)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asks, answers = process.stdin, process.stdout
        assert asks is not None
        assert answers is not None

        def ask(asked: Mapping[str, Any]) -> int:
            print(json.dumps(asked), file=asks, flush=True)
            for line in answers:  # the JVM prints there, too
                if line.startswith(DONE):
                    return int(line.removeprefix(DONE))
            raise RuntimeError("the session of JVM Hudi has ended")

        yield ask
        asks.close()


@contextlib.contextmanager
def counted_server() -> Iterator[tuple[Any, Any, Callable[[Mapping[str, Any]], int]]]:
    """A server, the relay before it that counts requests, and `jvm_hudi`."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.support import columns_on_s3, minio

    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        (Path(home) / "data" / minio.BUCKET).mkdir(parents=True)
        server = stack.enter_context(minio.running(minio.server_program(), Path(home)))
        received = stack.enter_context(columns_on_s3.counted(server))
        yield server, received, stack.enter_context(jvm_hudi(home))


def main() -> None:
    import pyhudi

    with counted_server() as (server, received, ask):
        store = received.server.options
        for case, options in CASES.items():
            path = server.new_root("s3a")
            read_options = {"hoodie.metadata.enable": options["hoodie.metadata.enable"]}
            asked = {"store": store, "options": options, "read": read_options, "path": path}
            for turn in range(COMMITS + 1):
                ask({**asked, "do": "write", "turn": turn})
            commits = pyhudi.HudiTable.for_path(path, hudi_options=store).inspect.timeline()
            times = sorted(time for time in commits["completion_time"].to_pylist() if time is not None)
            for read in READS:
                for name, reader in (("pyhudi", read_here), ("JVM Hudi 1.2.0", ask)):
                    found = []
                    for _ in range(TURNS):
                        received.requests.clear()
                        rows = reader({**asked, "do": read, "begin": times[-2]})
                        found.append(Counter(received.requests))
                    middle = sorted(found, key=Counter.total)[TURNS // 2]
                    print(f"{read}, {case}, {name}: {rows} rows, {middle.total()} requests {dict(middle)}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        worker(Path(sys.argv[1]), sys.argv[2:])
    else:
        main()
