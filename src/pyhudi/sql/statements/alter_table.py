"""`ALTER TABLE`: columns, properties, partitions and the name of a table; first the table, then its entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import TableExistsError, UnsupportedFeatureError
from pyhudi.format.properties import table_checksum
from pyhudi.services.cdc.switch import CDC_ENABLED_KEY, LOGGING_MODE_KEY
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.catalog.partitions import Spec, drop_partitions
from pyhudi.sql.catalog.registered import check_no_credentials, property_list
from pyhudi.sql.catalog.session_tables import CatalogTable
from pyhudi.sql.catalog.table_properties import hudi_options
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.statements.alter_columns import parse_columns
from pyhudi.sql.statements.protocol import Statement, no_rows
from pyhudi.sql.statements.target import target_table
from pyhudi.sql.text.clauses import partition_values, properties, property_name
from pyhudi.sql.text.quoting import quoted_name, quoted_text
from pyhudi.sql.text.tokens import Cursor, Name
from pyhudi.table.state import update_properties
from pyhudi.transaction.locks.table_lock import table_lock

_FIXED = ("primarykey", "type", "orderingfields", "precombinefield", "path", "provider")


@dataclass(frozen=True)
class Rename:
    """Another name in the catalog, and in the table's own properties."""

    table: NamedTable
    entry: CatalogTable
    to: Name

    def run(self, spark: SparkSession) -> DataFrame:
        """Rename the table, and then its entry, whose folder moves with it if the catalog chose it.

        If this process dies between the two, the table still has its old name in the catalog, and works under it: the
        same statement again does the rest.

        Raises:
            TableExistsError: the catalog has a table of the new name.
        """
        target = self.to.parts if len(self.to.parts) > 1 else (self.entry.database, self.to.parts[-1])
        if Names(spark).exists(Name(target, 0, 0)):
            raise TableExistsError("the catalog has a table of this name already", table=".".join(target))
        previous = self._name_table(spark, target[-1])
        try:
            plain_sql(spark, f"ALTER TABLE {self.entry.quoted} RENAME TO {quoted_name(*target[-2:])}")
        except Exception:
            self._name_table(spark, previous)
            raise
        return no_rows(spark)

    def _name_table(self, spark: SparkSession, name: str) -> str:
        """Give the table another name in its own properties; what it was called."""
        handle = self.table.open(spark).handle
        call = handle.service_call(None, call="rename")
        config = handle.state.config
        changes = {"hoodie.table.name": name, "hoodie.table.checksum": str(table_checksum(config.database, name))}
        with table_lock(handle.state.storage, call.environment, wait_ms=call.config.concurrency.lock_wait_ms):
            update_properties(handle.state.storage, changes)
        return config.name


@dataclass(frozen=True)
class SetProperties:
    """Properties in the catalog: Hudi's options among them hold for all statements on the table.

    Whether it captures its changes is a property of the table itself, too.
    """

    table: NamedTable
    entry: CatalogTable
    values: Mapping[str, str]

    def run(self, spark: SparkSession) -> DataFrame:
        """Set them."""
        options = hudi_options(self.values)
        check_no_credentials(self.values)
        _switch_capture(self.table, options, spark)
        plain_sql(spark, f"ALTER TABLE {self.entry.quoted} SET TBLPROPERTIES ({property_list(self.values)})")
        return no_rows(spark)


@dataclass(frozen=True)
class UnsetProperties:
    """Properties that leave the catalog. Without `hoodie.table.cdc.enabled` a table does not capture its changes."""

    table: NamedTable
    entry: CatalogTable
    names: tuple[str, ...]

    def run(self, spark: SparkSession) -> DataFrame:
        """Unset them."""
        if CDC_ENABLED_KEY in self.names:
            _switch_capture(self.table, {CDC_ENABLED_KEY: "false"}, spark)
        listed = ", ".join(map(quoted_text, self.names))
        plain_sql(spark, f"ALTER TABLE {self.entry.quoted} UNSET TBLPROPERTIES IF EXISTS ({listed})")
        return no_rows(spark)


