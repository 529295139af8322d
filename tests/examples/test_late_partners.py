"""The join of `examples/late_partners.py`: whatever the order of writes and runs, it ends as the batch job does."""

from __future__ import annotations

import importlib.util
import sys
import uuid
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "examples" / "late_partners.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("late_partners", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["late_partners"] = module
    spec.loader.exec_module(module)
    return module


EVENTS = (
    ("drivers", "a", "Ann"),
    ("drivers", "b", "Ben"),
    ("passengers", "a", "Amy"),
    ("passengers", "b", "Bea"),
    ("passengers", "a", None),
    ("drivers", "b", "Bob"),
)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=st.permutations(EVENTS), runs=st.sets(st.integers(0, len(EVENTS) - 1)))
def test_any_order_of_writes_and_runs_ends_as_the_batch_job(
    order: list[tuple[str, str, str | None]],
    runs: set[int],
    example: ModuleType,
) -> None:
    folder = f"memory://join-{uuid.uuid4()}"
    example.create(folder)
    schemas = {"drivers": example.DRIVERS, "passengers": example.PASSENGERS}
    for number, (side, trip, name) in enumerate(order):
        if name is None:
            example.delete(f"{folder}/{side}", [trip])
        else:
            example.write(f"{folder}/{side}", schemas[side], [(trip, name, number)])
        if number in runs:
            example.update(folder)
            assert example.trips(folder) == example.batch(folder)
    example.update(folder)
    example.update(folder)  # nothing has changed, nothing changes
    assert example.trips(folder) == example.batch(folder)
