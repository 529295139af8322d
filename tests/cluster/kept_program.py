"""Application of `test_kept_files.py`: `kept_program.py <master> <folder> <JSON of settings>`.

Writes tables with all kinds of indexes, once with all steps on executors and once with small ones in the driver. Prints
one line of JSON: of each write what its calls to the store were for, and of each table its rows.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

INDEXES = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "RECORD_INDEX": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}


def main(master: str, folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    import pyhudi
    from pyhudi.spark import engine

    spark = pyhudi.spark_session(master=master, config=settings["config"])
    pyhudi.enable(spark)
    told = []
    for index, options in INDEXES.items():
        engine.IN_PROCESS_BYTES_MAX = 32 << 20 if index == "SIMPLE" else 0
        table = pyhudi.HudiTable.create(
            folder / index,
            schema=_schema(),
            record_key="id",
            partition_by="p",
            ordering_fields="v",
            hudi_options=options,
        )

        def rows(start: int, end: int, value: int) -> Any:
            made = spark.range(start, end, 1, 4)
            return made.selectExpr("id", "concat('p', id % 3) p", f"{value}L v")

        results = [
            table.insert(rows(0, 300, 1), hudi_options=options),
            table.upsert(rows(200, 600, 2), hudi_options=options),
            table.delete(rows(0, 100, 3), hudi_options=options),
        ]
        merge = table.refresh().merge(rows(550, 650, 4), on="id")
        merge = merge.when_matched_update(set={"v": "source.v"})
        results.append(
            merge.when_not_matched_insert(values={"id": "source.id", "p": "source.p", "v": "source.v"}).execute()
        )
        stored = table.refresh().scan().to_df(spark).selectExpr("count(*)", "count(distinct id)", "sum(v)").first()
        told.append(
            {
                "index": index,
                "purposes": sorted({purpose for result in results for purpose in result.calls}),
                "sums": [int(value) for value in stored],
            }
        )
    kept = len(spark.sparkContext._jsc.getPersistentRDDs())
    spark.stop()
    return [*told, {"kept": kept}]


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))) + "\n")
