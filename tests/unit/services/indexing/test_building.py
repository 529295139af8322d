"""Indexes are built while writers go on, die and come back, and each key is found at the end."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextlib import suppress

import pyarrow.compute as pc
import pytest
from tests.support.crashes import copied, crash_images
from tests.support.record_entries import entries_of_index, places_of_records
from tests.support.table_builder import TableBuilder
from tests.support.tables import LATER_MS, Row, StepClock, contents, environment, open_table, rows

import pyhudi
from pyhudi.errors import (
    ConfigError,
    InvalidRequestError,
    LockLostError,
    LockNotAcquiredError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table, update_properties
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.in_process import InProcessLocks

OPTIONS = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
}
FEW_GROUPS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}
SOME_GROUPS = {"hoodie.metadata.record.index.min.filegroup.count": "4"}
"""Each file group is two calls of the builder, so that others can act at more moments."""
CLOCK = StepClock()
Action = Callable[[pyhudi.HudiTable], object]

OTHERS: dict[str, Action] = {
    "nothing": lambda _: None,
    "upsert that moves, updates and inserts": lambda table: table.upsert(
        rows((1, "rome", 9, "m"), (2, "oslo", 9, "u"), (7, "bern", 9, "n"))
    ),
    "delete": lambda table: table.delete(rows((1, "oslo", 0, ""), (4, "rome", 0, ""))),
    "clustering": lambda table: table.services.cluster(),
    "overwrite": lambda table: table.insert_overwrite(rows((9, "oslo", 1, "o"))),
    "dropped partition": lambda table: table.delete_partition("city=rome"),
    "compaction and a write": lambda table: (table.services.compact(), table.upsert(rows((2, "rome", 9, "m")))),
    "rollback of a completed write": lambda table: table.recovery.rollback(
        table.inspect.history(1)["instant"][0].as_py()
    ),
    "many writes": lambda table: [table.refresh().upsert(rows((n, "bern", 20 + n, "n"))) for n in range(1, 7)],
}


def opened(storage: Storage, clock: StepClock | None = None, **options: str) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(clock or CLOCK), **{**OPTIONS, **options})


def prepared(version: int, kind: str) -> Storage:
    """A table with records in three partitions, some of them in logs, and a write that may be rolled back."""
    options = {**OPTIONS, "hoodie.metadata.enable": "true"}
    builder = TableBuilder(version, kind, options=options, clock=CLOCK)  # type: ignore[arg-type]
    builder = builder.insert(*((n, ("oslo", "rome", "bern")[n % 3], 1, "a") for n in range(1, 7)))
    return builder.upsert((1, "oslo", 2, "b"), (3, "oslo", 2, "b")).upsert((6, "oslo", 2, "b")).build()


def create(table: pyhudi.HudiTable) -> object:
    return table.indexes.create("record_index", hudi_options=SOME_GROUPS)


def assert_index_is_true(storage: Storage) -> None:
    entries, places = entries_of_index(storage), places_of_records(storage)
    assert entries == places
    assert len(places) > 0


MEANWHILE = [
    *((9, "mor", other) for other in OTHERS),
    (9, "cow", "upsert that moves, updates and inserts"),
    (8, "mor", "many writes"),
    (6, "mor", "compaction and a write"),
    (6, "mor", "rollback of a completed write"),
]


@pytest.mark.parametrize(("version", "kind", "other"), MEANWHILE)
def test_index_is_true_whatever_is_done_while_it_is_built(version: int, kind: str, other: str) -> None:
    given = prepared(version, kind)
    moments = _moments_without_lock(given)
    assert len(moments) > 8
    for number in moments[1 :: len(moments) // 3]:
        storage = copied(given)
        hook = _at_call(number, functools.partial(_run, OTHERS[other], storage))
        create(opened(FaultStorage(storage, before=hook)))
        assert_index_is_true(storage)
        opened(storage).upsert(rows((1, "bern", 99, "z"), (50, "oslo", 99, "z")))
        assert_index_is_true(storage)


NEW_PARTITION: Action = lambda table: table.upsert(rows((8, "lima", 9, "n"), (1, "rome", 9, "m")))  # noqa: E731


@pytest.mark.parametrize("other", [NEW_PARTITION, *(OTHERS[name] for name in ("dropped partition", "many writes"))])
def test_index_by_partition_is_true_whatever_is_done_while_it_is_built(other: Action) -> None:
    given = prepared(9, "mor")
    moments = _moments_without_lock(given, by_partition)
    assert len(moments) > 8
    for number in moments[1 :: len(moments) // 3]:
        storage = copied(given)
        by_partition(opened(FaultStorage(storage, before=_at_call(number, functools.partial(_run, other, storage)))))
        assert_index_is_true(storage)
        opened(storage).upsert(rows((1, "bern", 99, "z"), (50, "kiev", 99, "z")))
        assert_index_is_true(storage)
        assert opened(storage).inspect.metadata_check().to_pylist() == []


def by_partition(table: pyhudi.HudiTable) -> object:
    by_partition = {
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    }
    return table.indexes.create("record_index", hudi_options=by_partition)


def _run(act: Action, storage: Storage) -> None:
    act(opened(storage))


def _build_later(storage: Storage) -> None:
    create(later(storage))


def _at_call(number: int, act: Callable[[], object]) -> Callable[[str, str], None]:
    calls = itertools.count(1)

    def hook(operation: str, path: str) -> None:
        if next(calls) == number:
            act()

    return hook


def _moments_without_lock(given: Storage, create: Action = create) -> list[int]:
    """The numbers of the builder's calls of its store at which others can take the table lock."""
    storage, free, calls = copied(given), [], itertools.count(1)

    def hook(operation: str, path: str) -> None:
        number = next(calls)
        with suppress(LockNotAcquiredError):
            InProcessLocks().acquire(storage, environment(CLOCK), wait_ms=0).release()
            free.append(number)

    create(opened(FaultStorage(storage, before=hook)))
    return free