def _switch_capture(named: NamedTable, options: Mapping[str, str], spark: SparkSession) -> None:
    """Switch the capture of changes as properties say that are set now; those that the table has hold for the rest."""
    if not options.keys() & {CDC_ENABLED_KEY, LOGGING_MODE_KEY}:
        return
    table = named.open(spark)
    asked = WriteConfig.from_options({**table.handle.options, **options}).table
    is_on = table.handle.state.config.cdc_enabled
    if asked.cdc_enabled or (asked.cdc_enabled is None and is_on):
        table.alter.capture_changes(asked.change_data_mode and asked.change_data_mode.value)
    elif is_on:
        table.alter.stop_capturing_changes()


@dataclass(frozen=True)
class DropPartitions:
    """Partitions that leave the table, with their rows, in one commit."""

    table: NamedTable
    partitions: tuple[Spec, ...]

    def run(self, spark: SparkSession) -> DataFrame:
        """Drop those that there are."""
        drop_partitions(spark, self.table.open(spark), self.partitions)
        return no_rows(spark)


@dataclass(frozen=True)
class Nothing:
    """A statement without an effect on a Hudi table: its partitions are those that have rows, and need no entries."""

    table: NamedTable

    def run(self, spark: SparkSession) -> DataFrame:
        """Check that the table is there."""
        self.table.open(spark)
        return no_rows(spark)


def parse(cursor: Cursor, names: Names) -> Statement:
    """`ALTER TABLE name …`."""
    cursor.expect("ALTER", "TABLE")
    table = target_table(cursor, names)
    if table.entry is None and not cursor.peek("DROP"):
        cursor.fail("a table that is named by its path has no entry in the catalog: only DROP PARTITION is possible")
    word = cursor.one_of("ADD", "DROP", "RENAME", "SET", "UNSET", "RECOVER", "ALTER", "CHANGE", "REPLACE")
    if word == "DROP" and (cursor.peek("PARTITION") or cursor.peek("IF", "EXISTS", "PARTITION")):
        return DropPartitions(table, _partitions(cursor))
    if word == "RECOVER" or (word == "ADD" and (cursor.peek("PARTITION") or cursor.peek("IF", "NOT"))):
        return Nothing(table)
    assert table.entry is not None
    if word == "RENAME" and cursor.accept("TO"):
        to = cursor.name()
        cursor.end()
        return Rename(table, table.entry, to)
    if word in ("SET", "UNSET"):
        return _properties(cursor, table, table.entry, word)
    return parse_columns(cursor, table, table.entry, word)


def _partitions(cursor: Cursor) -> tuple[Spec, ...]:
    cursor.accept("IF", "EXISTS")
    found: list[Spec] = []
    while cursor.accept("PARTITION"):
        found.append(partition_values(cursor))
        cursor.accept(",")
    cursor.accept("PURGE")
    cursor.end()
    return tuple(found)


def _properties(cursor: Cursor, table: NamedTable, entry: CatalogTable, word: str) -> Statement:
    if not cursor.accept("TBLPROPERTIES"):
        cursor.fail("TBLPROPERTIES is expected: the folder of a Hudi table cannot change", known=["TBLPROPERTIES"])
    if word == "SET":
        values = properties(cursor)
        cursor.end()
        _check_free(values)
        return SetProperties(table, entry, values)
    cursor.accept("IF", "EXISTS")
    names = []
    for part in cursor.parenthesised().listed():
        names.append(property_name(part))
        part.end()
    cursor.end()
    _check_free(names)
    return UnsetProperties(table, entry, tuple(names))


def _check_free(names: Mapping[str, str] | list[str]) -> None:
    for name in names:
        if name.lower() in _FIXED:
            raise UnsupportedFeatureError(f"{name} cannot change: files of the table are made with it", property=name)
