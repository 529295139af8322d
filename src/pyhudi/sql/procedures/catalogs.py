"""Procedures about catalogs other than the session's."""

from __future__ import annotations

from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Rows, procedure, text

_OPTIONS = {
    "metastore_uri": "hoodie.datasource.hive_sync.metastore.uris",
    "mode": "hoodie.datasource.hive_sync.mode",
    "partition_fields": "hoodie.datasource.hive_sync.partition_fields",
    "partition_extractor_class": "hoodie.datasource.hive_sync.partition_extractor_class",
    "strategy": "hoodie.datasource.hive_sync.table.strategy",
}
"""The parameters that are options of the sync. User, password and `use_jdbc` are of Hive's server, which is not asked;
a sync is incremental wherever its stamp allows that."""


@procedure(
    TABLE,
    *(text(name, "") for name in ("metastore_uri", "username", "password", "use_jdbc", "mode")),
    *(text(name, "") for name in ("partition_fields", "partition_extractor_class", "strategy")),
    text("sync_incremental", ""),
    answer="result string",
)
def hive_sync(context: CallContext, given: Given) -> Rows:
    """Makes the entries of a table in a Hive metastore right as of its newest write."""
    options = {key: given.text(name) for name, key in _OPTIONS.items() if given.text_or_none(name) is not None}
    table, name = context.table(given), given.text_or_none("table")
    database, _, entry = (name or "").replace("`", "").rpartition(".")
    if entry:
        options["hoodie.datasource.hive_sync.table"] = entry
    if database:
        options["hoodie.datasource.hive_sync.database"] = database.rpartition(".")[2]
    table.catalog.sync(hudi_options=options)
    return [("success",)]
