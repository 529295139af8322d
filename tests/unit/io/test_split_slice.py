"""A slice in two parts gives the rows of the merged slice: on the tables of real Hudi."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.io.base_file import read_batches
from pyhudi.io.split_slice import ROW_NUMBER, ROWS_PER_FILE, file_number, rows_of_logs, rows_out_of_use
from pyhudi.read.scan import ScanPlan

GOLDEN = Path(__file__).parents[2] / "golden" / "mor"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "manifest.json").read_text())
CASES = (
    "basic",
    "by-date",
    "bucket",
    "consistent",
    "default-payload",
    "log-compacted",
    "pending",
    "partial",
    "unordered",
)


def joined(table: pyhudi.HudiTable, plan: ScanPlan) -> list[str]:
    """The rows of the slices with logs as an engine puts them together, as text."""
    storage, names = table.state.storage, list(plan.schema.names)
    out_of_use: set[int] = set()
    rows: list[tuple[int | None, dict[str, Any]]] = []
    for number, one in enumerate(plan.merged):
        for batch in rows_out_of_use(storage, one.files, plan.merging, number):
            out_of_use.update(batch.column(ROW_NUMBER).to_pylist())
        for batch in rows_of_logs(storage, one.files, plan.merging, names, number):
            numbers = batch.column(ROW_NUMBER).to_pylist()
            rows += zip(numbers, batch.select(names).to_pylist(), strict=True)
        if one.files.base is not None:
            stored = pa.Table.from_batches(read_batches(storage, one.files.base)).to_pylist()
            first = file_number(one.files.base) * ROWS_PER_FILE
            rows += [(first + place, {name: row.get(name) for name in names}) for place, row in enumerate(stored)]
    return sorted(repr(row) for number, row in rows if number not in out_of_use)


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if one["name"].partition("-")[2] in CASES], ids=lambda entry: entry["name"]
)
def test_parts_of_a_slice_join_to_the_merged_slice(entry: dict[str, Any], tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / entry["archive"]) as archive:
        archive.extractall(tmp_path, filter="data")
    table = pyhudi.HudiTable.for_path(str(tmp_path / "table"))
    plan = table.scan()
    assert plan.merging.rules.in_logs.selects
    merged = [row for row in table.to_arrow().to_pylist() if row["_hoodie_record_key"]]
    plain = {one.files.base for one in plan.plain}

    found = joined(table, plan)

    stored = [batch for path in plain if path for batch in read_batches(table.state.storage, path)]
    in_plain = sum(batch.num_rows for batch in stored)
    assert len(found) + in_plain == len(merged)
    assert set(found) <= {repr(row) for row in merged}
