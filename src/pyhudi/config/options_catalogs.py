"""Options of catalogs: where a table is made known by name after a write, and how its entry looks there.

Keys and defaults are those of JVM Hudi's HiveSyncTool in its mode `hms`, and of its AwsGlueCatalogSyncTool.
"""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, boolean, column_names, fixed, integer, text
from pyhudi.errors import UnsupportedFeatureError

_HIVE_PACKAGE = "org.apache.hudi.hive."


class CatalogKind(enum.Enum):
    """Catalogs. The values are classes of JVM Hudi that sync with the same one."""

    HIVE_METASTORE = "org.apache.hudi.hive.HiveSyncTool"
    GLUE = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"


class TableStrategy(enum.Enum):
    """Which entries a merge-on-read table has: read optimized, real time, or both."""

    ALL = "ALL"
    RO = "RO"
    RT = "RT"


class Extractor(enum.Enum):
    """How the path of a partition becomes the values of its entry. The values are classes of JVM Hudi."""

    MULTI_PART = f"{_HIVE_PACKAGE}MultiPartKeysValueExtractor"
    SINGLE_PART = f"{_HIVE_PACKAGE}SinglePartPartitionValueExtractor"
    HIVE_STYLE = f"{_HIVE_PACKAGE}HiveStylePartitionValueExtractor"
    SLASH_DAY = f"{_HIVE_PACKAGE}SlashEncodedDayPartitionValueExtractor"
    SLASH_HOUR = f"{_HIVE_PACKAGE}SlashEncodedHourPartitionValueExtractor"
    NONE = f"{_HIVE_PACKAGE}NonPartitionedExtractor"


_Choice = TypeVar("_Choice", bound=enum.Enum)


def _class_of(choices: type[_Choice], what: str) -> Parser[_Choice]:
    """A class of JVM Hudi, with its package or without."""
    known = {name: choice for choice in choices for name in (choice.value, choice.value.rpartition(".")[2])}
    listed = ", ".join(choice.value.rpartition(".")[2] for choice in choices)

    def read(name: str) -> _Choice:
        if name not in known:
            raise UnsupportedFeatureError(f"the {what} {name} is not supported by this release: use one of {listed}")
        return known[name]

    return Parser(read, f"one of {listed}")


def _properties(value: str) -> tuple[tuple[str, str], ...]:
    """Lines of `name=value`; a line without `=` is no property."""
    pairs = (line.split("=", 1) for line in value.splitlines() if "=" in line)
    return tuple((name.strip(), value.strip()) for name, value in pairs)


