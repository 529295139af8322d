"""Tombstones: the deleted records of a file group and their ordering values, in the footer of its base file.

Hudi's format does not store a deleted record once its row has left the base file, so a late row would restore it.
pyhudi stores tombstones under a footer key of its own, which other readers and writers ignore: a JSON object with an
entry per instant, whose value is the compressed content of a delete block in base64. The writer of the next version of
the file copies the entries without decoding them.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.log.delete_block_decode import DeletedRecords, decode_delete_block
from pyhudi.format.log.delete_block_encode import encode_delete_block

TOMBSTONES_KEY: Final = "pyhudi.tombstones"
TOMBSTONES_BYTES_MAX: Final = 4 * 1024 * 1024
"""The size limit of the tombstones of one file; every reader of the file fetches its footer. Beyond it, the entries of
the oldest instants are dropped."""
_BLOCK_BYTES_MAX: Final = 256 * 1024 * 1024


def encode_tombstones(record_keys: pa.Array, partition_paths: pa.Array, ordering: Sequence[pa.Array]) -> str:
    """Encode the entry of one instant. Raises the errors of `encode_delete_block`."""
    block = encode_delete_block(record_keys, partition_paths, ordering, array_wrapper_allowed=True)
    return base64.b64encode(zlib.compress(block)).decode()


def joined_tombstones(
    previous: str | None, instant_time: str, entry: str | None, *, since: str, path: str
) -> str | None:
    """The text for the next version of a file: the previous entries since an instant, and a new one; None if empty.

    Raises:
        CorruptDataError: the previous text does not parse; names `path`.
    """
    entries = {time: text for time, text in _entries(previous, path).items() if time >= since}
    if entry is not None:
        entries[instant_time] = entry
    size = 0
    for time in sorted(entries, reverse=True):
        size += len(entries[time])
        if size > TOMBSTONES_BYTES_MAX:
            del entries[time]
    return json.dumps(dict(sorted(entries.items()))) if entries else None


def united_tombstones(texts: Mapping[str, str]) -> str | None:
    """The entries of several files, whose texts are given by path, in one text; None if there are none.

    Entries are sorted by instant. One instant may have deletes in several files: the second entry gets a `+` behind
    its instant, and so on. Raises `CorruptDataError` naming a file whose text does not parse.
    """
    united: dict[str, str] = {}
    for path, text in texts.items():
        for instant_time, entry in _entries(text, path).items():
            key = instant_time
            while united.get(key, entry) != entry:
                key += "+"
            united[key] = entry
    return json.dumps(united) if united else None


def decode_tombstones(
    text: str | None, ordering_types: Sequence[pa.DataType], *, path: str
) -> Iterator[DeletedRecords]:
    """Decode the deletes in a footer, per instant. `path` is the base file, for errors.

    Raises:
        CorruptDataError: the text does not parse.
        SchemaMismatchError, UnsupportedFeatureError: as `decode_delete_block`.
    """
    for entry in _entries(text, path).values():
        try:
            unpacker = zlib.decompressobj()
            block = unpacker.decompress(base64.b64decode(entry, validate=True), _BLOCK_BYTES_MAX)
        except (binascii.Error, ValueError, zlib.error) as error:
            raise _damaged(path, error) from error
        if not unpacker.eof:
            raise _damaged(path, "an entry is cut off, or too large")
        yield decode_delete_block(pa.py_buffer(block), ordering_types, path=path, offset=0)


def _entries(text: str | None, path: str) -> dict[str, str]:
    if text is None:
        return {}
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(entries, dict) or not all(isinstance(entry, str) for entry in entries.values()):
        raise _damaged(path, "not a JSON object of strings")
    return entries


def _damaged(path: str, cause: object) -> CorruptDataError:
    return CorruptDataError("the tombstones in this base file's footer are damaged", path=path, cause=str(cause))
