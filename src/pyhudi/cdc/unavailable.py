"""Markers: what Debezium sends in place of a large value of PostgreSQL that did not change.

A column of text has the marker itself, in base64 or hexadecimal digits where the column is one of bytes. A list has it
as its only element, or has an element for each of its bytes; `hstore` has it as key and value.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.payloads import DEBEZIUM_UNAVAILABLE_VALUE
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.merge.pairs import Mask

_MARKER: Final = DEBEZIUM_UNAVAILABLE_VALUE
_OCTETS: Final = _MARKER.encode()
_TEXTS: Final = pa.array([_MARKER, base64.b64encode(_OCTETS).decode(), _OCTETS.hex()])
_UUID: Final = str(uuid.UUID(bytes=hashlib.md5(_OCTETS, usedforsecurity=False).digest(), version=3))
_ELEMENTS: Final = pa.concat_arrays([_TEXTS, pa.array([_UUID])])


def with_one_marker(rows: pa.Table) -> tuple[pa.Table, dict[str, Mask]]:
    """The rows with one marker in all columns of text, and by column where it is.

    Raises `UnsupportedFeatureError` where a column that is none of text has a marker.
    """
    markers: dict[str, Mask] = {}
    for number, field in enumerate(rows.schema):
        values = rows[number]
        if pa.types.is_string(field.type):
            is_marker = pc.is_in(values, _TEXTS)
            if pc.any(is_marker).as_py():
                rows = rows.set_column(number, field, pc.if_else(is_marker, _MARKER, values))
                markers[field.name] = is_marker.to_numpy()
        elif any(_has_marker(chunk) for chunk in values.chunks):
            raise UnsupportedFeatureError(
                "a large value that did not change is not sent, and only columns of text can keep their stored value: "
                "give the source table the replica identity FULL",
                column=field.name,
                type=str(field.type),
            )
    return rows, markers


def _has_marker(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_binary(kind):
        return _any(pc.equal(values, _OCTETS))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return _any(pc.equal(values.keys, _MARKER))
    if pa.types.is_struct(kind):
        return kind.get_field_index(_MARKER) >= 0 and _any(values.field(_MARKER).is_valid())
    return pa.types.is_list(kind) and _list_has_marker(values)


def _list_has_marker(values: pa.ListArray) -> bool:
    kind = values.type.value_type
    if pa.types.is_string(kind) and _any(pc.is_in(values.flatten(), _ELEMENTS)):
        return True
    if pa.types.is_binary(kind) and _any(pc.equal(values.flatten(), _OCTETS)):
        return True
    # The length of a null is null, so it is left out.
    candidates = values.filter(pc.equal(pc.list_value_length(values), len(_OCTETS))).flatten()
    if pa.types.is_struct(kind) and kind.get_field_index("value") >= 0:
        candidates = candidates.field("value")  # a decimal with a scale of its own
    spelled = _spelled(candidates.type)
    if spelled is None or not len(candidates):
        return False
    wanted = spelled.take(pa.array(np.tile(np.arange(len(_OCTETS)), len(candidates) // len(_OCTETS))))
    equal = pc.fill_null(pc.equal(candidates, wanted), False).to_numpy(zero_copy_only=False)
    return bool(equal.reshape(-1, len(_OCTETS)).all(axis=1).any())


def _spelled(kind: pa.DataType) -> pa.Array | None:
    """The bytes of the marker as elements of this type; None where Debezium has no such marker."""
    codes: list[Any] = list(_OCTETS)
    if pa.types.is_boolean(kind):
        codes = [True] * len(_OCTETS)
    elif pa.types.is_string(kind):
        codes = [base64.b64encode(bytes([code])).decode() for code in _OCTETS]
    elif pa.types.is_binary(kind):
        codes = [bytes([code]) for code in _OCTETS]
    elif pa.types.is_decimal(kind):
        codes = [Decimal(code).scaleb(-kind.scale) for code in _OCTETS]
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return pa.array(codes, kind)


def _any(mask: pa.BooleanArray) -> bool:
    return bool(pc.any(mask).as_py())
