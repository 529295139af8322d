"""Rows as JSON text, in the two forms in which JVM Hudi prints the images of change data.

    from a log      `{"id": "a", "day": 19782, "raw": "a", "money": [0, 110], "note": null}`, as Avro prints records
    from a row      `{"id":"a","day":19782,"raw":"YQ==","money":1.10}`, as Jackson prints maps: without nulls

Dates are days, times of day and timestamps whole numbers of their unit. The one difference is in rows with decimals:
JVM Hudi 1.2.0 prints `{"zero":false}` for every decimal but 0, and its value is lost.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InternalError
from pyhudi.format.json_texts import base64_texts, escaped, float_texts, latin1_texts
from pyhudi.format.schema.avro_arrow import is_list

_DECIMAL_BYTES: Final = 16


class JsonForm(enum.Enum):
    """How a row is printed; the value is the text between two members, and that after a name."""

    OF_LOG = (", ", ": ")
    OF_ROW = (",", ":")

    @property
    def separator(self) -> str:
        """What stands between two members."""
        return self.value[0]

    @property
    def colon(self) -> str:
        """What stands after a name."""
        return self.value[1]


def rows_as_json(rows: pa.StructArray, form: JsonForm) -> pa.StringArray:
    """The JSON text of each row; null for a null. Cost: a few passes over each column."""
    return _texts(rows, form)


def _texts(values: pa.Array, form: JsonForm) -> pa.Array:  # noqa: PLR0911
    """The text of each value; null for null."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _struct_texts(values, form)
    if pa.types.is_map(kind):
        return _map_texts(values, form)
    if is_list(kind):
        return _where_valid(values, _joined(_fill(_texts(_items(values, values.values), form)), values, form, "[", "]"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(escaped(values.cast(pa.string()), is_avro=form is JsonForm.OF_LOG))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
        as_text = form is JsonForm.OF_LOG
        return _quoted(escaped(latin1_texts(values), is_avro=True) if as_text else base64_texts(values))
    if pa.types.is_decimal(kind):
        return _decimal_texts(values) if form is JsonForm.OF_LOG else values.cast(pa.string())
    if pa.types.is_floating(kind):
        return float_texts(values)
    if pa.types.is_timestamp(kind):
        # Spark has microseconds only.
        in_rows = pa.timestamp("us", kind.tz) if form is JsonForm.OF_ROW else kind
        return values.cast(in_rows).cast(pa.int64()).cast(pa.string())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return values.cast(pa.int32()).cast(pa.string())
    if pa.types.is_time64(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.string())
    raise InternalError("a column has no form in JSON", type=str(kind))


def _struct_texts(values: pa.StructArray, form: JsonForm) -> pa.Array:
    members = []
    for field, column in zip(values.type, values.flatten(), strict=True):
        name = f"{json.dumps(field.name, ensure_ascii=False)}{form.colon}"
        members.append(_concat(form.separator, name, _member(_texts(column, form), form)))
    if not members:
        return _where_valid(values, pa.repeat("{}", len(values)))
    # Arrow leaves out rows of which all parts are null where it is told to skip nulls.
    joined = _concat(*(pc.fill_null(member, "") for member in members))
    joined = pc.utf8_slice_codeunits(joined, len(form.separator))
    return _where_valid(values, _concat("{", joined, "}"))


def _map_texts(values: pa.MapArray, form: JsonForm) -> pa.Array:
    keys, items = _items(values, values.keys), _items(values, values.items)
    entries = _concat(
        _quoted(escaped(keys, is_avro=form is JsonForm.OF_LOG)), form.colon, _member(_texts(items, form), form)
    )
    return _where_valid(values, _joined(entries, values, form, "{", "}"))


def _member(texts: pa.Array, form: JsonForm) -> pa.Array:
    """The texts of members of an object: a null stays null where it is left out."""
    return _fill(texts) if form is JsonForm.OF_LOG else texts


def _joined(texts: pa.Array, around: pa.Array, form: JsonForm, begin: str, end: str) -> pa.Array:
    """The texts of the items of each list or map, without nulls, as one text."""
    offsets = _offsets(around)
    counts = np.concatenate([[0], np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False))])
    lists = pa.LargeListArray.from_arrays(pa.array(counts[offsets], pa.int64()), texts.drop_null())
    return _concat(begin, pc.binary_join(lists, form.separator), end)


def _items(around: pa.Array, items: pa.Array) -> pa.Array:
    """What lies between the offsets of a list or map."""
    first, last = around.offsets[0].as_py(), around.offsets[-1].as_py()
    return items.slice(first, last - first)


def _offsets(around: pa.Array) -> npt.NDArray[np.int64]:
    offsets = around.offsets.to_numpy().astype(np.int64)
    return np.asarray(offsets - offsets[0])


def _decimal_texts(values: pa.Array) -> pa.Array:
    """The bytes of a decimal as it is stored: the fewest that hold all its digits, the highest first."""
    size = next(size for size in range(1, _DECIMAL_BYTES + 1) if 2 ** (8 * size - 1) > 10**values.type.precision)
    wide = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    filled = pc.fill_null(wide, pa.scalar(0, wide.type)) if wide.null_count else wide
    start = filled.offset * _DECIMAL_BYTES
    data = np.frombuffer(filled.buffers()[1], np.int8)[start : start + len(filled) * _DECIMAL_BYTES]
    stored = data.reshape(-1, _DECIMAL_BYTES)[:, :size][:, ::-1]
    texts = pa.array(stored.ravel()).cast(pa.string())
    offsets = pa.array(np.arange(len(filled) + 1, dtype=np.int64) * size)
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, texts), ", ")
    return _where_valid(values, _concat("[", joined, "]"))


def _where_valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    texts = texts.cast(pa.string())
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return _concat('"', texts, '"')


def _fill(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _concat(*parts: str | pa.Array) -> pa.Array:
    texts: Sequence[pa.Array | pa.Scalar] = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*(_plain(text) for text in texts), "")


def _plain(text: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    return text.cast(pa.string()) if text.type != pa.string() else text
