"""What a worker loads before its first task: each one does, and a job that runs once waits for it."""

from __future__ import annotations

import json
import subprocess
import sys

SHOW = "import json, sys, {}; print(json.dumps([name for name in sys.modules if name.startswith('pyhudi.')]))"


def test_worker_of_a_bulk_insert_loads_neither_options_nor_timelines() -> None:
    program = SHOW.format("pyhudi.tasks.bulk_insert, pyhudi.spark.engine")

    loaded = json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)

    assert "pyhudi.tasks.data_file" in loaded
    needless = ("pyhudi.config.options_", "pyhudi.table.timeline", "pyhudi.table.state", "pyhudi.transaction.conflicts")
    assert [name for name in loaded if name.startswith(needless)] == []
