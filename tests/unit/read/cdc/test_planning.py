"""Change data: what writes did, replayed, against what the table holds; and files that are no longer there."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import SCHEMA, Row, contents, newest_stats, open_table, rows

import pyhudi
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    HistoryNotRetainedError,
    InvalidRequestError,
    UnsupportedFeatureError,
)
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage

MODES = [mode.value for mode in LoggingMode]


def captured(kind: TableBuilder, mode: str = "DATA_BEFORE_AFTER") -> TableBuilder:
    from dataclasses import replace

    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    return replace(kind, options={**kind.options, **options})


COW, MOR = (captured(tables[2]) for tables in (COW_TABLES, MOR_TABLES))


def image(value: dict[str, Any] | None) -> Row | None:
    return None if value is None else tuple(value[name] for name in SCHEMA.names)  # type: ignore[return-value]


def changes(table: pyhudi.HudiTable, begin: str | None = None, end: str | None = None) -> list[tuple[str, Any, Any]]:
    """(op, before, after), checked to be the same in both formats."""
    typed = table.changes(begin, end, format="cdc_typed").to_arrow().to_pylist()
    texts = table.changes(begin, end, format="cdc").to_arrow().to_pylist()
    for one in texts:
        for side in ("before", "after"):
            text = None if one[side] is None else json.loads(one[side])
            one[side] = None if text is None else {name: text.get(name) for name in SCHEMA.names}
    key = repr
    assert sorted(texts, key=key) == sorted(typed, key=key)
    return [(one["op"], image(one["before"]), image(one["after"])) for one in typed]


def of_newest(storage: Storage) -> list[tuple[str, Any, Any]]:
    """The changes of the newest write."""
    table = open_table(storage)
    positions = sorted(table.handle.state.timeline.completion_times.values())
    return changes(table, positions[-2] if len(positions) > 1 else "000")


def replay(state: set[Row], steps: Iterable[tuple[str, Row | None, Row | None]]) -> set[Row]:
    state = set(state)
    for operation, before, after in steps:
        assert (operation == "i") == (before is None)
        assert (operation == "d") == (after is None)
        if before is not None:
            state.remove(before)
        if after is not None:
            assert after not in state
            state.add(after)
    return state


# -- what one write did ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [*COW_TABLES, *MOR_TABLES], ids=str)
def test_a_write_of_each_kind_shows_its_changes(kind: TableBuilder, mode: str) -> None:
    storage = captured(kind, mode).insert((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    table = open_table(storage)
    assert {(op, after) for op, _, after in changes(table)} == {
        ("i", (1, "oslo", 1, "a")),
        ("i", (2, "oslo", 1, "a")),
        ("i", (3, "rome", 1, "a")),
    }

    open_table(storage).upsert(rows((1, "oslo", 2, "b"), (4, "oslo", 1, "a"), (5, "bern", 1, "a")))
    assert sorted(of_newest(storage), key=repr) == [
        ("i", None, (4, "oslo", 1, "a")),
        ("i", None, (5, "bern", 1, "a")),
        ("u", (1, "oslo", 1, "a"), (1, "oslo", 2, "b")),
    ]

    open_table(storage).delete(rows((1, "oslo", 2, ""), (77, "oslo", 2, "")))
    assert of_newest(storage) == [("d", (1, "oslo", 2, "b"), None)]

    open_table(storage).insert_overwrite(rows((2, "oslo", 9, "new"), (8, "oslo", 9, "new")))
    assert sorted(of_newest(storage), key=repr) == [
        ("d", (2, "oslo", 1, "a"), None),
        ("d", (4, "oslo", 1, "a"), None),
        ("i", None, (2, "oslo", 9, "new")),
        ("i", None, (8, "oslo", 9, "new")),
    ]

    open_table(storage).delete_partition(["city=bern"])
    assert of_newest(storage) == [("d", (5, "bern", 1, "a"), None)]
    assert replay(set(), changes(open_table(storage))) == contents(storage)


def test_records_are_inserted_and_deleted_in_one_batch_without_a_trace() -> None:
    from dataclasses import replace

    from tests.support.tables import DELETE_FLAG

    storage = replace(COW, has_delete_flag=True).insert((1, "oslo", 1, "a")).build()
    batch = rows((2, "oslo", 1, "a"), (2, "oslo", 2, "b"), (1, "oslo", 3, "c"))
    open_table(storage).upsert(batch.append_column(DELETE_FLAG, pa.array([False, True, False])))
    found = open_table(storage).changes(format="cdc_typed").to_arrow()
    assert sorted(
        zip(found["op"].to_pylist(), [row and row["id"] for row in found["after"].to_pylist()], strict=False)
    ) == [
        ("i", 1),
        ("u", 1),
    ]


def test_a_rewrite_without_a_change_has_a_log_without_records() -> None:
    storage = COW.insert((1, "oslo", 5, "a")).upsert((1, "oslo", 1, "late")).build()
    (stat,) = newest_stats(storage)
    assert stat.cdc_stats is not None
    assert len(stat.cdc_stats) == 1
    assert of_newest(storage) == []


def test_services_change_no_rows() -> None:
    storage = MOR.insert((1, "oslo", 1, "a"), (2, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    before = changes(open_table(storage))
    open_table(storage).services.compact()
    assert changes(open_table(storage)) == before
    open_table(storage).services.cluster()
    assert changes(open_table(storage)) == before
    open_table(storage).upsert(rows((1, "oslo", 3, "c")))
    assert of_newest(storage) == [("u", (1, "oslo", 2, "b"), (1, "oslo", 3, "c"))]


@pytest.mark.parametrize("kind", MOR_TABLES, ids=str)
def test_images_are_right_while_a_compaction_is_planned_and_after_it(kind: TableBuilder) -> None:
    storage = captured(kind).insert((1, "oslo", 1, "a"), (2, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    open_table(storage).services.schedule()
    open_table(storage, **{"hoodie.compact.inline": "false"}).upsert(rows((1, "oslo", 3, "c"), (2, "oslo", 2, "b")))
    expected = [
        ("u", (1, "oslo", 2, "b"), (1, "oslo", 3, "c")),
        ("u", (2, "oslo", 1, "a"), (2, "oslo", 2, "b")),
    ]
    assert sorted(of_newest(storage), key=repr) == expected
    whole = changes(open_table(storage))
    assert replay(set(), whole) == contents(storage)
    assert "done" in open_table(storage).services.run()["outcome"].to_pylist()
    assert sorted(changes(open_table(storage)), key=repr) == sorted(whole, key=repr)
    open_table(storage, **{"hoodie.compact.inline": "false"}).delete(rows((1, "oslo", 9, "")))
    assert of_newest(storage) == [("d", (1, "oslo", 3, "c"), None)]


def test_a_late_row_in_a_log_is_no_change() -> None:
    storage = MOR.insert((1, "oslo", 5, "a")).upsert((1, "oslo", 1, "late")).build()
    assert of_newest(storage) == []


@pytest.mark.parametrize("kind", MOR_TABLES, ids=str)
def test_appends_after_the_end_are_not_among_the_changes(kind: TableBuilder) -> None:
    storage = captured(kind).insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).upsert((1, "oslo", 3, "c")).build()
    first, second, third = sorted(open_table(storage).handle.state.timeline.completion_times.values())
    table = open_table(storage)
    assert changes(table, first, second) == [("u", (1, "oslo", 1, "a"), (1, "oslo", 2, "b"))]
    assert changes(table, second, third) == [("u", (1, "oslo", 2, "b"), (1, "oslo", 3, "c"))]


def test_rows_written_by_a_write_that_was_rolled_back_are_no_changes() -> None:
    storage = COW.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    table = open_table(storage)
    table.recovery.rollback(table.handle.state.timeline.completed_writes[-1].requested_time)
    assert changes(open_table(storage)) == [("i", None, (1, "oslo", 1, "a"))]
    assert not [info for info in storage.list_recursive("") if info.path.endswith(".cdc")]


# -- lives ----------------------------------------------------------------------------------------------------

_rows = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["oslo", "rome"]), st.integers(1, 9), st.sampled_from("abc")),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row[0],
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["upsert", "upsert", "delete", "insert_overwrite"]), _rows),
        st.tuples(st.sampled_from(["compact", "cluster", "schedule", "run", "delete_partition"]), st.just([])),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from([*COW_TABLES, *MOR_TABLES, MOR_TABLES[2]]),
    mode=st.sampled_from(MODES),
    index=st.sampled_from(["SIMPLE", "GLOBAL_SIMPLE"]),
    steps=_steps,
)
def test_changes_replayed_from_any_state_give_the_later_ones(
    kind: TableBuilder, mode: str, index: str, steps: list[tuple[str, list[Row]]]
) -> None:
    storage = captured(kind, mode).build()
    options = {"hoodie.index.type": index, "hoodie.compact.inline": "false"}
    states: dict[str, set[Row]] = {"000": set()}
    for verb, batch in steps:
        table = open_table(storage, **options)
        if verb in {"compact", "cluster", "schedule"}:
            if table.handle.state.timeline.completed_writes and (verb == "cluster" or kind.is_merge_on_read):
                getattr(table.services, verb)()
        elif verb == "run":
            table.services.run()
        elif verb == "delete_partition":
            if not table.handle.state.timeline.pending_compactions and any(
                row[1] == "rome" for row in contents(storage)
            ):
                table.delete_partition(["city=rome"])
        elif verb != "insert_overwrite" or not table.handle.state.timeline.pending_compactions:
            getattr(table, verb)(rows(*batch))
        positions = open_table(storage).handle.state.timeline.completion_times.values()
        states[max(positions, default="000")] = contents(storage)
    table = open_table(storage)
    moments = sorted(states)
    for begin, end in itertools.pairwise(moments):
        assert replay(states[begin], changes(table, begin, end)) == states[end]
    for moment in moments:
        assert replay(states[moment], changes(table, moment)) == contents(storage)


# -- what cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [COW, MOR], ids=str)
def test_changes_whose_files_were_cleaned_are_refused_and_the_first_readable_ones_named(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a")).build()
    for number in range(2, 7):
        table = open_table(storage, **{"hoodie.cleaner.commits.retained": "2", "hoodie.clean.automatic": "false"})
        table.upsert(rows((1, "oslo", number, "b")))
        if kind.is_merge_on_read:
            table.refresh().services.compact()
    table.refresh().services.clean()
    with pytest.raises(HistoryNotRetainedError) as caught:
        open_table(storage).changes(format="cdc")
    earliest = caught.value.context["earliest"]
    kept = changes(open_table(storage), earliest)
    assert kept
    assert all(operation == "u" for operation, _, _ in kept)
    positions = sorted(open_table(storage).handle.state.timeline.completion_times.values())
    before = positions[positions.index(earliest) - 1]
    with pytest.raises(HistoryNotRetainedError):
        open_table(storage).changes(before, format="cdc")


def test_a_table_that_does_not_capture_changes_says_so() -> None:
    storage = COW_TABLES[2].insert((1, "oslo", 1, "a")).build()
    with pytest.raises(InvalidRequestError, match=r"hoodie\.table\.cdc\.enabled"):
        open_table(storage).changes(format="cdc")


def test_bad_arguments_are_named() -> None:
    table = open_table(COW.insert((1, "oslo", 1, "a")).build())
    with pytest.raises(ConfigError, match="format"):
        table.changes(format="json")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no such column"):
        table.changes(format="cdc", columns=["note"])
    with pytest.raises(ConfigError, match="ends before"):
        table.changes("20300101000000", "20200101000000", format="cdc")
    with pytest.raises(UnsupportedFeatureError, match="latest_state"):
        table.changes(format="cdc").explain()


def test_columns_conditions_and_counts_fit_together() -> None:
    table = open_table(COW.insert((1, "oslo", 1, "a"), (2, "rome", 1, "a")).upsert((1, "oslo", 2, "b")).build())
    scan = table.changes(format="cdc", columns=["op"], where=[("op", "==", "i")])
    assert scan.to_arrow().to_pydict() == {"op": ["i", "i"]}
    assert scan.count() == 2
    assert table.changes(format="cdc").count() == len(table.changes(format="cdc").to_arrow()) == 3


@pytest.mark.parametrize("kind", [COW_TABLES[0], MOR_TABLES[2]], ids=["cow6", "mor9"])
@pytest.mark.parametrize("mode", MODES)
def test_changes_by_merge_update_and_condition_are_captured_as_they_were_made(kind: TableBuilder, mode: str) -> None:
    storage = captured(kind, mode).insert(*((n, "oslo", 1, "old") for n in range(6))).build()
    source = rows(*((n, "oslo", 2, "new") for n in range(4, 8)))
    merge = open_table(storage).merge(source, on="target.id = source.id and target.city = source.city")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    open_table(storage).update({"note": pa.scalar("set"), "ts": 3}, where=[("id", "==", 1)])
    open_table(storage).delete_where([("id", "==", 2)])

    steps = changes(open_table(storage), "earliest")

    assert [operation for operation, _, _ in steps].count("u") == 3
    assert replay(set(), steps) == contents(storage)


def test_the_format_may_come_from_the_options_of_the_table() -> None:
    storage = COW.insert((1, "oslo", 1, "a")).build()
    asked = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "0",
    }
    table = open_table(storage, **asked)
    assert table.changes().schema.names == ["op", "ts_ms", "before", "after"]
    assert "note" in table.changes(format="latest_state").schema.names
    with pytest.raises(UnsupportedFeatureError, match="changes"):
        table.scan()


def test_a_damaged_change_data_log_is_named() -> None:
    storage = COW.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    assert isinstance(storage, MemoryStorage)
    (path,) = [info.path for info in storage.list_recursive("") if info.path.endswith(".cdc")]
    data = storage.read(path)
    storage.put(path, data[: len(data) // 2])
    with pytest.raises(CorruptDataError) as caught:
        open_table(storage).changes(format="cdc").to_arrow()
    assert caught.value.context["path"] == path


@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
def test_bootstrapped_rows_are_inserts_and_have_images(mode: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a", "b"], "v": [1, 2]}), tmp_path / "rows.parquet")
    table = pyhudi.HudiTable.bootstrap(
        tmp_path, f"memory://boot-{mode}", record_key="id", mode=mode, hudi_options={"hoodie.table.cdc.enabled": "true"}
    )
    begin = table.inspect.position()
    table.upsert(pa.table({"id": ["a", "c"], "v": [9, 3]}))
    whole = table.refresh().changes(format="cdc_typed").to_arrow().to_pylist()
    assert [(one["op"], one["after"]["id"]) for one in whole] == [("i", "a"), ("i", "b"), ("u", "a"), ("i", "c")]
    later = table.refresh().changes(begin, format="cdc").to_arrow().to_pylist()
    assert [json.loads(one["before"] or "null") for one in later] == [{"id": "a", "v": 1}, None]
