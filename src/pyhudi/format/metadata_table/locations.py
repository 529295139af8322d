"""The file group of a record in the payloads of the record index.

A file id that is a UUID and a number is stored as three numbers, with encoding 0: the two halves of the UUID, and the
number, or -1 where there is none. Any other is stored as text, with encoding 1.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN, payload_type
from pyhudi.format.timeline.table_version import TableVersion

_AS_NUMBERS: Final = 0
_AS_TEXT: Final = 1
_NO_NUMBER: Final = -1
_UUID_FILE_ID: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?")
_PARTS: Final = ("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")


def location_payloads(
    version: TableVersion, partitions: Sequence[str], file_ids: Sequence[str], instants_ms: Sequence[int]
) -> pa.StructArray:
    """Payloads of the record index: one for each file group.

    Args:
        version: The version of the table.
        partitions: Their partition paths, `""` where the table has no partitions.
        file_ids: Their file ids.
        instants_ms: The time of the write that put the record there, in milliseconds of the epoch.
    """
    rows = [
        {"partitionName": partition, "instantTime": moment, **_parts_of(file_id)}
        for partition, file_id, moment in zip(partitions, file_ids, instants_ms, strict=True)
    ]
    kind = payload_type(version, RECORD_INDEX_COLUMN)
    known = {field.name for field in kind}
    return pa.array([{name: value for name, value in row.items() if name in known} for row in rows], kind)


def locations_of(payloads: pa.StructArray, *, path: str) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """The partition path and the file id of each payload, of which none may be null.

    Both are dictionaries: there are far fewer file groups than records. Raises `CorruptDataError` naming `path` for a
    payload that names no file group. Cost: one pass in Arrow, and a Python object for each distinct file group.
    """
    encoded = [payloads.field(name).dictionary_encode(null_encoding="encode") for name in _PARTS]
    codes = np.zeros(len(payloads), np.int64)
    for column in encoded:
        codes = codes * max(1, len(column.dictionary)) + column.indices.to_numpy()
        # Kept small, so that no product of six of them overflows.
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    rows = [payloads[int(place)].as_py() for place in first]
    try:
        file_ids = [_file_id_of(row) for row in rows]
        partitions = [_text_of(row["partitionName"]) for row in rows]
    except (TypeError, ValueError) as error:
        raise CorruptDataError("an entry of the record index names no file group", path=path) from error
    indices = pa.array(numbers.astype(np.int32))
    return (
        pa.DictionaryArray.from_arrays(indices, pa.array(partitions, pa.string())),
        pa.DictionaryArray.from_arrays(indices, pa.array(file_ids, pa.string())),
    )


def _file_id_of(row: Mapping[str, Any]) -> str:
    if row["fileIdEncoding"] == _AS_TEXT:
        return _text_of(row["fileId"])
    if row["fileIdEncoding"] != _AS_NUMBERS:
        raise ValueError("unknown encoding of a file id")
    bits = (1 << 64) - 1
    name = uuid.UUID(int=(row["fileIdHighBits"] & bits) << 64 | row["fileIdLowBits"] & bits)
    return str(name) if row["fileIndex"] == _NO_NUMBER else f"{name}-{int(row['fileIndex'])}"


def _text_of(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is missing")
    return value


def _parts_of(file_id: str) -> dict[str, object]:
    match = _UUID_FILE_ID.fullmatch(file_id)
    if match is None:
        parts: tuple[object, ...] = (-1, -1, _NO_NUMBER, file_id, _AS_TEXT)
    else:
        number = uuid.UUID(match[1]).int
        halves = (_signed(number >> 64), _signed(number & (1 << 64) - 1))
        parts = (*halves, _NO_NUMBER if match[2] is None else int(match[2]), "", _AS_NUMBERS)
    return dict(zip(_PARTS[1:], parts, strict=True))


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
