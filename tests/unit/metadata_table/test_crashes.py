"""Deaths at every storage effect: the metadata table never hides a committed file, and knows all files afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.crashes import crash_images, opened, rows
from tests.support.metadata_tables import WITH_METADATA_TABLE, files_committed, files_known
from tests.support.table_builder import THREE_ROWS, TableBuilder

import pyhudi
from pyhudi.metadata_table.folders import inner_version
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.table.timeline import load_timeline

Action = Callable[[pyhudi.HudiTable], object]
EVERY_TWO = {"hoodie.metadata.compact.max.delta.commits": "2"}
NOTHING_ELSE = {"hoodie.clean.automatic": "false"}


def upsert(moment: int, **options: str) -> Action:
    return lambda table: table.upsert(rows((1, "oslo", moment, "c"), (8, "rome", moment, "c")), hudi_options=options)


def newest(table: pyhudi.HudiTable) -> str:
    written = table.inspect.last_write()
    assert written is not None
    return written.instant


ACTIONS: dict[str, tuple[Action, Action]] = {
    "a commit that builds it": (lambda _: None, upsert(3, **WITH_METADATA_TABLE, **NOTHING_ELSE)),
    "a commit": (upsert(3, **WITH_METADATA_TABLE), upsert(4, **NOTHING_ELSE)),
    "a commit with the compaction before it": (
        lambda table: [upsert(moment, **WITH_METADATA_TABLE, **NOTHING_ELSE)(table.refresh()) for moment in (3, 4)],
        upsert(5, **EVERY_TWO, **NOTHING_ELSE),
    ),
    "a commit that drops it": (upsert(3, **WITH_METADATA_TABLE), upsert(4, **{"hoodie.metadata.enable": "false"})),
    "an overwrite": (
        upsert(3, **WITH_METADATA_TABLE),
        lambda table: table.insert_overwrite(rows((5, "oslo", 4, "n")), hudi_options=NOTHING_ELSE),
    ),
    "a clean": (
        lambda table: [upsert(moment, **WITH_METADATA_TABLE, **NOTHING_ELSE)(table.refresh()) for moment in (3, 4, 5)],
        lambda table: table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"}),
    ),
    "a rollback": (
        lambda table: [upsert(moment, **WITH_METADATA_TABLE, **NOTHING_ELSE)(table.refresh()) for moment in (3, 4)],
        lambda table: table.recovery.rollback(newest(table)),
    ),
    "a rollback of what was merged": (
        lambda table: [
            *(upsert(moment, **WITH_METADATA_TABLE)(table.refresh()) for moment in (3, 4)),
            table.refresh().services.run(only="metadata_table", hudi_options=EVERY_TWO),
        ],
        lambda table: table.recovery.rollback(newest(table)),
    ),
}


@pytest.mark.parametrize(
    "table", [TableBuilder(9, "cow", has_delete_flag=True), TableBuilder(6, "mor", has_delete_flag=True)], ids=str
)
@pytest.mark.parametrize("name", ACTIONS)
def test_death_at_an_effect_leaves_a_metadata_table_that_is_right_or_is_not_used(
    table: TableBuilder, name: str
) -> None:
    before, action = ACTIONS[name]
    given = table.insert(*THREE_ROWS).build()
    before(opened(given))

    for moment, image in crash_images(given, action):
        if is_used(image):
            assert hidden(image) == [], moment

        opened(image, later=True).upsert(
            rows((2, "oslo", 9, "z")), hudi_options={**WITH_METADATA_TABLE, **NOTHING_ELSE}
        )

        if name == "a clean":  # what it deleted before it died is known until it ends
            opened(image, later=True).services.clean()

        assert files_known(image) == files_committed(image), moment


def is_used(storage: Storage) -> bool:
    return "files" in load_table(storage).config.metadata_partitions


def hidden(storage: Storage) -> list[str]:
    """Files of completed writes that the metadata table does not know, and that are there still."""
    table = load_table(storage)
    known, there = files_known(storage), {info.path for info in list_data_files(storage)}
    writes = [load_commit_metadata(storage, one, table.version) for one in table.timeline.completed_writes]
    paths = {path for metadata in writes for path in metadata.paths()} & there
    return sorted(path for path in paths if path.rpartition("/")[2] not in known.get(path.rpartition("/")[0], {}))


@pytest.mark.parametrize(
    "table", [TableBuilder(9, "cow", has_delete_flag=True), TableBuilder(6, "mor", has_delete_flag=True)], ids=str
)
def test_newest_write_is_rolled_back_after_a_death_in_the_compaction_and_the_next_one_compacts(
    table: TableBuilder,
) -> None:
    before, action = ACTIONS["a commit with the compaction before it"]
    given = table.insert(*THREE_ROWS).build()
    before(opened(given))
    written = newest(opened(given))

    seen = 0
    for moment, image in crash_images(given, action):
        if not load_timeline(image, inner_version(load_table(image).version)).pending_compactions:
            continue
        seen += 1
        opened(image, later=True).recovery.rollback(written)
        assert files_known(image) == files_committed(image), moment

        action(opened(image, later=True))
        assert not load_timeline(image, inner_version(load_table(image).version)).pending_compactions, moment
        assert files_known(image) == files_committed(image), moment
    assert seen >= 3
