"""A catalog in memory, which counts its requests and may lose its connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyhudi.catalogs.protocol import CatalogPartition, CatalogTable
from pyhudi.errors import CatalogError


@dataclass
class MemoryCatalog:
    """See `Catalog`. `calls`: what was asked, in order. `dies_at`: the call, counted from 1, that fails unheard."""

    databases: set[str] = field(default_factory=set)
    tables: dict[tuple[str, str], CatalogTable] = field(default_factory=dict)
    stored: dict[tuple[str, str], dict[tuple[str, ...], str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    dies_at: int | None = None
    batch_max: int = 1000

    def has_database(self, name: str) -> bool:
        self._called("has_database")
        return name in self.databases

    def create_database(self, name: str) -> None:
        self._called("create_database")
        self.databases.add(name)

    def find_table(self, database: str, name: str) -> CatalogTable | None:
        self._called("find_table")
        return self.tables.get((database, name))

    def create_table(self, table: CatalogTable) -> None:
        self._called("create_table")
        assert (table.database, table.name) not in self.tables
        self.tables[table.database, table.name] = table
        self.stored[table.database, table.name] = {}

    def replace_table(self, table: CatalogTable, *, columns_of_partitions: bool) -> None:
        self._called("replace_table with columns of partitions" if columns_of_partitions else "replace_table")
        assert (table.database, table.name) in self.tables
        self.tables[table.database, table.name] = replace(table)

    def partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None) -> list[CatalogPartition]:
        self._called("all partitions" if values is None else f"{len(values)} partitions")
        stored = self.stored[table.database, table.name]
        asked = stored if values is None else [one for one in values if one in stored]
        return [CatalogPartition(one, stored[one]) for one in asked]

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._called(f"add {len(partitions)}")
        for one in partitions:
            self.stored[table.database, table.name].setdefault(one.values, one.location)

    def move_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._called(f"move {len(partitions)}")
        self.stored[table.database, table.name].update({one.values: one.location for one in partitions})

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        self._called(f"drop {len(values)}")
        for one in values:
            self.stored[table.database, table.name].pop(one, None)

    def close(self) -> None:
        self.calls.append("close")

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if len(self.calls) == self.dies_at:
            raise CatalogError("the connection was lost")
