"""The programs of `examples/` that follow streams: in whatever order events come, they end as a count of all does."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2])
def test_page_views_and_visitors_are_those_of_all_events_once(seed: int, tmp_path: Path) -> None:
    pv_uv, chance = example("pv_uv"), random.Random(seed)
    events = [
        (f"e{number}", chance.choice(["mon", "tue"]), chance.choice(["home", "cart"]), chance.choice("abcd"))
        for number in range(40)
    ]
    deliveries = [events[:10], events[5:25], events[:3], events[25:]]
    chance.shuffle(deliveries)
    for number, delivery in enumerate(deliveries):
        pv_uv.deliver(str(tmp_path), number, delivery)
        if chance.random() < 0.7:
            pv_uv.run(str(tmp_path))
    pv_uv.run(str(tmp_path))
    visitors = defaultdict(list)
    for _, day, page, visitor in events:
        visitors[(day, page)].append(visitor)
    assert pv_uv.counts(str(tmp_path)) == {key: (len(all_), len(set(all_))) for key, all_ in visitors.items()}


def test_counts_make_up_for_a_run_that_died_behind_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv_uv = example("pv_uv")
    pv_uv.deliver(str(tmp_path), 0, [("e1", "mon", "home", "ann")])
    with monkeypatch.context() as patched:
        patched.setattr(pv_uv.pyhudi, "save", lambda *_, **__: None)
        pv_uv.run(str(tmp_path))
    pv_uv.run(str(tmp_path))
    assert pv_uv.counts(str(tmp_path)) == {("mon", "home"): (1, 1)}


@pytest.mark.parametrize("seed", [1, 2])
def test_hour_is_summed_up_once_and_not_before_the_readings_of_it_are_there(seed: int, tmp_path: Path) -> None:
    hours, chance, folder = example("hours"), random.Random(seed), str(tmp_path)
    hours.create(folder)
    # Each meter sends its readings in order but for 4 minutes, which is less than what is allowed.
    log = {meter: sorted(range(0, 180, 3), key=lambda minute: minute + chance.randrange(5)) for meter in hours.METERS}
    written: dict[str, list[int]] = {meter: [] for meter in hours.METERS}
    done: list[str] = []
    while any(log.values()):
        meter = chance.choice([meter for meter, left in log.items() if left])
        count = chance.randrange(1, 16)
        taken, log[meter] = log[meter][:count], log[meter][count:]
        hours.write(folder, meter, [(minute, minute) for minute in taken])
        written[meter] += taken
        for hour in hours.run(folder):
            begin = 60 * (int(hour[-2:]) - 9)
            assert all(not any(begin <= minute < begin + 60 for minute in left) for left in log.values())
            done.append(hour)
    assert done == ["2026-11-22/09", "2026-11-22/10"]
    assert hours.late(folder) == {}
    wanted = {}
    for number, hour in enumerate(done):
        for meter, minutes in written.items():
            wanted[(hour, meter)] = sum(minute for minute in minutes if minute // 60 == number)
    assert hours.sums(folder) == wanted


def test_hour_waits_for_a_meter_that_is_silent(tmp_path: Path) -> None:
    hours, folder = example("hours"), str(tmp_path)
    hours.create(folder)
    hours.write(folder, "north", [(30, 1), (200, 2)])
    assert hours.run(folder) == []
    hours.write(folder, "south", [(64, 1)])
    assert hours.run(folder) == []  # four minutes behind the hour, and five are allowed
    hours.write(folder, "south", [(65, 1)])
    assert hours.run(folder) == ["2026-11-22/09"]
    assert hours.run(folder) == []
    assert timedelta(minutes=5) == hours.LATENESS


@pytest.mark.parametrize("seed", [1, 2])
def test_wide_table_is_the_join_of_all_tables_whatever_came_first(seed: int, tmp_path: Path) -> None:
    wide, chance, folder = example("wide_table"), random.Random(seed), str(tmp_path)
    wide.create(folder)
    values = {
        "orders": lambda: (f"o{chance.randrange(6)}", chance.choice("abc"), chance.choice(["tea", "ink"])),
        "customers": lambda: (
            chance.choice("abc"),
            chance.choice(["Ann", "Ben"]),
            chance.choice(["osl", "rom", "par"]),
        ),
        "products": lambda: (chance.choice(["tea", "ink"]), chance.choice(["hot", "new"])),
    }
    for _ in range(12):
        name = chance.choice(list(values))
        wide.write(folder, name, [values[name]()])
        if chance.random() < 0.4:
            wide.update(folder)
    wide.update(folder)
    assert wide.wide(folder) == wide.batch(folder) != []
