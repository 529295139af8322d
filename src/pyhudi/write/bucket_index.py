"""The bucket index of a write: from the table's properties, its files, and the options."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.config.bucket_properties import StoredBuckets, stored_buckets
from pyhudi.config.enums import BucketEngine, IndexType
from pyhudi.config.options_buckets import (
    ENGINE_KEY,
    HASH_FIELDS_KEY,
    INDEX_TYPE_KEY,
    NUMBER_KEY,
    RULES_KEY,
    BucketRules,
)
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.index.buckets.index import BucketIndex
from pyhudi.table.features import bucket_engine_of
from pyhudi.table.state import TableState


def bucket_index_of(
    table: TableState, config: WriteConfig, options: Mapping[str, str], keys: KeyGenerator
) -> BucketIndex | None:
    """The bucket index that a write must use; None if the table has none.

    Cost: what `bucket_engine_of` costs.

    Raises:
        ConfigError: the options contradict the table.
        UnsupportedFeatureError: the options ask for what bucket indexes do not have here.
    """
    asked = config.index.index_type is IndexType.BUCKET
    engine = bucket_engine_of(table)
    if engine is None:
        if not asked:
            return None
        if table.newest_writes.file_ids:
            raise ConfigError(
                f"{INDEX_TYPE_KEY}=BUCKET, and the file groups of the table are no buckets: leave it out, or write to "
                "a new table",
                path=table.config.path,
            )
        engine = config.buckets.engine or BucketEngine.SIMPLE
    elif INDEX_TYPE_KEY in options and not asked:
        raise ConfigError(
            f"the table has a bucket index, and {INDEX_TYPE_KEY} is {config.index.index_type.value}: leave it out",
            path=table.config.path,
        )
    if config.index.index_class is not None:
        raise ConfigError(
            "hoodie.index.class finds keys, and in a table with a bucket index their hash says where they are: leave "
            "it out",
            path=table.config.path,
        )
    stored = stored_buckets(table.config.values, path=table.config.path)
    fields = _fields(config, None if stored is None else stored.hash_fields, keys)
    number = _number(config, None if stored is None else stored.number)
    if config.buckets.engine not in (None, engine):
        raise _conflict(ENGINE_KEY, config.buckets.engine.value, engine.value)
    if config.input.tombstone_hours:
        raise UnsupportedFeatureError(
            "late deletes are not remembered in tables with a bucket index: leave "
            "hoodie.write.tombstones.retained.hours out"
        )
    return BucketIndex(
        engine=engine,
        number=number,
        is_stored=stored is not None and stored.number is not None,
        fields=fields,
        key_fields=len(keys.record_key_fields),
        rules=_rules(config, stored, engine),
    )


def _rules(config: WriteConfig, stored: StoredBuckets | None, engine: BucketEngine) -> BucketRules | None:
    asked, kept = config.buckets.rules, None if stored is None else stored.rules
    if asked is not None and engine is not BucketEngine.SIMPLE:
        raise ConfigError(f"{RULES_KEY} is for the engine SIMPLE, and the table has rings: leave it out")
    if stored is not None and stored.number is not None and asked not in (None, kept):
        raise _conflict(RULES_KEY, "" if asked is None else asked.text, "" if kept is None else kept.text)
    return kept or asked


def _fields(config: WriteConfig, stored: tuple[str, ...] | None, keys: KeyGenerator) -> tuple[str, ...]:
    asked = config.buckets.hash_fields
    if stored is not None and asked is not None and set(asked) != set(stored):
        raise _conflict(HASH_FIELDS_KEY, ",".join(asked), ",".join(stored))
    fields = stored or asked or tuple(keys.record_key_fields)
    if not fields or set(fields) - set(keys.record_key_fields):
        raise ConfigError(
            f"{HASH_FIELDS_KEY} may only name record key fields", given=fields, record_keys=keys.record_key_fields
        )
    return fields


def _number(config: WriteConfig, stored: int | None) -> int | None:
    asked = config.buckets.number
    if stored is not None and asked not in (None, stored):
        raise _conflict(NUMBER_KEY, str(asked), str(stored))
    return stored if stored is not None else asked


def _conflict(key: str, asked: str, stored: str) -> ConfigError:
    return ConfigError(f"{key} is {asked!r}, the table has {stored!r}: leave it out, or write to another table")
