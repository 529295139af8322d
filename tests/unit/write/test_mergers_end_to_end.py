"""Tables with a merger, through their whole life: written in any batches, compacted, deleted from, opened again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.audit import audit
from tests.support.tables import SplitEngine, environment, rehandled

import pyhudi
from pyhudi.config.option import OptionWarning
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import (
    ConfigError,
    HudiError,
    InvalidRequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.mergers import Merger, RecordCount, Stitching

COUNT = "hoodie_record_count"
MERGERS = "hoodie.write.record.merge.custom.implementation.classes"
MERGER_OPTIONS = "hoodie.record.merge.property.pyhudi.merger.options"
FAST = {"hoodie.index.bloom.num_entries": "500"}
TABLES = [
    pytest.param(kind, version, id=f"{kind}-v{version}")
    for kind, version in (("cow", 6), ("cow", 9), ("mor", 6), ("mor", 8), ("mor", 9))
]
_numbers = itertools.count()
Row = Mapping[str, Any]


def new_path() -> str:
    return f"memory://mergers{next(_numbers)}"


def create(path: str, schema: pa.Schema, merger: Merger | None, **how: Any) -> pyhudi.HudiTable:
    options = {**FAST, **how.pop("hudi_options", {})}
    table = pyhudi.HudiTable.create(path, schema=schema, merger=merger, hudi_options=options, **how)
    return rehandled(table, engine=SplitEngine(), environment=environment())


def reopened(path: str, merger: Merger | None = None, **options: str) -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.for_path(path, merger=merger, hudi_options={**FAST, **options})
    return rehandled(table, engine=SplitEngine(), environment=environment())


def stored(path: str, columns: list[str], merger: Merger | None = None) -> list[tuple[Any, ...]]:
    """The rows of some columns, after the table's files were found to be in order."""
    table = reopened(path, merger)
    audit(table.handle.state.storage)
    rows = table.scan(columns).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def writes(path: str) -> int:
    return len(reopened(path).inspect.history())


# --- counting --------------------------------------------------------------------------------------------

VISITS = pa.schema(
    [("page", pa.string()), ("user", pa.string()), ("day", pa.string()), ("ts", pa.int64()), (COUNT, pa.int64())]
)
VISIT_TABLE = {"record_key": ["page", "user"], "partition_by": "day"}
SEEN = ["p1 u1 d1 1", "p1 u1 d1 2", "p1 u2 d1 1", "p2 u1 d1 1", "p1 u1 d1 3", "p1 u3 d1 1", "p1 u1 d0 9", "p1 u1 d1 0"]


def visits(rows: Iterable[str]) -> pa.Table:
    """Rows written as `page user day ts`, without the count column."""
    parts = [row.split() for row in rows]
    columns = [[part[n] for part in parts] for n in range(3)]
    return pa.table([*columns, pa.array([int(part[3]) for part in parts], pa.int64())], names=VISITS.names[:4])


def views_by_loop(rows: Iterable[str]) -> list[tuple[str, str, str, int, int]]:
    """Page, user, day, newest ts and number of rows of each record."""
    records: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        *key, ts = row.split()
        record = records.setdefault(tuple(key), [int(ts), 0])
        record[:] = [max(record[0], int(ts)), record[1] + 1]
    return sorted((*key, *record) for key, record in records.items())  # type: ignore[misc]


@pytest.mark.parametrize("rows_per_batch", [3, 8])
@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_counts_add_up_in_any_number_of_batches(kind: str, version: int, rows_per_batch: int) -> None:
    path = new_path()
    create(path, VISITS, RecordCount(ordering_fields=["ts"]), table_type=kind, table_version=version, **VISIT_TABLE)

    for start in range(0, len(SEEN), rows_per_batch):
        reopened(path).upsert(visits(SEEN[start : start + rows_per_batch]))
        if kind == "mor" and start == 3:
            reopened(path).services.compact()
    assert stored(path, VISITS.names) == views_by_loop(SEEN)
    if kind == "mor":
        reopened(path).services.compact()
        assert stored(path, VISITS.names) == views_by_loop(SEEN)


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite", "upsert"])
def test_row_that_met_no_other_counts_one_whatever_wrote_it(operation: str) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)

    getattr(table, operation)(visits(["p1 u1 d1 1", "p1 u2 d1 1"]))

    assert stored(path, [COUNT]) == [(1,), (1,)]


