"""Delta commits of the metadata table: one for each action, whoever tries again, and none without the action."""

from __future__ import annotations

import pytest
from tests.support.crashes import opened, rows
from tests.support.metadata_tables import (
    WITH_METADATA_TABLE,
    delta_commits,
    files_committed,
    files_known,
    with_files,
)
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import environment

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import UnavailableError
from pyhudi.format.metadata.clean import CleanMetadata
from pyhudi.metadata_table.before_write import settle_metadata_table
from pyhudi.metadata_table.file_changes import change_of_clean
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.update import apply_change
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

TABLES = [with_files(9, "cow"), with_files(6, "mor")]
NO_CLEAN = {"hoodie.clean.automatic": "false"}


def held() -> None:
    """The lock is held."""


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_action_that_is_applied_again_counts_once(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    loaded = load_table(storage)
    gone = next(
        info.path for info in list_data_files(storage) if info.path.startswith("city=oslo/") and "parquet" in info.path
    )
    time = "20991231000000000"
    half = CleanMetadata(start_time=time, time_taken_ms=0, policy="", deleted={"city=rome": ("city=rome/never",)})
    whole = CleanMetadata(start_time=time, time_taken_ms=0, policy="", deleted={"city=oslo": (gone,)})

    source = Source(loaded, environment(), SpillSettings())
    apply_change(source, change_of_clean(time, half), held)
    apply_change(source, change_of_clean(time, whole), held)

    assert delta_commits(storage).count(time) == 1
    assert gone.rpartition("/")[2] in files_known(storage)["city=oslo"]  # the clean is not completed
    storage.put(f"{loaded.version.timeline_folder}/{completed_clean(loaded.version.has_completion_times, time)}", b"")
    assert gone.rpartition("/")[2] not in files_known(storage).get("city=oslo", {})


def completed_clean(has_completion_times: bool, time: str) -> str:
    return f"{time}_20991231000000001.clean" if has_completion_times else f"{time}.clean"


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_write_fails_when_the_metadata_table_cannot_be_written(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    before = load_table(storage).timeline.completed_times

    def refuse(operation: str, path: str) -> None:
        if operation == "put" and path.startswith(".hoodie/metadata/files/"):
            raise UnavailableError("the store is gone", path=path)

    broken = FaultStorage(storage, before=refuse)

    with pytest.raises(UnavailableError):
        opened(broken).upsert(rows((1, "oslo", 3, "c")))

    assert load_table(storage).timeline.completed_times == before
    opened(storage).upsert(rows((1, "oslo", 4, "d")))
    assert files_known(storage) == files_committed(storage)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_writer_whose_options_lack_the_metadata_table_keeps_it(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()

    opened(storage).upsert(rows((1, "oslo", 3, "c")))
    opened(storage).services.clean()

    assert load_table(storage).config.metadata_partitions == ("files",)
    assert files_known(storage) == files_committed(storage)


def test_metadata_table_that_lacks_a_write_is_dropped_and_built_again_on_request() -> None:
    storage = TABLES[0].insert(*THREE_ROWS).build()
    missed = load_table(storage).timeline.completed_writes[-1].requested_time
    for info in storage.list_recursive(".hoodie/metadata"):
        if missed in info.path:
            storage.delete(info.path)

    opened(storage).upsert(rows((1, "oslo", 3, "c")))
    assert load_table(storage).config.metadata_partitions == ()

    opened(storage).upsert(rows((1, "oslo", 4, "c")), hudi_options=WITH_METADATA_TABLE)
    assert files_known(storage) == files_committed(storage)


def test_building_leaves_files_of_pending_writes_to_their_commits() -> None:
    storage = TableBuilder(9, "cow").insert(*THREE_ROWS).dead_writer((1, "oslo", 9, "x"), stage="written").build()

    table = settle_metadata_table(Source(load_table(storage), environment(), SpillSettings()), True, held)

    assert table.config.metadata_partitions == ("files",)
    assert files_known(storage) == files_committed(storage)
