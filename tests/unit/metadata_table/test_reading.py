"""Reading the metadata table: what it lists, and that a reader never gets other rows because of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.crashes import copied, crash_images, opened, rows
from tests.support.metadata_tables import FOLDER, WITH_METADATA_TABLE, files_known, with_files
from tests.support.table_builder import THREE_ROWS, TableBuilder

import pyhudi
from pyhudi.errors import HudiError, MetadataTableWarning
from pyhudi.format.metadata_table.schema import FILES_COLUMN
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.lister import load_read_view, metadata_lister
from pyhudi.metadata_table.lookup import records_with_keys, records_with_prefixes
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

TABLES = [with_files(9, "cow"), with_files(9, "mor"), with_files(8, "mor"), with_files(6, "cow"), with_files(6, "mor")]
NO_CLEANING = {"hoodie.clean.automatic": "false"}


def life(table: TableBuilder) -> Storage:
    """A table with files of several writes, of which some were rolled back, replaced or cleaned."""
    storage = table.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()
    opened(storage, **NO_CLEANING).upsert(rows((9, "rome", 3, "c")))
    opened(storage, **NO_CLEANING).upsert(rows((2, "oslo", 4, "d")))
    opened(storage).recovery.rollback(load_table(storage).timeline.completed_writes[-1].requested_time)
    opened(storage, **NO_CLEANING).insert_overwrite(rows((5, "bern", 1, "n")))
    for moment in (5, 6):
        opened(storage, **NO_CLEANING).upsert(rows((1, "oslo", moment, "e")))
    opened(storage).services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})
    return storage


def listed(storage: Storage) -> dict[str, dict[str, int]]:
    lister = metadata_lister(load_table(storage), True)
    assert lister is not None
    found: dict[str, dict[str, int]] = {}
    for info in lister.table():
        found.setdefault(info.path.rpartition("/")[0] or ".", {})[info.name] = info.size
    return {path: dict(sorted(files.items())) for path, files in sorted(found.items())}


def contents(storage: Storage, enabled: str = "true") -> pa.Table:
    table = opened(storage, **{"hoodie.metadata.enable": enabled}).scan().to_arrow()
    return table.sort_by([("id", "ascending"), ("city", "ascending")])


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_lister_gives_the_files_that_the_records_of_all_delta_commits_name(table: TableBuilder) -> None:
    storage = life(table)
    expected = files_known(storage)
    assert listed(storage) == expected
    for path, files in expected.items():
        lister = metadata_lister(load_table(storage), True)
        assert lister is not None
        for _ in range(6):  # looked up one by one, then from all
            assert {info.name: info.size for info in lister.partition(path)} == files
        assert lister.partition("no/such") == []
    assert contents(storage).equals(contents(storage, "false"))


@pytest.mark.parametrize("version", [9, 6])
def test_records_are_found_by_key_and_by_prefix(version: int) -> None:
    storage = life(with_files(version, "mor"))
    state = load_metadata_state(load_table(storage))
    every = files_known(storage)
    keys = pa.array(["city=oslo", "nothing", "__all_partitions__", "city=oslo"])
    found = records_with_keys(state, "files", FILES_COLUMN, keys)
    assert sorted(found.column("key").to_pylist()) == ["__all_partitions__", "city=oslo"]
    by_prefix = records_with_prefixes(state, "files", FILES_COLUMN, ["city=", "city=o"])
    assert sorted(by_prefix.column("key").to_pylist()) == sorted({*every, "city=rome", "city=bern"})
    (oslo,) = by_prefix.filter(pc.equal(by_prefix.column("key"), "city=oslo")).to_pylist()
    assert {name: info["size"] for name, info in oslo[FILES_COLUMN]} == every["city=oslo"]


@pytest.mark.parametrize("table", [with_files(9, "mor"), with_files(6, "mor"), with_files(9, "cow")], ids=str)
def test_reader_after_a_crash_anywhere_gets_the_rows_that_listing_gives(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()

    def action(writer: pyhudi.HudiTable) -> object:
        return writer.upsert(rows((1, "oslo", 3, "c"), (9, "rome", 3, "c")))

    for where, image in crash_images(storage, action, every=5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert contents(image).equals(contents(image, "false")), where


def visible(storage: Storage, *, wanted: bool) -> dict[str, list[tuple[str, ...]]]:
    """The files of all newest slices."""
    view = load_read_view(load_table(storage), wanted=wanted)
    return {path: [one.paths for one in slices] for path, slices in view.latest.items()}


def completed_file(storage: Storage, number: int) -> str:
    """The path of a completed instant of the metadata table."""
    version = inner_version(load_table(storage).version)
    names = [name for name in storage.list_names(version.timeline_folder) if name.endswith(".deltacommit")]
    return f"{version.timeline_folder}/{sorted(names)[number]}"


def behind(storage: MemoryStorage) -> None:
    storage.delete(completed_file(storage, -1))


def behind_in_the_middle(storage: MemoryStorage) -> None:
    storage.delete(completed_file(storage, 2))


def ahead(storage: MemoryStorage) -> None:
    """As a writer leaves it that takes a write back and does not know the metadata table."""
    times = [one.requested_time for one in load_table(storage).timeline.completed_writes]
    for info in storage.list_recursive(".hoodie"):
        is_inside = info.path.startswith(FOLDER)
        if not is_inside and info.name.startswith(times[1]) and "/timeline/history" not in info.path:
            storage.delete(info.path)


def half_built(storage: MemoryStorage) -> None:
    for info in storage.list_recursive(FOLDER):
        if info.name.endswith(".deltacommit"):
            storage.delete(info.path)


def without_folder(storage: MemoryStorage) -> None:
    storage.delete_folder(FOLDER)


def without_properties(storage: MemoryStorage) -> None:
    storage.delete(f"{FOLDER}/.hoodie/hoodie.properties")


def with_damaged_properties(storage: MemoryStorage) -> None:
    storage.put(f"{FOLDER}/.hoodie/hoodie.properties", b"hoodie.table.version=9\nhoodie.table.name=\\uZZ")


def of_a_newer_version(storage: MemoryStorage) -> None:
    path = f"{FOLDER}/.hoodie/hoodie.properties"
    text = storage.read(path).decode()
    version = load_table(storage).version.number
    storage.put(path, text.replace(f"hoodie.table.version={version}", "hoodie.table.version=10").encode())


def without_base(storage: MemoryStorage) -> None:
    for info in storage.list_folder(f"{FOLDER}/files").files:
        if info.name.endswith(".hfile"):
            storage.delete(info.path)


def without_a_log(storage: MemoryStorage) -> None:
    logs = [info for info in storage.list_folder(f"{FOLDER}/files").files if ".log." in info.name and info.size > 100]
    storage.delete(max(logs, key=lambda info: (info.name.split("_")[1], info.name)).path)


def without_files(storage: MemoryStorage) -> None:
    storage.delete_folder(f"{FOLDER}/files")


HARM: list[Callable[[MemoryStorage], None]] = [
    behind,
    behind_in_the_middle,
    ahead,
    half_built,
    without_folder,
    without_properties,
    with_damaged_properties,
    of_a_newer_version,
    without_base,
    without_a_log,
    without_files,
]


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("version", [9, 6])
def test_metadata_table_that_cannot_be_believed_is_passed_over_with_the_repair_in_a_warning(
    version: int, harm: Callable[[MemoryStorage], None]
) -> None:
    storage = copied(with_files(version, "cow").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    for moment in (3, 4):
        opened(storage, **NO_CLEANING).upsert(rows((1, "oslo", moment, "c"), (9, "rome", moment, "c")))
    harm(storage)
    expected = contents(storage, "false")
    with pytest.warns(MetadataTableWarning, match="rebuild_metadata_table"):
        assert contents(storage).equals(expected)


@pytest.mark.parametrize("version", [9, 6])
def test_damage_in_any_place_of_files_never_changes_what_a_reader_sees(version: int) -> None:
    storage = copied(with_files(version, "mor").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    opened(storage, **NO_CLEANING).upsert(rows((2, "oslo", 3, "c")))
    expected = visible(storage, wanted=False)
    seen = 0
    for info in storage.list_folder(f"{FOLDER}/files").files:
        data = storage.read(info.path)
        for at in range(0, len(data), max(1, len(data) // 40)):
            storage.put(info.path, data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert visible(storage, wanted=True) == expected, (info.path, at)
            seen += bool(caught)
        storage.put(info.path, data)
    assert seen > 20  # the others are in paddings, the texts of schemas, and figures that nobody needs


def test_metadata_table_is_used_from_version_8_on_unless_options_say_otherwise() -> None:
    for version, default in ((9, True), (8, True), (6, False)):
        table = load_table(with_files(version, "cow").insert(*THREE_ROWS).build())
        assert (metadata_lister(table, None) is not None) is default
        assert metadata_lister(table, True) is not None
        assert metadata_lister(table, False) is None


def test_table_without_metadata_table_is_listed_without_a_warning() -> None:
    storage = TableBuilder(9, "cow").insert(*THREE_ROWS).build()
    assert metadata_lister(load_table(storage), True) is None
    assert contents(storage).num_rows == 3


def test_missing_file_of_a_write_is_its_error_and_not_one_of_the_metadata_table() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).build()
    lister = metadata_lister(load_table(storage), True)
    assert lister is not None
    storage.delete(lister.table()[0].path)
    with pytest.raises(HudiError):  # a warning would be another error
        contents(storage)


def test_time_travel_and_changes_read_through_the_metadata_table() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()
    first, _ = load_table(storage).timeline.completed_writes
    told = opened(storage, **WITH_METADATA_TABLE)
    untold = opened(storage, **{"hoodie.metadata.enable": "false"})
    for table in (told, untold):
        assert table.scan(as_of=first.requested_time).count() == 3
        assert table.changes(first.completion_time or "").count() == 1
