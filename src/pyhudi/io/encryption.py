"""Encrypted Parquet files: pyhudi has no keys, and refuses such a file by name before Arrow looks at its columns.

A file whose footer is encrypted has another magic. One whose columns alone are encrypted has a plain footer with a
signature behind it; to ask Arrow about such a column ends the process.
"""

from __future__ import annotations

import os
from typing import Any, Final

import pyarrow.parquet as pq

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.parquet.footer import TAIL, has_encrypted_columns

_ENCRYPTED_FOOTER: Final = b"PARE"


def check_footer_is_plain(source: Any, path: str) -> None:
    """Raise `UnsupportedFeatureError` if the footer of an open file is encrypted. Cost: its last bytes."""
    if _last_bytes(source, TAIL.size).endswith(_ENCRYPTED_FOOTER):
        raise _encrypted(path)


def check_columns_are_plain(source: Any, footer: pq.FileMetaData, path: str) -> None:
    """Raise `UnsupportedFeatureError` if columns of an open file are encrypted. Cost: its last bytes."""
    size, _ = TAIL.unpack(_last_bytes(source, TAIL.size))
    if size != footer.serialized_size:
        data = _last_bytes(source, size + TAIL.size)[: footer.serialized_size]
        if has_encrypted_columns(data, path=path):
            raise _encrypted(path)


def _last_bytes(source: Any, count: int) -> bytes:
    size = source.seek(0, os.SEEK_END)
    source.seek(max(size - count, 0))
    return bytes(source.read(count))


def _encrypted(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "this Parquet file is encrypted, and pyhudi has no keys: write it again without encryption", path=path
    )
