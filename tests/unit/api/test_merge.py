"""Merge, update and delete by condition against a model in plain Python, and what they refuse."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import crashes
from tests.support.crashes import BEFORE, COW, MOR, crash_images, prepared
from tests.support.crashes import opened as opened_copy
from tests.support.seconds import cpu_seconds
from tests.support.tables import (
    SCHEMA,
    Row,
    SplitEngine,
    acting_at_staging,
    contents,
    log_files,
    new_table,
    open_table,
    rehandled,
    rows,
)

import pyhudi
from pyhudi.errors import (
    AmbiguousChangeError,
    ConfigError,
    HudiError,
    InvalidRequestError,
    RecordKeyError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

STORED = ((1, "oslo", 5, "a"), (2, "oslo", 5, "b"), (3, "rome", 5, "c"), (4, "rome", 5, "d"))
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", "hoodie.table.ordering.fields": ""}
NO_COMPACTION = {"hoodie.compact.inline": "false"}
KINDS = {
    "cow": {},
    "mor": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    "buckets": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "buckets mor": {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
S, T = "source.", "target."


def table_of(kind: str, *stored: Row, **options: str) -> pyhudi.HudiTable:
    table = new_table(**{**COMMIT_TIME, **KINDS[kind], **options})
    if stored:
        table.upsert(rows(*stored))
    return table.refresh()


def now(table: pyhudi.HudiTable) -> set[Row]:
    return contents(table.handle.state.storage)


# -- shapes --------------------------------------------------------------------------------------------------------


@every_kind
def test_a_merge_updates_inserts_and_deletes_in_one_commit(kind: str) -> None:
    table = table_of(kind, *STORED)
    source = rows((1, "oslo", 9, "new"), (3, "rome", 9, "gone"), (7, "bern", 9, "new"))

    result = (
        table.merge(source, on=["id", "city"])
        .when_matched_delete(condition=pc.field("source.note") == "gone")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )

    assert now(table) == {(1, "oslo", 9, "new"), STORED[1], STORED[3], (7, "bern", 9, "new")}
    assert len(table.refresh().inspect.history()) == 2
    assert result.deleted == 1


@every_kind
def test_values_of_the_target_and_of_the_source_make_the_new_row(kind: str) -> None:
    table = table_of(kind, *STORED)
    source = pa.table({"key": [4, 9], "more": [10, 20], "town": ["rome", "bern"]})

    (
        table.merge(source, on="target.id = source.key")
        .when_matched_update(set={"TS": pc.field("target.ts") + pc.field("source.more")})
        .when_not_matched_insert(values={"id": "source.key", "City": "town", "ts": "source.more"})
        .execute()
    )

    assert now(table) == {*STORED[:3], (4, "rome", 15, "d"), (9, "bern", 20, None)}


@every_kind
def test_rows_that_the_source_does_not_match_are_updated_and_deleted(kind: str) -> None:
    table = table_of(kind, *STORED)

    (
        table.merge(pa.table({"id": [1, 3]}), on="id")
        .when_not_matched_by_source_delete(condition=pc.field("target.city") == "oslo")
        .when_not_matched_by_source_update(set={"note": pc.scalar("alone")})
        .execute()
    )

    assert now(table) == {STORED[0], STORED[2], (4, "rome", 5, "alone")}


@pytest.mark.parametrize("kind", ["cow", "mor", "buckets"])
@pytest.mark.parametrize("on", ["id", "target.id = source.id", "(SOURCE.ID == target.`id`)"])
def test_a_partition_that_the_source_gives_is_where_the_row_goes(kind: str, on: str) -> None:
    table = table_of(kind, *STORED)
    source = rows((1, "rome", 9, "moved"), (5, "bern", 9, "new"))

    table.merge(source, on=on).when_matched_update_all().when_not_matched_insert_all().execute()

    assert now(table) == {(1, "rome", 9, "moved"), *STORED[1:], (5, "bern", 9, "new")}
    paths = table.refresh().scan(["id", "_hoodie_partition_path"], [("id", "==", 1)]).to_arrow()
    assert paths.column(1).to_pylist() == ["city=rome"]


def test_an_older_row_changes_nothing_where_the_table_orders_by_event_time() -> None:
    table = table_of(
        "cow", *STORED, **{"hoodie.table.ordering.fields": "ts"}, **{"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    )
    source = rows((1, "oslo", 4, "late"), (2, "oslo", 6, "newer"))

    table.merge(source, on=["id", "city"]).when_matched_update_all().execute()
    table.update({"ts": 1}, [("id", "==", 3)])

    assert now(table) == {STORED[0], (2, "oslo", 6, "newer"), *STORED[2:]}


def test_the_newest_of_several_rows_of_the_source_counts_where_ordering_values_differ() -> None:
    table = table_of(
        "cow", *STORED, **{"hoodie.table.ordering.fields": "ts"}, **{"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    )
    source = rows((1, "oslo", 8, "newest"), (1, "oslo", 7, "older"), (2, "oslo", 7, "gone"), (2, "oslo", 6, "older"))

    merge = table.merge(source, on="id").when_matched_delete(condition=pc.field("source.note") == "gone")
    merge.when_matched_update_all().execute()

    assert now(table) == {(1, "oslo", 8, "newest"), *STORED[2:]}


def test_a_table_with_generated_keys_is_merged_by_any_column(tmp_path: Path) -> None:
    created = pyhudi.HudiTable.create(tmp_path, schema=SCHEMA, partition_by="city")
    table = pyhudi.HudiTable(created.handle)
    table.insert(rows(*STORED))

    merge = table.merge(pa.table({"note": ["a", "z"], "ts": [9, 9]}), on="note")
    merge = merge.when_matched_update(set={"ts": "source.ts"})
    merge.when_not_matched_insert(
        values={"note": "source.note", "city": pc.scalar("bern"), "ts": "source.ts"}
    ).execute()
    table.delete_where([("city", "==", "rome")])

    assert now(table) == {(1, "oslo", 9, "a"), STORED[1], (None, "bern", 9, "z")}


@every_kind
def test_update_and_delete_by_condition(kind: str) -> None:
    table = table_of(kind, *STORED)

    updated = table.update({"note": "city", "ts": pc.field("ts") * 2}, [("city", "==", "oslo")])
    table.delete_where(pc.field("id") > 3)

    assert now(table) == {(1, "oslo", 10, "oslo"), (2, "oslo", 10, "oslo"), STORED[2]}
    assert updated.updated == 2


@pytest.mark.parametrize("version", [9, 8, 6])
@pytest.mark.parametrize("asked", ["true", "false"])
def test_logs_have_the_updated_columns_alone_where_the_format_knows_partial_updates(version: int, asked: str) -> None:
    table = new_table(version=version, **COMMIT_TIME, **KINDS["mor"])
    table.insert(rows(*STORED))
    source = pa.table({"id": [1, 3, 9], "ts": [8, 9, 7]})

    merge = table.refresh().merge(source, on="id").when_matched_delete(condition=pc.field("source.id") == 3)
    merge = merge.when_matched_update(set={"ts": "source.ts"})
    merge.when_not_matched_insert(values={"id": "id", "ts": "ts", "city": pc.scalar("bern")}).execute(
        hudi_options={"hoodie.spark.sql.merge.into.partial.updates": asked}
    )

    storage = table.handle.state.storage
    found = [block for path in log_files(storage) for block in scan_blocks(storage, path) if block.schema is not None]
    partial = asked == "true" and version > 6
    for block in found:
        if block.kind in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA):
            columns = without_meta_columns(avro_to_arrow(block.schema or "", source="a block")).names
            assert (columns, block.is_partial) == ((["ts"], True) if partial else (SCHEMA.names, False))
    assert {block.kind for block in found} & {BlockType.AVRO_DATA, BlockType.PARQUET_DATA}
    assert now(table) == {(1, "oslo", 8, "a"), STORED[1], STORED[3], (9, "bern", 7, None)}
    table.refresh().services.compact()
    assert now(table) == {(1, "oslo", 8, "a"), STORED[1], STORED[3], (9, "bern", 7, None)}


@pytest.mark.parametrize("version", [8, 9])
def test_no_partial_update_meets_columns_with_ids_where_jvm_hudi_takes_it_for_a_new_row(version: int) -> None:
    by_ids = {"hoodie.schema.on.read.enable": "true"}
    storage = new_table(version=version, **KINDS["mor"], **NO_COMPACTION).handle.state.storage
    now = lambda: open_table(storage, **NO_COMPACTION)  # noqa: E731
    merge = lambda note: (  # noqa: E731
        now().merge(pa.table({"id": [1], "ts": [note]}), on="id").when_matched_update(set={"ts": "source.ts"}).execute()
    )
    now().insert(rows(*STORED))
    merge(6)
    before = sorted(info.path for info in storage.list_recursive(""))
    with pytest.raises(UnsupportedFeatureError, match=r"partial updates: .* run services\.compact first"):
        now().alter.drop_column("note", hudi_options=by_ids)
    assert sorted(info.path for info in storage.list_recursive("")) == before
    now().services.compact()
    now().alter.drop_column("note", hudi_options=by_ids)
    merge(7)
    blocks = [block for path in log_files(storage) for block in scan_blocks(storage, path)]
    assert [block.is_partial for block in blocks] == [False]
    assert now().scan(["id", "ts"], [("id", "==", 1)]).to_arrow().to_pylist() == [{"id": 1, "ts": 7}]


@every_kind
@pytest.mark.parametrize("on", ["id", "id, city"])
def test_a_deleted_record_is_not_there_though_a_base_file_has_it_still(kind: str, on: str) -> None:
    table = table_of(kind, *STORED)
    names = on.split(", ")
    table.delete(pa.table({"id": [1, 2, 3], "city": ["oslo", "oslo", "rome"]}))
    given = rows((1, "oslo", 9, "new"), (4, "rome", 9, "no"))

    table.merge(given, on=names).when_not_matched_insert_all().execute()
    table.merge(rows((2, "oslo", 9, "no")), on=names).when_matched_update_all().execute()
    matched = table.merge(rows((3, "rome", 9, "new"), (9, "rome", 9, "no")), on=names)
    matched = matched.when_matched_delete().when_not_matched_insert_all(condition=pc.field("source.note") == "new")
    matched.execute()

    assert now(table) == {(1, "oslo", 9, "new"), (3, "rome", 9, "new"), STORED[3]}
    table.upsert(rows((1, "oslo", 10, "newer")))
    assert now(table) == {(1, "oslo", 10, "newer"), (3, "rome", 9, "new"), STORED[3]}


# -- a model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """A clause as the model and the builder have it. `above`: it applies where the number of the row is larger."""

    does: str
    above: int

    def applies(self, number: int) -> bool:
        return number > self.above


CLAUSES = st.builds(Clause, st.sampled_from(["update", "delete"]), st.integers(-1, 4))
KEYS = st.integers(0, 7)
SOURCES = st.dictionaries(KEYS, st.integers(0, 4), max_size=6)
CITIES = ("oslo", "rome")


def model(
    stored: dict[int, Row], source: dict[int, int], matched: list[Clause], inserts: Clause | None, left: list[Clause]
) -> set[Row]:
    found: dict[int, Row] = dict(stored)
    for key, row in stored.items():
        number, clauses = (source[key], matched) if key in source else (row[2], left)
        chosen = next((clause for clause in clauses if clause.applies(number)), None)
        if chosen is None:
            continue
        if chosen.does == "delete":
            del found[key]
        elif key in source:
            found[key] = (key, CITIES[number % 2], number, "matched")
        else:
            found[key] = (*row[:3], "left")
    for key, number in source.items():
        if key not in stored and inserts is not None and inserts.applies(number):
            found[key] = (key, CITIES[number % 2], number, "inserted")
    return set(found.values())


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    stored=SOURCES,
    source=SOURCES,
    matched=st.lists(CLAUSES, max_size=2),
    inserts=st.none() | CLAUSES,
    left=st.lists(CLAUSES, max_size=2),
    gone=st.sets(KEYS, max_size=2),
    splits=st.booleans(),
)
def test_any_merge_does_what_the_model_does(
    kind: str,
    stored: dict[int, int],
    source: dict[int, int],
    matched: list[Clause],
    inserts: Clause | None,
    left: list[Clause],
    gone: set[int],
    splits: bool,
) -> None:
    before = {key: (key, CITIES[key % 2], number, "stored") for key, number in stored.items()}
    table = table_of(kind, *before.values())
    if gone_rows := [before.pop(key) for key in gone if key in before]:
        table.delete(rows(*gone_rows))
    if splits:
        table = rehandled(table, engine=SplitEngine())
    given = pa.table(
        {"id": list(source), "n": list(source.values())}, pa.schema([("id", pa.int64()), ("n", pa.int64())])
    )
    given = given.append_column("city", pa.array([CITIES[n % 2] for n in source.values()], pa.string()))
    merge = table.merge(given, on="id")
    for clause in matched:
        condition = pc.field("source.n") > clause.above
        values = {"ts": "source.n", "city": "source.city", "note": pc.scalar("matched")}
        merge = (
            merge.when_matched_delete(condition=condition)
            if clause.does == "delete"
            else merge.when_matched_update(set=values, condition=condition)
        )
    if inserts is not None:
        values = {"id": "source.id", "city": "source.city", "ts": "source.n", "note": pc.scalar("inserted")}
        merge = merge.when_not_matched_insert(values=values, condition=pc.field("source.n") > inserts.above)
    for clause in left:
        condition = pc.field("target.ts") > clause.above
        merge = (
            merge.when_not_matched_by_source_delete(condition=condition)
            if clause.does == "delete"
            else merge.when_not_matched_by_source_update(set={"note": pc.scalar("left")}, condition=condition)
        )
    if not merge.plan.clauses:
        return

    merge.execute()

    assert now(table) == model(before, source, matched, inserts, left)


# -- refusals ------------------------------------------------------------------------------------------------------

Action = Callable[[pyhudi.HudiTable], object]
TWICE = pa.table({"id": [1, 1], "note": ["x", "y"]})
REFUSED: dict[str, tuple[type[HudiError], str, Action]] = {
    "no clause": (InvalidRequestError, "at least one clause", lambda t: t.merge(TWICE, on="id").execute()),
    "no rows": (InvalidRequestError, "no rows", lambda t: t.merge(None, on="id")),
    "a clause that never applies": (
        InvalidRequestError,
        "never do",
        lambda t: t.merge(TWICE, on="id").when_matched_delete().when_matched_update_all().execute(),
    ),
    "several rows for one": (
        AmbiguousChangeError,
        "one record",
        lambda t: t.merge(TWICE, on="id").when_matched_update(set={"note": "source.note"}).execute(),
    ),
    "several new rows of one key": (
        AmbiguousChangeError,
        "one record",
        lambda t: (
            t.merge(rows((9, "oslo", 1, "a"), (9, "oslo", 1, "b")), on="id").when_not_matched_insert_all().execute()
        ),
    ),
    "a new row whose key is stored": (
        RecordKeyError,
        "already",
        lambda t: t.merge(rows((1, "oslo", 1, "zz")), on="note").when_not_matched_insert_all().execute(),
    ),
    "another key": (RecordKeyError, "record key", lambda t: t.update({"id": 77}, [("id", "==", 1)])),
    "an unknown column": (ConfigError, "did you mean 'note'", lambda t: t.update({"not": "x"})),
    "a column twice": (ConfigError, "two values", lambda t: t.update({"note": "city", "NOTE": "city"})),
    "nothing to set": (ConfigError, "at least one column", lambda t: t.update({})),
    "an unknown column of the source": (
        ConfigError,
        "names no column",
        lambda t: t.merge(TWICE, on="id").when_matched_update(set={"note": "source.nothing"}).execute(),
    ),
    "a column of both sides": (
        ConfigError,
        "both sides",
        lambda t: t.merge(TWICE, on="id").when_matched_update(set={"note": "note"}).execute(),
    ),
    "a source without all columns": (
        ConfigError,
        "lacks columns",
        lambda t: t.merge(TWICE, on="id").when_not_matched_insert_all().execute(),
    ),
    "a condition that is no condition": (
        ConfigError,
        "true or false",
        lambda t: t.merge(TWICE, on="id").when_matched_delete(condition=pc.field("source.id")).execute(),
    ),
    "a value of another type": (
        SchemaMismatchError,
        "does not fit",
        lambda t: t.merge(pa.table({"id": [1], "l": [[1]]}), on="id").when_matched_update(set={"note": "l"}).execute(),
    ),
    "ON of another type": (
        SchemaMismatchError,
        "cast",
        lambda t: t.merge(pa.table({"id": ["1"]}), on="id").when_matched_delete().execute(),
    ),
    "ON that is no equality": (
        ConfigError,
        "without Spark",
        lambda t: t.merge(TWICE, on="target.id > source.id").when_matched_delete().execute(),
    ),
    "all columns of no row": (
        InvalidRequestError,
        "all columns",
        lambda t: replace(
            t.merge(TWICE, on="id"),
            plan=replace(t.merge(TWICE, on="id").plan, not_matched_by_source=(pyhudi_update_all(),)),
        ).execute(),
    ),
}


def pyhudi_update_all() -> Any:
    from pyhudi.write.row_changes.plan import Update

    return Update(None)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_and_nothing_of_it_is_visible(case: str) -> None:
    kind, message, act = REFUSED[case]
    table = table_of("cow", *STORED)

    with pytest.raises(kind, match=message):
        act(table)

    assert now(table) == set(STORED)
    assert not table.refresh().handle.state.timeline.pending_writes


def test_a_time_with_a_zone_and_one_without_are_never_made_into_each_other() -> None:
    schema = pa.schema([*SCHEMA, ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    row = {"id": 1, "city": "oslo", "ts": 5, "note": "a", "at": noon, "local": dt.datetime(2026, 1, 1, 3)}
    table = new_table(schema=schema)
    table.upsert(pa.Table.from_pylist([row], schema=schema))
    one = pa.table({"id": [1], "at": pa.array([row["local"]], pa.timestamp("us"))})
    wrong: tuple[Callable[[], object], ...] = (
        lambda: table.update({"local": "at"}),
        lambda: table.update({"at": row["local"]}),
        lambda: table.merge(one, on="id").when_matched_update(set={"at": "source.at"}).execute(),
    )
    for call in wrong:
        with pytest.raises(SchemaMismatchError, match="which instant a time without a zone means"):
            call()
    table.update({"at": noon + dt.timedelta(hours=1), "local": pc.local_timestamp(pc.field("at"))})
    told = table.refresh().scan(["at", "local"]).to_arrow().to_pylist()
    assert told == [{"at": noon + dt.timedelta(hours=1), "local": noon.replace(tzinfo=None)}]


def test_a_lock_less_writer_computes_no_rows_from_the_table() -> None:
    table = table_of(
        "buckets mor",
        *STORED,
        **{"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.table.ordering.fields": "ts"},
    )

    with pytest.raises(UnsupportedFeatureError, match="computed from the table"):
        table.update(
            {"note": "city"}, hudi_options={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
        )


# -- others at the same time ---------------------------------------------------------------------------------------


def meanwhile(inner: Storage, at: str, act: Callable[[pyhudi.HudiTable], object]) -> FaultStorage:
    done = False

    def hook(operation: str, path: str) -> None:
        nonlocal done
        if not done and path.endswith(at) and operation in ("put_if_absent", "open_output"):
            done = True
            act(open_table(inner, **COMMIT_TIME))

    return FaultStorage(inner, before=hook)


@pytest.mark.parametrize("at", ["staging", "inflight"])
def test_a_merge_gives_way_to_a_write_of_rows_that_it_read_and_is_run_again_if_asked(at: str) -> None:
    table = table_of("cow", *STORED)
    inner = table.handle.state.storage
    storage = meanwhile(inner, at, lambda t: t.upsert(rows((3, "rome", 8, "theirs"))))
    source = pa.table({"id": [3, 9]})

    def run(**options: str) -> None:
        writer = open_table(storage, **COMMIT_TIME, **options)
        if at == "staging":
            other = open_table(inner, **COMMIT_TIME)
            writer = acting_at_staging(writer, lambda: other.upsert(rows((3, "rome", 8, "theirs"))))
        merge = writer.merge(source, on="id")
        merge = merge.when_matched_update(set={"ts": pc.field("target.ts") + 1})
        merge.when_not_matched_insert(values={"id": "id", "city": pc.scalar("bern"), "ts": 0}).execute()

    if at == "staging":
        with pytest.raises(WriteConflictError):
            run()
        assert now(table) == {STORED[0], STORED[1], (3, "rome", 8, "theirs"), STORED[3]}
    else:
        run(**{"hoodie.write.num.retries.on.conflict.failures": "2"})
        assert now(table) == {STORED[0], STORED[1], (3, "rome", 9, "theirs"), STORED[3], (9, "bern", 0, None)}


def test_an_update_passes_a_write_to_another_partition() -> None:
    table = table_of("cow", *STORED)
    storage = meanwhile(table.handle.state.storage, "inflight", lambda t: t.upsert(rows((3, "rome", 8, "theirs"))))

    open_table(storage, **COMMIT_TIME).update({"ts": 9}, [("id", "==", 1)])

    assert now(table) == {(1, "oslo", 9, "a"), STORED[1], (3, "rome", 8, "theirs"), STORED[3]}


@pytest.mark.parametrize("named", [False, True])
def test_a_merge_that_the_index_can_match_reads_no_rows_that_others_could_change(named: bool) -> None:
    table = table_of("cow", *STORED)
    storage = meanwhile(table.handle.state.storage, "inflight", lambda t: t.upsert(rows((3, "rome", 8, "theirs"))))
    values = {name: f"Source.{name.upper()}" for name in SCHEMA.names}

    merge = open_table(storage, **COMMIT_TIME).merge(rows((1, "oslo", 9, "x"), (7, "bern", 9, "x")), on=["id", "city"])
    if named:
        merge = merge.when_matched_update(set=values).when_not_matched_insert(values=values)
    else:
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
    merge.execute()

    assert now(table) == {(1, "oslo", 9, "x"), STORED[1], (3, "rome", 8, "theirs"), STORED[3], (7, "bern", 9, "x")}


@every_kind
def test_a_column_that_gets_another_column_of_the_source_is_not_its_namesake(kind: str) -> None:
    source = pa.table({"id": [1], "city": ["oslo"], "ts": [9], "note": ["x"], "other": ["y"], "later": [10]})
    values = {"id": "source.id", "city": "source.city", "ts": "source.later", "note": "source.other"}
    table = table_of(kind, *STORED)

    table.merge(source, on=["id", "city"]).when_matched_update(set=values).execute()

    assert now(table) == {(1, "oslo", 10, "y"), *STORED[1:]}


@pytest.mark.parametrize("kind", [COW[0], MOR[0]], ids=str)
def test_a_merge_that_dies_anywhere_is_there_or_not_there(kind: Any) -> None:
    def merge(table: pyhudi.HudiTable) -> None:
        source = rows((1, "oslo", 9, "m"), (7, "bern", 9, "m"))
        made = table.merge(source, on="id").when_matched_update_all().when_not_matched_insert_all()
        made.when_not_matched_by_source_delete(condition=pc.field("target.city") == "oslo").execute()

    after = {row for row in BEFORE if row[1] != "oslo"} | {(1, "oslo", 9, "m"), (7, "bern", 9, "m")}
    seen = set()
    for where, image in crash_images(prepared(kind), merge, every=2):
        found = contents(image)
        seen.add(frozenset(found))
        assert found in (BEFORE, after), where
        opened_copy(image, later=True).upsert(crashes.rows((50, "wien", 9, "z")))
        assert contents(image) == found | {(50, "wien", 9, "z")}, where
    assert seen == {frozenset(BEFORE), frozenset(after)}


def test_a_merge_of_all_columns_computes_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    class Counted(acero.Declaration):  # type: ignore[misc]
        def __init__(self, kind: str, *rest: Any) -> None:
            computed.append(kind)
            super().__init__(kind, *rest)

    monkeypatch.setattr(acero, "Declaration", Counted)

    def declarations(width: int) -> int:
        names = [f"c{number}" for number in range(width)]
        values = pa.table({"id": [1, 2], "city": ["oslo"] * 2, "ts": [1, 1], **{name: [7, 8] for name in names}})
        storage = MemoryStorage()
        new_table(storage, schema=values.schema).insert(values.slice(0, 1))
        computed.clear()
        merge = open_table(storage).merge(values, on=["id", "city"])
        done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert (done.updated, done.inserted) == (1, 1)
        return len(computed)

    # Arrow looks at all columns for each expression.
    assert declarations(60) == declarations(6)


def test_an_update_of_more_columns_takes_longer_in_proportion() -> None:
    def seconds(width: int) -> float:
        columns = {f"c{number}": [7] * 2 for number in range(width)}
        values = pa.table({"id": [1, 2], "city": ["oslo"] * 2, "ts": [1, 1], **columns})
        storage = MemoryStorage()
        new_table(storage, schema=values.schema).insert(values)
        return cpu_seconds(lambda: open_table(storage).update({"c1": 9}, [("id", "==", 1)]))

    # A look at all names for each of them would take 64 times as long.
    assert seconds(1_600) < 24 * max(seconds(200), 0.02)


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_insert_of_a_key_that_another_partition_has_is_left_out(index: str, kind: str) -> None:
    options = {"hoodie.index.type": index, "hoodie.datasource.write.table.type": kind}
    storage = MemoryStorage()
    new_table(storage, **options).insert(rows((1, "rome", 1, "a"), (2, "oslo", 1, "a")))
    source = rows((1, "oslo", 2, "b"), (3, "oslo", 2, "b"))

    done = open_table(storage, **options).merge(source, on=["id"]).when_not_matched_insert_all().execute()

    assert contents(storage) == {(1, "rome", 1, "a"), (2, "oslo", 1, "a"), (3, "oslo", 2, "b")}
    assert done.inserted == 1
