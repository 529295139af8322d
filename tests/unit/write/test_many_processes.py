"""Several processes that write the same keys of one table on local disk."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
from tests.support.audit import audit

import pyhudi

WRITER = """
import sys
import pyarrow as pa
import pyhudi
from pyhudi.errors import WriteConflictError

path, writer = sys.argv[1], int(sys.argv[2])
options = {"hoodie.write.num.retries.on.conflict.failures": 2, "hoodie.index.bloom.num_entries": 100}
for turn in range(4):
    age = 10 * turn + writer
    ids = [*range(5), 100 + age]
    try:
        pyhudi.HudiTable.for_path(path).upsert(pa.table({"id": ids, "age": [age] * len(ids)}), hudi_options=options)
    except WriteConflictError:
        continue
    print(age, flush=True)
"""


def test_processes_lose_no_acknowledged_write_and_make_no_key_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("age", pa.int64())])
    pyhudi.HudiTable.create(path, schema=schema, record_key="id", ordering_fields="age")

    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    acknowledged: list[int] = []
    for writer in writers:
        output, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
        acknowledged += [int(line) for line in output.split()]

    table = pyhudi.HudiTable.for_path(path)
    found = {row["id"]: row["age"] for row in table.scan(["id", "age"]).to_arrow().to_pylist()}
    assert max(Counter(table.scan(["id"]).to_arrow().column("id").to_pylist()).values()) == 1
    assert found == {**dict.fromkeys(range(5), max(acknowledged)), **{100 + age: age for age in acknowledged}}
    assert len(table.inspect.history()) == len(acknowledged)
    audit(table.handle.state.storage)
