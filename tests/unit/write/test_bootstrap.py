"""Bootstrap: a folder of Parquet files becomes a table, and stays as it is."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.bootstraps import bootstrap, copy_city_b, count_rows
from tests.support.crashes import copied, opened
from tests.support.sources import SOURCE_SCHEMA, encoded_partitions, encrypt, parquet_source
from tests.support.tables import LATER_MS, StepClock, environment

import pyhudi
from pyhudi.config.option import OptionWarning
from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import (
    AlreadyExistsError,
    ConfigError,
    CorruptDataError,
    InvalidRequestError,
    LockLostError,
    LockNotAcquiredError,
    PermissionDeniedError,
    RecordKeyError,
    SchemaMismatchError,
    TableExistsError,
    UnsafePathError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.bootstrap_index import PARTITIONS_PATH, SourcePartition, SourceStatus
from pyhudi.io.slices.base_rows import is_unchanged
from pyhudi.io.slices.files import SourceFile
from pyhudi.metadata_table import before_write
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.state import load_table, table_exists
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.write.bootstrap.plan import ModeOf

Change = Callable[[Path], object]
META = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def expected_rows(source: Path) -> list[dict[str, object]]:
    rows = []
    for path in sorted(source.rglob("*.parquet")):
        of_file = pq.ParquetFile(path).read().to_pylist()
        rows += [{**row, "city": path.parent.name.removeprefix("city=")} for row in of_file]
    return sorted(rows, key=lambda row: str(row["id"]))


def rows_of(table: pyhudi.HudiTable, *names: str) -> list[dict[str, object]]:
    found = table.refresh().scan(columns=list(names) or [*SOURCE_SCHEMA.names, "city"]).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row.get("id")))


def more(city: str, *keys: str, n: int = 99) -> pa.Table:
    schema = pa.schema([*SOURCE_SCHEMA, ("city", pa.string())])
    return pa.Table.from_pylist(
        [{"id": key, "n": n, "x": None, "ts": n, "when": None, "city": city} for key in keys], schema
    )


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_bootstrapped_table_has_the_rows_of_its_source_and_takes_writes(
    tmp_path: Path, version: int, table_type: str
) -> None:
    source = parquet_source(tmp_path / "source")
    before, expected = bytes_of(source), expected_rows(source)
    table = pyhudi.HudiTable.bootstrap(
        source, tmp_path / "table", record_key="id", table_type=table_type, table_version=version
    )
    assert rows_of(table) == expected
    assert table.scan().count() == 20
    assert {tuple(row.values()) for row in rows_of(table, *META)} == {
        ("00000000000001", row["id"], f"city={row['city']}") for row in expected
    }
    table.upsert(more("a", "a01", "a99"))
    table.refresh().delete(pa.table({"id": ["b13"], "city": ["b"]}))
    changed = {row["id"]: row["n"] for row in rows_of(table)}
    assert changed == {**{row["id"]: row["n"] for row in expected if row["id"] != "b13"}, "a01": 99, "a99": 99}
    if table_type == "mor":
        table.refresh().services.compact()
    table.refresh().services.cluster()
    assert {row["id"]: row["n"] for row in rows_of(table)} == changed
    assert bytes_of(source) == before


def test_rows_of_a_bootstrap_are_part_of_time_travel_and_of_changes(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    bootstrap = table.inspect.history().to_pylist()[0]
    table.upsert(more("a", "a01"))
    table = table.refresh()
    assert table.scan(as_of="00000000000001").count() == 20
    assert {
        row["n"] for row in table.scan(as_of="00000000000001", where=[("id", "==", "a01")]).to_arrow().to_pylist()
    } == {1}
    assert table.changes().count() == 20
    assert [row["id"] for row in table.changes(begin=bootstrap["completion_time"]).to_arrow().to_pylist()] == ["a01"]


def test_each_side_is_opened_only_for_its_own_columns(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    for path in source.rglob("*.parquet"):
        path.rename(path.with_suffix(".away"))
    assert table.scan(columns=META).to_arrow().num_rows == 20
    for path in source.rglob("*.away"):
        path.rename(path.with_suffix(".parquet"))
    for path in (tmp_path / "table").rglob("*.parquet"):
        path.write_bytes(bytes(path.stat().st_size))
    assert [row["id"] for row in rows_of(table, "id", "city")] == [row["id"] for row in expected_rows(source)]


def test_source_of_one_file_is_gone_or_changed_is_an_error_and_other_files_are_read(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    lost = source / "city=a" / "part-0.parquet"
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CorruptDataError, match="is gone") as gone:
        table.scan().to_arrow()
    assert str(gone.value.context["source"]).endswith("city=a/part-0.parquet")
    assert str(gone.value.context["path"]).startswith("city=a/")
    assert table.scan(where=[("city", "==", "b")]).to_arrow().num_rows == 10
    lost.write_bytes(content + b"more")
    with pytest.raises(CorruptDataError, match="was changed"):
        table.scan().to_arrow()


@pytest.mark.parametrize("mode", ["full_record", "mixed"])
def test_rows_of_a_partition_with_mode_full_record_are_copied(tmp_path: Path, mode: str) -> None:
    source = parquet_source(tmp_path / "source")
    expected = expected_rows(source)
    chosen = (
        "full_record" if mode == "full_record" else {"city=a": "full_record", "city=b": "metadata_only"}.__getitem__
    )
    plan = pyhudi.HudiTable.plan_bootstrap(source, tmp_path / "table", record_key="id", mode=chosen)
    assert plan.column("rows").to_pylist() == [10, 10]
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", mode=chosen, check_keys=True)
    (source / "city=a" / "part-0.parquet").unlink()
    assert (
        rows_of(table, "id", "n", "city") == [{name: row[name] for name in ("id", "n", "city")} for row in expected]
        or mode == "mixed"
    )
    times = {row["_hoodie_commit_time"] for row in rows_of(table, "_hoodie_commit_time")}
    assert times == ({"00000000000002"} if mode == "full_record" else {"00000000000001", "00000000000002"})


def test_plan_estimates_the_time_of_each_partition_by_its_rows_and_writes_nothing(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    parquet_source(source, cities="c", files=8)
    pq.write_table(SOURCE_SCHEMA.empty_table(), source / "city=c" / "none.parquet")
    modes = {"city=a": "metadata_only", "city=b": "metadata_only", "city=c": "full_record"}
    plan = pyhudi.HudiTable.plan_bootstrap(source, tmp_path / "t", record_key="id", mode=modes.__getitem__).to_pylist()
    first, second, third = plan
    assert 0 < first["seconds"] == second["seconds"] < 60
    assert third["seconds"] > 0
    assert not (tmp_path / "t").exists()
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "t", record_key="id")
    parquet_source(source, cities="d")
    later = table.source.plan_new_partitions().to_pylist()
    assert [(one["partition_path"], one["rows"], one["seconds"] > 0) for one in later] == [("city=d", 10, True)]


def test_progress_is_told_after_each_task_and_not_beside_spark(tmp_path: Path) -> None:
    source, told = parquet_source(tmp_path / "source"), list[pyhudi.Progress]()
    pyhudi.HudiTable.bootstrap(source, tmp_path / "t", record_key="id", on_progress=told.append)
    writing = [one for one in told if one.step == "write skeleton files"]
    assert [(one.done, one.tasks) for one in writing] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert writing[0].seconds_left > 0 == writing[-1].seconds_left
    with pytest.raises(ConfigError, match="Spark shows"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "o", record_key="id", on_progress=print, spark=object())  # type: ignore[arg-type]


def test_folders_with_numbers_and_dates_become_columns_of_these_types(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for day in ("2024-01-31", "2024-02-01"):
        for hour in (0, 11):
            folder = source / f"day={day}" / f"hour={hour}" / "kind=07"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"id": [f"{day}-{hour}"]}), folder / "x.parquet")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    found = {row["id"]: (row["day"], row["hour"], row["kind"]) for row in table.scan().to_arrow().to_pylist()}
    assert found["2024-01-31-11"] == (dt.date(2024, 1, 31), 11, "07")
    assert table.scan(where=[("hour", "==", 11)]).count() == 2


def test_source_without_folders_and_files_with_fewer_columns_are_read_with_nulls(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "a": ["x", "y"]}), source / "1.parquet")
    pq.write_table(pa.table({"b": [2.5], "id": [3]}), source / "2.parquet")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    assert rows_of(table, "id", "a", "b") == [
        {"id": 1, "a": "x", "b": None},
        {"id": 2, "a": "y", "b": None},
        {"id": 3, "a": None, "b": 2.5},
    ]


def test_plain_folders_need_partition_columns_that_agree_with_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "2024").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "year": [2024, 2024], "n": [1, 2]}), source / "2024" / "x.parquet")
    with pytest.raises(ConfigError, match="name the partition columns"):
        pyhudi.HudiTable.plan_bootstrap(source, tmp_path / "table", record_key="id")
    with pytest.raises(ConfigError, match="rows of another partition") as wrong:
        pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", partition_by="n")
    assert str(wrong.value.context["path"]).endswith("2024/x.parquet")
    assert not (tmp_path / "table" / ".hoodie").exists()
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", partition_by="year")
    assert table.scan(where=[("year", "==", 2024)]).count() == 2


def empty(source: Path) -> None:
    for path in source.rglob("*.parquet"):
        path.unlink()


def another_type(source: Path) -> None:
    pq.write_table(pa.table({"id": ["z"], "n": ["text"]}), source / "city=a" / "z.parquet")


def not_parquet(source: Path) -> None:
    (source / "city=a" / "z.parquet").write_bytes(b"PAR1 not really")


def other_suffix(source: Path) -> None:
    (source / "city=a" / "readme.txt").write_text("hello")


def null_key(source: Path) -> None:
    pq.write_table(pa.table({"id": pa.array(["z", None], pa.string())}), source / "city=a" / "z.parquet")


def repeated_key(source: Path) -> None:
    pq.write_table(pa.table({"id": ["a00", "new"]}), source / "city=a" / "z.parquet")


def encrypted(source: Path) -> None:
    encrypt(source / "city=a" / "part-0.parquet", "x")


def encrypted_columns(source: Path) -> None:
    encrypt(source / "city=a" / "part-0.parquet", "x", plaintext_footer=True)


def columns_of_hudi(source: Path) -> None:
    pq.write_table(pa.table({"id": ["z"], "_hoodie_record_key": ["z"]}), source / "city=a" / "z.parquet")


def nanoseconds(source: Path) -> None:
    stamps = pa.array([1], pa.timestamp("ns"))
    pq.write_table(pa.table({"id": ["z"], "at": stamps}), source / "city=a" / "z.parquet")


def short_floats(source: Path) -> None:
    pq.write_table(pa.table({"id": ["z"], "h": pa.array([1.0], pa.float16())}), source / "city=a" / "z.parquet")


def empty_key(source: Path) -> None:
    pq.write_table(pa.table({"id": ["z", ""]}), source / "city=a" / "z.parquet")


def file_without_the_key(source: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), source / "city=a" / "z.parquet")


def names_in_other_letters(source: Path) -> None:
    pq.write_table(pa.table({"id": ["z"], "N": ["text"]}), source / "city=a" / "z.parquet")


def table_with_a_file(source: Path) -> None:
    (source.parent / "table").mkdir()
    (source.parent / "table" / ".hidden").write_text("")
    pq.write_table(pa.table({"id": ["z"]}), source.parent / "table" / "mine.parquet")


def link_to_outside(source: Path) -> None:
    outside = source.parent / "outside.parquet"
    pq.write_table(pa.table({"id": ["z"]}), outside)
    (source / "city=a" / "z.parquet").symlink_to(outside)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (empty, InvalidRequestError, "no Parquet files"),
        (another_type, SchemaMismatchError, "z.parquet"),
        (not_parquet, InvalidRequestError, "z.parquet"),
        (encrypted, InvalidRequestError, "is encrypted.*part-0.parquet"),
        (encrypted_columns, InvalidRequestError, "is encrypted.*part-0.parquet"),
        (other_suffix, ConfigError, "readme.txt"),
        (null_key, RecordKeyError, "z.parquet"),
        (repeated_key, RecordKeyError, "a00"),
        (columns_of_hudi, SchemaMismatchError, "_hoodie_record_key"),
        (nanoseconds, SchemaMismatchError, "nanoseconds"),
        (short_floats, SchemaMismatchError, "16 bits"),
        (empty_key, RecordKeyError, "z.parquet"),
        (file_without_the_key, RecordKeyError, "z.parquet"),
        (names_in_other_letters, SchemaMismatchError, "letter case"),
        (table_with_a_file, TableExistsError, "mine.parquet"),
        (link_to_outside, UnsafePathError, "z.parquet"),
    ],
)
@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
def test_source_that_no_table_can_stand_on_is_refused_and_leaves_nothing(
    tmp_path: Path, change: Change, error: type[Exception], text: str, mode: str
) -> None:
    source, table = parquet_source(tmp_path / "source"), tmp_path / "table"
    change(source)
    before = bytes_of(source), {path.name for path in table.iterdir()} if table.exists() else set()
    with pytest.raises(error, match=text):
        pyhudi.HudiTable.bootstrap(source, table, record_key="id", mode=mode, check_keys=True)
    left = {path.name for path in table.rglob("*") if path.is_file() and ".locks" not in path.parts}
    assert (bytes_of(source), left) == before


def test_source_that_no_bucket_index_can_take_is_refused(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    with pytest.raises(UnsupportedFeatureError, match="no buckets"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", hudi_options=options)
    assert not (tmp_path / "table").exists()


def test_files_without_rows_and_default_partitions_of_hive_are_part_of_the_table(tmp_path: Path) -> None:
    source = tmp_path / "source"
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    for number, folder in enumerate(
        ("a=x/b=1", "a=x/b=__HIVE_DEFAULT_PARTITION__", "a=__HIVE_DEFAULT_PARTITION__/b=2")
    ):
        (source / folder).mkdir(parents=True)
        pq.write_table(pa.table({"id": [str(number)], "n": [number]}, schema), source / folder / "x.parquet")
        pq.write_table(schema.empty_table(), source / folder / "no rows.parquet")
    pq.ParquetWriter(source / "a=x/b=1" / "no row groups.parquet", schema).close()
    (source / "_SUCCESS").write_bytes(b"")

    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")

    assert rows_of(table, "id", "a", "b") == [
        {"id": "0", "a": "x", "b": 1},
        {"id": "1", "a": "x", "b": None},
        {"id": "2", "a": None, "b": 2},
    ]
    late = pa.table({"id": ["1", "2"], "n": [7, 8], "a": ["x", None], "b": pa.array([None, 2], pa.int32())})
    assert table.upsert(late).updated == 2
    assert [row["n"] for row in rows_of(table, "id", "n")] == [0, 7, 8]


def test_source_without_any_rows_becomes_a_table_that_takes_writes(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), tmp_path / "source" / "x.parquet")
    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", record_key="id")
    assert table.scan().to_arrow().num_rows == 0
    assert table.upsert(pa.table({"id": ["a"]})).inserted == 1
    assert rows_of(table, "id") == [{"id": "a"}]


def test_table_inside_its_source_or_around_it_is_refused(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    (tmp_path / "link").symlink_to(source)
    for path in (source / "table", source, tmp_path, tmp_path / "link" / "table"):
        with pytest.raises(ConfigError, match="inside the other"):
            pyhudi.HudiTable.bootstrap(source, path, record_key="id")
    with pytest.raises(ConfigError, match="inside the other"):
        pyhudi.HudiTable.bootstrap(tmp_path / "link", source / "table", record_key="id")


def test_folder_that_has_a_table_is_refused(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    with pytest.raises(TableExistsError):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")


def test_unknown_mode_is_refused(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    with pytest.raises(ConfigError, match="metadata_only or full_record"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", mode="fast")
    with pytest.raises(ConfigError, match="metadata_only or full_record"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", mode=lambda path: path)


@pytest.mark.parametrize("mode", [*BootstrapMode, copy_city_b])
def test_bootstrap_that_dies_shows_nothing_and_the_next_one_makes_the_table(tmp_path: Path, mode: ModeOf) -> None:
    source = parquet_source(tmp_path / "source", files=1)
    whole = FaultStorage(MemoryStorage())
    bootstrap(source, whole, mode=mode)
    between = 0
    for number in range(1, len(whole.effects) + 1):
        inner = MemoryStorage()
        with suppress(SimulatedCrash):
            bootstrap(source, FaultStorage(inner, before=at_effect(number, SimulatedCrash())), mode=mode)
        hint = f"before effect {number} of {len(whole.effects)}: {whole.effects[number - 1]}"
        rows = count_rows(inner) if table_exists(inner) else 0
        if rows == 10:
            continue
        # Hudi has an instant for each mode, so there is a moment between them.
        between += rows == 5
        assert rows in ((0, 5) if mode is copy_city_b else (0,)), hint
        if table_exists(inner):
            with pytest.raises(WriteConflictError, match="run the bootstrap again"):
                opened(inner).upsert(more("a", "a00"))
            # Whoever rolls dead writes back does not make a table of the first of two commits.
            late = environment(StepClock(LATER_MS))
            roll_back_failed_writes(load_table(inner), TransactionSettings(lock_wait_ms=0), late)
            with pytest.raises(WriteConflictError, match="run the bootstrap again"):
                opened(inner, later=True).upsert(more("a", "a00"))
        bootstrap(source, inner, later=True, mode=mode)
        assert count_rows(inner) == 10, hint
        assert count_rows(copied(inner)) == 10, hint
    assert (between > 0) == (mode is copy_city_b)


@pytest.mark.parametrize("mode", [*BootstrapMode, copy_city_b])
def test_write_into_a_table_that_is_being_bootstrapped_is_refused(tmp_path: Path, mode: ModeOf) -> None:
    source, inner = parquet_source(tmp_path / "source", files=1), MemoryStorage()
    refused = []

    def meanwhile(name: str, path: str) -> None:
        is_last_put = name == "put_if_absent" and path.endswith(".commit")
        if name == "close_output" or (is_last_put and len(refused) < 4):
            with pytest.raises(WriteConflictError, match="has not ended"):
                opened(inner).upsert(more("a", "a00"))
            refused.append(path)

    bootstrap(source, FaultStorage(inner, before=meanwhile), mode=mode)

    assert len(refused) > 2
    assert count_rows(inner) == 10
    assert opened(inner).upsert(more("a", "a00")).updated == 1


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        (1_700_000_000_123, 1_700_000_000_123, True),
        (1_700_000_000_123, 1_700_000_000_124, False),
        (1_700_000_000_123, 1_700_000_000_000, True),
        (1_700_000_000_000, 1_700_000_000_987, True),
        (1_700_000_000_000, 1_700_000_001_000, False),
        (0, 1_700_000_000_000, True),
    ],
)
def test_times_of_a_source_file_are_compared_by_what_the_store_tells(before: int, now: int, is_same: bool) -> None:
    source = SourceFile(MemoryStorage().spec, "city=a/0.parquet", 10, before)
    assert is_unchanged(source, FileInfo("city=a/0.parquet", 10, now)) is is_same
    assert not is_unchanged(source, FileInfo("city=a/0.parquet", 11, now))


def test_source_file_written_anew_with_the_same_size_is_an_error_of_reads_and_writes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "v": [10, 20, 30]}), source / "a.parquet")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    size, modified_ns = (source / "a.parquet").stat().st_size, (source / "a.parquet").stat().st_mtime_ns
    pq.write_table(pa.table({"id": [3, 2, 1], "v": [30, 20, 10]}), source / "a.parquet")
    os.utime(source / "a.parquet", ns=(modified_ns, modified_ns + 5_000_000))
    assert (source / "a.parquet").stat().st_size == size

    with pytest.raises(CorruptDataError, match="was changed"):
        table.refresh().scan().to_arrow()
    with pytest.raises(CorruptDataError, match="was changed"):
        table.refresh().upsert(pa.table({"id": [1], "v": [111]}))
    os.utime(source / "a.parquet", ns=(modified_ns, modified_ns))
    assert table.refresh().scan().to_arrow().num_rows == 3


def test_error_in_the_second_commit_of_a_bootstrap_takes_the_first_one_away(tmp_path: Path) -> None:
    source, inner = parquet_source(tmp_path / "source", files=1), MemoryStorage()

    def fail(_: str, path: str) -> None:
        if "/00000000000001_" in path:
            raise PermissionDeniedError("no more puts", path=path)

    with pytest.raises(PermissionDeniedError):
        bootstrap(source, FaultStorage(inner, before=fail), mode=copy_city_b)

    assert not inner.list_recursive("")


@pytest.mark.parametrize("mode", [BootstrapMode.METADATA_ONLY, copy_city_b])
def test_of_two_bootstraps_one_makes_the_table(tmp_path: Path, mode: ModeOf) -> None:
    source = parquet_source(tmp_path / "source", files=1)
    whole = FaultStorage(MemoryStorage())
    bootstrap(source, whole, mode=mode)
    for number, later in product(range(1, len(whole.effects) + 1), (False, True)):
        inner, done = MemoryStorage(), list[str]()

        def other(inner: MemoryStorage = inner, done: list[str] = done, later: bool = later) -> None:
            with suppress(TableExistsError, WriteConflictError, LockNotAcquiredError):
                bootstrap(source, inner, later=later, mode=mode)
                done.append("other")

        with suppress(TableExistsError, WriteConflictError, LockLostError, AlreadyExistsError):
            bootstrap(source, FaultStorage(inner, before=once_at(number, other)), mode=mode)
            done.append("mine")
        assert len(done) == 1, (number, later)
        assert count_rows(inner) == 10, (number, later)


def once_at(number: int, action: Callable[[], None]) -> Callable[[str, str], None]:
    """Do something else before the effect with this number."""
    seen = list[str]()

    def before(_: str, path: str) -> None:
        seen.append(path)
        if len(seen) == number:
            action()

    return before


@pytest.mark.parametrize("mode", [BootstrapMode.METADATA_ONLY.value, BootstrapMode.FULL_RECORD.value])
def test_repeated_keys_are_told_of_and_stay_where_a_warning_is_asked_for(tmp_path: Path, mode: str) -> None:
    source = parquet_source(tmp_path / "source")
    for city in "ab":
        shutil.copy(source / f"city={city}" / "part-0.parquet", source / f"city={city}" / "part-9.parquet")

    with pytest.warns(
        OptionWarning, match=r"10 rows in 2 partitions, in 'city=a' with the keys a00, a01, a02, a03, a04"
    ):
        table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id", mode=mode, check_keys="warn")

    assert table.scan().count() == 30
    with pytest.raises(RecordKeyError, match="more than once"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "other", record_key="id", mode=mode, check_keys=True)
    with pytest.raises(ConfigError, match="True, False or 'warn'"):
        pyhudi.HudiTable.bootstrap(source, tmp_path / "other", record_key="id", check_keys="fail")
    assert not bytes_of(tmp_path / "other")


def vanish(file: Path) -> None:
    file.unlink()


def grow(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def lose_rows(file: Path) -> None:
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.slice(1), file, row_group_size=2)


@pytest.mark.parametrize("mode", list(BootstrapMode))
@pytest.mark.parametrize("change", [vanish, grow, lose_rows])
def test_source_that_changes_between_footers_and_rows_is_named_and_leaves_no_table(
    tmp_path: Path, change: Change, mode: BootstrapMode
) -> None:
    source = parquet_source(tmp_path / "source")
    file = source / "city=b" / "part-1.parquet"

    class Meddling(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if path.endswith(".requested") and file.exists():
                change(file)
            super().put_if_absent(path, data)

    storage = Meddling(MemoryStorage())
    with pytest.raises(WriteConflictError, match="source was changed") as error:
        bootstrap(source, storage, mode=mode)
    assert str(error.value.context["path"]).endswith("city=b/part-1.parquet")
    assert not table_exists(storage)


def test_source_that_changes_during_the_bootstrap_is_an_error_and_leaves_no_table(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source", files=1)

    class Meddling(FaultStorage):
        def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
            if path == PARTITIONS_PATH:
                pq.write_table(pa.table({"id": ["late"]}), source / "city=a" / "late.parquet")
            return super().open_output(path, durable=durable)

    storage = Meddling(MemoryStorage())
    with pytest.raises(WriteConflictError, match="source was changed") as error:
        bootstrap(source, storage)
    assert str(error.value.context["path"]).endswith("late.parquet")
    assert not table_exists(storage)


def test_index_that_names_a_file_outside_the_source_is_refused(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    ids = [row["file_id"] for row in table.inspect.files().to_pylist() if row["partition_path"] == "city=a"]
    stranger = SourceStatus(f"file:{tmp_path}/other/x.parquet", 10, 0)
    data = encoded_partitions([SourcePartition("city=a", "city=a", dict.fromkeys(ids, stranger))], f"file:{source}")
    (tmp_path / "table" / PARTITIONS_PATH).write_bytes(data)
    with pytest.raises(UnsafePathError, match="outside the folder of its source"):
        table.refresh().scan().to_arrow()


@pytest.mark.parametrize("damage", ["missing", "cut", "of another partition"])
def test_bootstrap_index_that_is_lost_or_damaged_is_an_error_and_never_nulls(tmp_path: Path, damage: str) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    index = tmp_path / "table" / PARTITIONS_PATH
    if damage == "missing":
        index.unlink()
    elif damage == "cut":
        index.write_bytes(index.read_bytes()[:-9])
    else:
        index.write_bytes(encoded_partitions([SourcePartition("city=z", "city=z", {})], f"file:{source}"))
    with pytest.raises(CorruptDataError):
        table.refresh().scan().to_arrow()


REGEX = {
    "hoodie.bootstrap.mode.selector": "org.apache.hudi.client.bootstrap.selector.BootstrapRegexModeSelector",
    "hoodie.bootstrap.mode.selector.regex": "city=a",
    "hoodie.bootstrap.mode.selector.regex.mode": "FULL_RECORD",
}


def test_operation_bootstrap_of_the_data_source_takes_source_and_modes_from_options(tmp_path: Path) -> None:
    source, no_rows = parquet_source(tmp_path / "source"), pa.table({})
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.bootstrap.base.path": str(source),
        **REGEX,
    }
    done = pyhudi.save(no_rows, tmp_path / "table", hudi_options=options, mode="overwrite")
    assert done is not None
    assert (done.instant, done.inserted) == ("00000000000002", 10)
    table = pyhudi.HudiTable.for_path(tmp_path / "table")
    assert rows_of(table) == expected_rows(source)
    times = {(row["city"], row["_hoodie_commit_time"]) for row in rows_of(table, "city", "_hoodie_commit_time")}
    assert times == {("a", "00000000000002"), ("b", "00000000000001")}
    with pytest.raises(TableExistsError):
        pyhudi.save(no_rows, tmp_path / "table", hudi_options=options, mode="overwrite")
    with pytest.raises(ConfigError, match="without rows"):
        pyhudi.save(more("a", "z"), tmp_path / "other", hudi_options=options)
    del options["hoodie.bootstrap.base.path"]
    with pytest.raises(ConfigError, match="needs a source"):
        pyhudi.save(no_rows, tmp_path / "other", hudi_options=options)


STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}


@pytest.mark.parametrize("built", ["with the table", "by another writer"])
def test_statistics_that_do_not_know_the_source_leave_none_of_its_rows_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: str
) -> None:
    source = parquet_source(tmp_path / "source", files=4)
    if built == "by another writer":
        monkeypatch.setattr(before_write, "can_be_built", lambda _, table: bool(table))
    table = pyhudi.HudiTable.bootstrap(
        source, tmp_path / "table", record_key="id", table_type="mor", hudi_options=STATISTICS
    )
    has_bounds = "partition_stats" in table.handle.state.config.metadata_partitions
    assert has_bounds == (built == "by another writer")

    table.upsert(more("a", "a01", n=1))

    table = table.refresh()
    for where, count in ((("n", ">", 3), 8), (("n", "==", 1), 8), (("n", ">", 9), 0)):
        assert table.scan(where=[where]).to_arrow().num_rows == count, where
        assert table.scan(where=[where]).count() == count, where


def test_record_index_of_a_bootstrapped_table_keeps_a_record_that_a_late_delete_spares(tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    table = pyhudi.HudiTable.bootstrap(
        source, tmp_path / "table", record_key="id", ordering_fields="ts", table_type="mor", hudi_options=options
    )
    for ts, left in ((5, ["a01"]), (20, [])):
        table.upsert(more("a", "a01", n=ts).append_column("_hoodie_is_deleted", pa.array([True])))
        table = table.refresh()
        assert [row["id"] for row in rows_of(table, "id") if row["id"] == "a01"] == left
        assert table.lookup(["a01"])["id"].to_pylist() == left
    assert table.inspect.metadata_check().num_rows == 0


DECODED = "org.apache.hudi.client.bootstrap.translator.DecodedBootstrapPartitionPathTranslator"


@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
def test_folders_with_escapes_become_partitions_without_where_an_option_asks_for_it(tmp_path: Path, mode: str) -> None:
    for hour in (1, 2):
        folder = tmp_path / "source" / f"at=2024-01-01%200{hour}h"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [f"k{hour}"], "n": [hour]}), folder / "f.parquet")
    options = {"hoodie.bootstrap.partitionpath.translator.class": DECODED}
    make = {"record_key": "id", "mode": mode, "hudi_options": options}

    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", **make)  # type: ignore[arg-type]

    assert sorted(table.inspect.partitions()["partition_path"].to_pylist()) == [
        "at=2024-01-01 01h",
        "at=2024-01-01 02h",
    ]
    table.upsert(pa.table({"id": ["k1"], "n": [9], "at": ["2024-01-01 01h"]}))
    found = table.refresh().scan(columns=["id", "n", "at"]).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("k1", 9, "2024-01-01 01h"),
        ("k2", 2, "2024-01-01 02h"),
    ]
    table.refresh().services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})
    assert table.refresh().scan().count() == 2


def test_folders_that_differ_in_escapes_alone_are_refused(tmp_path: Path) -> None:
    for name in ("at=1%20h", "at=1 h"):
        (tmp_path / "source" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": ["k"]}), tmp_path / "source" / name / "f.parquet")
    options = {"hoodie.bootstrap.partitionpath.translator.class": DECODED}
    with pytest.raises(ConfigError, match="one path without escapes"):
        pyhudi.HudiTable.plan_bootstrap(tmp_path / "source", tmp_path / "table", record_key="id", hudi_options=options)


@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
@pytest.mark.parametrize(("parallelism", "tasks"), [("1", 1), ("3", 3), ("100", 4)])
def test_files_of_the_source_are_divided_into_as_many_tasks_as_the_option_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, parallelism: str, tasks: int
) -> None:
    source, ran = parquet_source(tmp_path / "source"), dict[str, int]()
    run = LocalEngine.map

    def counting(self: LocalEngine, function: Any, tasks: Sequence[Any], *, size_bytes: int, description: str) -> Any:
        ran[description] = len(tasks)
        return run(self, function, tasks, size_bytes=size_bytes, description=description)

    monkeypatch.setattr(LocalEngine, "map", counting)

    table = pyhudi.HudiTable.bootstrap(
        source,
        tmp_path / "table",
        record_key="id",
        mode=mode,
        hudi_options={"hoodie.bootstrap.parallelism": parallelism},
    )

    assert ran["write skeleton files" if mode == "metadata_only" else "copy the source"] == tasks
    assert rows_of(table) == expected_rows(source)
