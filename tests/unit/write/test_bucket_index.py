"""Writes to tables with a simple bucket index: where rows go, what is read for it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.support.crashes import assert_nothing_left_over, crash_images, opened
from tests.support.golden import unpacked
from tests.support.table_builder import TableBuilder, every_version
from tests.support.tables import MOR, SCHEMA, contents, log_files, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, CorruptDataError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.buckets import simple_hashes
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.state import load_table, put_properties
from pyhudi.testing.faults import FaultStorage
from pyhudi.write.bucket_placement import slices_of_buckets

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def some(first: int, last: int, ts: int = 1, note: str = "a") -> pa.Table:
    return rows(*((n, ("oslo", "rome")[n % 2], ts, note) for n in range(first, last)))


def bucketed(kind: str, version: int = 9, **options: str) -> pyhudi.HudiTable:
    storage = TableBuilder(version, kind, options={**BUCKETS, "hoodie.compact.inline": "false", **options}).build()
    return open_table(storage, **{"hoodie.compact.inline": "false"})


def assert_in_their_buckets(table: pyhudi.HudiTable, number: int = 4) -> None:
    found = table.refresh().scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow()
    buckets = (simple_hashes(found.column(0).combine_chunks(), ("id",)) % number).tolist()
    assert [int(name[:8]) for name in found.column(1).to_pylist()] == buckets
    groups = {(row["partition_path"], row["file_id"]) for row in table.inspect.files().to_pylist()}
    assert len({(path, file_id[:8]) for path, file_id in groups}) == len(groups)


@KINDS
@every_version
def test_every_row_is_in_the_bucket_of_its_key_whatever_wrote_it(kind: str, version: int) -> None:
    table = bucketed(kind, version)
    table.upsert(some(0, 40))
    table.refresh().upsert(some(20, 60, 2, "b"))
    table.refresh().insert(some(60, 70))
    table.refresh().bulk_insert(some(70, 80))
    table.refresh().delete(some(0, 5))
    table.refresh().upsert(some(3, 8, 3, "c"))

    after = table.refresh().scan(SCHEMA.names).to_arrow()
    expected = dict.fromkeys(range(5, 80), (1, "a")) | dict.fromkeys(range(20, 60), (2, "b"))
    expected |= dict.fromkeys(range(3, 8), (3, "c"))
    assert {n: (ts, note) for n, _, ts, note in zip(*after.to_pydict().values(), strict=True)} == expected
    assert after.num_rows == len(expected)
    assert_in_their_buckets(table)


def test_a_bucket_is_one_file_group_whatever_its_size() -> None:
    table = bucketed("cow", **{"hoodie.bucket.index.num.buckets": "1"})

    table.upsert(some(0, 500, note="x" * 1000), hudi_options={"hoodie.parquet.max.file.size": "1000"})

    assert len(table.refresh().inspect.files()) == 2  # one in each partition
    assert table.refresh().scan().count() == 500


@KINDS
def test_an_overwrite_gives_buckets_new_file_groups(kind: str) -> None:
    table = bucketed(kind)
    table.upsert(some(0, 40))
    previous = set(table.refresh().inspect.files().column("file_id").to_pylist())

    table.refresh().insert_overwrite(some(100, 120))
    table.refresh().upsert(some(110, 130, 2, "b"))

    assert set(table.refresh().scan(["id"]).to_arrow().column(0).to_pylist()) == set(range(100, 130))
    assert previous.isdisjoint(table.refresh().inspect.files().column("file_id").to_pylist())
    assert_in_their_buckets(table)


def test_an_upsert_of_a_merge_on_read_table_reads_no_stored_row() -> None:
    table = bucketed("mor")
    table.upsert(some(0, 40))
    watched = FaultStorage(table.handle.state.storage)

    open_table(watched, **{"hoodie.compact.inline": "false"}).upsert(some(20, 60, 2, "b"))

    opened = [each.path for each in watched.operations if each.name in ("open_input", "read_range", "read")]
    assert [path for path in opened if path.endswith(".parquet") or ".log." in path] == []
    assert len(log_files(table.handle.state.storage)) == 8


@KINDS
def test_an_insert_drops_or_refuses_keys_that_are_in_logs_too(kind: str) -> None:
    table = bucketed(kind)
    table.upsert(some(0, 10))
    table.refresh().upsert(some(10, 20))
    policy = "hoodie.datasource.insert.dup.policy"

    with pytest.raises(InvalidRequestError, match="in the table already"):
        table.refresh().insert(some(15, 25), hudi_options={policy: "fail"})
    table.refresh().insert(some(15, 25, 9, "late"), hudi_options={policy: "drop"})

    found = table.refresh().scan(["id", "note"]).to_arrow().to_pydict()
    assert sorted(found["id"]) == list(range(25))
    assert found["note"].count("late") == 5


def test_an_update_changes_every_stored_row_of_its_key() -> None:
    table = bucketed("cow")
    table.insert(some(0, 4))
    table.refresh().insert(some(0, 2))
    assert table.refresh().scan().count() == 6

    table.refresh().upsert(some(0, 3, 5, "new"))

    found = table.refresh().scan(["id", "note"]).to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        (0, "new"), (0, "new"), (1, "new"), (1, "new"), (2, "new"), (3, "a"),
    ]  # fmt: skip


@every_version
def test_the_number_of_buckets_of_a_table_of_jvm_hudi_is_found_in_its_files(version: int, tmp_path: Path) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked(f"mor/v{version}-bucket", tmp_path) / "table"))
    before = table.scan().to_arrow()
    data = before.drop_columns([name for name in before.column_names if name in META_COLUMNS])
    groups = {(row["partition_path"], row["file_id"]) for row in table.inspect.files().to_pylist()}

    table.upsert(data)

    after = table.refresh()
    assert after.scan().count() == before.num_rows
    assert {(row["partition_path"], row["file_id"]) for row in after.inspect.files().to_pylist()} == groups
    for number in ("3", "8", "1"):
        with pytest.raises(ConfigError, match=f"was not written with {number} buckets"):
            after.upsert(data, hudi_options={"hoodie.bucket.index.num.buckets": number})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hoodie.index.type": "BLOOM"}, "has a bucket index, and hoodie.index.type is BLOOM"),
        ({"hoodie.bucket.index.num.buckets": "8"}, "hoodie.bucket.index.num.buckets is '8', the table has '4'"),
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "hoodie.index.bucket.engine is 'CONSISTENT_HASHING'"),
        ({"hoodie.bucket.index.hash.field": "city"}, "may only name record key fields"),
        ({"hoodie.write.tombstones.retained.hours": "1"}, "late deletes"),
        ({"hoodie.bucket.index.partition.expressions": "a,1"}, "is 'a,1', the table has ''"),
    ],
)
def test_what_contradicts_the_buckets_of_the_table_is_refused(options: dict[str, str], named: str) -> None:
    table = bucketed("cow")
    table.upsert(some(0, 4))
    before = contents(table.handle.state.storage)

    with pytest.raises((ConfigError, UnsupportedFeatureError), match=named):
        table.refresh().upsert(some(0, 8, 2), hudi_options=options)

    assert contents(table.handle.state.storage) == before


def test_a_table_without_buckets_is_not_written_as_one_with_them() -> None:
    table = open_table(TableBuilder(9, "cow").insert((1, "oslo", 1, "a")).build())

    with pytest.raises(ConfigError, match="are no buckets"):
        table.upsert(some(0, 4), hudi_options=BUCKETS)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "needs a merge-on-read table"),
        ({"hoodie.bucket.index.hash.field": "city"}, "no record key fields: city"),
    ],
)
def test_a_table_that_cannot_have_buckets_is_not_made(options: dict[str, str], named: str) -> None:
    described = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    }
    with pytest.raises(ConfigError, match=named):
        pyhudi.save(some(0, 1), "memory://none", hudi_options={**described, **BUCKETS, **options})


def test_a_bucket_with_two_file_groups_is_refused() -> None:
    """As a second bulk insert of JVM Hudi leaves it."""
    groups = [FileGroupId("p", f"00000003-25c8-466a-9d8d-10dd609ff31{n}-0") for n in range(2)]
    view = SimpleNamespace(latest={"p": tuple(FileSlice(group, "1", None) for group in groups)})

    with pytest.raises(CorruptDataError, match="two file groups") as caught:
        slices_of_buckets(view)  # type: ignore[arg-type]

    assert caught.value.context["file_groups"] == [group.file_id for group in groups]


@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 6)])
def test_a_crash_at_any_moment_leaves_all_rows_or_those_of_before(kind: str, version: int) -> None:
    builder = TableBuilder(version, kind, options={**BUCKETS, "hoodie.compact.inline": "false"})
    given = builder.insert(*((n, "oslo", 1, "a") for n in range(6))).build()
    before = contents(given)
    late = rows(*((n, "oslo", 2, "b") for n in range(3, 9)))
    seen = set()

    for hint, image in crash_images(given, lambda table: table.upsert(late)):
        seen.add(frozenset(contents(image)))
        opened(image, later=True).upsert(late)
        assert_in_their_buckets(opened(image))
        assert len(contents(image)) == 9, hint
        assert_nothing_left_over(image)

    assert frozenset(before) in seen
    assert len(seen) == 2


# -- reading by key ------------------------------------------------------------------------------------------------


@KINDS
@every_version
def test_a_scan_by_key_reads_the_bucket_of_the_key_alone(kind: str, version: int) -> None:
    table = bucketed(kind, version)
    table.upsert(some(0, 40))
    table.refresh().upsert(some(20, 60, 2, "b"))
    table = table.refresh()

    scan = table.scan(["id", "note"], where=[("id", "==", 33)])
    assert scan.to_arrow().to_pylist() == [{"id": 33, "note": "b"}]
    assert len(scan.files()) == 2  # one bucket in each partition
    (use,) = (use for use in scan.explain().indexes if use.index == "bucket_index")
    assert (use.file_slices, use.columns) == (6, ("id",))
    assert "bucket_index: 6 file slices left out by id" in str(scan.explain())
    several = table.scan(["id"], where=[("id", "in", [1, 2, 33, 77]), ("note", "!=", "x")])
    assert sorted(several.to_arrow().column(0).to_pylist()) == [1, 2, 33]
    either = table.scan(["id"], where=[[("id", "==", 1)], [("city", "==", "oslo"), ("id", "==", 2)]])
    assert sorted(either.to_arrow().column(0).to_pylist()) == [1, 2]


@pytest.mark.parametrize("where", [[("note", "==", "a")], [("id", ">", 3)], [[("id", "==", 1)], [("note", "==", "a")]]])
def test_a_condition_that_leaves_the_key_open_leaves_no_bucket_out(where: list[object]) -> None:
    table = bucketed("cow")
    table.upsert(some(0, 40))

    explained = table.refresh().scan(where=where).explain()

    assert not [use for use in explained.indexes if use.index == "bucket_index"]
    assert explained.base_files == 8


def test_pruned_by_buckets_is_unpruned_filtered_for_every_key() -> None:
    table = bucketed("mor")
    table.upsert(some(0, 30))
    table.refresh().delete(some(3, 5))
    table = table.refresh()
    present = set(table.scan(["id"]).to_arrow().column(0).to_pylist())

    for key in range(35):
        found = table.scan(["id"], where=[("id", "==", key)]).to_arrow().column(0).to_pylist()
        assert found == ([key] if key in present else [])


RULES = {"hoodie.bucket.index.partition.expressions": "os?lo,1; city=r.*,8"}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_partitions_have_the_numbers_of_buckets_that_their_rules_say(kind: str) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4", **(MOR if kind == "mor" else {})}
    table = new_table(**options, **RULES)
    storage = table.handle.state.storage
    for turn in range(2):
        batch = rows(*((n, city, turn, f"t{turn}") for n in range(40) for city in ("oslo", "rome", "bern")))
        result = open_table(storage).upsert(batch)
        assert (result.inserted, result.updated) == ((0, 120) if turn else (120, 0))
    scan = open_table(storage).scan(["id", "city", "note"])
    assert scan.count() == 120
    numbers: dict[str, set[int]] = {}
    for path in scan.files().column("path").to_pylist():
        city, _, name = path.partition("/")
        numbers.setdefault(city, set()).add(int(name[:8]))
    assert {city: max(found) + 1 for city, found in numbers.items()} == {"city=oslo": 1, "city=rome": 8, "city=bern": 4}
    found = open_table(storage).scan(["city"], where=[("id", "==", 7)])
    assert sorted(found.to_arrow().column("city").to_pylist()) == ["bern", "oslo", "rome"]
    assert found.explain().indexes[0].file_slices == scan.files().num_rows - 3
    with pytest.raises(ConfigError, match="leave it out"):
        open_table(storage, **{"hoodie.bucket.index.partition.expressions": "x,9"}).upsert(rows((1, "oslo", 9, "x")))


def test_rules_of_a_table_that_does_not_keep_them_are_checked_against_its_files() -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    storage = new_table(**options, **RULES).handle.state.storage
    open_table(storage).upsert(rows(*((n, city, 1, "a") for n in range(40) for city in ("oslo", "rome", "bern"))))
    gone = {"hoodie.bucket.index.num.buckets", *RULES}
    kept = {key: value for key, value in load_table(storage).config.values.items() if key not in gone}
    put_properties(storage, kept)
    batch = rows((7, "rome", 5, "b"), (7, "oslo", 5, "b"))
    with pytest.raises(ConfigError, match="otherwise"):
        open_table(storage, **options).upsert(batch)
    assert open_table(storage, **options, **RULES).upsert(batch).updated == 2
    assert open_table(storage).scan().count() == 120


@pytest.mark.parametrize("rules", ["a", "a,b", "a,0", "(,3", "\\p{L},3", "a,1;;b,2", "[a[b]],3"])
def test_rules_that_java_may_read_otherwise_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match="expressions"):
        new_table(**{"hoodie.index.type": "BUCKET", "hoodie.bucket.index.partition.expressions": rules})


def test_buckets_that_a_procedure_of_jvm_hudi_numbered_are_not_written_and_not_left_out() -> None:
    storage = new_table(**{"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}).handle.state.storage
    open_table(storage).upsert(rows(*((n, "oslo", 1, "a") for n in range(20))))
    storage.put(".hoodie/.hashing_meta/00000000000000000.hashing_config", b"{}")
    with pytest.raises(UnsupportedFeatureError, match="hashing_meta"):
        open_table(storage).upsert(rows((1, "oslo", 2, "b")))
    scan = open_table(storage).scan(where=[("id", "==", 7)])
    assert scan.count() == 1
    assert scan.explain().indexes[0].note == "a procedure of JVM Hudi numbered the buckets"
