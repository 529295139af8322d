"""Reading whole files of which nobody knows how large they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyhudi.errors import CorruptDataError
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.storage.protocol import Storage

Item = TypeVar("Item")
T = TypeVar("T")

READS_AT_ONCE = 32
"""Small files of an object store that are read at the same time."""


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


def read_decoded(storage: Storage, path: str, bytes_max: int, decode: Callable[..., T]) -> T:
    """What `decode(data, path=path)` makes of such a file, once all of it is there.

    Real Hudi before 1.1 creates the files of the timeline on local disk empty, and fills them some milliseconds later:
    a file that says nothing yet is read again for as long as somebody may be writing it. Cost: one request.

    Raises:
        CorruptDataError: it is larger than `bytes_max`, or does not decode, and nobody is writing it any more.
        StorageError: as `Storage.read`.
    """
    may_grow = True
    while True:
        try:
            return decode(read_at_most(storage, path, bytes_max), path=path)
        except CorruptDataError:
            if not may_grow:
                raise
            may_grow = storage.wait_for_writer(path)


def at_once(storage: Storage, read: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """`read` of each item, in their order: several at the same time where each waits for a network.

    Raises:
        HudiError: the first error of `read`.
    """
    if not isinstance(storage, ObjectStorage) or len(items) < 2:  # one needs no thread
        return [read(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(READS_AT_ONCE, len(items))) as pool:
        return list(pool.map(read, items))
