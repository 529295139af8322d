"""Making a table and its entry in the session catalog: the Hudi table first, so that no name leads to nothing.

Only where the catalog chooses the folder (a managed table), the entry comes first, and goes again if the table cannot
be made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.table_config import check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.environment import SYSTEM
from pyhudi.errors import SchemaMismatchError, TableExistsError, TableNotFoundError
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.spark.options import with_session_store
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.sql.catalog.columns import nullable, own_name, with_last
from pyhudi.sql.catalog.registered import Registration, check_no_credentials, properties_of
from pyhudi.sql.catalog.session_tables import session_tables
from pyhudi.sql.catalog.table_properties import hudi_options, session_options
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.quoting import quoted_name
from pyhudi.storage.open import open_storage
from pyhudi.table.state import table_exists
from pyhudi.write.create import removed_on_failure

_KEY, _PARTITION = "hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.partitionpath.field"
_ORDER = "hoodie.table.ordering.fields"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_DEFAULTS = {"hoodie.datasource.write.hive_style_partitioning": "true"}
"""What SQL does unless a property says otherwise, other than a write by DataFrame."""


@dataclass(frozen=True)
class NewTable:
    """A table to be made, as a statement or a writer describes it.

    `options` are Hudi's, for this call: the catalog does not store them.
    """

    name: tuple[str, ...]
    schema: StructType | None
    partition_fields: tuple[str, ...] = ()
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    rows: DataFrame | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def put_in_catalog(spark: SparkSession, new: NewTable, *, if_not_exists: bool = False) -> None:
    """Make the table that is described, with its rows, or register the one that is in the folder.

    Raises:
        TableExistsError: the catalog has the name; or the folder a table, and there are rows.
        TableNotFoundError: the folder has no table, and there are no columns to make one of.
        SchemaMismatchError: the folder has a table with other columns, or a column is named that there is not.
        ConfigError: a property is a credential, which the catalog would show.
    """
    check_no_credentials(new.properties)
    if len(new.name) == 1:  # the name of a database is never that of a temporary view
        new = replace(new, name=(spark.catalog.currentDatabase(), *new.name))
    if session_tables(spark).find(new.name[-2], new.name[-1]) is not None:
        if if_not_exists:
            return
        raise TableExistsError("the catalog has a table of this name already", table=".".join(new.name))
    location = _given_location(spark, new)
    if location is None:
        _managed(spark, _arranged(new))
        return
    options = with_session_store(spark, location, {**session_options(spark), **new.options})
    if table_exists(open_storage(location, options)):
        if new.rows is not None:
            raise TableExistsError("there is a Hudi table in this folder already", path=location)
        _registration_of(spark, new, location).register(spark)
        return
    new = _arranged(new)
    with _made(spark, new, location) as made:
        _registration(made, new, location).register(spark)


def _given_location(spark: SparkSession, new: NewTable) -> str | None:
    """The folder that is named; a relative one is in the folder of the database, where Spark's catalog looks for it."""
    given = new.location or new.properties.get("path")
    if given is None or _ABSOLUTE.match(given):
        return given
    return f"{spark.catalog.getDatabase(quoted_name(new.name[-2])).locationUri.rstrip('/')}/{given}"


def _managed(spark: SparkSession, new: NewTable) -> None:
    """The catalog chooses the folder, so that its entry is first."""
    assert new.schema is not None
    properties = _catalog_properties(new)
    Registration(new.name, new.schema, new.partition_fields, None, new.comment, properties).register(spark)
    try:
        with _made(spark, new, _chosen_location(spark, new.name)):
            pass
    except BaseException:
        plain_sql(spark, f"DROP TABLE IF EXISTS {quoted_name(*new.name)}")
        raise


def _chosen_location(spark: SparkSession, name: tuple[str, ...]) -> str:
    entry = session_tables(spark).find(name[-2], name[-1])
    if entry is None or entry.location is None:
        raise TableNotFoundError("the catalog has no folder for the table", table=".".join(name))
    return entry.location


def _arranged(new: NewTable) -> NewTable:
    """The table with its partition columns at the end, and columns named as they are spelled.

    Columns of a query take nulls, as in JVM Hudi and in Spark's own tables: that its rows have none says nothing of
    those to come.

    Raises `TableNotFoundError` where there are no columns.
    """
    if new.schema is None:
        raise TableNotFoundError(
            "there is no Hudi table in this folder, and the statement has no columns to make one of", path=new.location
        )
    schema = StructType([field for field in new.schema.fields if field.name not in META_COLUMNS])
    partition_fields = tuple(own_name(schema, name, "the partition column") for name in new.partition_fields)
    schema = with_last(schema if new.rows is None else nullable(schema), partition_fields)
    rows = None if new.rows is None else new.rows.select(*map(quoted_name, schema.names))
    return replace(new, schema=schema, partition_fields=partition_fields, rows=rows)


