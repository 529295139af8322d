"""The sources by the names of JVM Hudi's classes."""

from __future__ import annotations

from typing import Final

from pyhudi.cdc.event_columns import POSTGRESQL
from pyhudi.config.enums import IncrementalFormat
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.options_streamer import (
    ChangeDataOptions,
    FolderOptions,
    HudiSourceOptions,
    KafkaOptions,
    SchemaProviderOptions,
)
from pyhudi.config.options_streamer_databases import JdbcOptions, QueryOptions
from pyhudi.config.options_streamer_events import EventFileOptions, QueueOptions
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.open import open_storage
from pyhudi.storage.options import select_storage_options
from pyhudi.streamer.change_data import SOURCES as CHANGES
from pyhudi.streamer.named_files import text_of_file
from pyhudi.streamer.settings import OPERATION, Settings
from pyhudi.streamer.sources.database import database_source
from pyhudi.streamer.sources.files import FileSource
from pyhudi.streamer.sources.hudi_table import HudiTableSource
from pyhudi.streamer.sources.protocol import Source
from pyhudi.streamer.sources.query import QuerySource
from pyhudi.streamer.sources.s3_events import s3_events_source
from pyhudi.streamer.sources.s3_files import EventFilesSource

_FILES: Final = {
    "ParquetDFSSource": "parquet",
    "ORCDFSSource": "orc",
    "OrcDFSSource": "orc",
    "AvroDFSSource": "avro",
    "JsonDFSSource": "json",
    "CsvDFSSource": "csv",
}
_DATABASE: Final = "JdbcSource"
_QUERY, _QUERY_FILE = "SqlSource", "SqlFileBasedSource"
_DUPLICATES: Final = "hoodie.datasource.insert.dup.policy"
_TOPICS: Final = ("JsonKafkaSource", "AvroKafkaSource")
_REGISTRY: Final = "schema.registry.url"
_HUDI: Final = "HoodieIncrSource"
_EVENTS, _EVENT_FILES = "S3EventsSource", "S3EventsHoodieIncrSource"
KNOWN: Final = (*_FILES, _HUDI, *_TOPICS, *CHANGES, _DATABASE, _QUERY, _QUERY_FILE, _EVENTS, _EVENT_FILES)


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
        has_deletes = settings.group(ReadOptions).incremental_format is IncrementalFormat.CHANGE_DATA
        return _hudi_source(name, settings, has_deletes=has_deletes)
    if name == _EVENT_FILES:
        return _event_files_source(name, settings)
    if name in (_DATABASE, _EVENTS):
        return _repeating_source(name, settings)
    if name in (_QUERY, _QUERY_FILE):
        return _query_source(name, settings)
    if name in _TOPICS or name in CHANGES:
        return _kafka_source(name, settings)
    raise UnsupportedFeatureError("this source is not built", source_class=settings.source_class, known=KNOWN)


def _repeating_source(name: str, settings: Settings) -> Source:
    """A source that may give a row more than once."""
    writes_once = settings.options[OPERATION] == WriteOperation.UPSERT.value or _DUPLICATES in settings.options
    if name == _EVENTS:
        return s3_events_source(settings.group(QueueOptions), writes_once=writes_once)
    return database_source(settings.group(JdbcOptions), writes_once=writes_once, stores=settings.options)


def _hudi_source(name: str, settings: Settings, *, has_deletes: bool) -> HudiTableSource:
    given = settings.group(HudiSourceOptions)
    if given.path is None:
        raise ConfigError(f"{name} needs hoodie.streamer.source.hoodieincr.path, the folder of the table")
    return HudiTableSource(given.path, given, has_deletes, select_storage_options(settings.options))


def _event_files_source(name: str, settings: Settings) -> Source:
    given = settings.group(EventFileOptions)
    if given.file_format not in _FILES.values():
        raise ConfigError("the format of files is parquet, orc, avro, json or csv", given=given.file_format)
    return EventFilesSource(
        events=_hudi_source(name, settings, has_deletes=False),
        kind=given.file_format,
        prefix=given.key_prefix,
        options=settings.group(FolderOptions),
        stores=select_storage_options(settings.options),
    )


def _query_source(name: str, settings: Settings) -> Source:
    given = settings.group(QueryOptions)
    if name == _QUERY:
        if given.query is None:
            raise ConfigError(f"{name} needs hoodie.streamer.source.sql.sql.query")
        return QuerySource(given.query, emits_checkpoint=False)
    if given.file is None:
        raise ConfigError(f"{name} needs hoodie.streamer.source.sql.file")
    return QuerySource(text_of_file(given.file, settings.options), given.emits_checkpoint)


def _kafka_source(name: str, settings: Settings) -> Source:
    try:
        from pyhudi.streamer.sources.kafka import (  # noqa: PLC0415 - its client is an extra
            AVRO,
            kafka_source,
            routed_source,
        )
    except ImportError as error:
        raise UnsupportedFeatureError(
            "this source needs Kafka's client: pip install 'pyhudi[kafka]'", source_class=settings.source_class
        ) from error
    registry = settings.group(SchemaProviderOptions).registry or settings.client.get(_REGISTRY)
    has_moved_keys = CHANGES.get(name) == POSTGRESQL
    if name in CHANGES:
        is_text = (settings.group(ChangeDataOptions).deserializer or "").endswith("StringDeserializer")
        name = "JsonKafkaSource" if is_text or registry is None else AVRO
    options = settings.group(KafkaOptions)
    changes = None if settings.changes is None else settings.changes.source
    source = kafka_source(name, options, registry, settings.client, changes=changes, has_moved_keys=has_moved_keys)
    if options.route_values is None:
        if options.route_field is not None:
            raise ConfigError(
                "hoodie.streamer.source.kafka.route.field needs hoodie.streamer.source.kafka.route.values"
            )
        return source
    return routed_source(source)
