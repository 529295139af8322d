"""A slice in two parts gives the rows of the merged slice: on the tables of JVM Hudi."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import plan_of

import pyhudi
from pyhudi.io.base_file import read_batches
from pyhudi.io.log.columns import LogColumns
from pyhudi.io.slices.mask import BITS, PART, PLACE, WORD, WORD_ROWS, WORDS_PER_PART, log_rows, rows_out_of_use
from pyhudi.read.scan import ScanPlan

GOLDEN = Path(__file__).parents[3] / "golden" / "mor"
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
    storage, names = table.handle.state.storage, list(plan.schema.names)
    out_of_use: set[tuple[int, int]] = set()
    rows: list[tuple[tuple[int, int], dict[str, Any]]] = []
    for number, one in enumerate(plan.merged):
        parts = {"base_part": number + 1, "log_part": -1 - number}
        for batch in rows_out_of_use(storage, one.files, plan.merging, **parts):
            out_of_use.update(place for word in batch.to_pylist() for place in places_in(word[WORD], word[BITS]))
        columns = LogColumns(storage, one.files, plan.merging)
        for batch in log_rows(storage, one.files, plan.merging, log_part=parts["log_part"]):
            places = batch.column(PLACE).to_numpy()
            values = pa.table({name: columns.take(name, places) for name in names}).to_pylist()
            rows += zip(zip(batch.column(PART).to_pylist(), places.tolist(), strict=True), values, strict=True)
        if one.files.base is not None:
            stored = pa.Table.from_batches(read_batches(storage, one.files.base)).to_pylist()
            rows += [((number + 1, place), {name: row.get(name) for name in names}) for place, row in enumerate(stored)]
    return sorted(repr(row) for at, row in rows if at not in out_of_use)


def places_in(word: int, bits: int) -> list[tuple[int, int]]:
    part, first = word // WORDS_PER_PART, word % WORDS_PER_PART * WORD_ROWS
    return [(part, first + bit) for bit in range(WORD_ROWS) if bits >> bit & 1]


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if one["name"].partition("-")[2] in CASES], ids=lambda entry: entry["name"]
)
def test_parts_of_a_slice_join_to_the_merged_slice(entry: dict[str, Any], tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / entry["archive"]) as archive:
        archive.extractall(tmp_path, filter="data")
    table = pyhudi.HudiTable.for_path(str(tmp_path / "table"))
    plan = plan_of(table)
    assert plan.merging.rules.in_logs.selects
    merged = [row for row in table.scan().to_arrow().to_pylist() if row["_hoodie_record_key"]]
    plain = {one.files.base for one in plan.plain}

    found = joined(table, plan)

    stored = [batch for path in plain if path for batch in read_batches(table.handle.state.storage, path)]
    in_plain = sum(batch.num_rows for batch in stored)
    assert len(found) + in_plain == len(merged)
    assert set(found) <= {repr(row) for row in merged}
