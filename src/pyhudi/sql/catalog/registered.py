"""Tables in the session catalog: registered under a name in the form of JVM Hudi, which finds them there, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from pyhudi.config.enums import TableType
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import ConfigError
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.sql.catalog.columns import ddl_of, parsed, with_meta_columns
from pyhudi.sql.catalog.driver_entries import KNOWN_FORMAT, make_entry, replace_columns
from pyhudi.sql.catalog.session_tables import CatalogTable, facts_of
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.quoting import quoted_name, quoted_text
from pyhudi.storage.options import select_storage_options
from pyhudi.storage.secrets import is_secret

_HUDI = "hudi"


@dataclass(frozen=True)
class Registration:
    """What the catalog is told of a table. Without a location, the catalog chooses it, and owns the folder."""

    name: tuple[str, ...]
    schema: StructType
    partition_fields: tuple[str, ...] = ()
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] | None = None

    def statement(self, provider: str) -> str:
        """The statement for Spark."""
        clauses = [
            f"CREATE TABLE {quoted_name(*self.name)} ({ddl_of(with_meta_columns(self.schema))}) USING {provider}",
            f"PARTITIONED BY ({', '.join(map(quoted_name, self.partition_fields))})" if self.partition_fields else "",
            f"LOCATION {quoted_text(self.location)}" if self.location is not None else "",
            f"COMMENT {quoted_text(self.comment)}" if self.comment is not None else "",
            f"TBLPROPERTIES ({property_list(self.properties)})" if self.properties else "",
        ]
        return " ".join(clause for clause in clauses if clause)

    def register(self, spark: SparkSession) -> None:
        """Make the entry in the catalog."""
        if HAS_PYTHON_SOURCES:
            plain_sql(spark, self.statement(_HUDI))
        else:
            make_entry(spark, self.statement(KNOWN_FORMAT), _HUDI)


def check_no_credentials(properties: Mapping[str, str]) -> None:
    """Raise `ConfigError` if properties hold credentials of a store: the catalog shows them to whoever may ask it."""
    secret = tuple(name for name in select_storage_options(properties) if is_secret(name))
    if secret:
        raise ConfigError(
            "the catalog shows the properties of a table to its users: give credentials to the session"
            " (spark.hadoop.fs.…), not to the table",
            properties=secret,
        )


def property_list(properties: Mapping[str, str]) -> str:
    """Properties as statements list them."""
    return ", ".join(f"{quoted_text(name)} = {quoted_text(value)}" for name, value in properties.items())


def properties_of(config: TableConfig) -> dict[str, str]:
    """What JVM Hudi stores in the catalog of a table: its type, and the fields of its keys and of its order."""
    found = {"type": "mor" if config.table_type is TableType.MERGE_ON_READ else "cow"}
    if config.record_key_fields:
        found["primaryKey"] = ",".join(config.record_key_fields)
    if config.ordering_fields:
        found["orderingFields"] = ",".join(config.ordering_fields)
    return found


def catalog_schema(spark: SparkSession, entry: CatalogTable) -> StructType:
    """The columns of a table as the catalog has them, with their comments."""
    fields = []
    for row in plain_sql(spark, f"DESCRIBE TABLE {entry.quoted}").collect():
        if not row["col_name"] or row["col_name"].startswith("#"):
            break
        kind = parsed(f"`value` {row['data_type']}").fields[0].dataType
        fields.append(StructField(row["col_name"], kind, metadata=_comment(row["comment"])))
    return StructType(fields)


def _comment(text: str | None) -> dict[str, str]:
    return {} if text is None else {"comment": text}


def catalog_facts(spark: SparkSession, entry: CatalogTable) -> dict[str, str]:
    """What the catalog shows of a table, by name: location, provider, properties, and more."""
    where = f"IN {quoted_name(entry.database)} LIKE {quoted_text(entry.table)}"
    rows = plain_sql(spark, f"SHOW TABLE EXTENDED {where}").collect()
    [information] = [row["information"] for row in rows if row["tableName"].lower() == entry.table.lower()]
    return facts_of(information)


def with_columns_of(spark: SparkSession, entry: CatalogTable, schema: StructType, comments: Mapping[str, str]) -> None:
    """Give the entry of a table these columns, with new comments, and those that the columns have there already."""
    previous = {field.name: field.metadata for field in catalog_schema(spark, entry).fields}
    columns = [
        StructField(field.name, field.dataType, metadata=_comment(comments.get(field.name)) or previous.get(field.name))
        for field in with_meta_columns(schema).fields
    ]
    if not HAS_PYTHON_SOURCES:
        return replace_columns(spark, entry.database, entry.table, columns)
    plain_sql(spark, f"ALTER TABLE {entry.quoted} REPLACE COLUMNS ({ddl_of(StructType(columns))})")
    return None
