"""Planning and executing a table service: each folder is listed once for each of the two, in tasks of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.listings import CITIES, IN_TASKS, OF_TABLE, PARTITIONS, Watched, nine_partitions, watched
from tests.support.tables import LATER_MS, StepClock, environment

import pyhudi

RETAIN_ONE = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@pytest.fixture
def nine(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return watched(nine_partitions(), monkeypatch)


@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_plan_lists_the_table_once_and_its_execution_each_folder_once(nine: Watched, kind: Any) -> None:
    instant = nine.table.services.schedule(kind)

    assert instant is not None
    assert nine.folders == [IN_TASKS]
    assert nine.listings == OF_TABLE

    nine.table.services.run(instant)

    assert nine.folders == [IN_TASKS, IN_TASKS]
    assert nine.listings == OF_TABLE + len(CITIES)


def test_clean_lists_the_table_or_its_partitions_once_in_tasks(nine: Watched) -> None:
    services = nine.table.services

    services.plan_clean(hudi_options=RETAIN_ONE)

    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)

    services.plan_clean(hudi_options={**RETAIN_ONE, "hoodie.cleaner.partition.filter.selected": ",".join(PARTITIONS)})

    assert (nine.folders, nine.listings) == ([IN_TASKS, IN_TASKS], OF_TABLE + len(CITIES))


def test_expiry_of_all_partitions_lists_the_table_once(nine: Watched) -> None:
    years_later = replace(nine.table.handle, environment=environment(StepClock(LATER_MS)))
    days = {"hoodie.partition.ttl.strategy.days.retain": "1"}

    expired = pyhudi.HudiTable(years_later).services.expire_partitions(hudi_options=days)

    assert expired is not None
    assert expired.partitions == PARTITIONS
    assert (nine.folders, nine.listings) == ([IN_TASKS], OF_TABLE)
