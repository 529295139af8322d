"""File groups in the payloads of the record index."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptDataError, InternalError
from pyhudi.format.metadata_table.locations import location_payloads, locations_of
from pyhudi.format.metadata_table.records import encode_metadata_records, make_records
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN, RecordType
from pyhudi.format.timeline.table_version import V6, V8, V9, TableVersion


def test_every_kind_of_file_id_comes_back_as_it_went_in() -> None:
    ids = [
        "00000003-25c8-466a-9d8d-10dd609ff310-0",
        "ffffffff-ffff-ffff-ffff-ffffffffffff-12",
        "8b0c3f02-0000-4000-8000-0000000000ff",
        "8B0C3F02-0000-4000-8000-0000000000FF-0",
        "8b0c3f02-0000-4000-8000-0000000000ff-007",
        "files-0000-0",
        "",
    ]
    partitions = [f"city=ñ{number % 3}" for number in range(len(ids))]
    payloads = location_payloads(V9, partitions, ids, range(len(ids)))
    order = pa.array([5, 0, 1, 2, 3, 4, 5, 6, 0, 1])
    found_partitions, found_ids = locations_of(payloads.take(order), path="x")
    assert found_ids.to_pylist() == [ids[number] for number in order.to_pylist()]
    assert found_partitions.to_pylist() == [partitions[number] for number in order.to_pylist()]
    assert payloads.field("fileIdEncoding").to_pylist() == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("broken", [{"fileIdEncoding": 7}, {"partitionName": None}, {"fileIdHighBits": None}])
def test_an_entry_without_a_file_group_is_damage(broken: dict[str, int | None]) -> None:
    payloads = location_payloads(V9, ["a"], ["8b0c3f02-0000-4000-8000-0000000000ff-0"], [0])
    damaged = pa.array([{**payloads[0].as_py(), **broken}], payloads.type)
    with pytest.raises(CorruptDataError, match="names no file group") as raised:
        locations_of(damaged, path="the file")
    assert raised.value.context["path"] == "the file"


@pytest.mark.parametrize("version", [V6, V8, V9])
def test_payloads_in_a_dictionary_are_encoded_as_if_they_were_not(version: TableVersion) -> None:
    payloads = location_payloads(version, ["a", ""], ["8b0c3f02-0000-4000-8000-0000000000ff-0", "other"], [1, 2])
    numbers = pa.array([1, 0, 0, 1], pa.int32())
    keys = pa.array(["a", "b", "c", "d"])
    types = pa.repeat(pa.scalar(int(RecordType.RECORD_INDEX), pa.int32()), 4)
    plain = make_records(version, RECORD_INDEX_COLUMN, keys, types, payloads.take(numbers))
    encoded = pa.DictionaryArray.from_arrays(numbers, payloads)
    as_dictionary = pa.RecordBatch.from_arrays([keys, types, encoded], names=plain.schema.names)
    assert encode_metadata_records(as_dictionary, version)[1] == encode_metadata_records(plain, version)[1]
    mixed = as_dictionary.set_column(1, "type", pa.array([5, 5, 5, 4], pa.int32()))
    with pytest.raises(InternalError, match="not of one type"):
        encode_metadata_records(mixed, version)
