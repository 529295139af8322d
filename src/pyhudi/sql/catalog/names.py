"""Names of tables in statements: which of them are Hudi tables, and where these are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from pyhudi.api.hudi_table import HudiTable
from pyhudi.spark.enable import FORMATS
from pyhudi.spark.options import with_session_store
from pyhudi.sql.catalog.session_tables import SESSION_CATALOG, CatalogTable, SessionTables, session_tables
from pyhudi.sql.catalog.table_properties import session_options
from pyhudi.sql.text.quoting import quoted_name
from pyhudi.sql.text.tokens import Name

PATH_NAMESPACE: Final = "hudi"
"""Of names that are paths."""


class NotHudi(Exception):  # noqa: N818 - not an error: the statement is Spark's
    """A statement is about something else than a Hudi table, and goes to Spark unchanged."""


@dataclass(frozen=True)
class NamedTable:
    """A Hudi table that a statement names.

    Attributes:
        name: the name as the statement has it.
        location: the table's folder.
        entry: what the session catalog knows of it; None for a path: ``hudi.`/path` ``.
    """

    name: Name
    location: str
    entry: CatalogTable | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def quoted(self) -> str:
        """The name in backticks, for texts of SQL."""
        return quoted_name(*self.name.parts)

    @property
    def full_name(self) -> tuple[str, ...]:
        """The name under which the table is found from everywhere: that of the session catalog, or the path."""
        parts = self.name.parts
        return parts if self.entry is None else (SESSION_CATALOG, self.entry.database, self.entry.table)

    @property
    def full_names(self) -> tuple[tuple[str, ...], ...]:
        """The names by which statements may call the table, in lower case: as this one does, and the catalog."""
        own = tuple(part.lower() for part in self.name.parts)
        if self.entry is None:
            return (own,)
        listed = (self.entry.database.lower(), self.entry.table.lower())
        return tuple({own: None, listed: None, (SESSION_CATALOG, *listed): None})

    def called(self, alias: str | None) -> dict[tuple[str, ...], str]:
        """The names of several parts that columns may have before them, with that of the rows; none with an `alias`."""
        last = self.name.parts[-1]
        return {} if alias is not None else {parts: last for parts in self.full_names if len(parts) > 1}

    def options(self, spark: SparkSession, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Hudi's options for this table: those `given`, over those of the session, over those of the catalog."""
        of_catalog = {name: text for name, text in self.properties.items() if name.lower().startswith("hoodie.")}
        return with_session_store(spark, self.location, {**of_catalog, **session_options(spark), **(given or {})})

    def open(self, spark: SparkSession, given: Mapping[str, str] | None = None) -> HudiTable:
        """The table, with the options of catalog and session.

        Raises:
            TableNotFoundError: the catalog knows the table, and there is none in its folder.
        """
        return HudiTable.for_path(self.location, hudi_options=self.options(spark, given), spark=spark)


class Names:
    """The tables of one session, by name. Each name is looked up once for a statement.

    `namespace`: that of names of one part; the current one if it is empty.
    """

    def __init__(self, spark: SparkSession, namespace: tuple[str, ...] = ()) -> None:
        self.spark = spark
        self._namespace = namespace
        self.tables: SessionTables = session_tables(spark)
        self._known: dict[tuple[str, ...], NamedTable | None] = {}

    def table(self, name: Name) -> NamedTable:
        """The Hudi table of a name.

        Raises:
            NotHudi: there is none of this name, or it has another format.
        """
        found = self.find(name)
        if found is None:
            raise NotHudi(str(name))
        return found

    def find(self, name: Name) -> NamedTable | None:
        """The Hudi table of a name; None where there is none of this name, or it has another format."""
        key = tuple(part.lower() for part in name.parts)
        if key not in self._known:
            self._known[key] = self._look_up(name)
        return self._known[key]

    @property
    def has_found(self) -> bool:
        """Whether a name that was asked for is that of a Hudi table."""
        return any(self._known.values())

    def exists(self, name: Name) -> bool:
        """Whether the session's own catalog has a table of this name, in whatever format."""
        return self.tables.find(name.parts[-2] if len(name.parts) > 1 else None, name.parts[-1]) is not None

    def _look_up(self, name: Name) -> NamedTable | None:
        parts = (*self._namespace, *name.parts) if len(name.parts) == 1 else name.parts
        if is_path(parts):
            return NamedTable(name, parts[1])
        if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != SESSION_CATALOG):
            return None
        database = parts[-2] if len(parts) > 1 else None
        entry = self.tables.find(database, parts[-1], in_session_catalog=len(parts) == 3)
        if entry is None or (entry.provider or "").lower() not in FORMATS or entry.location is None:
            return None
        return NamedTable(name, entry.location, entry, entry.properties)


def is_path(parts: tuple[str, ...]) -> bool:
    """Whether a name is a path: ``hudi.`/path` ``."""
    return len(parts) == 2 and parts[0].lower() == PATH_NAMESPACE and "/" in parts[1]
