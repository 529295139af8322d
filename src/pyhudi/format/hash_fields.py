"""The values of a record key that bucket indexes hash, as JVM Hudi takes them out of the text of the key.

A key without a comma or without a colon is one value. Every other key is read as `field:value,field:value`, even if it
is the value of a single field: a comma ends a value if a name and a colon follow. Its values are those of the hash
fields, in the order of the key; the whole key, if it has no such field.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedFeatureError

_NULL, _EMPTY = "__null__", "__empty__"
_MARK = "\0"


@dataclass(frozen=True, slots=True)
class HashValues:
    """The hashed values of `keys` record keys: each `value` is one of the key with the number `of_key`, in order.

    Every key has at least one value; a null is a column that was null.
    """

    keys: int
    of_key: npt.NDArray[np.int64]
    value: pa.LargeStringArray


def hash_values(keys: pa.Array, fields: tuple[str, ...]) -> HashValues:
    """The values of the hash `fields` in record keys, none of which is null.

    Raises:
        UnsupportedFeatureError: a key of several fields has a NUL character.
    """
    keys = keys.cast(pa.large_string())
    is_read = _as_mask(pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":")))
    numbers = np.flatnonzero(is_read)
    if len(numbers) == 0:
        return HashValues(len(keys), np.arange(len(keys)), keys)
    of_read, value = _values_of_fields(keys.take(pa.array(numbers)), fields)
    of_read = numbers[of_read]
    is_whole = np.ones(len(keys), dtype=bool)
    is_whole[of_read] = False
    whole = np.flatnonzero(is_whole)
    of_key = np.concatenate([whole, of_read])
    order = np.argsort(of_key, kind="stable")
    values = pa.concat_arrays([keys.take(pa.array(whole)), value]).take(pa.array(order))
    return HashValues(len(keys), of_key[order], values)


def differ_between_releases(keys: pa.Array, fields: int) -> pa.Array:
    """Which keys JVM Hudi 0.15 reads otherwise than later releases, by the number of `fields` that keys are made of.

    It reads every key with a colon as fields, and ends a value at every comma.
    """
    if fields == 1:
        return pc.match_substring(keys, ":")
    return pc.not_equal(pc.count_substring(keys, ","), fields - 1)


def _values_of_fields(keys: pa.Array, fields: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The values of the fields in keys that are read as `field:value,…`, and the number of the key of each."""
    found = _alike(keys, fields)
    of_key, value = found if found is not None else _parsed(keys, fields)
    value = pc.if_else(pc.equal(value, _EMPTY), "", value)
    value = pc.if_else(pc.equal(value, _NULL), pa.scalar(None, pa.large_string()), value)
    return of_key, value.cast(pa.large_string())


def _alike(keys: pa.Array, fields: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
    """The same for keys that all have the same names in one order and no comma in a value, without parsing each."""
    names = [part.partition(":")[0] for part in keys[0].as_py().split(",")]
    split = pc.split_pattern(keys, ",")
    if not pc.all(pc.equal(pc.list_value_length(split), len(names))).as_py():
        return None
    flat = split.flatten()
    taken = []
    for number, name in enumerate(names):
        part = flat.take(pa.array(np.arange(number, len(flat), len(names))))
        if not pc.all(pc.starts_with(part, f"{name}:")).as_py():
            return None
        if name in fields:
            taken.append(pc.utf8_slice_codeunits(part, len(name) + 1))
    if not taken:
        return np.zeros(0, np.int64), pa.array([], pa.large_string())
    by_key = np.arange(len(taken) * len(keys)).reshape(len(taken), len(keys)).T.ravel()
    return np.repeat(np.arange(len(keys)), len(taken)), pa.concat_arrays(taken).take(pa.array(by_key))


def _parsed(keys: pa.Array, fields: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    if pc.any(pc.match_substring(keys, _MARK)).as_py():
        raise UnsupportedFeatureError("record keys of several fields with a NUL character cannot be hashed")
    head = pc.extract_regex(keys, r"(?s)^(?P<name>[^:]*):(?P<rest>.*)$")
    marked = pc.replace_substring_regex(head.field("rest"), r",([^,:]*):", rf"{_MARK}\1{_MARK}")
    # Value, name, value, name, value: the name of the first value is in the head.
    split = pc.split_pattern(marked, _MARK)
    sizes = pc.list_value_length(split).to_numpy()
    flat = split.flatten()
    first = np.cumsum(sizes) - sizes
    counts = (sizes + 1) // 2
    of_key = np.repeat(np.arange(len(sizes)), counts)
    rank = np.arange(len(of_key)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = first[of_key] + 2 * rank
    names = pc.if_else(
        pa.array(rank == 0),
        head.field("name").take(pa.array(of_key)),
        flat.take(pa.array(np.maximum(at - 1, 0))),
    )
    is_hashed = _as_mask(pc.is_in(names, value_set=pa.array(fields, names.type)))
    return of_key[is_hashed], flat.take(pa.array(at[is_hashed]))


def _as_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return mask