def later(storage: Storage) -> pyhudi.HudiTable:
    """The table at a time when all heartbeats have expired."""
    return opened(storage, StepClock(LATER_MS))


def test_build_that_died_at_any_effect_leaves_a_table_that_works_and_is_gone_on_with() -> None:
    given = prepared(9, "mor")
    states = set()
    for where, storage in crash_images(given, create, every=5):
        state = _state(storage)
        states.add(state)
        opened(storage).upsert(rows((2, "oslo", 50, "w"), (60, "rome", 50, "w")))
        if state == "ready":
            assert_index_is_true(storage)
            with pytest.raises(InvalidRequestError, match="refresh"):
                create(later(storage))
        else:
            create(later(storage))
        assert_index_is_true(storage)
        assert _state(storage) == "ready", where
        later(storage).upsert(rows((2, "bern", 51, "x")))
        assert_index_is_true(storage)
    assert states >= {"interrupted", "ready"}


def _state(storage: Storage) -> str:
    states = later(storage).indexes.list().column("state").to_pylist()
    assert len(states) <= 1
    return str(states[0]) if states else "none"


def test_index_that_another_process_builds_is_left_to_it() -> None:
    storage = prepared(9, "cow")
    seen: list[object] = []

    def other() -> None:
        with pytest.raises(WriteConflictError, match="another process is building"):
            create(opened(storage))
        with pytest.raises(WriteConflictError, match="another process is building"):
            opened(storage).indexes.drop("record_index")
        seen.extend(opened(storage).indexes.list().column("state").to_pylist())

    create(opened(FaultStorage(storage, before=_at_call(_moments_without_lock(storage)[-4], other))))

    assert seen == ["building"]
    assert_index_is_true(storage)


def test_process_that_is_taken_for_dead_and_goes_on_harms_no_index() -> None:
    given = prepared(9, "mor")
    moments = _moments_without_lock(given)
    for number in moments[1:-1:3]:  # at the last one the index is there
        storage = copied(given)
        hook = _at_call(number, functools.partial(_build_later, storage))

        with pytest.raises((LockLostError, WriteConflictError)):
            create(opened(FaultStorage(storage, before=hook)))

        assert_index_is_true(storage)
        later(storage).upsert(rows((1, "bern", 99, "z"), (50, "oslo", 99, "z")))
        assert_index_is_true(storage)


def test_index_that_a_write_asks_for_while_it_is_built_is_that_of_the_write() -> None:
    given = prepared(9, "mor")
    asking = {"hoodie.metadata.record.index.enable": "true", **FEW_GROUPS}
    lost = 0
    for number in _moments_without_lock(given)[::4]:
        storage = copied(given)
        hook = _at_call(number, functools.partial(_upsert_asking, storage, asking))
        try:
            create(opened(FaultStorage(storage, before=hook)))
        except InvalidRequestError:  # it was there when the build wanted to begin
            pass
        except LockLostError:
            lost += 1
        assert_index_is_true(storage)
        opened(storage).upsert(rows((2, "bern", 99, "z"), (70, "oslo", 99, "z")))
        assert_index_is_true(storage)
        assert _state(storage) == "ready"
    assert lost > 2


