"""Blocks of logs that an engine reads by itself: which they are, and which of their rows do not count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.table_builder import ONE_GROUP, TableBuilder, every_version
from tests.support.tables import EVENT_TIME, MOR, SCHEMA, contents, new_table, open_table, plan_of, rows

from pyhudi.errors import StorageError
from pyhudi.format.log.blocks import BlockHeader, BlockType
from pyhudi.io.log.records import BlockPlace, list_log_blocks
from pyhudi.io.slices.mask import BITS, WORD, WORD_ROWS, WORDS_PER_PART, stored_rows_out_of_use
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.spark.reads import native_logs as module
from pyhudi.spark.reads.native_logs import parquet_blocks
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage

BASE = 1


def prepared(version: int = 9, **options: str) -> Storage:
    """A base file of three records, and logs: one updated twice, one that came late, one deleted."""
    table = TableBuilder(version, "mor", options={**EVENT_TIME, **options}).insert(*ONE_GROUP)
    table = table.upsert((1, "oslo", 6, "b"), (2, "oslo", 4, "late")).upsert((1, "oslo", 7, "c"))
    return table.delete((3, "oslo", 0, "")).build()


def blocks_of(storage: Storage, plan: ScanPlan, one: ScanSlice) -> dict[BlockPlace, pa.Table]:
    """What an engine gets when it takes the blocks for the Parquet files that they are."""
    blocks = parquet_blocks(storage, one.files, plan.merging)
    assert blocks is not None
    stretches = {
        place: storage.read(place.path, offset=block.content_offset, length=block.content_size)
        for place, block in blocks.items()
    }
    return {place: pq.read_table(pa.BufferReader(data)) for place, data in stretches.items()}


def out_of_use(storage: Storage, plan: ScanPlan, one: ScanSlice, parts: dict[BlockPlace, int]) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for batch in stored_rows_out_of_use(storage, one.files, plan.merging, base_part=BASE, block_parts=parts):
        for word in batch.to_pylist():
            part, first = word[WORD] // WORDS_PER_PART, word[WORD] % WORDS_PER_PART * WORD_ROWS
            found |= {(part, first + bit) for bit in range(WORD_ROWS) if word[BITS] >> bit & 1}
    return found


def joined(storage: Storage) -> list[tuple[Any, ...]]:
    """The rows of all slices as an engine puts them together that reads base files and blocks by itself."""
    found: list[tuple[Any, ...]] = []
    plan = plan_of(open_table(storage))
    for one in plan.slices:
        tables = blocks_of(storage, plan, one)
        parts = {place: BASE + 1 + number for number, place in enumerate(tables)}
        stored = {parts[place]: table for place, table in tables.items()}
        if one.files.base is not None:
            stored[BASE] = pq.read_table(pa.BufferReader(storage.read(one.files.base)))
        unused = out_of_use(storage, plan, one, parts)
        for part, table in stored.items():
            shown = [row for place, row in enumerate(table.to_pylist()) if (part, place) not in unused]
            found += [tuple(row[name] for name in SCHEMA.names) for row in shown]
    return sorted(found)


@every_version
def test_rows_of_base_files_and_blocks_less_those_out_of_use_are_the_merged_rows(version: int) -> None:
    storage = prepared(version)

    assert joined(storage) == sorted(contents(storage))
    assert [(row[0], row[3]) for row in joined(storage)] == [(1, "c"), (2, "a")]


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "delete"]),
        st.dictionaries(st.integers(0, 80), st.integers(0, 4), min_size=1, max_size=80),
    ),
    max_size=4,
)


@given(BATCHES, st.sampled_from(["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_writes_leave_blocks_that_give_the_merged_rows(batches: list[Any], mode: str) -> None:
    storage = MemoryStorage()
    new_table(storage, **{"hoodie.record.merge.mode": mode}, **MOR).insert(
        rows(*((key, "oslo", 2, "first") for key in range(70)))
    )
    for number, (operation, changes) in enumerate(batches):
        table = open_table(storage, **MOR)
        given_rows = rows(*((key, "oslo", order, f"{number}") for key, order in changes.items()))
        (table.upsert if operation == "upsert" else table.delete)(given_rows)

    assert joined(storage) == sorted(contents(storage))


def test_logs_of_another_format_are_not_read_natively() -> None:
    storage = prepared(**{"hoodie.logfile.data.block.format": "avro"})
    plan = plan_of(open_table(storage))

    assert [parquet_blocks(storage, one.files, plan.merging) for one in plan.merged] == [None]


def test_block_with_another_type_than_the_table_is_not_read_natively() -> None:
    storage = prepared()
    wider = pa.schema([field.with_type(pa.float64()) if field.name == "id" else field for field in SCHEMA])
    settled = plan_of(open_table(storage)).merging
    changed = type(settled)(schema=wider, rules=settled.rules)
    (one,) = plan_of(open_table(storage)).slices

    assert wider != SCHEMA
    assert parquet_blocks(storage, one.files, changed) is None
    assert parquet_blocks(storage, one.files, settled) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {BlockHeader.IS_PARTIAL: "true"}},
        {"headers": {BlockHeader.SCHEMA: "{"}},
        {"headers": {BlockHeader.SCHEMA: None}},
        {"content_size": 0},
        {"kind": BlockType.HFILE_DATA},
    ],
    ids=["partial rows", "damaged schema", "no schema", "empty", "HFile"],
)
def test_a_block_that_takes_more_than_a_reader_of_parquet_leaves_its_slice_to_others(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = prepared()
    plan = plan_of(open_table(storage))
    (one,) = plan.slices
    (place, block), *others = list_log_blocks(storage, one.files.logs, plan.merging.blocks)
    headers = {key: text for key, text in {**block.headers, **change.get("headers", {})}.items() if text is not None}
    changed = [(place, replace(block, **{**change, "headers": headers})), *others]
    monkeypatch.setattr(module, "list_log_blocks", lambda *_: changed)

    assert parquet_blocks(storage, one.files, plan.merging) is None


@pytest.mark.parametrize("gone", [0, 1])
def test_a_block_that_counts_for_one_and_not_for_the_other_means_that_the_log_changed(gone: int) -> None:
    storage = prepared()
    plan = plan_of(open_table(storage))
    (one,) = plan.slices
    parts = {place: BASE + 1 + number for number, place in enumerate(blocks_of(storage, plan, one))}
    more = {**parts, BlockPlace("city=oslo/.another.log.1_0-0-0", 99): 77}
    less = {place: part for place, part in parts.items() if part != max(parts.values())}

    with pytest.raises(StorageError, match="the log changed while it was read") as caught:
        out_of_use(storage, plan, one, [more, less][gone])
    assert caught.value.context["path"].startswith("city=oslo/.")
