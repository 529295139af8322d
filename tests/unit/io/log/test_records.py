"""Which blocks of a slice's logs count, in which order, and what becomes of their rows."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import CorruptDataError, HudiError, SchemaMismatchError, StorageError, UnsupportedFeatureError
from pyhudi.format.avro.records import encode_avro_records
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block, rollback_block
from pyhudi.format.log.delete_block_encode import encode_delete_block
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_with_meta_columns
from pyhudi.format.schema.meta_columns import with_meta_columns, without_meta_columns
from pyhudi.format.timeline.table_version import table_version
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.records import LogVersions, delete_mask, read_log_versions
from pyhudi.merge.control_columns import BY_COMMIT_TIME, COLUMNS, DELETED
from pyhudi.merge.rules import OPERATION, MergeRules
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.archive.writes import block_filter
from pyhudi.table.timeline import timeline_of

TABLE = with_meta_columns(pa.schema([("ts", pa.int64()), ("note", pa.string())]))
BY_TS = MergeRules(ordering_fields=("ts",))
ALL = BlockFilter()
Row = tuple[str, int, str | None]


def avro_of(schema: pa.Schema) -> str:
    return avro_with_meta_columns(arrow_to_avro(without_meta_columns(schema), table_name="t"))


def rows_of(*rows: Row, schema: pa.Schema = TABLE) -> pa.RecordBatch:
    """Rows of (key, ts, note) as a log holds them."""
    values = [
        {"_hoodie_record_key": key, "_hoodie_partition_path": "p", "ts": ts, "note": note} for key, ts, note in rows
    ]
    return pa.RecordBatch.from_pylist([{n: v for n, v in row.items() if n in schema.names} for row in values], schema)


def block(kind: BlockType, instant: str, content: Any, schema: pa.Schema = TABLE, **headers: str) -> bytes:
    known = {BlockHeader[name.upper()]: text for name, text in headers.items()}
    avro = avro_of(schema)
    pieces = encode_block(kind, {BlockHeader.INSTANT_TIME: instant, BlockHeader.SCHEMA: avro, **known}, content)
    return b"".join(bytes(piece) for piece in pieces)


def data(instant: str, *rows: Row, schema: pa.Schema = TABLE, **headers: str) -> bytes:
    content = encode_avro_records(rows_of(*rows, schema=schema), avro_of(schema))
    return block(BlockType.AVRO_DATA, instant, content, schema, **headers)


def in_parquet(instant: str, *rows: Row) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([rows_of(*rows)]), sink)
    return block(BlockType.PARQUET_DATA, instant, sink.getvalue())


def deletes(instant: str, *keys: str, ts: int | None = None) -> bytes:
    ordering = [] if ts is None else [pa.array([ts] * len(keys), pa.int64())]
    content = encode_delete_block(pa.array(keys), pa.array(["p"] * len(keys)), ordering, array_wrapper_allowed=True)
    return block(BlockType.DELETE, instant, content)


def read(
    *files: bytes,
    blocks: BlockFilter = ALL,
    schema: pa.Schema = TABLE,
    rules: MergeRules = BY_TS,
    spill: SpillSettings | None = None,
) -> LogVersions:
    storage = MemoryStorage()
    for number, content in enumerate(files):
        storage.put(f"p/{number}", content)
    paths = [f"p/{number}" for number in range(len(files))]
    spill = spill or SpillSettings()
    return read_log_versions(storage, paths, schema, rules, blocks=blocks, spill=spill, names=None)


def versions(found: LogVersions) -> list[tuple[Any, ...]]:
    """(key, ts, note) in merge order; a deletion's note is `gone`."""
    return [
        (row["_hoodie_record_key"], row["ts"], "gone" if row[DELETED] else row["note"])
        for row in found.rows.to_pylist()
    ]


# -- order ------------------------------------------------------------------------------------------------------------


def test_versions_come_in_the_order_of_logs_and_blocks() -> None:
    found = read(
        data("20", ("a", 1, "x"), ("b", 1, "x")) + deletes("20", "c", ts=4),
        in_parquet("10", ("a", 2, "y")),
    )

    assert versions(found) == [("a", 1, "x"), ("b", 1, "x"), ("c", 4, "gone"), ("a", 2, "y")]
    assert (found.blocks, found.corrupt_blocks, found.rollback_blocks) == (3, 0, 0)