def test_counts_that_rows_bring_are_kept() -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    rows = visits(["p1 u1 d1 1"]).append_column(COUNT, pa.array([40], pa.int64()))

    table.upsert(rows)
    table.upsert(rows)

    assert stored(path, [COUNT]) == [(80,)]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_upsert_that_is_told_not_to_combine_counts_every_row_and_says_so(kind: str) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), table_type=kind, **VISIT_TABLE)
    for rows in (SEEN[:2], SEEN[4:5] * 3):
        with pytest.warns(OptionWarning, match="its merge rule combines all versions of a record"):
            table.upsert(visits(rows), hudi_options={"hoodie.combine.before.upsert": "false"})

    assert stored(path, ["user", COUNT]) == [("u1", 5)]


@pytest.mark.parametrize("version", [6, 9])
def test_ordering_field_of_the_table_says_which_visit_is_the_newest(version: int) -> None:
    path = new_path()
    create(path, VISITS, RecordCount(), ordering_fields="ts", table_type="mor", table_version=version, **VISIT_TABLE)
    for row in ("p u d 5", "p u d 9", "p u d 7"):
        reopened(path).upsert(visits([row]))

    assert stored(path, ["ts", COUNT]) == [(9, 3)]


@pytest.mark.parametrize(
    ("kind", "version", "compacts"),
    [("cow", 9, False), ("mor", 6, False), ("mor", 8, False), ("mor", 9, False), ("mor", 9, True)],
)
def test_deleted_record_counts_afresh(kind: str, version: int, compacts: bool) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), table_type=kind, table_version=version, **VISIT_TABLE)
    table.upsert(visits(["p u d 1", "p u d 1"]))
    table.upsert(visits(["p u d 1"]))

    table.delete(visits(["p u d 1"]))
    if compacts:
        table.refresh().services.compact()
    table.upsert(visits(["p u d 1"]))
    table.upsert(visits(["p u d 2"]))

    assert stored(path, [COUNT]) == [(2,)]


def test_row_after_a_deletion_in_its_own_batch_counts_afresh() -> None:
    path = new_path()
    schema = VISITS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = create(path, schema, RecordCount(), table_type="mor", **VISIT_TABLE)
    table.upsert(visits(["p u d 1"] * 3))

    flags = pa.array([None, True, None])
    table.upsert(visits(["p u d 1"] * 3).append_column("_hoodie_is_deleted", flags))

    assert stored(path, [COUNT]) == [(1,)]


def test_table_without_the_count_column_is_refused_with_its_name() -> None:
    path = new_path()
    with pytest.raises(SchemaMismatchError, match=rf"record_count.*missing=\['{COUNT}'\]"):
        create(path, VISITS.remove(4), RecordCount(), **VISIT_TABLE)
    with pytest.raises(HudiError):
        reopened(path)


# --- stitching -------------------------------------------------------------------------------------------

STREAMS = {"_ts1": ("name", "price"), "_ts2": ("stock",), "_ts3": ("city",), "_ts4": ()}
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        *((name, pa.string()) for columns in STREAMS.values() for name in columns),
        *((name, pa.int64()) for name in STREAMS),
    ]
)
Event = tuple[str, int, int]
"""A row of a stream: its ordering column, key and ordering value. What else is in it follows from those."""


def columns_of(event: Event) -> dict[str, Any]:
    stream, key, ts = event
    # A null is a value: what the source does not know any more.
    return {stream: ts, **{name: None if ts % 4 == 3 else f"{name} {key} at {ts}" for name in STREAMS[stream]}}


def stream_rows(events: Iterable[Event]) -> pa.Table:
    """A batch with the columns of the streams in it, and no others."""
    rows = [{"id": event[1], **columns_of(event)} for event in events]
    names = {name for row in rows for name in row}
    return pa.Table.from_pylist(rows, pa.schema([field for field in WIDE if field.name in names]))


