"""The indexes that tag rows. Each runs through `tests/unit/index/test_conformance.py`; a new one is one line here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.tables import MOR


@dataclass(frozen=True)
class IndexCase:
    """An index as a user asks for it.

    `options`: of every write. `is_global`: a key is unique in the whole table. `moves_by`: for a global index the
    option that says whether a record moves with its partition path. `kinds`: the table types that it works on.
    `clusters`: whether such a table can be clustered. `counts_logs`: whether rows in logs are counted as new or not.
    """

    name: str
    options: Mapping[str, str] = field(hash=False)
    is_global: bool = False
    moves_by: str | None = None
    kinds: tuple[str, ...] = ("cow", "mor")
    clusters: bool = True
    counts_logs: bool = True

    def __str__(self) -> str:
        return self.name

    def of(self, kind: str, **more: str) -> dict[str, str]:
        """The options of a table of this type that is written with the index."""
        return {**(MOR if kind == "mor" else {}), **self.options, **more}


class DictIndex:
    """An index of a user's own: a dictionary of this process."""

    def __init__(self) -> None:
        self.entries: dict[bytes, set[bytes]] = {}

    def get(self, keys: Sequence[bytes]) -> list[set[bytes]]:
        return [self.entries.get(key, set()) for key in keys]

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        for key, entry in zip(keys, entries, strict=True):
            self.entries.setdefault(key, set()).add(entry)

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        for key, entry in zip(keys, entries, strict=True):
            self.entries.get(key, set()).discard(entry)


def _by_type(name: str, **of: str | bool) -> IndexCase:
    return IndexCase(name, {"hoodie.index.type": name}, **of)  # type: ignore[arg-type]


_FOLDER = tempfile.TemporaryDirectory(prefix="pyhudi-index-")

INDEXES: tuple[IndexCase, ...] = (
    _by_type("SIMPLE"),
    _by_type("BLOOM"),
    IndexCase(
        "BLOOM-metadata",
        {
            "hoodie.index.type": "BLOOM",
            "hoodie.bloom.index.use.metadata": "true",
            "hoodie.metadata.index.bloom.filter.enable": "true",
            "hoodie.metadata.index.bloom.filter.file.group.count": "2",
        },
        kinds=("cow",),
    ),
    _by_type("GLOBAL_SIMPLE", is_global=True, moves_by="hoodie.simple.index.update.partition.path"),
    _by_type("GLOBAL_BLOOM", is_global=True, moves_by="hoodie.bloom.index.update.partition.path"),
    _by_type("INMEMORY"),
    IndexCase(
        "BUCKET",
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
        clusters=False,
        counts_logs=False,
    ),
    IndexCase(
        "HBASE",
        {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{_FOLDER.name}/keys.db"},
        is_global=True,
        moves_by="hoodie.hbase.index.update.partition.path",
    ),
    IndexCase(
        "RECORD_INDEX",
        {
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.metadata.record.index.min.filegroup.count": "3",
        },
        is_global=True,
        moves_by="hoodie.record.index.update.partition.path",
    ),
    IndexCase("own", {"hoodie.index.class": "tests.support.indexes:DictIndex"}),
    IndexCase(
        "own-global",
        {"hoodie.index.class": "tests.support.indexes.DictIndex", "hoodie.index.type": "GLOBAL_SIMPLE"},
        is_global=True,
        moves_by="hoodie.simple.index.update.partition.path",
        kinds=("mor",),
    ),
)

if _HBASE := os.environ.get("PYHUDI_HBASE"):
    # Set by the tests of HBase, which start one: `tests/interop/test_hbase.py`.
    INDEXES += (
        IndexCase(
            "HBASE-thrift",
            {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"{_HBASE}/conformance"},
            is_global=True,
            moves_by="hoodie.hbase.index.update.partition.path",
        ),
    )

CASES = tuple((index, kind) for index in INDEXES for kind in index.kinds)
GLOBAL_CASES = tuple((index, kind) for index, kind in CASES if index.is_global)