def test_blocks_of_one_write_stay_together_where_the_write_first_appears() -> None:
    """A write of several logs, as version 6 names them, is merged as one."""
    found = read(data("10", ("a", 1, "1")) + data("20", ("a", 1, "2")), data("10", ("a", 1, "3")))

    assert [note for _, _, note in versions(found)] == ["1", "3", "2"]


def test_only_the_wanted_columns_are_decoded_and_missing_ones_are_null() -> None:
    narrow = pa.schema([TABLE.field("_hoodie_record_key"), TABLE.field("ts")])
    wider = pa.schema([*narrow, ("later", pa.string())])

    found = read(data("10", ("a", 1, "x")), schema=wider)

    assert found.rows.select(wider.names).to_pylist() == [{"_hoodie_record_key": "a", "ts": 1, "later": None}]


def test_a_column_that_was_widened_since_is_read_in_its_new_type() -> None:
    old = with_meta_columns(pa.schema([("ts", pa.int32()), ("note", pa.string())]))

    assert versions(read(data("10", ("a", 1, "x"), schema=old))) == [("a", 1, "x")]


def test_no_logs_have_no_versions() -> None:
    assert versions(read()) == []


# -- what counts ------------------------------------------------------------------------------------------------------


def test_blocks_that_a_rollback_names_do_not_count_wherever_the_rollback_stands() -> None:
    rolled_back = data("10", ("a", 1, "x")) + deletes("10", "b", ts=1)

    for files in (
        [rolled_back + data("20", ("a", 2, "y")) + rollback_block("30", "10")],
        [rollback_block("30", "10") + data("20", ("a", 2, "y")), rolled_back],
    ):
        found = read(*files)
        assert versions(found) == [("a", 2, "y")]
        assert found.rollback_blocks == 1


def test_a_block_filter_leaves_out_writes_that_are_not_committed_unless_they_were_archived() -> None:
    log = b"".join(data(instant, (instant, 1, "x")) for instant in ("05", "10", "20", "30"))
    blocks = BlockFilter(committed=frozenset({"10", "30"}), archived_before="10")

    assert [key for key, _, _ in versions(read(log, blocks=blocks))] == ["05", "10", "30"]


def test_a_block_filter_with_an_end_leaves_out_later_writes() -> None:
    log = b"".join(data(instant, (instant, 1, "x")) for instant in ("10", "20", "30"))

    assert [key for key, _, _ in versions(read(log, blocks=BlockFilter(until="20")))] == ["10", "20"]


def test_in_version_6_the_timeline_filters_blocks_and_later_the_view_has_chosen() -> None:
    old = timeline_of(table_version(6), ["10.deltacommit", "20.deltacommit.inflight"])
    new = timeline_of(table_version(9), ["10_11.deltacommit", "20.deltacommit.inflight"])

    assert block_filter(old, old.completed_times).counts("10")
    assert block_filter(old, old.completed_times).counts("05")
    assert not block_filter(old, old.completed_times).counts("20")
    assert block_filter(new, new.completed_times) == BlockFilter()


# -- log compaction ---------------------------------------------------------------------------------------------------


def test_a_log_compaction_takes_the_place_of_the_blocks_that_it_replaces() -> None:
    found = read(
        data("10", ("a", 1, "1")),
        data("20", ("a", 1, "2")),
        data("30", ("a", 1, "3")),
        data("40", ("a", 1, "1+2"), compacted_block_times="10,20"),
    )

    assert [note for _, _, note in versions(found)] == ["1+2", "3"]


def test_of_a_chain_of_log_compactions_only_the_last_counts() -> None:
    found = read(
        data("10", ("a", 1, "1")),
        data("20", ("a", 1, "2")),
        data("30", ("a", 1, "1+2"), compacted_block_times="10,20"),
        data("40", ("a", 1, "4")),
        data("50", ("a", 1, "1+2+4"), compacted_block_times="30,40"),
        data("60", ("a", 1, "6")),
    )

    assert [note for _, _, note in versions(found)] == ["1+2+4", "6"]


def test_a_log_compaction_that_was_rolled_back_leaves_what_it_was_to_replace() -> None:
    found = read(
        data("10", ("a", 1, "1")),
        data("20", ("a", 1, "1 again"), compacted_block_times="10") + rollback_block("30", "20"),
    )

    assert [note for _, _, note in versions(found)] == ["1"]


