"""Tables of JVM Hudi that need something special: read as it reads them or refused by name, and not written."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.golden import expected_features

import pyhudi
from pyhudi.errors import ConfigError, UnsupportedFeatureError

HERE = Path(__file__).parent / "features"
NAMES = sorted(archive.name.removesuffix(".tar.xz") for archive in HERE.glob("*.tar.xz"))
VERSIONS = (6, 8, 9)
WRITABLE = {f"v{n}-sql_{kind}" for n in VERSIONS for kind in ("cow", "mor")}
COLUMNS_CHANGED = [
    f"v{n}-{case}"
    for n in VERSIONS
    for case in (
        *("added", "dropped-and-added", "renamed-and-rewritten", "renamed-cow", "renamed-mor"),
        *("retyped-cow", "retyped-mor"),
    )
]
OTHERWISE = {"v9-slash-dates", "v9-updated-in-logs", "v9-buckets-cow", "v9-buckets-resized-mor"}
"""Tables that take some writes, or need an option for them."""
Unpack = Callable[[str], Path]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    def unpacked(name: str) -> Path:
        with tarfile.open(HERE / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / "table"

    return unpacked


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def columns_of_the_table(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([name for name in rows.column_names if name.startswith("_hoodie_")])


@pytest.mark.parametrize("name", NAMES)
def test_special_table_of_jvm_hudi_gives_the_rows_and_columns_that_jvm_hudi_reads(name: str, unpack: Unpack) -> None:
    folder = unpack(name)
    rows = pyhudi.HudiTable.for_path(str(folder)).scan().to_arrow()

    assert_same_rows(expected_features(name), rows, ignore=[], hint=name)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_time_before_a_rename_is_read_by_the_names_of_then(version: int, unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack(f"v{version}-renamed-mor")))
    first = table.handle.state.timeline.completed_writes[0].requested_time
    assert sorted(table.scan(["id", "fare"], as_of=first).to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "fare": 9.5},
        {"id": 2, "fare": 7.0},
    ]


def test_log_named_after_an_earlier_write_counts_from_the_commit_that_lists_it(unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack("v9-updated-in-logs")))
    first, update = table.handle.state.timeline.completed_writes

    def fares(rows: pa.Table) -> dict[int, float]:
        return dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True))

    assert fares(table.scan(as_of=first.requested_time).to_arrow()) == {1: 9.5, 2: 7.0}
    assert fares(table.scan(as_of=update.requested_time).to_arrow()) == {1: 9.5, 2: 8.0}
    assert fares(table.changes(None, first.completion_time).to_arrow()) == {1: 9.5, 2: 7.0}
    assert fares(table.changes(first.completion_time).to_arrow()) == {2: 8.0}
    assert table.changes(update.completion_time).to_arrow().num_rows == 0


@pytest.mark.parametrize("name", sorted({*NAMES} - WRITABLE - OTHERWISE - {*COLUMNS_CHANGED}))
def test_special_table_of_jvm_hudi_is_not_written_and_stays_as_it_is(name: str, unpack: Unpack) -> None:
    folder = unpack(name)
    before = bytes_below(folder)
    table = pyhudi.HudiTable.for_path(str(folder))
    row = columns_of_the_table(expected_features(name)).slice(0, 1)

    changes = [table.upsert, table.insert, table.bulk_insert, table.delete, table.insert_overwrite]
    for change in changes:
        with pytest.raises(UnsupportedFeatureError, match=r"cannot write this table.*JVM Hudi"):
            change(row)
    if name.endswith("mor"):
        with pytest.raises(UnsupportedFeatureError, match="cannot compact this table"):
            table.services.compact()

    assert bytes_below(folder) == before


def test_table_whose_few_keys_do_not_show_the_number_of_its_buckets_is_not_written_without_it(unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack("v9-buckets-cow")))
    before = table.scan().to_arrow()

    with pytest.raises(ConfigError, match=r"how many: set hoodie\.bucket\.index\.num\.buckets"):
        table.upsert(columns_of_the_table(before).slice(0, 1))

    assert_same_rows(before, table.refresh().scan().to_arrow())


def test_table_whose_buckets_jvm_hudi_has_resized_takes_upserts_and_overwrites(unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack("v9-buckets-resized-mor")))
    rows = columns_of_the_table(table.scan().to_arrow())

    assert table.upsert(rows).updated == rows.num_rows
    table.refresh().insert_overwrite(rows)
    assert table.refresh().upsert(rows).updated == rows.num_rows

    assert sorted(table.refresh().scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(rows["id"].to_pylist())


@pytest.mark.parametrize("name", [name for name in NAMES if "no-meta-columns" in name])
def test_table_without_meta_columns_has_no_changes_to_ask_for(name: str, unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack(name)))
    with pytest.raises(UnsupportedFeatureError, match=r"incremental queries .*hoodie\.populate\.meta\.fields"):
        table.changes().to_arrow()


@pytest.mark.parametrize("name", sorted(WRITABLE))
def test_table_without_partitions_that_sql_made_is_written_compacted_and_rolled_back(name: str, unpack: Unpack) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack(name)), hudi_options={"hoodie.compact.inline": "false"})
    row = columns_of_the_table(table.scan().to_arrow()).slice(0, 1)
    new = row.set_column(0, "id", pa.array([3])).set_column(1, "fare", pa.array([3.5]))

    assert table.upsert(row).updated == 1
    if name.endswith("mor"):
        assert table.refresh().services.compact().num_rows == 1
    assert table.refresh().insert(new).inserted == 1
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [1, 2, 3]

    undone = table.refresh().upsert(new.set_column(1, "fare", pa.array([4.5])))
    table.refresh().recovery.rollback(undone.instant)
    found = table.refresh().scan(["fare"], where=[("id", "==", 3)]).to_arrow().to_pylist()
    assert found == [{"fare": 3.5}]


@pytest.mark.parametrize("name", COLUMNS_CHANGED)
def test_table_whose_columns_jvm_hudi_has_changed_is_written_compacted_and_read_by_its_columns(
    name: str, unpack: Unpack
) -> None:
    table = pyhudi.HudiTable.for_path(str(unpack(name)), hudi_options={"hoodie.compact.inline": "false"})
    before = columns_of_the_table(expected_features(name)).sort_by("id")
    changed = before.slice(1, 1).set_column(before.column_names.index("ts"), "ts", pa.array([5]))

    assert table.upsert(changed).updated == 1
    if name.endswith("mor"):
        assert table.refresh().services.compact().num_rows == 1

    rows = columns_of_the_table(table.refresh().scan().to_arrow()).sort_by("id")
    assert rows.to_pylist() == pa.concat_tables([before.slice(0, 1), changed, before.slice(2)]).to_pylist()