def outer_join(steps: Iterable[list[Event] | int]) -> list[dict[str, Any]]:
    """The full outer join by key of what each stream said last, of the steps of a table: batches and deleted keys."""
    newest: dict[str, dict[int, Event]] = {stream: {} for stream in STREAMS}
    for step in steps:
        if isinstance(step, int):
            for said in newest.values():
                said.pop(step, None)
            continue
        for event in step:
            stream, key, _ = event
            newest[stream][key] = max(event, newest[stream].get(key, event), key=lambda one: one[2])
    nothing = dict.fromkeys(WIDE.names)
    joined: dict[int, dict[str, Any]] = {}
    for said in newest.values():
        for key, event in said.items():
            joined[key] = joined.get(key, {**nothing, "id": key}) | columns_of(event)
    return [joined[key] for key in sorted(joined)]


EVENTS = st.tuples(st.sampled_from(list(STREAMS)), st.integers(1, 3), st.integers(0, 9))
STEPS = st.lists(
    st.one_of(
        st.lists(EVENTS, min_size=1, max_size=6), st.integers(1, 3), st.sampled_from(["compact", "compact_logs"])
    ),
    min_size=2,
    max_size=7,
)


def wide_table(kind: str, version: int) -> str:
    path = new_path()
    create(path, WIDE, Stitching(STREAMS), record_key="id", table_type=kind, table_version=version)
    return path


def wide_rows(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reopened(path).scan(WIDE.names).to_arrow().sort_by("id").to_pylist()
    return rows


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(["cow", "mor", "mor"]), st.sampled_from([6, 8, 9]), STEPS)
def test_streams_make_their_full_outer_join_in_any_batches(
    kind: str, version: int, steps: list[list[Event] | int | str]
) -> None:
    path = wide_table(kind, version)
    # Updates of what is in a base file go to logs; the third key is not there yet.
    done: list[list[Event] | int] = [[("_ts1", 1, 4), ("_ts2", 2, 4)]]
    reopened(path).insert(stream_rows([("_ts1", 1, 4), ("_ts2", 2, 4)]))
    for step in steps:
        table = reopened(path)
        if isinstance(step, list):
            table.upsert(stream_rows(step))
            done.append(step)
        elif isinstance(step, int):
            table.delete([step])
            done.append(step)
        elif kind == "mor":
            getattr(table.services, step)(hudi_options={"hoodie.log.compaction.blocks.threshold": "2"})

    if "compact_logs" not in steps:  # of rows in the logs of other writes the audit knows nothing
        audit(reopened(path).handle.state.storage)
    assert wide_rows(path) == outer_join(done)


@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_four_streams_shuffled_and_twice_make_their_full_outer_join(kind: str, version: int) -> None:
    path = wide_table(kind, version)
    said = [(stream, key, ts) for ts in range(3) for key in range(3) for stream in STREAMS if (key + ts) % 3]
    shuffled = [event for _, event in sorted(((n * 7919) % 101, event) for n, event in enumerate(said * 2))]
    batches = [shuffled[start : start + 12] for start in range(0, len(shuffled), 12)]

    reopened(path).bulk_insert(stream_rows(batches[0]), hudi_options={"hoodie.combine.before.insert": "true"})
    for number, batch in enumerate(batches[1:]):
        reopened(path).upsert(stream_rows(batch))
        if kind == "mor" and number == 1:
            reopened(path).services.compact()

    audit(reopened(path).handle.state.storage)
    assert wide_rows(path) == outer_join(batches)


def test_streams_that_bring_their_columns_when_they_first_write_are_stitched(tmp_path: Path) -> None:
    path = str(tmp_path / "wide")
    options = {
        **FAST,
        "hoodie.table.name": "wide",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        MERGERS: "stitching",
        MERGER_OPTIONS: "_ts1:name,price;_ts2:stock;_ts3:city;_ts4:",
    }
    batches: list[list[Event]] = [
        [("_ts1", 1, 5)],
        [("_ts1", 1, 4)],
        [("_ts2", 1, 1), ("_ts3", 2, 1)],
        [("_ts4", 2, 1)],
    ]
    for batch in batches:
        pyhudi.save(stream_rows(batch), path, hudi_options=options)

    assert pyhudi.HudiTable.for_path(path).scan(WIDE.names).to_arrow().sort_by("id").to_pylist() == outer_join(batches)


