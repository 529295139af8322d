"""Records of the metadata table: those of JVM Hudi, and there and back for every type of them."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptDataError, InternalError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.avro.layout import record_layout
from pyhudi.format.avro.records import decode_avro_data, encode_avro_data
from pyhudi.format.avro.rowwise import read_rowwise
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.format.metadata_table.records import (
    decode_metadata_records,
    encode_metadata_records,
    make_records,
    records_schema,
    sorted_by_key,
)
from pyhudi.format.metadata_table.schema import (
    BLOOM_FILTER_COLUMN,
    COLUMN_STATS_COLUMN,
    FILES_COLUMN,
    RECORD_INDEX_COLUMN,
    SECONDARY_INDEX_COLUMN,
    RecordType,
    record_schema,
)
from pyhudi.format.timeline.table_version import V6, V8, V9, TableVersion

GOLDEN = Path(__file__).parents[3] / "golden" / "hfile"
PATH = "files/files-0000-0_0-0-0_001.hfile"

WRAPPED: list[dict[str, Any] | None] = [
    None,
    {"BooleanWrapper": {"value": True}},
    {"IntWrapper": {"value": -1}},
    {"LongWrapper": {"value": 1 << 62}},
    {"FloatWrapper": {"value": 0.5}},
    {"DoubleWrapper": {"value": -0.25}},
    {"BytesWrapper": {"value": b"\0\xff"}},
    {"StringWrapper": {"value": "é😀"}},
    {"DateWrapper": {"value": 19_000}},
    {"DecimalWrapper": {"value": Decimal("-1.500000000000000")}},
    {"TimeMicrosWrapper": {"value": dt.time(1, 2, 3, 4)}},
    {"TimestampMicrosWrapper": {"value": 1_700_000_000_000_000}},
]
ONLY_IN_9: list[dict[str, Any] | None] = [
    {"LocalDateWrapper": {"value": 5}},
    {"ArrayWrapper": {"wrappedValues": None}},
    {"ArrayWrapper": {"wrappedValues": [None, {"IntWrapper": {"value": 1}}, {"StringWrapper": {"value": "x"}}]}},
]


def payloads(version: TableVersion) -> dict[tuple[RecordType, str], list[Any]]:
    wrapped = [*WRAPPED, *(ONLY_IN_9 if version.has_value_types else [])]
    stats = [
        {
            "fileName": "f.parquet",
            "columnName": "c",
            "minValue": value,
            "maxValue": wrapped[-number],
            "valueCount": number,
            "nullCount": 0,
            "totalSize": None,
            "totalUncompressedSize": 7,
            "isDeleted": number % 2 == 0,
        }
        for number, value in enumerate(wrapped)
    ]
    if version.has_secondary_indexes:
        stats = [one | {"isTightBound": True} for one in stats]
    location = {
        "partitionName": "p",
        "fileIdHighBits": -5,
        "fileIdLowBits": 1 << 61,
        "fileIndex": 0,
        "fileId": "",
        "instantTime": 1_795_275_414_319,
        "fileIdEncoding": 0,
    }
    found: dict[tuple[RecordType, str], list[Any]] = {
        (RecordType.PARTITIONS, FILES_COLUMN): [[("p=1", {"size": 0, "isDeleted": False})]],
        (RecordType.FILES, FILES_COLUMN): [[], [("a", {"size": 1, "isDeleted": False})] * 3],
        (RecordType.COLUMN_STATS, COLUMN_STATS_COLUMN): stats,
        (RecordType.BLOOM_FILTER, BLOOM_FILTER_COLUMN): [
            {"type": "DYNAMIC_V0", "timestamp": "001", "bloomFilter": b"\0abc", "isDeleted": False}
        ],
        (RecordType.RECORD_INDEX, RECORD_INDEX_COLUMN): [location, None],
    }
    if version.has_secondary_indexes:
        found |= {
            (RecordType.PARTITION_STATS, COLUMN_STATS_COLUMN): stats[:1],
            (RecordType.SECONDARY_INDEX, SECONDARY_INDEX_COLUMN): [{"isDeleted": False}],
        }
    return found


@pytest.mark.parametrize("version", [V6, V8, V9])
def test_records_of_every_type_come_back_from_an_hfile(version: TableVersion):
    for (kind, column), values in payloads(version).items():
        schema = records_schema(version, column)
        rows = len(values)
        records = make_records(
            version,
            column,
            pa.array([f"k{number:03}" for number in range(rows)]),
            pa.array([kind] * rows, pa.int32()),
            pa.array(values, schema.field(column).type),
        )
        keys, data = encode_metadata_records(records, version)
        hfile = read_hfile(write_hfile(keys, data, schema=record_schema(version)), path=PATH)
        found = decode_metadata_records(
            hfile.keys, hfile.values, column, avro_schema=hfile.schema or "", path=PATH, offset=0
        )
        found.validate(full=True)
        assert found.to_pylist() == records.to_pylist(), kind


@pytest.mark.parametrize(
    ("name", "version", "column", "has_file_names"),
    [
        ("v6-files", V6, FILES_COLUMN, True),
        ("v9-files", V9, FILES_COLUMN, True),
        ("v9-record-index-log", V9, RECORD_INDEX_COLUMN, False),
    ],
)
def test_records_of_jvm_hudi_are_encoded_to_the_same_bytes(
    name: str, version: TableVersion, column: str, has_file_names: bool
):
    """But for the meta column of the file name, which JVM Hudi fills at compaction and nobody reads."""
    hfile = read_hfile((GOLDEN / f"{name}.hfile").read_bytes(), path=PATH)
    assert hfile.schema == record_schema(version)
    found = decode_metadata_records(hfile.keys, hfile.values, column, avro_schema=hfile.schema, path=PATH, offset=0)
    keys, values = encode_metadata_records(found, version)
    assert keys.cast(pa.binary()).equals(hfile.keys)
    if has_file_names:
        for ours, theirs in zip(values.to_pylist(), hfile.values.to_pylist(), strict=True):
            assert (ours[:5], theirs[:5]) == (b"\0" * 5, b"\0" * 4 + b"\2")
            assert theirs.endswith(ours[5:])
    else:
        assert values.equals(hfile.values)


def test_schema_of_each_table_version_is_that_of_jvm_hudi_to_the_character():
    """The digests of what 0.15.0, 1.0.2 and 1.2.0 write into the headers of log blocks."""
    digests = {
        version.number: hashlib.sha256(record_schema(version).encode()).hexdigest()[:16] for version in (V6, V8, V9)
    }
    assert digests == {6: "d451d2fb0c1084f1", 8: "5e1aed4057cba6c1", 9: "e60ee429403d20e0"}


def test_rows_with_unions_read_one_by_one_are_those_read_by_columns():
    schema = record_schema(V9)
    values = payloads(V9)[RecordType.COLUMN_STATS, COLUMN_STATS_COLUMN]
    layout = record_layout(schema, with_unions=True)
    rows = [{"key": "", "type": 3, COLUMN_STATS_COLUMN: value} for value in values]
    batch = pa.RecordBatch.from_pylist(rows, schema=layout.schema)
    data = encode_avro_data(batch, schema, with_unions=True)
    by_columns = decode_avro_data(data, schema, with_unions=True, path=PATH, offset=0)
    by_rows = read_rowwise(layout.record, data.to_pylist(), path=PATH, offset=0)
    assert by_columns.to_pylist() == batch.to_pylist()
    assert [column.to_pylist() for column in by_rows] == [column.to_pylist() for column in batch.columns]


def test_partition_of_many_files_is_read_though_its_record_is_one():
    names = [f"{number:036}-0_0-1-2_20260101000000000.parquet" for number in range(5_000)]
    column = records_schema(V9, FILES_COLUMN).field(FILES_COLUMN)
    files = pa.array([[(name, {"size": 5, "isDeleted": False}) for name in names]], column.type)
    records = make_records(V9, FILES_COLUMN, pa.array(["p"]), pa.array([2], pa.int32()), files)
    keys, values = encode_metadata_records(records, V9)
    found = decode_metadata_records(keys, values, FILES_COLUMN, avro_schema=record_schema(V9), path=PATH, offset=0)
    assert found.equals(records)


def test_union_with_two_values_or_none_has_no_form():
    schema = record_schema(V9)
    layout = record_layout(schema, with_unions=True)
    wrong: list[dict[str, Any]] = [{"IntWrapper": {"value": 1}, "LongWrapper": {"value": 1}}, {}]
    for value in wrong:
        stats = {"minValue": value, "isDeleted": False, "isTightBound": False}
        batch = pa.RecordBatch.from_pylist([{"key": "", "type": 3, COLUMN_STATS_COLUMN: stats}], schema=layout.schema)
        with pytest.raises(SchemaMismatchError, match="union"):
            encode_avro_data(batch, schema, with_unions=True)


def test_union_of_several_types_in_a_table_is_still_refused():
    with pytest.raises(UnsupportedFeatureError, match="union"):
        record_layout(record_schema(V9))


def test_record_of_an_unknown_type_is_damage():
    keys, values = encode_metadata_records(
        make_records(
            V9,
            SECONDARY_INDEX_COLUMN,
            pa.array(["k"]),
            pa.array([99], pa.int32()),
            pa.nulls(1, records_schema(V9, SECONDARY_INDEX_COLUMN).field(2).type),
        ),
        V9,
    )
    with pytest.raises(CorruptDataError, match="type") as caught:
        decode_metadata_records(
            keys, values, SECONDARY_INDEX_COLUMN, avro_schema=record_schema(V9), path=PATH, offset=0
        )
    assert caught.value.context["path"] == PATH


def test_record_whose_union_names_no_branch_is_damage():
    schema = record_schema(V9)
    layout = record_layout(schema, with_unions=True)
    stats = {"minValue": {"IntWrapper": {"value": 1}}, "isDeleted": False, "isTightBound": False}
    batch = pa.RecordBatch.from_pylist([{"key": "", "type": 3, COLUMN_STATS_COLUMN: stats}], schema=layout.schema)
    (value,) = encode_avro_data(batch, schema, with_unions=True).to_pylist()
    at = value.index(struct.pack("bb", 4, 2))  # branch 2, the number 1
    for branch in (28, 126, 3):
        damaged = pa.array([value[:at] + bytes([branch]) + value[at + 1 :]])
        with pytest.raises(CorruptDataError):
            decode_avro_data(damaged, schema, with_unions=True, path=PATH, offset=0)


def test_no_records_have_no_bytes():
    column = records_schema(V9, FILES_COLUMN).field(FILES_COLUMN)
    none = make_records(
        V9, FILES_COLUMN, pa.array([], pa.string()), pa.array([], pa.int32()), pa.array([], column.type)
    )
    keys, values = encode_metadata_records(sorted_by_key(none), V9)
    found = decode_metadata_records(keys, values, FILES_COLUMN, avro_schema=record_schema(V9), path=PATH, offset=0)
    assert found.num_rows == len(keys) == 0


def test_payload_of_another_type_is_a_defect_of_the_caller():
    with pytest.raises(InternalError):
        make_records(V9, FILES_COLUMN, pa.array(["k"]), pa.array([2], pa.int32()), pa.array([1]))