def _upsert_asking(storage: Storage, asking: dict[str, str]) -> None:
    opened(storage, **asking).upsert(rows((1, "bern", 50, "w"), (60, "rome", 50, "w")))


@pytest.mark.parametrize("version", [9, 6])
def test_index_is_dropped_and_built_again_and_writers_without_options_keep_it(version: int) -> None:
    storage = prepared(version, "cow")
    create(opened(storage))
    opened(storage).upsert(rows((1, "rome", 5, "x")))
    assert_index_is_true(storage)
    (row,) = opened(storage).indexes.list().to_pylist()
    assert (row["name"], row["kind"], row["state"], row["begun"]) == ("record_index", "record", "ready", None)

    opened(storage).indexes.drop("record_index")
    assert opened(storage).indexes.list().num_rows == 0
    assert load_table(storage).config.metadata_partitions == ("files",)
    assert not storage.list_recursive(".hoodie/metadata/record_index")
    opened(storage).upsert(rows((1, "bern", 6, "y")))

    built = opened(storage).indexes.create("record_index", hudi_options=FEW_GROUPS)
    assert built.file_groups == 2
    opened(storage).upsert(rows((1, "oslo", 7, "z")))
    refreshed = opened(storage).indexes.refresh("record_index", hudi_options=FEW_GROUPS)
    assert refreshed.file_groups == 2
    assert_index_is_true(storage)
    noted = opened(storage).inspect.timeline().filter(pc.field("action") == "indexing")
    assert noted.column("state").to_pylist() == ["completed"] * 3


def test_drop_that_died_is_completed_by_the_next_one() -> None:
    given = prepared(9, "cow")
    create(opened(given))
    for _, storage in crash_images(given, lambda table: table.indexes.drop("record_index")):
        opened(storage).upsert(rows((1, "rome", 9, "x")))
        with suppress(InvalidRequestError):
            opened(storage).indexes.drop("record_index")
        assert opened(storage).indexes.list().num_rows == 0
        assert not storage.list_recursive(".hoodie/metadata/record_index")


