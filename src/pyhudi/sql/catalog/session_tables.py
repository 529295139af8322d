"""Spark's session catalog: what it knows of a table. Two ways to ask: the driver's JVM, and SQL through Connect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.spark.enable import FORMATS
from pyhudi.spark.settings import is_connect
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.quoting import quoted_name, quoted_text

_SEPARATOR = "\0"
SESSION_CATALOG = "spark_catalog"
"""The name of a session's own catalog."""


@dataclass(frozen=True)
class CatalogTable:
    """What the session catalog knows of a table.

    Attributes:
        database: the database that it is in.
        table: its name there.
        provider: its format, for example `hudi`.
        location: its folder.
        managed: whether dropping it deletes the folder.
        properties: those of the table and those of its storage.
    """

    database: str
    table: str
    provider: str | None
    location: str | None
    managed: bool
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def quoted(self) -> str:
        """Its full name in backticks, for texts of SQL."""
        return quoted_name(SESSION_CATALOG, self.database, self.table)


class SessionTables(Protocol):
    """The tables of a session's own catalog."""

    def find(self, database: str | None, table: str, *, in_session_catalog: bool = False) -> CatalogTable | None:
        """The table of a name, in the current database if none is named.

        None where there is none, where a temporary view has the name, and where the current catalog is another one,
        unless the name says `in_session_catalog`.
        """
        ...


def session_tables(spark: SparkSession) -> SessionTables:
    """The tables of a session."""
    return TablesOfConnect(spark) if is_connect(spark) else TablesOfDriver(spark)


class TablesOfDriver:
    """The session catalog in the driver's JVM. Cost of a look-up: four calls to the JVM for what is no Hudi table."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def is_hudi(self, database: str, table: str) -> bool:
        """Whether this is a Hudi table. Cost: four calls to the JVM."""
        found = self._metadata(database, table)
        return found is not None and (_provider(found) or "").lower() in FORMATS

    def forget(self, database: str, table: str) -> None:
        """Have Spark look anew at what this table is."""
        classes = _classes(self._spark)
        classes.catalog.invalidateCachedTable(classes.identifier(table, classes.option.apply(database)))

    def find(self, database: str | None, table: str, *, in_session_catalog: bool = False) -> CatalogTable | None:
        """The table of a name."""
        found = self._metadata(database, table)
        name = None if found is None else _provider(found)
        if found is None or name is None:
            return None
        if name.lower() not in FORMATS:
            return CatalogTable(database or "", table, name, None, managed=False)
        if not in_session_catalog and self._current_catalog() != SESSION_CATALOG:
            return None
        uri = found.storage().locationUri()
        return CatalogTable(
            found.database(),
            found.identifier().table(),
            name,
            None if uri.isEmpty() else _location(self._spark, uri.get()),
            found.tableType().name() == "MANAGED",
            {**_mapping(found.storage().properties()), **_mapping(found.properties())},
        )

    def _current_catalog(self) -> str:
        return str(self._spark._jsparkSession.sessionState().catalogManager().currentCatalog().name())

    def _metadata(self, database: str | None, table: str) -> Any:
        """The entry in the JVM; None where there is none."""
        classes = _classes(self._spark)
        option = classes.none if database is None else classes.option.apply(database)
        identifier = classes.identifier(table, option)
        try:
            return classes.catalog.getTempViewOrPermanentTableMetadata(identifier)
        except AnalysisException:  # there is no such table, or no such database
            return None


@dataclass(frozen=True)
class _Classes:
    """What look-ups need of the JVM. Each part of a name in the JVM costs a call, so they are kept."""

    identifier: Any
    option: Any
    none: Any
    catalog: Any


_classes_of: WeakKeyDictionary[SparkSession, _Classes] = WeakKeyDictionary()


def _classes(spark: SparkSession) -> _Classes:
    if spark not in _classes_of:
        jvm = spark._jvm
        option = jvm.scala.Option
        identifier = getattr(jvm, "org.apache.spark.sql.catalyst.TableIdentifier")
        catalog = spark._jsparkSession.sessionState().catalog()
        _classes_of[spark] = _Classes(identifier, option, option.empty(), catalog)
    return _classes_of[spark]


def _provider(entry: Any) -> str | None:
    """The format of an entry of the catalog; None for a view."""
    provider = entry.provider().toString()  # `Some(hudi)`; one call less than asking whether there is one
    return provider[5:-1] if provider.startswith("Some(") else None


def _location(spark: SparkSession, uri: Any) -> str:
    """A folder as Hadoop writes it, which has no escapes."""
    written = str(uri.toString())
    return str(spark._jvm.org.apache.hadoop.fs.Path(uri).toString()) if "%" in written else written


def _mapping(found: Any) -> dict[str, str]:
    """A map of the JVM, in three calls whatever its size."""
    if found.isEmpty():
        return {}
    names = found.keys().mkString(_SEPARATOR).split(_SEPARATOR)
    return dict(zip(names, found.values().mkString(_SEPARATOR).split(_SEPARATOR), strict=True))


class TablesOfConnect:
    """The session catalog through statements of Spark Connect. Cost of a look-up: a statement."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def find(self, database: str | None, table: str, *, in_session_catalog: bool = False) -> CatalogTable | None:
        """The table of a name."""
        namespace = (*([SESSION_CATALOG] if in_session_catalog else []), *([] if database is None else [database]))
        where = f"IN {quoted_name(*namespace)} " if namespace else ""
        pattern = re.sub(r"[^\w]", ".", table)
        try:
            rows = plain_sql(self._spark, f"SHOW TABLE EXTENDED {where}LIKE {quoted_text(pattern)}").collect()
        except AnalysisException:  # there is no such database, or the current catalog is another one
            return None
        named = [row for row in rows if row["tableName"].lower() == table.lower()]
        # A temporary view hides a table from its short name alone, and is listed in each database.
        found = [row for row in named if database is None or not row["isTemporary"]]
        if len(found) != 1 or found[0]["isTemporary"]:
            return None
        facts = facts_of(found[0]["information"])
        if facts.get("Catalog") != SESSION_CATALOG or "Provider" not in facts:
            return None
        return CatalogTable(
            facts["Database"],
            facts["Table"],
            facts["Provider"],
            facts.get("Location"),
            facts.get("Type") == "MANAGED",
            _listed(facts.get("Table Properties", "[]")),
        )


def facts_of(information: str) -> dict[str, str]:
    """What `SHOW TABLE EXTENDED` says of a table, by name."""
    lines = information.partition("\nSchema: root")[0].splitlines()
    return {name: value for name, sign, value in (line.partition(": ") for line in lines) if sign}


def _listed(written: str) -> dict[str, str]:
    """Properties as Spark prints them: `[a=1, b=x,y]`."""
    pairs = re.split(r", (?=[\w.]+=)", written.strip().removeprefix("[").removesuffix("]"))
    return {name: value for name, sign, value in (pair.partition("=") for pair in pairs) if sign}
