"""Expression indexes hold for every row, whatever is done to the table, and are refused where they cannot be kept."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.crashes import crash_images
from tests.support.index_changes import FLAGGED, act
from tests.support.tables import LATER_MS, MOR, StepClock, environment, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.bloom import BloomFilterType, parse_bloom_filter
from pyhudi.format.metadata_table.schema import BLOOM_FILTER_COLUMN, COLUMN_STATS_COLUMN, RecordType
from pyhudi.metadata_table.lookup import all_records
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

VALUES = ("Ab", "CD", "zz", "", None, "É", "mM")
OPTIONS = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.parquet.small.file.limit": "0"}


@pytest.mark.parametrize(("version", "kind"), [(9, "cow"), (9, "mor"), (8, "mor")])
def test_bounds_hold_for_every_row_after_random_actions(version: int, kind: str) -> None:
    chance = random.Random(f"{version}{kind}")
    options = {**OPTIONS, **(MOR if kind == "mor" else {})}
    storage = new_table(version=version, schema=FLAGGED, **options).handle.state.storage
    for step in range(8):
        act(chance, open_table(storage, **options), step, notes=VALUES)
        if step == 2:
            table = open_table(storage, **options)
            table.indexes.create("by_lower", "expression", "note", expression={"expr": "lower"})
            open_table(storage).indexes.create("by_size", "expression", "note", expression={"expr": "length"})
        if step >= 2:
            _check(storage, "expr_index_by_lower", lambda note: note.lower(), "StringWrapper")
            _check(storage, "expr_index_by_size", len, "IntWrapper")


def test_filters_of_an_expression_have_its_values_or_exclude_nothing() -> None:
    storage = new_table(**OPTIONS).handle.state.storage
    open_table(storage, **OPTIONS).upsert(rows((1, "oslo", 1, "Ab"), (2, "rome", 1, "É"), (3, "bern", 1, None)))
    table = open_table(storage, **OPTIONS)
    table.indexes.create("by_upper", "expression", "note", using="bloom_filters", expression={"expr": "upper"})
    open_table(storage, **OPTIONS).upsert(rows((4, "lima", 1, "cd")))
    found: dict[str, list[bool]] = {}
    state = load_metadata_state(load_table(storage))
    for part in all_records(state, "expr_index_by_upper", BLOOM_FILTER_COLUMN):
        for one in part.column(BLOOM_FILTER_COLUMN).to_pylist():
            kind = BloomFilterType.from_footer(one["type"])
            asked = parse_bloom_filter(one["bloomFilter"].decode(), kind).might_contain(pa.array(["AB", "CD", "zz"]))
            found[str(asked.tolist())] = asked.tolist()
    assert sorted(found.values()) == [[False] * 3, [False, True, False], [True, False, False], [True] * 3]


def test_build_that_died_at_any_effect_is_gone_on_with() -> None:
    given = new_table(**OPTIONS).handle.state.storage
    open_table(given, **OPTIONS).upsert(rows((1, "oslo", 1, "Ab"), (2, "rome", 1, "cd")))

    def create(table: pyhudi.HudiTable) -> object:
        return table.indexes.create("by_lower", "expression", "note", expression={"expr": "lower"})

    states = set()
    for _, storage in crash_images(given, create, every=4):
        open_table(storage, **OPTIONS).upsert(rows((2, "rome", 5, "w"), (60, "bern", 5, "X")))
        later = open_table(storage, env=environment(StepClock(LATER_MS)), **OPTIONS)
        states.add(str(later.indexes.list().column("state").to_pylist()))
        if "ready" not in later.indexes.list().column("state").to_pylist():
            create(later)
        _check(storage, "expr_index_by_lower", lambda note: note.lower(), "StringWrapper")
    assert len(states) > 1


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"expression": {"expr": "reverse"}}, ConfigError, "one of these functions"),
        ({"expression": {"expr": "split", "pattern": ","}}, ConfigError, "one of these functions"),
        ({}, ConfigError, "one of these functions"),
        ({"expression": {"expr": "lower", "format": "x"}}, ConfigError, "other options"),
        ({"expression": {"expr": "date_format"}}, ConfigError, "other options"),
        ({"expression": {"expr": "substring", "pos": "a", "len": "1"}}, ConfigError, "numbers"),
        ({"using": "bloom_filters"}, UnsupportedFeatureError, "merge-on-read"),
        ({"using": "nothing", "expression": {"expr": "lower"}}, ConfigError, "column_stats or bloom_filters"),
        ({"columns": ["note", "id"], "expression": {"expr": "lower"}}, ConfigError, "over one column"),
        ({"name": "column_stats", "kind": None, "expression": {"expr": "lower"}}, ConfigError, "kind expression"),
    ],
)
def test_index_that_cannot_be_is_refused(given: dict[str, Any], error: type[Exception], named: str) -> None:
    table = new_table(**MOR)
    table.upsert(rows((1, "oslo", 1, "a")))
    arguments = {"name": "x", "kind": "expression", "columns": "note", **given}
    with pytest.raises(error, match=named):
        table.refresh().indexes.create(**arguments)
    assert table.refresh().indexes.list().num_rows == 0


def test_table_of_version_6_has_no_expression_index() -> None:
    table = new_table(version=6)
    table.upsert(rows((1, "oslo", 1, "a")))
    with pytest.raises(InvalidRequestError, match="version 6"):
        table.refresh().indexes.create("x", "expression", "note", expression={"expr": "lower"})


def _check(storage: Storage, index: str, function: Any, wrapper: str) -> None:
    """Compare the bounds of files and partitions with the rows of the newest base files, and of the whole table."""
    of_files: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    of_partitions: dict[str, tuple[Any, Any]] = {}
    for part in all_records(load_metadata_state(load_table(storage)), index, COLUMN_STATS_COLUMN):
        for one in part.to_pylist():
            payload = one[COLUMN_STATS_COLUMN]
            low, high = ((payload[end] or {}).get(wrapper) for end in ("minValue", "maxValue"))
            bounds = tuple(None if end is None else end["value"] for end in (low, high))
            if one["type"] == RecordType.PARTITION_STATS:
                of_partitions[payload["fileName"]] = bounds
            else:
                of_files[payload["fileName"]].append(bounds)
    table = open_table(storage)
    for row in table.scan(["_hoodie_partition_path", "note"]).to_arrow().to_pylist():
        if row["note"] is not None:
            low, high = of_partitions[row["_hoodie_partition_path"]]
            assert low <= function(row["note"]) <= high
    for path in filter(None, table.scan().files().column("path").to_pylist()):
        ((low, high),) = of_files[path.rpartition("/")[2]]
        notes = pq.read_table(pa.BufferReader(storage.read(path)), columns=["note"]).column("note").drop_null()
        assert all(low <= function(note) <= high for note in notes.to_pylist())
        assert (low is None) is (len(notes) == 0)
