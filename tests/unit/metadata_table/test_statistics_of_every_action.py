"""Column and partition statistics after every action: those of the files that the table has, and of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.crashes import opened, rows
from tests.support.statistics_of_tables import bound, statistics_known
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import SCHEMA, new_table, open_table

import pyhudi
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata_table.keys import column_stats_keys, partition_stats_keys
from pyhudi.io.base_file import read_batches
from pyhudi.metadata_table.partitions.column_stats import live_paths
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import load_table

_ON = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.index.partition.stats.enable": "true"}
_COLUMNS = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "city", "ts", "note"]
ACTIONS: dict[str, Callable[[pyhudi.HudiTable], object]] = {
    "upsert": lambda table: table.upsert(rows((1, "oslo", 3, "c"), (9, "rome", 3, "c"))),
    "delete": lambda table: table.delete(rows((1, "oslo", 3, "c"))),
    "new partition": lambda table: table.bulk_insert(rows((7, "bern", 1, "a"))),
    "overwrite": lambda table: table.insert_overwrite(rows((5, "oslo", 1, "n"))),
    "overwrite of all": lambda table: table.insert_overwrite_table(rows((5, "bern", 1, "n"))),
    "end of a partition": lambda table: table.delete_partition("city=oslo"),
    "clustering": lambda table: table.services.cluster(),
    "compaction": lambda table: table.services.compact() if table.inspect.detail().type == "MERGE_ON_READ" else None,
    "clean": lambda table: table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"}),
}
TABLES = [
    TableBuilder(version, kind, has_delete_flag=True, options=_ON)
    for version, kind in [(9, "cow"), (9, "mor"), (8, "mor"), (6, "cow"), (6, "mor")]
]


def _check_files(storage: Storage) -> None:
    table = load_table(storage)
    paths = live_paths(table)
    known = statistics_known(storage, "column_stats")
    columns = [*_COLUMNS, "_hoodie_is_deleted"]
    files = [path.rpartition("/") for path in paths]
    places = [(column, partition, name) for partition, _, name in files for column in columns]
    keys = column_stats_keys(*(pa.array(list(values), pa.string()) for values in zip(*places, strict=True)))
    assert set(keys.to_pylist()) == set(known)
    for (column, partition, name), key in zip(places, keys.to_pylist(), strict=True):
        (payload,) = known[key]
        assert (payload["fileName"], payload["columnName"]) == (name, column)
        if not isinstance(parse_data_file(name), LogFileName):
            values = pa.Table.from_batches(read_batches(storage, f"{partition}/{name}", columns=[column])).column(0)
            ends = pc.min_max(values).as_py()
            assert (bound(payload["minValue"]), bound(payload["maxValue"])) == (ends["min"], ends["max"])
            assert (payload["valueCount"], payload["nullCount"]) == (len(values), values.null_count)


def _check_partitions(storage: Storage, *, tight: bool = False) -> None:
    known = statistics_known(storage, "partition_stats")
    found = opened(storage).scan().to_arrow()
    for partition in pc.unique(found["_hoodie_partition_path"]).to_pylist():
        of_partition = found.filter(pc.equal(found["_hoodie_partition_path"], partition))
        for column in _COLUMNS:
            keys = partition_stats_keys(pa.array([column]), pa.array([partition]))
            payloads = known[keys[0].as_py()]
            ends = pc.min_max(of_partition[column]).as_py()
            lows = [bound(one["minValue"]) for one in payloads if bound(one["minValue"]) is not None]
            highs = [bound(one["maxValue"]) for one in payloads if bound(one["maxValue"]) is not None]
            assert min(lows) <= ends["min"]
            assert max(highs) >= ends["max"]
            if tight:
                assert (min(lows), max(highs)) == (ends["min"], ends["max"])
    live = set(pc.unique(found["_hoodie_partition_path"]).to_pylist())
    named = {one["fileName"] for payloads in known.values() for one in payloads}
    assert live <= named


@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("name", ACTIONS)
def test_statistics_after_an_action_are_those_of_the_files(table: TableBuilder, name: str) -> None:
    storage = table.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()
    _check_files(storage)

    ACTIONS[name](opened(storage, **{"hoodie.clean.automatic": "false"}))

    _check_files(storage)
    if table.version > 6:
        _check_partitions(storage, tight=name == "compaction" and table.is_merge_on_read)


def test_definition_names_the_columns_as_jvm_hudi_does() -> None:
    storage = TableBuilder(9, "cow", options=_ON).insert(*THREE_ROWS).build()

    definition = load_index_definitions(load_table(storage))["column_stats"]

    assert definition.source_columns == tuple(_COLUMNS)
    assert (definition.kind, definition.function, definition.version) == ("column_stats", "column_stats", "V2")


@pytest.mark.parametrize("version", [8, 9])
def test_bounds_of_a_column_whose_type_changed_are_never_united_with_those_before(version: int) -> None:
    """JVM Hudi fails when it unites bounds of two types."""
    storage = MemoryStorage()
    narrow = SCHEMA.set(2, pa.field("ts", pa.int32()))
    new_table(storage, version=version, schema=narrow)
    for city in ("oslo", "rome"):
        open_table(storage, **_ON).insert(pa.table([[1], [city], [5], ["a"]], schema=narrow))
    for city, moment in (("oslo", 2**40), ("rome", 3), ("oslo", 4)):
        open_table(storage, **_ON).insert(pa.table([[moment % 97], [city], [moment], ["a"]], schema=SCHEMA))

    for payloads in statistics_known(storage, "partition_stats").values():
        wrappers = {name for one in payloads for name, value in one["minValue"].items() if value is not None}
        assert len(wrappers) == 1
    _check_partitions(storage)
