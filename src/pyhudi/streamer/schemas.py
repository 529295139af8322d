"""Schema providers: the columns that the rows of a source are to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import pyarrow as pa

from pyhudi.config.option import read_group
from pyhudi.config.options_streamer import SchemaProviderOptions
from pyhudi.config.options_streamer_databases import JdbcSchemaOptions
from pyhudi.config.registry import OPTIONS
from pyhudi.errors import ConfigError, CorruptDataError, NotFoundError, UnsupportedFeatureError
from pyhudi.format.schema.avro_arrow import avro_to_arrow, normalise
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.open import open_storage
from pyhudi.streamer.sources.database import columns_of_table

T = TypeVar("T")
_FILE: Final = "FilebasedSchemaProvider"
_REGISTRY: Final = "SchemaRegistryProvider"
_DATABASE: Final = "JdbcbasedSchemaProvider"
_REFUSED: Final = {
    "HiveSchemaProvider": "columns of a Hive table",
    "ProtoClassBasedSchemaProvider": "Protobuf, in schemas or messages,",
    "S3FilebasedSchemaProvider": f"this class (use {_FILE} with the URI of the file)",
}
"""Providers of JVM Hudi, and what is not read that they are for."""
_BYTES_MAX: Final = 16 * 1024 * 1024


def group_of(kind: type[T], options: Mapping[str, str]) -> T:
    """The options of one kind among others, under any of their names."""
    return read_group(kind, {OPTIONS[name].key: text for name, text in options.items() if name in OPTIONS})


def provided_schema(provider: str | None, schema: pa.Schema | None, options: Mapping[str, str]) -> pa.Schema | None:
    """The columns that a schema provider, or the caller, says; None if the source or the table says them.

    Raises `ConfigError` where both do, or a file is missing, `UnsupportedFeatureError` for another provider, and
    `SourceError` where a database does not answer. Cost: a read of the file, or a query without rows.
    """
    named = group_of(SchemaProviderOptions, options)
    file = named.target_file or named.source_file
    kind = None if provider is None else provider.rpartition(".")[2]
    if kind == _REGISTRY and named.registry is not None:
        provider = kind = None  # each message names its schema
    if kind == _DATABASE:
        if schema is not None or file is not None:
            raise ConfigError(f"{_DATABASE}, and a schema or the file of one, are given: give one of them")
        return columns_of_table(group_of(JdbcSchemaOptions, options))
    if kind not in (None, _FILE):
        what = f"{_REFUSED[kind]} is not built; " if kind in _REFUSED else ""
        raise UnsupportedFeatureError(
            f"{what}the schema providers are {_FILE}, {_DATABASE} and, for Avro from Kafka, {_REGISTRY}; or give the"
            " columns as schema, or leave it out: then the source or the table says them",
            schemaprovider_class=provider,
        )
    if provider is None and file is None:
        return None if schema is None else normalise(schema)
    if schema is not None:
        raise ConfigError("a schema provider and a schema are given: give one of them")
    if file is None:
        raise ConfigError(f"{_FILE} needs hoodie.streamer.schemaprovider.source.schema.file")
    folder, _, name = file.rpartition("/")
    storage = open_storage(folder or ("/" if file.startswith("/") else "."), options)
    try:
        return avro_to_arrow(read_at_most(storage, name, _BYTES_MAX).decode(), source=file)
    except NotFoundError as error:
        raise ConfigError("there is no such schema file", file=file) from error
    except UnicodeDecodeError as error:
        raise CorruptDataError("the schema file is no text", path=file) from error
