"""`table.catalog`: the entries of the table in a catalog; and tables by the names that catalogs give them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.api.handle import TableHandle
from pyhudi.catalogs.entries import PATH, READ_OPTIMIZED
from pyhudi.catalogs.measured_sync import sync_measured
from pyhudi.catalogs.open import opened_catalog
from pyhudi.catalogs.sync import sync_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, TableNotFoundError
from pyhudi.format.schema.result_tables import table_of

_URIS = "hoodie.datasource.hive_sync.metastore.uris"
_KIND = "hoodie.meta.sync.client.tool.class"
_ENABLED = "hoodie.datasource.meta.sync.enable"


@dataclass(frozen=True)
class Catalog:
    """The table in a catalog: a Hive metastore, or AWS Glue. `HudiTable.catalog` makes it.

    Options say which catalog, and how the entries look (`hoodie.datasource.hive_sync.*`). Entries are those of JVM
    Hudi's sync, so that its readers find the table by name. The same sync runs after each write with
    `hoodie.datasource.hive_sync.enable`.
    """

    _handle: TableHandle = field(repr=False)

    def sync(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """Make the catalog right as of the newest write: columns, properties, partitions, and then the stamp.

        Columns: database, table, created, altered (whether the entry was), added, moved and dropped (how many
        partitions were), listed_all (whether all partitions were compared, not only those written since the stamp).
        One row per entry: three for a merge-on-read table.

        Raises:
            CatalogError: the catalog refuses, or does not answer. The next sync goes on from there.
            ConfigError: an option is not legal, or paths of partitions do not fit the partition columns.
            InvalidRequestError: the table has no columns yet.
            UnsupportedFeatureError: a package is missing; says which.

        Cost: of the first sync a listing of the table and all partitions of the entry; then a read per write since the
        last sync, and a listing per partition that these wrote. Three requests to the catalog, and one for each batch
        of partitions that changed.
        """
        return self._run(hudi_options, call="sync", dry_run=False)

    def plan_sync(self, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """What `sync` would change, in the same columns. Nothing is written. Raises and costs as `sync`."""
        return self._run(hudi_options, call="plan_sync", dry_run=True)

    def _run(self, hudi_options: HudiOptions | None, *, call: str, dry_run: bool) -> pa.Table:
        config = WriteConfig.from_options(self._handle.options_of_call(hudi_options, call=call))
        table = self._handle.state.reload()
        if dry_run:
            with opened_catalog(config.catalog) as catalog:
                done = sync_table(table, catalog, config.catalog, dry_run=True)
        else:
            done = sync_measured(table, config)
        columns = (
            "database string, table string, created bool, altered bool, added int64, moved int64, dropped int64, "
            "listed_all bool"
        )
        return table_of(columns, (asdict(synced) for synced in done))


def place_of(name: str, catalog: str | None, hudi_options: HudiOptions | None) -> tuple[str, dict[str, str]]:
    """Where the table of a name is, and the options with which it is opened.

    `catalog`: `thrift://host:port`, or `glue`; None: as the options say.
    """
    options = {**known_options(hudi_options, call="for_name"), **_catalog_options(catalog)}
    database, _, table = name.rpartition(".")
    if not table or "." in database:
        raise ConfigError("the name of a table is database.table, or table in the database of the options", name=name)
    config = WriteConfig.from_options(options).catalog
    database = database or config.database
    with opened_catalog(config) as opened:
        entry = opened.find_table(database.lower(), table.lower())
    if entry is None or entry.parameters.get("spark.sql.sources.provider", "hudi").lower() != "hudi":
        kind = "table" if entry is None else "Hudi table"
        raise TableNotFoundError(f"the catalog has no {kind} of this name", name=f"{database}.{table}")
    if entry.serde_parameters.get(READ_OPTIMIZED) == "true":
        options.setdefault(READ_OPTIMIZED, "true")
    return entry.serde_parameters.get(PATH) or entry.location, options


def _catalog_options(catalog: str | None) -> dict[str, str]:
    if catalog is None:
        return {}
    if catalog == "glue":
        return {_KIND: "AwsGlueCatalogSyncTool", _ENABLED: "true"}
    return {_KIND: "HiveSyncTool", _URIS: catalog}