# -- deletes ----------------------------------------------------------------------------------------------------------


def test_deletes_have_their_ordering_values_or_count_by_commit_time() -> None:
    found = read(deletes("10", "a", ts=7) + deletes("10", "b")).rows

    assert found.column("ts").to_pylist() == [7, None]
    assert found.column(DELETED).to_pylist() == [True, True]
    assert found.column(BY_COMMIT_TIME).to_pylist() == [False, True]
    assert found.column("_hoodie_partition_path").to_pylist() == ["p", "p"]


@pytest.mark.parametrize(
    ("column", "values", "rules", "expected"),
    [
        pytest.param("_hoodie_is_deleted", [True, False, None], BY_TS, [True, False, False], id="flag"),
        pytest.param("_hoodie_is_deleted", ["true", "x", None], BY_TS, [False] * 3, id="a text of that name"),
        pytest.param(OPERATION, ["D", "U", None], BY_TS, [True, False, False], id="operation"),
        pytest.param("Op", ["D", "I", None], MergeRules(delete_marker=("Op", "D")), [True, False, False], id="marker"),
        pytest.param("Op", [7, 1, None], MergeRules(delete_marker=("Op", "7")), [True, False, False], id="number"),
        pytest.param("Op", ["D", "D", "D"], BY_TS, [False] * 3, id="no marker"),
    ],
)
def test_rows_that_stand_for_deletions(column: str, values: list[Any], rules: MergeRules, expected: list[bool]) -> None:
    assert delete_mask(pa.record_batch({column: values}), rules).to_pylist() == expected


