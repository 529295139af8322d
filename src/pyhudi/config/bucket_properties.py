"""Properties of a table with a bucket index, in the words of options.

JVM Hudi's Spark writer takes what `hoodie.properties` say for options of a write, and refuses others. So a table that
says its buckets there is written by every release with the same ones; JVM Hudi itself does not store them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.config.enums import BucketEngine, IndexType, TableType
from pyhudi.config.options_buckets import (
    DEFAULT_BUCKETS,
    ENGINE_KEY,
    HASH_FIELDS_KEY,
    INDEX_TYPE_KEY,
    NUMBER_KEY,
    RULES_KEY,
    BucketRules,
    read_bucket_rules,
)
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, CorruptDataError

RULE_TYPE_KEY = "hoodie.bucket.index.partition.rule.type"


@dataclass(frozen=True, slots=True)
class StoredBuckets:
    """The bucket index in a table's properties. `number` and `hash_fields`: None if the table does not say them.

    `rules`: None if all partitions have the same number.
    """

    engine: BucketEngine
    number: int | None
    hash_fields: tuple[str, ...] | None
    rules: BucketRules | None = None

    def number_in(self, partition_path: str) -> int | None:
        """The number of buckets of a partition; None if the table does not say it."""
        named = None if self.rules is None else self.rules.number_of(partition_path)
        return self.number if named is None else named


def stored_buckets(values: Mapping[str, str], *, path: str) -> StoredBuckets | None:
    """The bucket index that properties name; None if they name none.

    Raises:
        CorruptDataError: a value is none of Hudi's.
    """
    if values.get(INDEX_TYPE_KEY, "").upper() != IndexType.BUCKET.value:
        return None
    engine, number = values.get(ENGINE_KEY, BucketEngine.SIMPLE.value), values.get(NUMBER_KEY)
    try:
        fields = values.get(HASH_FIELDS_KEY)
        return StoredBuckets(
            BucketEngine(engine.upper()),
            None if number is None else int(number),
            tuple(name.strip() for name in fields.split(",")) if fields else None,
            read_bucket_rules(values[RULES_KEY]) if values.get(RULES_KEY) else None,
        )
    except ValueError as error:
        raise CorruptDataError("the bucket index in the table's properties is damaged", path=path) from error


def new_bucket_properties(config: WriteConfig) -> dict[str, str]:
    """The properties of the bucket index that the options of a new table ask for.

    Raises:
        ConfigError: the table cannot have it.
    """
    asked, keys = config.buckets, config.table.record_key_fields or ()
    if not keys:
        raise ConfigError("a bucket index needs record keys: set hoodie.datasource.write.recordkey.field")
    if unknown := sorted(set(asked.hash_fields or ()) - set(keys)):
        raise ConfigError(
            f"{HASH_FIELDS_KEY} names columns that are no record key fields: {', '.join(unknown)}", record_keys=keys
        )
    engine = asked.engine or BucketEngine.SIMPLE
    if engine is BucketEngine.CONSISTENT_HASHING and config.table.table_type is not TableType.MERGE_ON_READ:
        raise ConfigError(
            f"{ENGINE_KEY}=CONSISTENT_HASHING needs a merge-on-read table: set hoodie.datasource.write.table.type="
            "MERGE_ON_READ, or use SIMPLE"
        )
    properties = {
        INDEX_TYPE_KEY: IndexType.BUCKET.value,
        ENGINE_KEY: engine.value,
        NUMBER_KEY: str(asked.number or DEFAULT_BUCKETS),
    }
    if asked.rules is not None:
        if engine is not BucketEngine.SIMPLE or not config.table.partition_fields:
            raise ConfigError(f"{RULES_KEY} is for tables with partitions and the engine SIMPLE")
        properties |= {RULES_KEY: asked.rules.text, RULE_TYPE_KEY: "regex"}
    if asked.hash_fields:
        properties[HASH_FIELDS_KEY] = ",".join(asked.hash_fields)
    return properties
