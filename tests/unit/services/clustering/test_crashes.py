"""A clustering whose process dies at any call of the store: no row changes, and the next one finishes."""

from __future__ import annotations

import pytest
from tests.support.audit import audit
from tests.support.crashes import COW, MOR, assert_nothing_left_over, crash_images, opened
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents, open_table

import pyhudi
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table

SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "note,id"}
APART = {"hoodie.parquet.small.file.limit": "0"}
EVERY_TABLE = (COW[0], MOR[0], MOR[1], COW[2])


def prepared(table: TableBuilder) -> Storage:
    """Two file groups in oslo, one of them with a log on merge-on-read, and one in rome."""
    built = table.insert((1, "oslo", 1, "b"), (3, "rome", 1, "a"), **APART).insert((2, "oslo", 1, "a"), **APART)
    return built.upsert((1, "oslo", 2, "c"), **APART).build()


def cluster(table: pyhudi.HudiTable) -> None:
    table.services.cluster(hudi_options=SORTED)


def clustered_files(storage: Storage) -> int:
    return open_table(storage).inspect.files().num_rows


@pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
def test_next_clustering_finishes_what_a_dead_one_left(table: TableBuilder) -> None:
    storage = prepared(table)
    expected = contents(storage)
    for hint, image in crash_images(storage, cluster):
        assert contents(image) == expected, hint
        cluster(opened(image, later=True))
        assert contents(image) == expected, hint
        assert clustered_files(image) == 2, hint
        opened(image, later=True).recovery.roll_back_failed_writes()
        assert_nothing_left_over(image)
        assert not image.list_recursive(".hoodie/.aux/.runs"), hint
        audit(image)


@pytest.mark.parametrize("table", EVERY_TABLE[1:3], ids=str)
def test_plan_of_a_dead_clustering_can_be_rolled_back_with_its_files(table: TableBuilder) -> None:
    storage = prepared(table)
    expected = contents(storage)
    for hint, image in crash_images(storage, cluster, every=2):
        for plan in opened(image).services.pending()["instant"].to_pylist():
            opened(image, later=True).recovery.rollback(plan)
            assert not [info.path for info in list_data_files(image) if plan in info.name], hint
        opened(image, later=True).recovery.roll_back_failed_writes()
        assert contents(image) == expected, hint
        assert_nothing_left_over(image)
        audit(image)


@pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
def test_recovery_of_writers_leaves_a_dead_clustering_to_the_next_run(table: TableBuilder) -> None:
    storage = prepared(table)
    for hint, image in crash_images(storage, cluster, every=5):
        before = opened(image).services.pending()["instant"].to_pylist()
        opened(image, later=True).recovery.roll_back_failed_writes()
        assert opened(image).services.pending()["instant"].to_pylist() == before, hint
        planned = {instant.requested_time for instant in load_table(image).timeline.pending_writes}
        assert planned <= set(before), hint