def test_stitching_source_with_an_unknown_column_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "wide"
    options = {
        "hoodie.table.name": "wide",
        "hoodie.datasource.write.recordkey.field": "id",
        MERGERS: "stitching",
        MERGER_OPTIONS: "_ts1:name,prise",
    }
    with pytest.raises(SchemaMismatchError, match=r"stitching.*prise"):
        pyhudi.save(stream_rows([("_ts1", 1, 1)]), str(path), hudi_options=options)
    assert list(path.rglob("*.parquet")) == []
    with pytest.raises(HudiError):
        pyhudi.HudiTable.for_path(str(path))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_partial_update_leaves_columns_that_the_batch_lacks_as_they_are(kind: str) -> None:
    path = new_path()
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    options = {"hoodie.datasource.write.payload.class": payload}
    how = {"record_key": "id", "ordering_fields": "ts", "table_type": kind, "hudi_options": options}
    table = create(path, schema, None, **how)

    table.upsert(pa.table({"id": [1], "ts": [1], "a": ["a1"], "b": ["b1"]}))
    table.upsert(pa.table({"id": [1], "ts": [2], "b": ["b2"]}))

    assert stored(path, ["ts", "a", "b"]) == [(2, "a1", "b2")]


def test_batch_without_columns_is_refused_where_no_merger_fills_them() -> None:
    path = new_path()
    table = create(path, WIDE, None, record_key="id")
    with pytest.raises(SchemaMismatchError):
        table.upsert(stream_rows([("_ts1", 1, 1)]))


# --- mergers of one's own --------------------------------------------------------------------------------

NOTES = pa.schema([("id", pa.int64()), ("note", pa.string())])
OWN = """
import pyarrow.compute as pc


class LongestNote:
    name = "longest_note"

    def merge(self, older, newer):
        longer = pc.greater(pc.utf8_length(older["note"]), pc.utf8_length(newer["note"]))
        at = newer.schema.get_field_index("note")
        return newer.set_column(at, newer.schema.field(at), pc.if_else(longer, older["note"], newer["note"]))
"""


def notes(*rows: tuple[int, str]) -> pa.Table:
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=NOTES)


