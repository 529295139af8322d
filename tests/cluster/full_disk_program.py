"""Application of `test_full_disk.py`: `full_disk_program.py <master> <folder> <JSON of settings>`.

Before each step it makes the file `ready-<step>` in the folder, and waits for `go-<step>`. Prints one line of JSON with
the error of each step, or null, and what was read after it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

ROWS, SPLITS, CITIES, STEPS = 8_000, 4, 4, 4


def main(master: str, folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    from life_program import table_options

    import pyhudi
    from pyhudi.spark import engine

    engine.IN_PROCESS_BYTES_MAX = 0
    uri, store = settings["uri"], settings["store"]
    spark = pyhudi.spark_session(master=master, config=settings["config"])
    options = table_options(settings)
    told = []
    for step in range(STEPS):
        (folder / f"ready-{step}").touch()
        while not (folder / f"go-{step}").exists():
            time.sleep(0.05)
        rows = spark.range(0, ROWS, 1, SPLITS).selectExpr(
            "cast(id as string) uuid",
            f"concat('c', id % {CITIES}) city",
            f"{step}L ts",
            f"sha2(concat(id, '-{step}'), 512) text",  # which no codec makes much smaller
        )
        error = None
        try:
            rows.write.format("hudi").options(**options).mode("append").save(uri)
        except Exception as raised:  # noqa: BLE001 - the test says which it may be
            error = [kind.__name__ for kind in type(raised).__mro__], str(raised)[:2000]
        stored = spark.read.format("hudi").options(**store).load(uri)
        sums = stored.selectExpr("count(*)", "count(distinct uuid)", "min(ts)", "max(ts)").first()
        told.append({"error": error, "sums": list(sums)})
    spark.stop()
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))) + "\n")
