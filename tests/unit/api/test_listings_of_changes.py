"""Changes of a table itself, and looks at it: each folder is listed once, in tasks of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.listings import (
    CITIES,
    FOLDERS_PER_TASK,
    IN_TASKS,
    OF_TABLE,
    NotingEngine,
    Watched,
    nine_partitions,
    watched,
)
from tests.support.sources import parquet_source

from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.config.write_config import WriteConfig
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table import lister
from pyhudi.write.bootstrap.plan import plan_bootstrap

COMPACTION = [IN_TASKS, IN_TASKS]
"""What planning a compaction lists, and then executing it."""


@pytest.fixture
def nine(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return watched(nine_partitions(), monkeypatch)


def test_columns_that_get_ids_list_the_table_once(nine: Watched) -> None:
    by_ids = {"hoodie.schema.on.read.enable": "true"}

    assert nine.table.alter.rename_column("note", "text", hudi_options=by_ids).has_ids

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)


def test_capture_in_another_mode_lists_the_table_once(nine: Watched) -> None:
    assert nine.table.alter.capture_changes("op_key_only").is_on

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)


def test_change_of_version_lists_the_compacted_table_once(nine: Watched) -> None:
    assert nine.table.alter.downgrade(8).after == 8

    assert nine.folders == [*COMPACTION, IN_TASKS]
    assert nine.listings == OF_TABLE + len(CITIES) + OF_TABLE


def test_each_look_at_a_table_lists_it_in_tasks_as_readers_do(nine: Watched) -> None:
    assert nine.table.inspect.partitions().num_rows == nine.table.inspect.files().num_rows == len(CITIES)

    assert (nine.folders, nine.listings) == ([IN_TASKS, IN_TASKS], 2 * OF_TABLE)


def test_source_of_a_bootstrap_is_listed_in_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "FOLDERS_PER_TASK", FOLDERS_PER_TASK)
    source = parquet_source(tmp_path / "source", cities="abcdefghi", files=1)
    config = WriteConfig.from_options({"hoodie.datasource.write.recordkey.field": "id"})
    engine = NotingEngine()

    plan = plan_bootstrap(LocalStorage(source), MemoryStorage(), config, engine, BootstrapMode.METADATA_ONLY)

    assert len(plan.modes) == len(CITIES)
    assert engine.folders == [IN_TASKS]