def test_row_with_the_deleted_flag_deletes_though_the_column_is_not_read() -> None:
    flagged = with_meta_columns(
        pa.schema([("ts", pa.int64()), ("note", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
    )
    batch = rows_of(("a", 1, "x"), ("b", 1, "y"), schema=flagged)
    place = flagged.get_field_index("_hoodie_is_deleted")
    batch = batch.set_column(place, flagged.field(place), pa.array([True, False]))
    content = encode_avro_records(batch, avro_of(flagged))

    assert versions(read(block(BlockType.AVRO_DATA, "10", content, flagged))) == [("a", 1, "gone"), ("b", 1, "y")]


# -- partial updates --------------------------------------------------------------------------------------------------


def test_rows_of_a_partial_block_name_the_columns_that_they_set() -> None:
    ts_only = with_meta_columns(pa.schema([("ts", pa.int64())]))
    found = read(
        data("10", ("a", 1, "x")),
        data("20", ("a", 2, None), schema=ts_only, is_partial="true"),
        data("30", ("b", 3, None), schema=ts_only, is_partial="true"),
    )

    assert found.rows.column(COLUMNS).to_pylist() == [None, 0, 0]
    assert found.column_sets == (frozenset(ts_only.names),)


# -- damage -----------------------------------------------------------------------------------------------------------


def test_a_corrupt_block_is_named_in_a_warning_and_good_ones_after_it_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, torn = data("10", ("a", 1, "x")), data("20", ("b", 1, "y"))[:-11]

    with caplog.at_level(logging.WARNING, logger="pyhudi"):
        found = read(good + torn + data("30", ("c", 1, "z")))

    assert [key for key, _, _ in versions(found)] == ["a", "c"]
    assert found.corrupt_blocks == 1
    assert f"from offset {len(good)} on" in caplog.text


CUT_CONTENTS = {
    BlockType.AVRO_DATA: encode_avro_records(rows_of(("a", 1, "x"), ("b", 1, "y")), avro_of(TABLE))[:-9],
    BlockType.PARQUET_DATA: b"PAR1 and nothing else PAR1",
    BlockType.HFILE_DATA: b"DATABLK*" * 30,
    BlockType.DELETE: bytes(encode_delete_block(pa.array(["a"]), pa.array(["p"]), [], array_wrapper_allowed=True))[:-3],
}
OTHER_VERSIONS = {kind: (77).to_bytes(4, "big") + b"\0" * 20 for kind in (BlockType.AVRO_DATA, BlockType.DELETE)}


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        *(pytest.param(k, c, CorruptDataError, id=f"cut {k.name}") for k, c in CUT_CONTENTS.items()),
        *(pytest.param(k, c, UnsupportedFeatureError, id=f"version {k.name}") for k, c in OTHER_VERSIONS.items()),
    ],
)
def test_a_whole_block_whose_content_is_damaged_is_an_error_with_path_and_offset(
    kind: BlockType, content: bytes, error: type[HudiError]
) -> None:
    before = data("10", ("a", 1, "x"))

    with pytest.raises(error) as caught:
        read(before + block(kind, "20", content))

    assert caught.value.context["path"] == "p/0"
    assert len(before) <= caught.value.context["offset"] < len(before) + 2000


def test_a_block_of_an_unknown_type_is_an_error_with_path_and_offset() -> None:
    before = data("10", ("a", 1, "x"))
    unknown = bytearray(data("20", ("b", 1, "y")))
    unknown[18:22] = (99).to_bytes(4, "big")

    with pytest.raises(UnsupportedFeatureError) as caught:
        read(before + bytes(unknown))

    assert (caught.value.context["path"], caught.value.context["offset"]) == ("p/0", len(before))


def test_rows_that_do_not_become_the_tables_are_an_error_with_path_and_offset() -> None:
    other = with_meta_columns(pa.schema([("ts", pa.string()), ("note", pa.string())]))
    before = data("10", ("a", 1, "x"))

    with pytest.raises(SchemaMismatchError) as caught:
        read(before + data("20", ("a", "late", "x"), schema=other))  # type: ignore[arg-type]

    assert (caught.value.context["path"], caught.value.context["offset"]) == ("p/0", len(before))
    assert "ts" in str(caught.value)


def test_a_delete_whose_ordering_value_is_of_another_type_is_an_error_with_path_and_offset() -> None:
    texts = with_meta_columns(pa.schema([("ts", pa.date32()), ("note", pa.string())]))

    with pytest.raises(SchemaMismatchError) as caught:
        read(deletes("10", "a", ts=2**40), schema=texts)

    assert caught.value.context["path"] == "p/0"
    assert caught.value.context["offset"] > 0


def test_a_cdc_block_is_recognised_and_passed_over() -> None:
    found = read(block(BlockType.CDC_DATA, "10", b"whatever") + data("20", ("a", 1, "x")))

    assert versions(found) == [("a", 1, "x")]
    assert found.blocks == 2


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 600, 1 << 20])
def test_records_that_spill_are_the_same_and_leave_nothing_behind(tmp_path: Path, limit: int) -> None:
    log = b"".join(data(f"{n:02}", *((f"k{k}", n, f"note {k}") for k in range(9))) for n in range(9))
    log += deletes("99", "k1", "k2", ts=9)

    spilled = read(log, spill=SpillSettings(memory_bytes=limit, folder=str(tmp_path)))

    assert spilled.rows.equals(read(log).rows)
    assert len(spilled.rows) == 83
    assert list(tmp_path.iterdir()) == []


def test_folder_of_records_that_spill_is_made_or_refused_by_name(tmp_path: Path) -> None:
    log = data("10", ("a", 1, "x")) + data("20", ("b", 1, "x"))
    folder = tmp_path / "not" / "there"

    assert len(read(log, spill=SpillSettings(memory_bytes=0, folder=str(folder))).rows) == 2
    assert list(folder.iterdir()) == []

    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageError, match="spillable"):
        read(log, spill=SpillSettings(memory_bytes=0, folder=str(tmp_path / "file")))


def test_an_error_while_records_spill_leaves_nothing_behind(tmp_path: Path) -> None:
    log = data("10", ("a", 1, "x")) + data("20", ("b", 1, "x")) + block(BlockType.AVRO_DATA, "30", b"damage")

    with pytest.raises(CorruptDataError):
        read(log, spill=SpillSettings(memory_bytes=0, folder=str(tmp_path)))

    assert list(tmp_path.iterdir()) == []


def test_records_above_the_limit_do_not_stay_in_memory(tmp_path: Path) -> None:
    log = b"".join(data(f"{n:02}", *((f"k{k}", n, "x" * 1000) for k in range(100))) for n in range(10))
    before = pa.total_allocated_bytes()

    spilled = read(log, spill=SpillSettings(memory_bytes=10_000, folder=str(tmp_path)))
    held = pa.total_allocated_bytes() - before

    assert spilled.rows.nbytes > 1_000_000
    assert held < 300_000
