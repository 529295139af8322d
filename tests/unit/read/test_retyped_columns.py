"""Text that is of dates or decimals since, and fractions that are of decimals, as JVM Hudi's ALTER TABLE makes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, StepClock, environment, new_table, open_table

import pyhudi
from pyhudi.errors import HudiError, SchemaMismatchError
from pyhudi.storage.memory import MemoryStorage

CENTS = pa.decimal128(10, 2)
BEFORE = pa.schema(
    [
        *(("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())),
        *(("day", pa.string()), ("price", pa.string()), ("fare", pa.float64())),
        ("s", pa.struct([("x", pa.string())])),
    ]
)
TODAY = {"day": pa.date32(), "price": CENTS, "fare": CENTS, "s.x": pa.date32()}
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.schema.on.read.enable": "true",
    "hoodie.compact.inline": "false",
}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "ts"}
Opened = Callable[[], pyhudi.HudiTable]


def row(number: int, *, ts: int = 1) -> dict[str, Any]:
    """A row of before; as text its prices have another order than as numbers."""
    day = f"2026-01-{number + 1:02}"
    price = f"{number * 7}.5"
    values = {"day": day, "price": price, "fare": number * 7 + 0.125, "s": {"x": day}}
    return {"id": number, "city": f"c{number}", "ts": ts, **values}


def row_of_today(number: int, *, ts: int = 1) -> dict[str, Any]:
    day = dt.date(2026, 1, number + 1)
    fare = Decimal(number * 7) + Decimal("0.13")
    values = {"day": day, "price": Decimal(number * 7) + Decimal("0.5"), "fare": fare, "s": {"x": day}}
    return {"id": number, "city": f"c{number}", "ts": ts, **values}


@pytest.fixture
def retyped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Opened, str]]:
    """A table whose rows were written before its columns got the types of today, and the last time before that."""

    def make(kind: str, *values: dict[str, Any], **options: str) -> tuple[Opened, str]:
        storage, clock = MemoryStorage(), environment(StepClock())
        new_table(storage, schema=BEFORE, **(MOR if kind == "mor" else {}))

        def opened() -> pyhudi.HudiTable:
            return open_table(storage, env=clock, **{**OPTIONS, **options})

        opened().insert(pa.Table.from_pylist(list(values), BEFORE))
        if kind == "mor":
            opened().upsert(pa.Table.from_pylist([{**values[0], "ts": 2}], BEFORE))
        before = opened().inspect.history(1)["instant"][0].as_py()
        with monkeypatch.context() as patched:
            patched.setattr("pyhudi.format.schema.alterations.is_read_as", lambda *_: True)
            for name, data_type in TODAY.items():
                opened().alter.change_type(name, data_type)
        return opened, before

    return make


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_older_values_are_read_as_what_the_column_is_now_in_every_way(
    kind: str, retyped: Callable[..., tuple[Opened, str]]
) -> None:
    opened, before = retyped(kind, *(row(number) for number in range(10)))
    expected = [row_of_today(number, ts=2 if kind == "mor" and not number else 1) for number in range(10)]

    def read(where: Any = None) -> list[dict[str, Any]]:
        found = opened().scan(BEFORE.names, where).to_arrow()
        return found.sort_by("id").to_pylist()

    def check(hint: str) -> None:
        assert read() == expected, hint
        for name in ("day", "price", "fare"):
            value = expected[4][name]
            for sign, holds in (("==", value.__eq__), ("<", value.__gt__), (">=", value.__le__)):
                wanted = [one for one in expected if holds(one[name])]
                assert read([(name, sign, value)]) == wanted, f"{hint}: {name} {sign}"
                assert opened().scan(where=[(name, sign, value)]).count() == len(wanted), hint
        assert read(pc.field("s", "x") == expected[3]["day"]) == [expected[3]], hint

    check("after the change")
    assert opened().scan(["id", "day"], as_of=before).to_arrow().sort_by("id")["day"].to_pylist()[3] == "2026-01-04"
    changed = {**row_of_today(2, ts=9), "day": dt.date(1999, 1, 1), "price": Decimal("-3.25")}
    opened().upsert(pa.Table.from_pylist([changed], opened().schema))
    expected[2] = changed
    check("after a write")
    if kind == "mor":
        assert opened().services.compact().num_rows
        check("after a compaction")
    assert opened().services.cluster(hudi_options=SORTED).num_rows
    check("after a clustering")
    assert opened().inspect.metadata_check().to_pylist() == []


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(
    ("name", "bad"), [("day", {"day": "soon"}), ("price", {"price": "12,5"}), ("fare", {"fare": float("nan")})]
)
def test_value_that_is_none_of_the_type_is_named_and_never_lost(
    kind: str, name: str, bad: dict[str, Any], retyped: Callable[..., tuple[Opened, str]]
) -> None:
    opened, before = retyped(kind, *({**row(number), "city": "c0", **bad} for number in range(3)))
    value = str(bad[name])

    def refuses(act: Callable[[], object]) -> None:
        with pytest.raises(HudiError) as caught:
            act()
        assert isinstance(caught.value, SchemaMismatchError), caught.value
        assert caught.value.context["column"].split(".")[0] == name

    refuses(lambda: opened().scan([name]).to_arrow())
    refuses(lambda: opened().scan(["id"], pc.field(name).is_valid()).to_arrow())
    if kind == "mor":
        refuses(opened().services.compact)
    else:
        changed = {**row_of_today(1, ts=9), "city": "c0"}
        refuses(lambda: opened().upsert(pa.Table.from_pylist([changed], opened().schema)))
        refuses(lambda: opened().services.cluster(hudi_options=SORTED))
    assert opened().scan(["id", "ts"]).count() == 3
    assert sorted(opened().scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 2]
    assert [str(one) for one in opened().scan([name], as_of=before).to_arrow()[name].to_pylist()] == [value] * 3