PROPERTIES = Parser(_properties, "lines of `name=value`")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """Makes a table known by name after each write: its columns, its partitions, and up to which write they are right.

    A merge-on-read table has three entries: `T_ro` (as of the last compaction), `T_rt` and `T` (with logs).
    """

    hive_enabled: bool = option(
        "hoodie.datasource.hive_sync.enable",
        default=False,
        doc="Whether writes sync the Hive metastore after their commit.",
    )
    enabled: bool = option(
        "hoodie.datasource.meta.sync.enable",
        default=False,
        doc="Whether writes sync the catalog of `hoodie.meta.sync.client.tool.class` after their commit.",
    )
    kind: CatalogKind = option(
        "hoodie.meta.sync.client.tool.class",
        parse=_class_of(CatalogKind, "catalog"),
        default=CatalogKind.HIVE_METASTORE,
        doc="The catalog: HiveSyncTool (a Hive metastore) or AwsGlueCatalogSyncTool (AWS Glue).",
    )
    mode: str = option(
        "hoodie.datasource.hive_sync.mode",
        parse=fixed(
            "hms",
            refused={
                "JDBC": "no Hive server is asked: use hms, which speaks to the metastore itself",
                "HIVEQL": "no Hive server is asked: use hms, which speaks to the metastore itself",
            },
        ),
        default="hms",
        doc="hms: by the metastore's own protocol, the only way here. JVM Hudi's default is jdbc.",
    )
    metastore_uris: str = option(
        "hoodie.datasource.hive_sync.metastore.uris",
        parse=text("`thrift://host:port`, or several of them separated by commas"),
        default="thrift://localhost:9083",
        doc="Where the metastore is. Of several, the first that answers is used.",
    )
    database: str = option(
        "hoodie.datasource.hive_sync.database",
        parse=text("the name of a database"),
        default="default",
        doc="The database of the entry.",
    )
    table: str | None = option(
        "hoodie.datasource.hive_sync.table",
        parse=text("the name of a table"),
        default=None,
        doc="The name of the entry; by default that of the table.",
    )
    base_path: str | None = option(
        "hoodie.datasource.meta.sync.base.path",
        parse=text("a path, or a URI"),
        default=None,
        doc="The location that the entry has, where other readers need another scheme (`s3a://…`); by default the path"
        " that the table was opened with.",
    )
    partition_fields: tuple[str, ...] | None = option(
        "hoodie.datasource.hive_sync.partition_fields",
        parse=column_names(may_be_empty=True),
        default=None,
        doc="The partition columns of the entry; by default those of the table. One that is no column of the table is a"
        " string.",
    )
    extractor: Extractor | None = option(
        "hoodie.datasource.hive_sync.partition_extractor_class",
        parse=_class_of(Extractor, "partition value extractor"),
        default=None,
        doc="How the path of a partition becomes the values of its partition columns. By default each part of the path"
        " is a value, without its `name=`; a path of several parts and one column is one value, as it is.",
    )
    decodes_values: bool = option(
        "hoodie.meta.sync.decode_partition",
        default=False,
        doc="Whether values of partitions whose paths are URL-encoded are decoded for the catalog.",
    )
    strategy: TableStrategy = option(
        "hoodie.datasource.hive_sync.table.strategy",
        default=TableStrategy.ALL,
        doc="Of a merge-on-read table: ALL (`T_ro`, `T_rt` and `T`), RO (`T`, read optimized) or RT (`T`, real time).",
    )
    skips_ro_suffix: bool = option(
        "hoodie.datasource.hive_sync.skip_ro_suffix",
        default=False,
        doc="With ALL: the read optimized entry is `T`, and there is no real-time one but `T_rt`.",
    )
    creates_database: bool = option(
        "hoodie.datasource.hive_sync.auto_create_database",
        default=True,
        doc="Whether a database that is missing is made.",
    )
    ignores_errors: bool = option(
        "hoodie.datasource.hive_sync.ignore_exceptions",
        default=False,
        doc="Whether a sync after a write that fails is a warning. Either way the write stands, and the next sync makes"
        " up for it.",
    )
    as_timestamps: bool = option(
        "hoodie.datasource.hive_sync.support_timestamp",
        default=False,
        doc="Whether Hive's columns of timestamps are `timestamp`; else they are `bigint`. Spark sees timestamps either"
        " way.",
    )
    for_spark: bool = option(
        "hoodie.datasource.hive_sync.sync_as_datasource",
        default=True,
        doc="Whether the entry says how Spark reads the table: provider, schema, and the path.",
    )
    schema_part_length: int = option(
        "hoodie.datasource.hive_sync.schema_string_length_thresh",
        parse=integer(minimum=1, unit="characters"),
        default=4000,
        doc="Spark's schema is cut into properties of this length.",
    )
    is_managed: bool = option(
        "hoodie.datasource.hive_sync.create_managed_table",
        parse=boolean(
            refused={"TRUE": "dropping the entry of a managed table deletes the table's files: leave the option out"}
        ),
        default=False,
        doc="Entries are of external tables: dropping one deletes no file.",
    )
    omits_meta_columns: bool = option(
        "hoodie.datasource.hive_sync.omit_metadata_fields",
        default=False,
        doc="Whether the entry leaves out the `_hoodie_*` columns.",
    )
    with_comments: bool = option(
        "hoodie.datasource.hive_sync.sync_comment",
        default=False,
        doc="Whether comments of columns are synced, too.",
    )
    batch: int = option(
        "hoodie.datasource.hive_sync.batch_num",
        parse=integer(minimum=1, unit="partitions"),
        default=1000,
        doc="How many partitions one request adds, moves or drops; with Glue at most 100 (25 for drops).",
    )
    properties: tuple[tuple[str, str], ...] = option(
        "hoodie.datasource.hive_sync.table_properties",
        parse=PROPERTIES,
        default=(),
        doc="Further properties of the entry, as lines of `name=value`.",
    )
    serde_properties: tuple[tuple[str, str], ...] = option(
        "hoodie.datasource.hive_sync.serde_properties",
        parse=PROPERTIES,
        default=(),
        doc="Further properties of the entry's serde, as lines of `name=value`.",
    )
    only_on_changes: bool = option(
        "hoodie.datasource.meta_sync.condition.sync",
        default=False,
        doc="Whether the entry is stamped only if its columns, properties or partitions changed.",
    )
    spark_version: str | None = option(
        "hoodie.meta_sync.spark.version",
        parse=text("a version"),
        default=None,
        doc="The version of Spark that the entry names as its maker; none by default.",
    )
    glue_region: str | None = option(
        "hoodie.aws.glue.region",
        parse=text("an AWS region"),
        default=None,
        doc="Glue: its region; by default as boto3 finds it.",
    )
    glue_endpoint: str | None = option(
        "hoodie.aws.glue.endpoint",
        parse=text("a URL"),
        default=None,
        doc="Glue: its address, if it is not AWS's own.",
    )

    @property
    def is_asked(self) -> bool:
        """Whether writes sync a catalog after their commit."""
        return self.hive_enabled or self.enabled

    @property
    def catalog(self) -> CatalogKind:
        """The catalog. The option of the Hive sync alone means a Hive metastore, whatever the class says."""
        return CatalogKind.HIVE_METASTORE if self.hive_enabled and not self.enabled else self.kind
