"""What kinds of tables the interop suite makes: keys, partitions, path styles, metadata table, table version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

#: The columns of every table that lives through many commits. `price` is wide on purpose: with a decimal of at most
#: 18 digits JVM Hudi before 1.2 bulk-inserts lists in a layout that it cannot rewrite (docs/design/interop.md).
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.int32()),
        ("city", pa.string()),
        ("year", pa.int32()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("note", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(20, 2)),
    ]
)

#: The same for merge-on-read tables. The ordering column is not a long: with one, 1.0.2 cannot read a log in which a
#: key follows its deletion. `_hoodie_is_deleted` is Hudi's own name for a row that deletes.
MERGE_ON_READ_SCHEMA = pa.schema(
    [field.with_type(pa.int32()) if field.name == "ts" else field for field in SCHEMA]
    + [pa.field("_hoodie_is_deleted", pa.bool_())]
)

EVENT_TIME_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"

PLAIN_CITIES = ("oslo", "lima", "pune")
#: Values that no folder can be named after as they are.
ODD_CITIES = ("oslo/north", "100% a=b:c", "Zürich [1]?")

#: Tests of merge-on-read tables say themselves when a table is compacted.
_NO_SERVICES = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}

#: What Hudi's partition path encoding replaces by %XX, besides control characters.
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a table is keyed, partitioned and stored."""

    name: str
    table_version: int
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    metadata: bool = True
    cities: tuple[str, ...] = PLAIN_CITIES
    created_by_newest: bool = False
    merge_on_read: bool = False
    more_options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"v{self.table_version}-{self.name}"

    @property
    def schema(self) -> pa.Schema:
        return MERGE_ON_READ_SCHEMA if self.merge_on_read else SCHEMA

    @property
    def late_rows_lose(self) -> bool:
        """Whether a row with a smaller ordering value than the stored one is dropped.

        The default of who creates the table: 0.15.0 and we for version 6 take what came last, 1.2.0 never does.
        """
        by_payload = EVENT_TIME_PAYLOAD in self.more_options.values()
        return self.table_version > 6 or self.created_by_newest or by_payload

    @property
    def style_options(self) -> dict[str, str]:
        """What any writer must know besides keys and partitions."""
        return {
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.url_encode).lower(),
            # Filters for the few rows of a test, not for 60,000 a file.
            "hoodie.index.bloom.num_entries": "100",
            **(_NO_SERVICES if self.merge_on_read else {}),
            **self.more_options,
        }

    @property
    def options(self) -> dict[str, str]:
        """The options of a Spark write to such a table."""
        return {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_by),
            "hoodie.datasource.write.precombine.field": "ts",
            **self.style_options,
        }

    @property
    def jvm_options(self) -> dict[str, str]:
        """The same for JVM Hudi, which by default keeps a metadata table."""
        return {**self.options, "hoodie.metadata.enable": str(self.metadata).lower()}

    def record_key_of(self, row: Mapping[str, object]) -> str:
        """`_hoodie_record_key`: the bare value of one field, `name:value` of several."""
        if len(self.record_key) == 1:
            return str(row[self.record_key[0]])
        return ",".join(f"{name}:{row[name]}" for name in self.record_key)

    def partition_path_of(self, row: Mapping[str, object]) -> str:
        """`_hoodie_partition_path`, the folder of the row."""
        return "/".join(self._folder(name, row[name]) for name in self.partition_by)

    def _folder(self, name: str, value: object) -> str:
        text = "__HIVE_DEFAULT_PARTITION__" if value in (None, "") else str(value)
        if self.url_encode:
            text = "".join(f"%{ord(c):02X}" if c in _ESCAPED or ord(c) < 32 else c for c in text)
        return f"{name}={text}" if self.hive_style else text
