"""Reading whole files of which nobody knows how large they are."""

from __future__ import annotations

from pyhudi.errors import CorruptDataError
from pyhudi.storage.protocol import Storage


def read_at_most(storage: Storage, path: str, bytes_max: int) -> bytes:
    """The content of a file that a table's metadata consist of, if it is not larger than any of its kind.

    A file costs nothing to make large (a sparse one on local disk), and everything to read. Cost: one request; memory
    for `bytes_max` at most.

    Raises:
        CorruptDataError: it is larger than `bytes_max`; the rest was not read.
        StorageError: as `Storage.read`.
    """
    data = storage.read(path, length=bytes_max + 1)
    if len(data) > bytes_max:
        raise CorruptDataError("this file is larger than any of its kind", path=path, bytes_max=bytes_max)
    return data
