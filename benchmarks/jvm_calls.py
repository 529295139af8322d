"""How often JVM Hudi calls its store for a commit of 100 rows: `python benchmarks/jvm_calls.py`.

The commits are those of `indexes.py commit`. Hudi's own wrapper of the file system counts, in the driver and in tasks,
and names the calls. What is done without that wrapper, as reading Parquet files, is not counted: the numbers are too
low.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS, HUDI_METADATA

ROWS, FEW, WARM, TURNS = 10_000, 100, 13, 5
WRITTEN = "write"
"""Pieces that are written into an open file: not calls of a store."""
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
CASES = {
    "no metadata table": {"hoodie.metadata.enable": "false"},
    "files": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
    },
    "files and statistics": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
    },
}


def worker(folder: Path, jar: str) -> None:
    """Write each table in a session of JVM Hudi's, and print the calls of its median commit."""
    from peers.jvm_hudi import WithMetadataTable

    peer = WithMetadataTable(folder, [jar])
    peer.start()
    spark = peer.spark
    jvm: Any = spark.sparkContext._jvm  # the registry has no other door
    registries = [jvm.org.apache.hudi.common.metrics.Registry.getRegistry(name) for name in ("calls", "meta calls")]
    jvm.org.apache.hudi.hadoop.fs.HoodieWrapperFileSystem.setMetricsRegistry(*registries)
    for case, options in CASES.items():
        path = str(folder / case.replace(" ", "_"))

        def write(first: int, count: int, stamp: int, operation: str, mode: str, path: str = path) -> None:
            asked = {**OPTIONS, **options, "hoodie.datasource.write.operation": operation}  # noqa: B023
            rows = spark.range(first, first + count).selectExpr(
                "concat('key-', id) id", "concat('c', id % 4) city", f"cast({stamp} as bigint) ts", "id / 7 fare"
            )
            rows.write.format("hudi").options(**asked).mode(mode).save(path)

        write(0, ROWS, 1, "bulk_insert", "overwrite")
        found = []
        for turn in range(WARM + TURNS):
            for registry in registries:
                registry.clear()
            write(turn * FEW, FEW, turn + 2, "upsert", "append")
            calls: dict[str, int] = {}
            for registry in registries:
                for name, count in dict(registry.getAllCounts(False)).items():
                    if "total" not in name:
                        kind = name.removesuffix(".count")
                        calls[kind] = calls.get(kind, 0) + count
            found.append({name: count for name, count in calls.items() if name != WRITTEN})
        middle = sorted(found[WARM:], key=lambda calls: sum(calls.values()))[TURNS // 2]
        print(json.dumps([case, sum(middle.values()), middle]), flush=True)
    peer.stop()


def main() -> None:
    hudi = next(one for one in CONTESTANTS if one.name == HUDI_METADATA)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(hudi.python), __file__, folder, str(hudi.jars[0])], check=True, stdout=subprocess.PIPE, text=True
        )
    # The JVM prints there, too.
    for line in (each for each in done.stdout.splitlines() if each.startswith("[")):
        case, calls, kinds = json.loads(line)
        print(f"upsert of 100 rows by JVM Hudi, {case}: calls {calls}\n  {kinds}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        worker(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
