"""Writes that look at all of a table, or at whole partitions: each folder is listed once, in tasks of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.listings import CITIES, IN_TASKS, OF_TABLE, OPTIONS, PARTITIONS, Watched, nine_partitions, watched
from tests.support.sources import parquet_source
from tests.support.tables import SCHEMA, contents, environment, new_table, rows

import pyhudi
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import InvalidRequestError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.write.result import WriteResult
from pyhudi.write.run import write

NAMED = list(PARTITIONS[:5])


@pytest.fixture
def nine(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return watched(nine_partitions(), monkeypatch)


def overwritten(table: Watched, given: pa.Table, **more: str) -> WriteResult:
    """Write rows by a bulk insert that replaces the table, as mode `overwrite` does."""
    options: dict[str, Any] = {
        **table.table.handle.options,
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.combine.before.insert": "false",
        **more,
    }
    return write(
        given,
        table.store,
        config=WriteConfig.from_options(options),
        options=options,
        engine=table.engine,
        environment=environment(),
        overwrite=True,
    )


def test_truncate_lists_the_table_once(nine: Watched) -> None:
    assert nine.table.truncate().partitions == len(PARTITIONS)

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)


def test_delete_partition_by_a_pattern_lists_the_table_once(nine: Watched) -> None:
    assert nine.table.delete_partition("city=c*").partitions == len(PARTITIONS)

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)


def test_delete_partition_lists_the_folders_that_are_named_and_no_other(nine: Watched) -> None:
    assert nine.table.delete_partition(NAMED).partitions == len(NAMED)

    assert (nine.folders, nine.listings) == ([[4, 1]], len(NAMED))
    assert {row[1] for row in contents(nine.store.inner)} == {"c5", "c6", "c7", "c8"}


@pytest.mark.parametrize("name", ["city=c10", "../city=c1", ".hoodie", "city=c1/..", "/"])
def test_delete_partition_of_a_name_that_is_no_partition_says_which_there_are(nine: Watched, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="no partition of the table matches") as refused:
        nine.table.delete_partition([NAMED[0], name])

    assert refused.value.context["given"] == [name.strip("/")]
    assert refused.value.context["partitions"] == list(PARTITIONS)


def test_bulk_insert_that_replaces_the_table_lists_it_once(nine: Watched) -> None:
    assert overwritten(nine, rows((1, "c1", 9, "new"), (2, "c2", 9, "new"))).replaced_files == len(PARTITIONS)

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)
    assert contents(nine.store.inner) == {(1, "c1", 9, "new"), (2, "c2", 9, "new")}


def test_upsert_that_compares_texts_of_timestamps_lists_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, schema = MemoryStorage(), SCHEMA.set(0, pa.field("id", pa.timestamp("us", "UTC")))
    given = rows(*((number, city, 1, "") for number, city in enumerate(CITIES))).cast(schema)
    new_table(storage, schema=schema, **OPTIONS).insert(given, hudi_options=OPTIONS)
    nine = watched(storage, monkeypatch)

    assert nine.table.upsert(given).updated == len(CITIES)

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)


def test_partitions_that_come_later_into_a_source_list_the_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = parquet_source(tmp_path / "source", cities="abcdefgh", files=1)
    pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", hudi_options=OPTIONS)
    parquet_source(source, cities="xyz", files=1)
    table = watched(LocalStorage(tmp_path / "table"), monkeypatch)

    copied = table.table.source.copy_new_partitions()

    assert copied is not None
    assert copied.partitions == 3
    of_source = [4, 4, 3]
    assert table.folders == [of_source, [4, 4], [3], of_source]
    assert table.listings == (1 + 8) + 3 + 3  # each task looks for plain files in its new folder
