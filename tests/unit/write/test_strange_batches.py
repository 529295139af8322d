"""Batches that are hard to write: they are written, or fail with the error of their source and leave nothing."""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from tests.support.tables import MOR, SCHEMA, new_table, open_table, rows

import pyhudi
from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table

KINDS = {"cow": {}, "mor": MOR}
OPERATIONS = ("upsert", "insert", "bulk_insert")


class SourceIsGoneError(Exception):
    """What the source of a batch raises."""


def batch_that_ends_early() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, 3_000, 1_000):
            yield rows(*[(number, "oslo", 1, "") for number in range(first, first + 1_000)]).to_batches()[0]
        raise SourceIsGoneError

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def written(table: pyhudi.HudiTable) -> set[tuple[int, str]]:
    found = table.refresh().scan(["id", "note"]).to_arrow()
    return set(zip(found.column("id").to_pylist(), found.column("note").to_pylist(), strict=True))


def unexplained(storage: MemoryStorage) -> list[str]:
    """Data files that no completed write names, and what a write keeps while it runs."""
    state = load_table(storage)
    named = {
        path
        for instant in state.timeline.completed_writes
        for path in load_commit_metadata(storage, instant, state.version).paths()
    }
    kept = (".hoodie/.temp/", ".hoodie/.heartbeat/", ".hoodie/.aux/.intents/")
    paths = [info.path for info in storage.list_recursive("")]
    return [
        path
        for path in paths
        if path.startswith(kept) or (parse_data_file(path.rpartition("/")[2]) is not None and path not in named)
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_input_that_fails_half_way_leaves_nothing_and_its_own_error(kind: str, operation: str) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **KINDS[kind])
    table.upsert(rows((1, "oslo", 0, "a"), (2, "rome", 0, "b")))

    with pytest.raises(SourceIsGoneError):
        getattr(open_table(storage), operation)(batch_that_ends_early())

    assert written(table) == {(1, "a"), (2, "b")}
    assert unexplained(storage) == []
    open_table(storage).upsert(rows((1, "oslo", 1, "c")))
    assert written(table) == {(1, "c"), (2, "b")}
    assert unexplained(storage) == []


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_of_300_megabytes_among_9_999_small_ones_is_written(kind: str) -> None:
    storage, text = MemoryStorage(), "x" * 300_000_000
    table = new_table(storage, **KINDS[kind])
    table.upsert(rows((777, "oslo", 0, "small")))

    table.upsert(rows(*[(number, "oslo", 1, text if number == 777 else "small") for number in range(10_000)]))

    lengths = [len(note) for _, note in sorted(written(table))]
    assert len(lengths) == 10_000
    assert lengths[777] == len(text)
    assert sum(lengths) == len(text) + 9_999 * len("small")


def test_ten_thousand_columns_are_written_and_read() -> None:
    names = [f"c{number}" for number in range(10_000)]
    schema = pa.schema(
        [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), *((n, pa.int64()) for n in names)]
    )
    table = new_table(schema=schema)

    for turn in range(2):
        values = [[1, 2], ["oslo", "rome"], [turn, turn], *([number, turn] for number in range(len(names)))]
        table.upsert(pa.table(values, schema=schema))

    found = table.refresh().scan().to_arrow().sort_by("id")
    assert found.select(names).to_pylist() == [
        {name: number for number, name in enumerate(names)},
        dict.fromkeys(names, 1),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_writes_and_reads_grow_no_faster_than_the_columns(kind: str) -> None:
    _, few, twice, many = (_calls_with_columns(count, kind) for count in (2, 50, 100, 200))  # the first one imports

    slower = {name for name in few if many[name] - twice[name] > 1.1 * 2 * (twice[name] - few[name])}
    assert slower == set(), "a column costs more where there are more of them"


def _calls_with_columns(count: int, kind: str) -> dict[str, int]:
    """How many functions two upserts, a scan and a delete call, of Python and of its libraries, by step."""
    names = [f"c{number}" for number in range(count)]
    schema = pa.schema(
        [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), *((n, pa.int64()) for n in names)]
    )
    options = {**KINDS[kind], "hoodie.index.bloom.num_entries": "100"}
    statistics = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.column.stats.max.columns.to.index": str(count),
    }
    table = new_table(schema=schema, **options, **statistics)
    first, second = (
        pa.table([[1, 2], ["oslo"] * 2, [ts] * 2, *([ts, 2] for _ in names)], schema=schema) for ts in (1, 2)
    )
    steps: dict[str, Callable[[], object]] = {
        "insert": lambda: table.upsert(first),
        "update": lambda: table.upsert(second),
        "scan": lambda: table.refresh().scan().to_arrow(),
        "condition": lambda: table.scan(["id"], where=[("c1", "==", 2)]).to_arrow(),
        "delete": lambda: table.delete(first.slice(0, 1).select(["id", "city"])),
    }
    calls = {}
    for name, step in steps.items():
        profile = cProfile.Profile()
        profile.runcall(step)
        calls[name] = sum(entry.callcount for entry in profile.getstats())
    return calls