def with_dependents() -> Storage:
    """A table with an index over which there is another one, twice."""
    options = {**OPTIONS, "hoodie.metadata.enable": "true", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    storage = TableBuilder(9, "cow", options=options).insert((1, "oslo", 1, "a"), (2, "rome", 1, "a")).build()
    create(opened(storage))
    opened(storage).indexes.create("by_note", "secondary", "note")
    opened(storage).indexes.create("column_stats", columns=["ts", "note"])
    opened(storage).indexes.create("partition_stats")
    return storage


@pytest.mark.parametrize(
    ("name", "along", "left", "again"),
    [
        ("record_index", "secondary_index_by_note", ["by_note"], lambda table: table.indexes.refresh("by_note")),
        ("column_stats", "partition_stats", [], lambda table: table.indexes.create("partition_stats")),
    ],
)
def test_drop_that_died_is_completed_by_the_next_one_for_what_it_takes_along(
    name: str, along: str, left: list[str], again: Action
) -> None:
    given = with_dependents()
    others = {"record_index", "column_stats", "partition_stats", "secondary_index_by_note"} - {name, along}
    images = list(crash_images(given, lambda table: table.indexes.drop(name)))
    assert len(images) > 4
    for where, storage in images:
        named = {*load_table(storage).config.metadata_partitions}
        assert (name in named) == (along in named), where
        opened(storage).upsert(rows((1, "oslo", 9, "x")))
        assert opened(storage).inspect.metadata_check().to_pylist() == [], where
        for column, value in ("note", "a"), ("id", 2), ("ts", 1):
            found = opened(storage).scan(["id"], [(column, "==", value)]).to_arrow()
            assert found.column("id").to_pylist() == [2], where

        with suppress(InvalidRequestError):
            opened(storage).indexes.drop(name)

        listed = {row["name"]: row["state"] for row in opened(storage).indexes.list().to_pylist()}
        assert [one for one, state in listed.items() if state == "defined"] == left, where
        assert others <= {*load_table(storage).config.metadata_partitions}, where
        for gone in (name, along):
            assert not storage.list_recursive(f".hoodie/metadata/{gone}"), where
        opened(storage).indexes.create(name)
        again(opened(storage))
        opened(storage).upsert(rows((3, "rome", 10, "y")))
        assert {row["state"] for row in opened(storage).indexes.list().to_pylist()} == {"ready"}, where
        assert opened(storage).inspect.metadata_check().to_pylist() == [], where


def test_index_is_not_dropped_while_another_process_builds_one_that_needs_it() -> None:
    storage = with_dependents()
    opened(storage).indexes.drop("by_note")
    refused: list[object] = []

    def drop() -> None:
        with pytest.raises(WriteConflictError, match="another process is building"):
            opened(storage).indexes.drop("record_index")
        refused.append(True)

    make: Action = lambda table: table.indexes.create("by_note", "secondary", "note")  # noqa: E731
    hook = _at_call(_moments_without_lock(storage, make)[-4], drop)
    make(opened(FaultStorage(storage, before=hook)))

    assert refused
    assert {row["state"] for row in opened(storage).indexes.list().to_pylist()} == {"ready"}


def test_table_without_a_metadata_table_gets_one_with_the_index() -> None:
    storage = TableBuilder(9, "cow", options=OPTIONS).insert((1, "oslo", 1, "a"), (2, "rome", 1, "a")).build()

    create(opened(storage))

    assert load_table(storage).config.metadata_partitions == ("files", "record_index")
    assert_index_is_true(storage)


def test_statistics_are_built_with_their_columns_refreshed_and_dropped_in_order() -> None:
    storage = prepared(9, "mor")
    with pytest.raises(InvalidRequestError, match="create column_stats first"):
        opened(storage).indexes.create("partition_stats")
    opened(storage).indexes.create("column_stats", columns=["ts", "note"])
    opened(storage).indexes.create("partition_stats")
    listed = {row["name"]: row["columns"] for row in opened(storage).indexes.list().to_pylist()}
    assert listed["column_stats"][-2:] == ["ts", "note"]

    opened(storage).indexes.refresh("column_stats")
    opened(storage).upsert(rows((1, "oslo", 9, "x")))

    assert {row["name"]: row["columns"] for row in opened(storage).indexes.list().to_pylist()} == listed
    opened(storage).indexes.drop("column_stats")  # and partition_stats, which need them
    assert opened(storage).indexes.list().num_rows == 0


def test_index_that_another_one_needs_takes_it_along_and_leaves_its_definition() -> None:
    options = {**OPTIONS, "hoodie.metadata.enable": "true", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    storage = TableBuilder(9, "mor", options=options).insert((1, "oslo", 1, "a"), (2, "rome", 1, "a")).build()
    create(opened(storage))
    opened(storage).indexes.create("by_note", "secondary", "note")

    opened(storage).indexes.drop("record_index")
    opened(storage).upsert(rows((1, "oslo", 9, "x")))

    (left,) = opened(storage).indexes.list().to_pylist()
    assert (left["name"], left["state"]) == ("by_note", "defined")
    assert not storage.list_recursive(".hoodie/metadata/secondary_index_by_note")
    create(opened(storage))
    opened(storage).indexes.refresh("by_note")
    assert {row["state"] for row in opened(storage).indexes.list().to_pylist()} == {"ready"}
    opened(storage).indexes.drop("record_index")
    opened(storage).indexes.drop("by_note")
    assert opened(storage).indexes.list().num_rows == 0


@pytest.mark.parametrize(
    "batch", [((1, "oslo", 1, "a"), (1, "rome", 1, "b")), ((1, "oslo", 1, "a"), (2, "oslo", 1, "b"))]
)
def test_index_over_keys_that_several_file_groups_hold_is_refused(batch: tuple[Row, ...]) -> None:
    storage = TableBuilder(9, "cow", options={"hoodie.parquet.small.file.limit": "0"}).build()
    opened(storage).bulk_insert(rows(*batch))
    opened(storage).bulk_insert(rows((2 if batch[1][0] == 2 else 3, "oslo", 1, "again")))
    before = contents(storage)

    with pytest.raises(InvalidRequestError, match="several file groups have a record with the same key") as caught:
        create(opened(storage))

    assert caught.value.context["record_key"] == str(batch[1][0])
    assert "record_index" not in load_table(storage).config.metadata_partitions
    assert contents(storage) == before
    opened(storage).upsert(rows((4, "oslo", 1, "c")))
    opened(storage).indexes.drop("record_index")
    assert opened(storage).indexes.list().num_rows == 0


UNKNOWN = ("vector_index_by_note", "expr_index_by_split")


@pytest.mark.parametrize("version", [9, 6])
def test_index_for_which_a_write_is_refused_is_dropped_and_writes_go_on(version: int) -> None:
    storage = copied(prepared(version, "cow"))
    opened(storage, **FEW_GROUPS).indexes.create("record_index")
    names = ",".join(("files", "record_index", *UNKNOWN))
    update_properties(storage, {"hoodie.table.metadata.partitions": names})
    for name in UNKNOWN:
        storage.put(f".hoodie/metadata/{name}/.{name}-0000-0_00000000000000020.log.1_0-0-0", b"what nobody knows")
    before = contents(storage)
    for left in ("vector_index_by_note", "by_split"):
        with pytest.raises(UnsupportedFeatureError, match=r"table\.indexes\.drop"):
            opened(storage).upsert(rows((1, "oslo", 9, "x")))
        opened(storage).indexes.drop(left)

    assert contents(storage) == before
    assert load_table(storage).config.metadata_partitions == ("files", "record_index")
    assert {folder.rpartition("/")[2] for folder in storage.list_folder(".hoodie/metadata").folders} == {
        ".hoodie",
        "files",
        "record_index",
    }
    opened(storage, **{"hoodie.index.type": "RECORD_INDEX"}).upsert(rows((1, "oslo", 9, "x"), (77, "rome", 9, "y")))
    assert opened(storage).inspect.metadata_check().to_pylist() == []
    assert_index_is_true(storage)


def test_death_while_such_an_index_is_dropped_leaves_one_that_can_be_dropped() -> None:
    given = copied(prepared(9, "cow"))
    opened(given, **FEW_GROUPS).indexes.create("record_index")
    names = ",".join(("files", "record_index", UNKNOWN[0]))
    update_properties(given, {"hoodie.table.metadata.partitions": names})
    given.put(f".hoodie/metadata/{UNKNOWN[0]}/.{UNKNOWN[0]}-0000-0_00000000000000020.log.1_0-0-0", b"nobody knows")
    for moment, storage in crash_images(given, lambda table: table.indexes.drop(UNKNOWN[0])):
        with suppress(InvalidRequestError):
            open_table(storage, env=environment(StepClock(LATER_MS))).indexes.drop(UNKNOWN[0])
        assert load_table(storage).config.metadata_partitions == ("files", "record_index"), moment
        open_table(storage, env=environment(StepClock(LATER_MS)), **OPTIONS).upsert(rows((1, "oslo", 9, "x")))
        assert opened(storage).inspect.metadata_check().to_pylist() == [], moment


BAD: list[tuple[str, Action, type[Exception], str]] = [
    ("unknown name", lambda t: t.indexes.create("idx"), ConfigError, "what kind"),
    ("unknown kind", lambda t: t.indexes.create("idx", "btree"), ConfigError, "must be one of"),  # type: ignore[arg-type]
    ("other name", lambda t: t.indexes.create("mine", "record"), ConfigError, "its name is 'record_index'"),
    ("bad name", lambda t: t.indexes.create("a/b", "secondary", "city"), ConfigError, "letters, digits"),
    ("unknown column", lambda t: t.indexes.create("record_index", columns="nope"), ConfigError, "no such column"),
    ("not the key", lambda t: t.indexes.create("record_index", columns="city"), ConfigError, "over the record key"),
    ("not a text", lambda t: t.indexes.create("record_index", columns=[1]), ConfigError, "a text or several"),  # type: ignore[list-item]
    ("nothing to drop", lambda t: t.indexes.drop("idx"), InvalidRequestError, "no index with this name"),
    ("nothing to refresh", lambda t: t.indexes.refresh("idx"), InvalidRequestError, "no index with this name"),
    ("files", lambda t: t.indexes.drop("files"), InvalidRequestError, "there is no metadata table"),
    ("refresh of files", lambda t: t.indexes.refresh("files"), UnsupportedFeatureError, "does not maintain"),
]


@pytest.mark.parametrize(("act", "error", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_wrong_request_is_refused_and_nothing_is_written(act: Action, error: type[Exception], reason: str) -> None:
    storage = prepared(9, "cow")
    before = {info.path for info in storage.list_recursive("")}

    with pytest.raises(error, match=reason):
        act(opened(storage))

    assert {info.path for info in storage.list_recursive("")} == before
