"""Lives of tables with every part of the metadata table on: after each step it is true, and no service of it failed."""

from __future__ import annotations

import logging
import random
from contextlib import suppress

import pytest
from tests.support.crashes import opened, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import Row

import pyhudi
from pyhudi.errors import InvalidRequestError

EVERYTHING = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
}
STEPS = 20
CITIES = ("oslo", "rome", "bern")
Model = dict[int, Row]


def upsert(table: pyhudi.HudiTable, model: Model, step: int, chance: random.Random) -> None:
    ids = chance.sample(range(30), 4)
    batch = [(id_, model[id_][1] if id_ in model else chance.choice(CITIES), step, f"{step}-{id_}") for id_ in ids]
    table.upsert(rows(*batch))
    model.update({row[0]: row for row in batch})


def delete(table: pyhudi.HudiTable, model: Model, step: int, chance: random.Random) -> None:
    if model:
        row = model.pop(chance.choice(sorted(model)))
        table.delete(rows((row[0], row[1], step, "")))


def cluster(table: pyhudi.HudiTable, model: Model, step: int, chance: random.Random) -> None:
    del model, step, chance
    table.services.cluster()


def undo(table: pyhudi.HudiTable, model: Model, step: int, chance: random.Random) -> None:
    del chance
    row = (500 + step, "oslo", step, "undone")
    written = table.upsert(rows(row))
    model[row[0]] = row
    with suppress(InvalidRequestError):  # a compaction came after it
        table.refresh().recovery.rollback(written.instant)
        del model[row[0]]


def overwrite(table: pyhudi.HudiTable, model: Model, step: int, chance: random.Random) -> None:
    del chance
    row = (900, "bern", step, "alone")
    table.insert_overwrite(rows(row))
    for id_ in [id_ for id_, other in model.items() if other[1] == "bern"]:
        del model[id_]
    model[900] = row


ACTIONS = (upsert,) * 12 + (delete,) * 3 + (cluster,) * 2 + (undo, undo, overwrite)


@pytest.mark.parametrize("kind", [TableBuilder(9, "mor"), TableBuilder(8, "mor"), TableBuilder(6, "cow")], ids=str)
def test_metadata_table_is_true_after_each_step_of_a_life(kind: TableBuilder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="pyhudi")
    chance = random.Random(kind.version)
    storage = kind.insert((1, "oslo", 1, "a")).build()
    model: Model = {1: (1, "oslo", 1, "a")}
    table = opened(storage, **EVERYTHING)
    for step in range(2, 2 + STEPS):
        action = chance.choice(ACTIONS)
        action(table, model, step, chance)
        table, hint = table.refresh(), f"step {step}: {action.__name__}"
        found = table.scan(columns=["id", "city", "ts", "note"]).to_arrow().to_pylist()
        assert {row["id"]: tuple(row.values()) for row in found} == model, hint
        assert table.inspect.metadata_check().to_pylist() == [], hint
    wanted = [*range(30), 900]
    by_key = table.lookup(wanted)
    assert set(by_key["id"].to_pylist()) == {id_ for id_ in wanted if id_ in model}
    assert "failed" not in caplog.text
