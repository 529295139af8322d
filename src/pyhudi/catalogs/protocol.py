"""`Catalog`: what the sync needs of a catalog, and the entries of tables and partitions that it deals in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of an entry: its name, Hive's type of it, and its comment."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """The classes of Hive that read and write the files of an entry."""

    input_format: str
    output_format: str
    serde: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """The entry of a table. `stored`: the catalog's own object, so that a change keeps what pyhudi does not know."""

    database: str
    name: str
    location: str
    columns: tuple[CatalogColumn, ...]
    partition_columns: tuple[CatalogColumn, ...]
    format: StorageFormat
    serde_parameters: Mapping[str, str]
    parameters: Mapping[str, str]
    stored: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """The entry of a partition: the values of the partition columns, and its folder."""

    values: tuple[str, ...]
    location: str


class Catalog(Protocol):
    """A catalog of databases and tables. All calls raise `CatalogError` where it refuses, or does not answer."""

    batch_max: int
    """How many partitions one request may add or move."""

    def has_database(self, name: str) -> bool:
        """Whether there is a database of this name."""
        ...

    def create_database(self, name: str) -> None:
        """Make a database; one that is there already stays as it is."""
        ...

    def find_table(self, database: str, name: str) -> CatalogTable | None:
        """The entry of a table; None if there is none."""
        ...

    def create_table(self, table: CatalogTable) -> None:
        """Make an entry."""
        ...

    def replace_table(self, table: CatalogTable, *, columns_of_partitions: bool) -> None:
        """Change an entry that `find_table` gave.

        `columns_of_partitions`: give all its partitions the columns of the table as well; their locations stay.
        """
        ...

    def partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None) -> list[CatalogPartition]:
        """The partitions with these values, or all; those that are not there are left out."""
        ...

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions with the columns and the format of the table; those that are there already stay."""
        ...

    def move_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give partitions that are there another location, and the columns and the format of the table."""
        ...

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Drop entries of partitions; those that are not there are passed over. No file is deleted."""
        ...

    def close(self) -> None:
        """Give connections back."""
        ...
