"""Rules for the number of buckets of partitions that a procedure of JVM Hudi made: files that pyhudi does not read."""

from __future__ import annotations

from typing import Final

from pyhudi.storage.protocol import Storage

HASHING_CONFIG_FOLDER: Final = ".hoodie/.hashing_meta"


def has_hashing_config(storage: Storage) -> bool:
    """Whether a table has such rules. Cost: a listing."""
    return bool(storage.list_names(HASHING_CONFIG_FOLDER))
