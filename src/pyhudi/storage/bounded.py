"""Size-limited reads of whole files from untrusted tables, and concurrent requests for small files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyhudi.errors import CorruptDataError
from pyhudi.storage.hdfs import HdfsStorage
from pyhudi.storage.metered import itself
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.storage.protocol import Storage

Item = TypeVar("Item")
T = TypeVar("T")

READS_AT_ONCE = 32
"""Number of small files of a remote store that are read, or put, at the same time."""


def read_at_most(storage: Storage, path: str, bytes_max: int) -> bytes:
    """The content of a metadata file, whose size must not exceed `bytes_max`.

    An attacker can create a huge file at no cost, for example a sparse file on local disk; reading all of it would
    exhaust the memory. Cost: one request, and memory for `bytes_max` bytes at most.

    Raises:
        CorruptDataError: the file is larger than `bytes_max`; its rest was not read.
        StorageError: as `Storage.read`.
    """
    data = storage.read(path, length=bytes_max + 1)
    if len(data) > bytes_max:
        raise CorruptDataError("file exceeds the size limit for its type", path=path, bytes_max=bytes_max)
    return data


def read_decoded(storage: Storage, path: str, bytes_max: int, decode: Callable[..., T]) -> T:
    """The result of `decode(data, path=path)` for a metadata file of at most `bytes_max` bytes.

    On local disk JVM Hudi before 1.1 creates a timeline file empty, and writes its content some milliseconds later.
    Therefore a file that does not decode is read again while another program may still be writing it. Cost: one
    request for a complete file.

    Raises:
        CorruptDataError: the file is larger than `bytes_max`, or it does not decode although it is complete.
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


def at_once(storage: Storage, call: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """The results of `call` for all items, in their order. On an object store and on HDFS the calls run concurrently.

    Raises:
        HudiError: the first error of `call`.
    """
    if not isinstance(itself(storage), (ObjectStorage, HdfsStorage)) or len(items) < 2:  # one needs no thread
        return [call(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(READS_AT_ONCE, len(items))) as pool:
        return list(pool.map(call, items))