def _table_options(spark: SparkSession, new: NewTable, location: str) -> dict[str, str]:
    """Hudi's options for the new table: the statement's over those of the session, over what SQL does by default."""
    assert new.schema is not None
    named: dict[str, str] = {"hoodie.table.name": new.name[-1], "hoodie.database.name": new.name[-2].lower()}
    own = {**new.options, **hudi_options(new.properties)}
    for key, what in ((_KEY, "the record key"), (_ORDER, "the ordering field")):
        if own.get(key):
            own[key] = ",".join(_column(new.schema, name, what) for name in own[key].split(","))
    if new.partition_fields and _PARTITION not in own:
        named[_PARTITION] = ",".join(new.partition_fields)
    return with_session_store(spark, location, {**_DEFAULTS, **session_options(spark), **named, **own})


def _column(schema: StructType, name: str, what: str) -> str:
    """A column as the table spells it; one inside another column is left as it is written."""
    return name.strip() if "." in name else own_name(schema, name.strip(), what)


@contextmanager
def _made(spark: SparkSession, new: NewTable, location: str) -> Iterator[HudiTable]:
    """Make the Hudi table and write its rows; remove it again if that, or the block, fails."""
    assert new.schema is not None
    options = _table_options(spark, new, location)
    made = HudiTable.create(location, schema=arrow_schema(new.schema), hudi_options=options)
    config = WriteConfig.from_options(options)
    with removed_on_failure(made.handle.state.storage, config, SYSTEM, created=True):
        given = {**session_options(spark), **new.options}
        table = HudiTable.for_path(location, hudi_options=with_session_store(spark, location, given))
        result = None if new.rows is None else table.bulk_insert(new.rows)
        written = result.instant if result is not None and result.has_committed else None
        try:
            yield table
        except BaseException:
            if written is not None:
                _take_back(table.refresh(), written)
            raise


def _take_back(table: HudiTable, written: str) -> None:
    """Roll the only write of a new table back, so that the table can be removed. Others' writes stay, and the table."""
    if [write.requested_time for write in table.handle.state.timeline.completed_writes] == [written]:
        table.recovery.rollback(written)


def _catalog_properties(new: NewTable) -> dict[str, str]:
    given = {name: value for name, value in new.properties.items() if name.lower() not in ("path", "type")}
    kind = next((value for name, value in new.properties.items() if name.lower() == "type"), "cow")
    order = next((value for name, value in new.properties.items() if name.lower() == "precombinefield"), None)
    return {**given, "type": kind.lower(), **({} if order is None else {"orderingFields": order})}


def _registration(made: HudiTable, new: NewTable, location: str) -> Registration:
    assert new.schema is not None
    properties = {**_catalog_properties(new), **properties_of(made.handle.state.config)}
    return Registration(new.name, new.schema, new.partition_fields, location, new.comment, properties)


def _registration_of(spark: SparkSession, new: NewTable, location: str) -> Registration:
    """The entry of a table that is in the folder already. What the statement says must hold for it."""
    options = with_session_store(spark, location, session_options(spark))
    table = HudiTable.for_path(location, hudi_options=options)
    config = table.handle.state.config
    check_against_table(WriteConfig.from_options({**options, **hudi_options(new.properties)}), config)
    schema = spark_schema(table.schema)
    fields = tuple(config.partition_fields or ())
    given = tuple(name.lower() for name in new.partition_fields)
    if given and given != tuple(name.lower() for name in fields):
        raise SchemaMismatchError("the table in this folder has other partitions", path=location, partition_by=fields)
    if new.schema is not None:
        _check_same_columns(new.schema, schema, location)
    properties = {**{name: value for name, value in new.properties.items() if name != "path"}, **properties_of(config)}
    return Registration(new.name, with_last(schema, fields), fields, location, new.comment, properties)


def _check_same_columns(given: StructType, there: StructType, location: str) -> None:
    kinds = [
        {
            (field.name.lower(), field.dataType.simpleString())
            for field in schema.fields
            if field.name not in META_COLUMNS
        }
        for schema in (given, there)
    ]
    if kinds[0] != kinds[1]:
        raise SchemaMismatchError(
            "the table in this folder has other columns: leave the list of columns out",
            path=location,
            columns=there.simpleString(),
        )
