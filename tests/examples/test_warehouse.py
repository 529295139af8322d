"""The layered warehouse: after every tick the last layer is what a batch job over the first one gives."""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

PROGRAM = Path(__file__).parents[2] / "examples" / "warehouse.py"
DAYS = ("mon", "tue", "wed")
TICKS = 6


@pytest.fixture(scope="module")
def warehouse() -> ModuleType:
    spec = importlib.util.spec_from_file_location("warehouse", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(folder: Path, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    found = pyhudi.HudiTable.for_path(folder / name).scan(columns).to_arrow().to_pylist()
    return [tuple(row.values()) for row in found]


def batch_job(folder: Path) -> Counter[tuple[Any, ...]]:
    """The revenue, from the sources alone."""
    regions = dict(rows(folder, "ods_customers", ["customer", "region"]))
    orders: Counter[tuple[Any, ...]] = Counter()
    amounts: Counter[tuple[Any, ...]] = Counter()
    for _, day, customer, amount in rows(folder, "ods_orders", ["order", "day", "customer", "amount"]):
        group = (day, regions.get(customer))
        orders[group] += 1
        amounts[group] += amount
    return Counter((*group, count, amounts[group]) for group, count in orders.items())


def test_every_tick_gives_what_a_batch_job_gives(warehouse: ModuleType, tmp_path: Path) -> None:
    """Orders come late, change their amounts and are deleted; customers come after their orders, and move."""
    chance = random.Random(7)
    warehouse.create(str(tmp_path))
    orders, customers = (warehouse.opened(str(tmp_path), name) for name in ("ods_orders", "ods_customers"))
    known: dict[int, str] = {}
    for turn in range(TICKS):
        new = {len(known) + n: chance.choice(DAYS) for n in range(4)}
        changed = {order: known[order] for order in chance.sample(sorted(known), min(2, len(known)))}
        batch = {**changed, **new}
        values = [
            list(batch),
            list(batch.values()),
            [chance.randrange(5) for _ in batch],
            [chance.randrange(9) for _ in batch],
        ]
        orders.refresh().upsert(pa.table(values, schema=warehouse.ORDERS))
        known |= new
        if turn:
            moved = chance.sample(range(5), 2)
            regions = [chance.choice(("north", "south")) for _ in moved]
            customers.refresh().upsert(pa.table([moved, regions], schema=warehouse.CUSTOMERS))
            gone = chance.sample(sorted(known), 2)
            orders.refresh().delete(pa.table({"order": gone, "day": [known[order] for order in gone]}))
        warehouse.tick(str(tmp_path))
        assert Counter(rows(tmp_path, "dws_revenue", ["day", "region", "orders", "amount"])) == batch_job(tmp_path), (
            turn
        )
    writes = pyhudi.HudiTable.for_path(tmp_path / "dws_revenue").inspect.history().num_rows
    warehouse.tick(str(tmp_path))
    assert pyhudi.HudiTable.for_path(tmp_path / "dws_revenue").inspect.history().num_rows == writes
