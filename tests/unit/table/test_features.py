"""The gate: tables that need what this release does not have are refused by name, before anything is touched."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, loaded, new_table, open_table, rows

import pyhudi
from pyhudi.config.enums import BucketEngine
from pyhudi.config.table_config import TableConfig, new_table_properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import UnsafePathError, UnsupportedFeatureError
from pyhudi.format.properties import format_properties, parse_properties
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.features import (
    FEATURES,
    as_markdown,
    bucket_engine_of,
    check_clusterable,
    check_compactable,
    check_loadable,
    check_undoable,
    check_writable,
)
from pyhudi.table.newest_writes import NewestWrites
from pyhudi.table.state import PROPERTIES_PATH, TableState, load_table, update_properties

GOLDEN = Path(__file__).parents[2] / "golden"
PAGE = Path(__file__).parents[3] / "docs" / "table_features.md"
PATH = "file:/t/.hoodie/hoodie.properties"
T1, T2 = "20261121095500146", "20261121095500999"


def table(changes: dict[str, str] | None = None, *names: str, version: int = 9, without: str = "") -> TableState:
    """An empty table that pyhudi made, with other properties and these files on its timeline."""
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
    }
    properties = new_table_properties(WriteConfig.from_options(options), checksum="498511606")
    values = {key: value for key, value in properties.items() if key != without}
    return loaded(TableConfig.from_properties({**values, **(changes or {})}, path=PATH), *names)


@pytest.fixture
def golden(tmp_path: Path):
    def unpack(name: str) -> Path:
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / "table"

    return unpack


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# -- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.table.base.file.format": "ORC"}, "ORC"),
        ({"hoodie.table.base.file.format": "HFILE"}, "HFILE"),
        ({"hoodie.table.multiple.base.file.formats.enable": "true"}, "several formats"),
        ({"hoodie.table.log.file.format": "PARQUET"}, "log files in the format PARQUET"),
        ({"hoodie.bootstrap.base.path": "/src", "hoodie.bootstrap.index.type": "NO_OP"}, "NO_OP"),
        ({"hoodie.table.format": "iceberg"}, "iceberg"),
        ({"hoodie.table.storage.layout": "lsm_tree"}, "the storage layout lsm_tree"),
        ({"hoodie.meta.fields.mode": "COMMIT_TIME_ONLY"}, "COMMIT_TIME_ONLY"),
    ],
)
def test_table_that_we_cannot_read_is_refused_by_feature(changes: dict[str, str], named: str) -> None:
    for check in (check_loadable, check_writable, check_compactable, check_undoable):
        with pytest.raises(UnsupportedFeatureError, match=named) as caught:
            check(table(changes))
        assert caught.value.context["path"] == PATH


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.populate.meta.fields": "false"}, "_hoodie_"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "without the partition columns"),
        ({"hoodie.datasource.write.slash.separated.date.partitioning": "true"}, "2026/01/31"),
        ({"hoodie.table.keygenerator.type": "USER_PROVIDED", "hoodie.table.keygenerator.class": "a.B"}, r"a\.B"),
        ({"hoodie.table.keygenerator.type": "GLOBAL_DELETE"}, "GLOBAL_DELETE"),
        ({"hoodie.table.of.the.future": "1"}, r"the property hoodie\.table\.of\.the\.future \(.*hoodie\.properties"),
        ({"hoodie.from.the.future": "1"}, r"the property hoodie\.from\.the\.future"),
        ({"hoodie.table.metadata.partitions": "files,secondary_index_by_v"}, "secondary_index_by_v over an unknown"),
        ({"hoodie.table.metadata.partitions": "files,expr_index_by_day"}, "expr_index_by_day over an unknown"),
        ({"hoodie.table.metadata.partitions": "files,of_the_future"}, "the index of_the_future"),
    ],
)
def test_table_that_we_must_not_write_can_still_be_read(changes: dict[str, str], named: str) -> None:
    check_loadable(table(changes))
    with pytest.raises(UnsupportedFeatureError, match=named):
        check_writable(table(changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hoodie.table.storage.layout": "default", "hoodie.meta.fields.mode": "ALL", "hoodie.table.format": ""},
        {
            "hoodie.metadata.enable": "true",
            "hoodie.clean.commits.retained": "3",
            "hoodie.upsert.shuffle.parallelism": "2",
        },
        {"owner": "ann", "spark.sql.sources.provider": "hudi"},
        {"hoodie.table.metadata.partitions": "files,column_stats,partition_stats,bloom_filters"},
    ],
)
@every_version
def test_properties_without_a_new_meaning_are_accepted(changes: dict[str, str], version: int) -> None:
    for check in (check_loadable, check_writable, check_compactable, check_undoable):
        check(table(changes, version=version))


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"without the partition columns .*; .*2026/01/31") as caught:
        check_writable(
            table(
                {
                    "hoodie.datasource.write.drop.partition.columns": "true",
                    "hoodie.datasource.write.slash.separated.date.partitioning": "true",
                }
            )
        )
    assert caught.value.context["features"] == ("dropped partition columns", "slash-separated dates")


def test_a_refused_write_changes_nothing() -> None:
    storage = MemoryStorage()
    new_table(storage)
    open_table(storage).insert(rows((1, "oslo", 1, "a")))
    before = contents(storage)
    update_properties(storage, {"hoodie.table.of.the.future": "1"})
    kept = {info.path: storage.read(info.path) for info in storage.list_recursive("")}

    for change in (lambda one: one.upsert(rows((1, "oslo", 2, "b"))), lambda one: one.delete_partition("city=oslo")):
        with pytest.raises(UnsupportedFeatureError, match=r"hoodie\.table\.of\.the\.future"):
            change(open_table(storage))

    assert {info.path: storage.read(info.path) for info in storage.list_recursive("")} == kept
    assert contents(storage) == before


# -- the timeline -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "name"), [(9, f"{T1}_{T2}.merge"), (8, f"{T1}_{T2}.merge"), (6, f"{T1}.merge")])
def test_unknown_completed_action_stops_readers_too(version: int, name: str) -> None:
    for check in (check_loadable, check_writable, check_compactable, check_undoable):
        with pytest.raises(UnsupportedFeatureError, match=f"the instant {name}"):
            check(table({}, name, version=version))


@pytest.mark.parametrize("name", [f"{T1}.merge.requested", f"{T1}.merge.inflight"])
def test_unknown_pending_action_stops_writers(name: str) -> None:
    check_loadable(table({}, name))
    for check in (check_writable, check_compactable, check_undoable):
        with pytest.raises(UnsupportedFeatureError, match=f"the pending instant {name}"):
            check(table({}, name))


@pytest.mark.parametrize(
    "name", ["hoodie.properties", f".{T1}.commit.crc", f"{T1}.commit.1f0c", f"{T1}.commit.requested", "20261121.note"]
)
def test_other_files_beside_the_timeline_are_no_actions(name: str) -> None:
    for version in (6, 9):
        check_writable(table({}, name, version=version))


# -- folders of the timeline ------------------------------------------------------------------------------------------


def test_archived_rows_of_a_table_with_a_folder_of_its_own_are_read_and_not_inserted_again(golden) -> None:
    folder = golden("v6-archived")
    expected = pyhudi.HudiTable.for_path(str(folder)).scan().to_arrow()
    (folder / ".hoodie" / "archived").rename(folder / ".hoodie" / "old")
    with_properties(folder, {"hoodie.archivelog.folder": "old"})

    opened = pyhudi.HudiTable.for_path(str(folder))

    assert opened.scan().to_arrow().num_rows == expected.num_rows == 30
    data = expected.drop_columns([name for name in expected.column_names if name.startswith("_hoodie_")])
    result = opened.upsert(data.slice(0, 3))
    assert (result.inserted, result.updated) == (0, 3)


@pytest.mark.parametrize("name", ["v8-archived", "v9-archived"])
def test_timeline_and_history_in_other_folders_are_read_and_gone_on_with(name: str, golden) -> None:
    folder = golden(name)
    expected = pyhudi.HudiTable.for_path(str(folder)).scan().to_arrow()
    (folder / ".hoodie" / "timeline" / "history").rename(folder / ".hoodie" / "timeline" / "past")
    (folder / ".hoodie" / "timeline").rename(folder / ".hoodie" / "tl")
    with_properties(folder, {"hoodie.timeline.path": "tl", "hoodie.timeline.history.path": "past"})

    opened = pyhudi.HudiTable.for_path(str(folder))

    assert opened.scan().to_arrow().sort_by("_hoodie_record_key").equals(expected.sort_by("_hoodie_record_key"))
    data = expected.drop_columns([name for name in expected.column_names if name.startswith("_hoodie_")])
    assert opened.upsert(data.slice(0, 3)).updated == 3
    assert not (folder / ".hoodie" / "timeline").exists()
    assert opened.refresh().scan().to_arrow().num_rows == expected.num_rows


@pytest.mark.parametrize("key", ["hoodie.timeline.path", "hoodie.timeline.history.path"])
@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "a//b"])
def test_folder_of_the_timeline_that_leads_out_of_the_table_is_refused(key: str, name: str) -> None:
    storage = MemoryStorage()
    new_table(storage)
    update_properties(storage, {key: name})
    with pytest.raises(UnsafePathError, match="timeline"):
        load_table(storage)


def with_properties(folder: Path, changes: dict[str, str]) -> None:
    file = folder / PROPERTIES_PATH
    file.with_name(".hoodie.properties.crc").unlink(missing_ok=True)
    values = {**parse_properties(file.read_bytes(), path=str(file)), **changes}
    file.write_bytes(format_properties(values, comment="changed by a test"))


@pytest.mark.parametrize(
    ("version", "elsewhere", "name"),
    [(6, ".hoodie/timeline", f"{T1}_{T2}.commit"), (8, ".hoodie", f"{T1}.commit"), (9, ".hoodie", f"{T1}.commit")],
)
def test_timeline_that_an_upgrade_has_moved_already_does_not_make_the_table_empty(
    version: int, elsewhere: str, name: str
) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version)
    storage.put(f"{elsewhere}/{name}", b"x")
    with pytest.raises(UnsupportedFeatureError, match=r"finish the upgrade or downgrade with JVM Hudi"):
        load_table(storage)


# -- partitions -------------------------------------------------------------------------------------------------------


def test_partition_fields_that_nothing_tells_of_stop_writers() -> None:
    unknown = table({"hoodie.table.keygenerator.type": ""}, without="hoodie.table.partition.fields")
    check_loadable(unknown)
    with pytest.raises(UnsupportedFeatureError, match=r"no property hoodie\.table\.partition\.fields"):
        check_writable(unknown)
    # The mark that Hudi puts into a folder with data files: this one has them itself.
    unknown.storage.put(".hoodie_partition_metadata", b"commitTime=1\npartitionDepth=0\n")
    check_writable(unknown)


# -- bucket indexes ---------------------------------------------------------------------------------------------------


def test_a_table_with_a_simple_bucket_index_may_be_compacted(golden) -> None:
    folder = golden("mor/v9-bucket")
    opened = pyhudi.HudiTable.for_path(str(folder))
    expected = opened.scan().to_arrow()
    ids = set(opened.inspect.files().column("file_id").to_pylist())

    assert opened.services.compact().num_rows == 1

    after = opened.refresh()
    assert set(after.inspect.files().column("file_id").to_pylist()) == ids
    keys = "_hoodie_record_key"
    assert after.scan([keys]).to_arrow().sort_by(keys).equals(expected.select([keys]).sort_by(keys))


def test_a_table_with_a_consistent_bucket_index_is_compacted_and_keeps_its_file_groups(golden) -> None:
    opened = pyhudi.HudiTable.for_path(str(golden("mor/v9-consistent")))
    rows = opened.scan().count()
    ids = set(opened.inspect.files().column("file_id").to_pylist())

    assert opened.services.compact().num_rows == 1

    assert set(opened.refresh().inspect.files().column("file_id").to_pylist()) == ids
    assert opened.refresh().scan().count() == rows
    # By default a partition keeps as many buckets as it began with.
    assert opened.refresh().services.schedule("clustering") is None


BUCKET_ID, RANDOM_ID = "00000003-25c8-466a-9d8d-10dd609ff310-0", "5f0e1a2b-25c8-466a-9d8d-10dd609ff310-0"


@pytest.mark.parametrize(
    ("ids", "is_bucket"),
    [
        ([BUCKET_ID], True),
        (["00000003-0000-0000-0000-000000000000-0"], True),
        ([BUCKET_ID, "00000117-25c8-466a-9d8d-10dd609ff311-0"], True),
        ([RANDOM_ID], False),
        ([BUCKET_ID, RANDOM_ID], False),
        ([BUCKET_ID, RANDOM_ID, "00000001-25c8-466a-9d8d-10dd609ff310-0"], True),
        # Three in a hundred random ids begin with eight decimal digits.
        (["47110815-25c8-466a-9d8d-10dd609ff310-0"], False),
        ([f"{number:08}-25c8-466a-9d8d-10dd609ff310-0" for number in range(20_000, 20_005)], True),
        (["00000000-0000-0000-0000-00000000000a-0"], False),
    ],
    ids=str,
)
def test_file_ids_of_buckets_are_told_from_random_ones(ids: list[str], is_bucket: bool) -> None:
    state = table()
    state._loaded["newest writes"] = NewestWrites(file_ids=frozenset(ids))
    check_writable(state)
    if is_bucket:
        assert bucket_engine_of(state) is BucketEngine.SIMPLE
        with pytest.raises(UnsupportedFeatureError, match="cannot cluster this table: it has a simple bucket index"):
            check_clusterable(state)
    else:
        assert bucket_engine_of(state) is None
        check_clusterable(state)


# -- costs and documentation ------------------------------------------------------------------------------------------


def test_the_gate_costs_one_read_and_to_know_the_buckets_of_merge_on_read_one_listing() -> None:
    from pyhudi.testing.faults import FaultStorage

    for options, listings in (({}, 0), (MOR, 1)):
        storage = MemoryStorage()
        new_table(storage, **options)
        open_table(storage).insert(rows((1, "oslo", 1, "a")))
        state = load_table(FaultStorage(storage))
        for _ in range(2):
            check_writable(state)
            assert bucket_engine_of(state) is None
        assert [one.name for one in state.storage.operations][2:] == [*["list_folder"] * listings, "read"]


def test_the_documentation_shows_the_table_of_features() -> None:
    assert as_markdown() in PAGE.read_text(encoding="utf-8")


def test_names_of_features_are_told_apart() -> None:
    names = [feature.name for feature in FEATURES]
    assert len(names) == len(set(names))
    assert all(feature.remedy and feature.refused for feature in FEATURES)