@pytest.fixture
def my_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with a merger, as a user would have it."""
    name = f"own_mergers_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_merger_of_ones_own_merges_batches_logs_and_stored_rows(my_module: str, kind: str, version: int) -> None:
    own: Merger = __import__(my_module).LongestNote()
    path = new_path()
    table = create(path, NOTES, own, record_key="id", table_type=kind, table_version=version)

    table.upsert(notes((1, "a"), (1, "aaa"), (2, "b")))
    table.upsert(notes((1, "aa"), (2, "bb"), (3, "c")))
    table.upsert(notes((2, ""), (3, "ccc"), (3, "cc")))

    expected = [(1, "aaa"), (2, "bb"), (3, "ccc")]
    assert stored(path, ["id", "note"], own) == expected
    if kind == "mor":
        reopened(path, own).services.compact()
        assert stored(path, ["id", "note"]) == expected


def test_merger_named_by_an_option_makes_writes_and_reads(my_module: str, tmp_path: Path) -> None:
    path = str(tmp_path / "notes")
    named = {MERGERS: f"{my_module}:LongestNote"}
    options = {
        **FAST,
        "hoodie.table.name": "notes",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        **named,
    }
    for rows in (notes((1, "aaa")), notes((1, "a")), notes((1, "aa"))):
        pyhudi.save(rows, path, hudi_options=options)

    with_option = pyhudi.HudiTable.for_path(path, hudi_options=named)
    assert with_option.scan(["note"]).to_arrow().to_pylist() == [{"note": "aaa"}]
    with pytest.raises(
        UnsupportedFeatureError, match=r"for_path\(path, merger=.*implementation\.classes.*longest_note"
    ):
        pyhudi.HudiTable.for_path(path).scan().to_arrow()
    with pytest.raises(UnsupportedFeatureError, match="longest_note"):
        pyhudi.HudiTable.for_path(path).upsert(notes((1, "b")))
    assert pyhudi.HudiTable.for_path(path).scan(["note"], query_type="read_optimized").to_arrow().num_rows == 1


PAYLOAD = "hoodie.datasource.write.payload.class"


@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_payload_class_that_counts_records_makes_a_counting_table(kind: str, version: int) -> None:
    path = new_path()
    options = {PAYLOAD: "RecordCountAvroPayload"}
    ordered = {**VISIT_TABLE, "ordering_fields": "ts"}
    create(path, VISITS, None, **ordered, table_type=kind, table_version=version, hudi_options=options)
    for row in SEEN[:4]:
        reopened(path, **options).upsert(visits([row]))
    reopened(path).upsert(visits(SEEN[4:]))  # the table names its merger, so a write need not

    assert stored(path, VISITS.names) == views_by_loop(SEEN)


def test_payload_class_that_counts_records_is_refused_by_a_table_that_does_not() -> None:
    path = new_path()
    create(path, NOTES, None, record_key="id")
    with pytest.raises(ConfigError, match="'record_count', the table has None"):
        reopened(path, **{PAYLOAD: "RecordCountAvroPayload"}).upsert(notes((1, "a")))


def test_merger_that_the_table_does_not_have_is_refused_when_it_is_opened() -> None:
    path = new_path()
    create(path, NOTES, None, record_key="id")
    with pytest.raises(ConfigError, match="'record_count' is given, and the table merges by COMMIT_TIME_ORDERING"):
        reopened(path, RecordCount())
    counting = new_path()
    create(counting, VISITS, RecordCount(), **VISIT_TABLE)
    with pytest.raises(ConfigError, match="'stitching' is given, and the table merges by record_count"):
        reopened(counting, Stitching({"ts": ["page"]}))


@pytest.mark.parametrize("separator", [".", ":"])
def test_payload_class_of_ones_own_in_python_merges(my_module: str, tmp_path: Path, separator: str) -> None:
    path = str(tmp_path / "notes")
    options = {
        **FAST,
        "hoodie.table.name": "notes",
        "hoodie.datasource.write.recordkey.field": "id",
        PAYLOAD: f"{my_module}{separator}LongestNote",
    }
    for rows in (notes((1, "aaa")), notes((1, "a")), notes((1, "aa"))):
        pyhudi.save(rows, path, hudi_options=options)
    assert pyhudi.HudiTable.for_path(path).scan(["note"]).to_arrow().to_pylist() == [{"note": "aaa"}]


def test_logs_are_read_with_the_payload_class_that_made_the_table(my_module: str, tmp_path: Path) -> None:
    path = str(tmp_path / "notes")
    options = {
        **FAST,
        "hoodie.table.name": "notes",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        PAYLOAD: f"{my_module}.LongestNote",
    }
    for rows in (notes((1, "aaa")), notes((1, "a"))):
        pyhudi.save(rows, path, hudi_options=options)

    table = pyhudi.HudiTable.for_path(path, hudi_options={PAYLOAD: options[PAYLOAD]})

    assert table.scan(["note"]).to_arrow().to_pylist() == [{"note": "aaa"}]


def test_payload_class_of_jvm_hudi_changes_nothing_in_a_read() -> None:
    path = new_path()
    create(path, NOTES, None, record_key="id").upsert(notes((1, "a")))
    for name in ("OverwriteWithLatestAvroPayload", "com.acme.MyPayload"):
        assert reopened(path, **{PAYLOAD: name}).scan(["note"]).to_arrow().to_pylist() == [{"note": "a"}]


def test_payload_class_of_java_that_is_unknown_is_refused_by_name_and_leaves_no_table(tmp_path: Path) -> None:
    options = {"hoodie.table.name": "notes", "hoodie.datasource.write.recordkey.field": "id"}
    for name, kind in (
        ("org.apache.hudi.common.model.HoodieAvroPayload", UnsupportedFeatureError),
        ("com.acme.MyPayload", ConfigError),
    ):
        with pytest.raises(kind, match=name):
            pyhudi.save(notes((1, "a")), str(tmp_path / "notes"), hudi_options={**options, PAYLOAD: name})
    assert not list(tmp_path.iterdir())


def test_payload_class_and_option_that_name_two_mergers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"names the merger record_count, .* stitching: name one"):
        create(
            new_path(),
            VISITS,
            None,
            **VISIT_TABLE,
            hudi_options={PAYLOAD: "RecordCountAvroPayload", MERGERS: "stitching"},
        )


@dataclass(frozen=True)
class MergerOfGivenAnswers:
    """A merger that returns what the test says."""

    made: Callable[[pa.Table, pa.Table], Any]
    name: str = "broken"

    def merge(self, older: pa.Table, newer: pa.Table) -> Any:
        return self.made(older, newer)


def first_key_twice(_: pa.Table, newer: pa.Table) -> pa.Table:
    return newer.take(pa.array([0] * newer.num_rows))


WRONG = {
    "too few columns": lambda _, newer: newer.drop_columns(["note"]),
    "another type": lambda _, newer: newer.set_column(newer.schema.get_field_index("note"), "note", newer["id"]),
    "too many rows": lambda older, newer: pa.concat_tables([older, newer]),
    "no rows": lambda _, newer: newer.slice(0, 0),
    "one key twice": first_key_twice,
    "no table": lambda _, newer: newer.to_pylist(),
}


@pytest.mark.parametrize("made", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("where", ["in the batch", "with stored rows"])
def test_merger_that_returns_something_else_is_named_and_nothing_is_written(where: str, made: Any) -> None:
    path, broken = new_path(), MergerOfGivenAnswers(made)
    table = create(path, NOTES, broken, record_key="id")
    table.insert(notes((1, "a"), (2, "b")))
    rows = notes((1, "x"), (2, "y"))

    with pytest.raises(InvalidRequestError, match="broken"):
        table.upsert(pa.concat_tables([rows, rows]) if where == "in the batch" else rows)

    assert writes(path) == 1
    assert stored(path, ["id", "note"], broken) == [(1, "a"), (2, "b")]


def test_log_that_a_broken_merger_cannot_merge_is_an_error_of_the_read() -> None:
    path, broken = new_path(), MergerOfGivenAnswers(WRONG["one key twice"])
    table = create(path, NOTES, broken, record_key="id", table_type="mor")
    table.upsert(notes((1, "a"), (2, "b")))
    table.upsert(notes((1, "x"), (2, "y")))

    with pytest.raises(InvalidRequestError, match=r"order of its arguments.*broken"):
        reopened(path, broken).scan().to_arrow()


class UpperCasingMerger:
    """Has a say in how rows are first stored."""

    name = "shouting"

    def first(self, rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("note")
        return rows.set_column(at, rows.schema.field(at), pa.compute.utf8_upper(rows["note"]))

    def merge(self, _older: pa.Table, newer: pa.Table) -> pa.Table:
        return newer


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_first_version_is_stored_as_the_merger_says(kind: str) -> None:
    path, shouting = new_path(), UpperCasingMerger()
    table = create(path, NOTES, shouting, record_key="id", table_type=kind)
    table.bulk_insert(notes((1, "a"), (2, "b")))
    table.upsert(notes((2, "c"), (3, "d")))

    assert stored(path, ["id", "note"], shouting) == [(1, "A"), (2, "C"), (3, "D")]


def test_merge_mode_beside_a_merger_is_refused() -> None:
    options = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    with pytest.raises(ConfigError, match=r"COMMIT_TIME_ORDERING.*shouting"):
        create(new_path(), NOTES, UpperCasingMerger(), record_key="id", hudi_options=options)


# --- records that would move -----------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_upsert_that_might_move_records_is_refused_before_anything_is_written(index: str) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    table.upsert(visits(["p u d1 1"]))
    before = sorted(info.path for info in table.handle.state.storage.list_recursive(""))

    with pytest.raises(UnsupportedFeatureError, match=r"update\.partition\.path.*record_count"):
        table.upsert(visits(["p u d2 2"]), hudi_options={"hoodie.index.type": index})

    assert sorted(info.path for info in table.handle.state.storage.list_recursive("")) == before


def test_global_index_that_leaves_records_where_they_are_counts() -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    stays = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    table.upsert(visits(["p u d1 1"]), hudi_options=stays)
    table.upsert(visits(["p u d2 2"]), hudi_options=stays)

    assert stored(path, ["_hoodie_partition_path", COUNT]) == [("d1", 2)]


# --- batches that are sent twice -------------------------------------------------------------------------

BATCH = {"hoodie.write.batch.id": "2026-11-21T10"}


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"])
def test_batch_that_is_sent_again_is_not_written_again(operation: str) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    table.upsert(visits(SEEN[:1]))
    first = getattr(table, operation)(visits(SEEN[:2]), hudi_options=BATCH)
    table.upsert(visits(SEEN[2:3]))
    before = stored(path, VISITS.names)

    again = getattr(table, operation)(visits(SEEN[:2]), hudi_options=BATCH)

    assert replace(again, seconds=first.seconds) == first
    assert stored(path, VISITS.names) == before
    assert writes(path) == 3


def test_batches_of_other_names_or_none_are_written() -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    for options in (BATCH, {}, {"hoodie.write.batch.id": "2026-11-21T11"}, {}):
        table.upsert(visits(SEEN[:1]), hudi_options=options)

    assert stored(path, [COUNT]) == [(4,)]


def test_batch_whose_write_failed_is_written_when_it_is_sent_again() -> None:
    path, broken = new_path(), MergerOfGivenAnswers(WRONG["no rows"])
    table = create(path, NOTES, broken, record_key="id")
    table.upsert(notes((1, "a")))
    with pytest.raises(InvalidRequestError):
        table.upsert(notes((1, "b")), hudi_options=BATCH)

    mended = MergerOfGivenAnswers(lambda _, newer: newer)
    reopened(path, mended).upsert(notes((1, "b")), hudi_options=BATCH)

    assert stored(path, ["note"], mended) == [("b",)]


@dataclass(frozen=True)
class Interrupted(LocalEngine):
    """Lets somebody else act, once, when the task of this description is about to run."""

    at: str = ""
    others: list[Callable[[], object]] = field(default_factory=list)

    def _act(self, description: str) -> None:
        if description == self.at and self.others:
            self.others.pop()()

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], Any],
        **how: Any,
    ) -> list[Any]:
        self._act(how["description"])
        return super().map_splits(rows, function, **how)

    def map(self, function: Any, items: Any, **how: Any) -> list[Any]:
        self._act(how["description"])
        return super().map(function, items, **how)


@pytest.mark.parametrize("at", ["stage rows", "write files"])
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_batch_that_two_send_at_the_same_time_is_written_once(operation: str, at: str) -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    results: list[pyhudi.WriteResult] = []

    def other() -> None:
        results.append(getattr(reopened(path), operation)(visits(SEEN[:3]), hudi_options=BATCH))

    engine = Interrupted(parallelism=1, at=at, others=[other])
    mine = getattr(rehandled(table, engine=engine), operation)(visits(SEEN[:3]), hudi_options=BATCH)

    assert mine.instant == results[0].instant
    assert writes(path) == 1
    assert sum(count for (count,) in stored(path, [COUNT])) == 3


def test_write_that_loses_against_another_batch_is_a_conflict_as_ever() -> None:
    path = new_path()
    table = create(path, VISITS, RecordCount(), **VISIT_TABLE)
    table.upsert(visits(SEEN[:1]))

    engine = Interrupted(parallelism=1, at="write files", others=[lambda: reopened(path).upsert(visits(SEEN[:1]))])
    with pytest.raises(WriteConflictError):
        rehandled(table, engine=engine).upsert(visits(SEEN[:1]), hudi_options=BATCH)

    table.upsert(visits(SEEN[:1]), hudi_options=BATCH)
    assert stored(path, [COUNT]) == [(3,)]
