"""A micro-batch that its sender sends again after any death: written once, and never taken from an unfinished write."""

from __future__ import annotations

import pytest
from tests.support.bootstraps import put_bootstrap_instant
from tests.support.crashes import COW, MOR, crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import Row

import pyhudi
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.transaction.idempotence import BATCH_ID_METADATA, find_batch

BATCH = rows((1, "oslo", 3, "c"), (7, "oslo", 1, "c"), (8, "rome", 1, "c"))
AFTER: dict[str, list[Row]] = {
    "upsert": [(1, "oslo", 3, "c"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (7, "oslo", 1, "c"), (8, "rome", 1, "c")],
    "insert": [
        (1, "oslo", 2, "b"),
        (1, "oslo", 3, "c"),
        (2, "oslo", 1, "a"),
        (3, "rome", 1, "a"),
        (7, "oslo", 1, "c"),
        (8, "rome", 1, "c"),
    ],
}
NAME = "0b5f/7"


def send(table: pyhudi.HudiTable, operation: str) -> None:
    getattr(table, operation)(BATCH, hudi_options={"hoodie.write.batch.id": NAME})


def contents(storage: Storage) -> list[Row]:
    found = opened(storage).scan(columns=["id", "city", "ts", "note"]).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def times_written(storage: Storage) -> int:
    table = load_table(storage)
    metadata = [load_commit_metadata(storage, each, table.version) for each in table.timeline.completed_writes]
    return sum(each.extra.get(BATCH_ID_METADATA) == NAME for each in metadata)


@pytest.mark.parametrize("table", [COW[2], MOR[2], MOR[0]], ids=["cow9", "mor9", "mor6"])
@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_batch_whose_writer_died_anywhere_is_in_the_table_once_after_it_is_sent_again(
    table: TableBuilder, operation: str
) -> None:
    given = prepared(table)
    for when, image in crash_images(given, lambda opened: send(opened, operation), every=2):
        send(opened(image, later=True), operation)
        assert times_written(image) == 1, when
        assert contents(image) == AFTER[operation], when
        send(opened(image, later=True), operation)
        assert times_written(image) == 1, when


def test_batch_of_a_bootstrap_that_was_made_anew_is_not_taken_for_that_of_the_earlier_one() -> None:
    storage = TableBuilder(6, "cow").insert((1, "oslo", 2, "b")).build(MemoryStorage())
    for name in ("one", "other"):
        put_bootstrap_instant(storage, **{BATCH_ID_METADATA: name})
        assert find_batch(load_table(storage), name) is not None
