"""Which columns a condition looks at, in narrow and in wide tables."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.seconds import cpu_seconds
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import ConfigError
from pyhudi.storage.memory import MemoryStorage


def test_condition_on_a_wide_table_with_logs_costs_seconds() -> None:
    width = 2_000
    names = [f"c{n}" for n in range(width)]
    schema = pa.schema(
        [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), *((n, pa.int64()) for n in names)]
    )
    wide = pa.table({"id": [1, 2], "city": ["oslo"] * 2, "ts": [1, 1], **{name: [7, 8] for name in names}}, schema)
    storage = MemoryStorage()
    new_table(storage, schema=schema, **MOR).insert(wide)
    open_table(storage).upsert(wide.slice(0, 1))
    table = open_table(storage)
    began = time.process_time()

    found = table.scan(["id"], where=(pc.field("c1") == 7) & (pc.field("c1999") < 8)).to_arrow()

    assert found.to_pylist() == [{"id": 1}]
    # A look at each column by itself took two minutes.
    assert time.process_time() - began < 20


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_read_of_more_columns_takes_longer_in_proportion(kind: dict[str, str]) -> None:
    def seconds(width: int) -> float:
        columns = [(f"c{n}", pa.int64()) for n in range(width)]
        schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), *columns])
        wide = pa.Table.from_pylist([{"id": n, "city": "oslo", "ts": 1} for n in range(2)], schema)
        storage = MemoryStorage()
        new_table(storage, schema=schema, **kind).insert(wide)
        if kind:
            open_table(storage).upsert(wide.slice(0, 1))
        assert open_table(storage).scan().to_arrow().num_rows == 2
        return cpu_seconds(lambda: open_table(storage).scan().to_arrow())

    # A look at all names for each of them would take 64 times as long.
    assert seconds(2_400) < 24 * max(seconds(300), 0.02)


def test_condition_with_a_long_text_of_any_characters_finds_its_row() -> None:
    table = new_table()
    text = "\u0416\U00010000" * 300
    table.insert(rows((1, "oslo", 1, text), (2, "oslo", 1, text[:-1])))

    for where in ([("note", "==", text)], pc.field("note") == text):
        assert table.refresh().scan(["id"], where=where).to_arrow().to_pylist() == [{"id": 1}]
        assert table.refresh().scan(where=where).explain().where
    with pytest.raises(ConfigError, match="by its number"):
        table.refresh().scan(["id"], where=pc.field(5).is_valid() & (pc.field("note") == text)).to_arrow()


def test_condition_with_another_operator_is_refused_with_the_expression_to_give() -> None:
    table = new_table()
    table.insert(rows((1, "oslo", 1, "a")))

    with pytest.raises(ConfigError, match="'like' is not an operator") as raised:
        table.refresh().delete_where([("note", "like", "a%")])
    assert raised.value.message.endswith("give an Arrow expression, such as pc.match_like(pc.field('note'), 'a%')")
    assert raised.value.context == {}
    assert table.refresh().delete_where(pc.match_like(pc.field("note"), "a%")).deleted == 1


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_condition_that_numbers_its_column_is_refused(table_type: str) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **{"hoodie.datasource.write.table.type": table_type})
    table.insert(rows((1, "oslo", 1, "a")))

    with pytest.raises(ConfigError, match="by its number"):
        open_table(storage).scan(["id"], where=pc.field(5) == 1).to_arrow()

    assert open_table(storage).scan(["id"], where=pc.field("note") == "FieldPath(0)").to_arrow().num_rows == 0
