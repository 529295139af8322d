"""The sources by the names of JVM Hudi's classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyhudi.config.options_streamer import (
    ChangeDataOptions,
    FolderOptions,
    HudiSourceOptions,
    KafkaOptions,
    SchemaProviderOptions,
)
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.open import open_storage
from pyhudi.storage.options import select_storage_options
from pyhudi.streamer.change_data import SOURCES as CHANGES
from pyhudi.streamer.sources.files import FileSource
from pyhudi.streamer.sources.hudi_table import HudiTableSource
from pyhudi.streamer.sources.protocol import Source

if TYPE_CHECKING:
    from pyhudi.streamer.settings import Settings

_FILES: Final = {
    "ParquetDFSSource": "parquet",
    "ORCDFSSource": "orc",
    "OrcDFSSource": "orc",
    "AvroDFSSource": "avro",
    "JsonDFSSource": "json",
    "CsvDFSSource": "csv",
}
_TOPICS: Final = ("JsonKafkaSource", "AvroKafkaSource")
_REGISTRY: Final = "schema.registry.url"
_HUDI: Final = "HoodieIncrSource"
KNOWN: Final = (*_FILES, _HUDI, *_TOPICS, *CHANGES)


def open_source(settings: Settings) -> Source:
    """The source of a streamer. Raises `UnsupportedFeatureError` for a class that is not built. Cost: none."""
    name = settings.source_class.rpartition(".")[2]
    if name in _FILES:
        options = settings.group(FolderOptions)
        if options.root is None:
            raise ConfigError(f"{name} needs hoodie.streamer.source.dfs.root, the folder with the files")
        if settings.client:
            raise ConfigError("these are no options of a table or a store", given=sorted(settings.client))
        return FileSource(_FILES[name], open_storage(options.root, settings.options), options)
    if name == _HUDI:
        given = settings.group(HudiSourceOptions)
        if given.path is None:
            raise ConfigError(f"{name} needs hoodie.streamer.source.hoodieincr.path, the folder of the table")
        return HudiTableSource(given.path, given, select_storage_options(settings.options))
    if name in _TOPICS or name in CHANGES:
        return _kafka_source(name, settings)
    raise UnsupportedFeatureError("this source is not built", source_class=settings.source_class, known=KNOWN)


def _kafka_source(name: str, settings: Settings) -> Source:
    try:
        from pyhudi.streamer.sources.kafka import AVRO, kafka_source  # noqa: PLC0415 - its client is an extra
    except ImportError as error:
        raise UnsupportedFeatureError(
            "this source needs Kafka's client: pip install 'pyhudi[kafka]'", source_class=settings.source_class
        ) from error
    registry = settings.group(SchemaProviderOptions).registry or settings.client.get(_REGISTRY)
    if name in CHANGES:
        is_text = (settings.group(ChangeDataOptions).deserializer or "").endswith("StringDeserializer")
        name = "JsonKafkaSource" if is_text or registry is None else AVRO
    return kafka_source(name, settings.group(KafkaOptions), registry, settings.client)
