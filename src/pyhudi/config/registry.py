"""Registry of all options by all their spellings, and the check of the options that a user passes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyhudi.config.location import LocationOptions
from pyhudi.config.option import Option, options_of, text_of, warn_of_option
from pyhudi.config.options_bootstrap import BootstrapOptions
from pyhudi.config.options_buckets import BucketOptions
from pyhudi.config.options_catalogs import CatalogOptions
from pyhudi.config.options_cleaning import ArchivingOptions, CleaningOptions
from pyhudi.config.options_clustering import ClusteringOptions
from pyhudi.config.options_hooks import CallbackOptions, ValidatorOptions
from pyhudi.config.options_locks import LockOptions, MarkerOptions
from pyhudi.config.options_logs import CompactionOptions, LogOptions
from pyhudi.config.options_merging import MemoryOptions, MergingOptions
from pyhudi.config.options_metadata_table import MetadataTableOptions, RecordIndexOptions
from pyhudi.config.options_metrics import MetricsOptions
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.options_streamer import (
    ChangeDataOptions,
    ErrorTableOptions,
    FolderOptions,
    HudiSourceOptions,
    KafkaOptions,
    SchemaProviderOptions,
    StreamerOptions,
    TransformerOptions,
)
from pyhudi.config.options_streamer_databases import JdbcOptions, JdbcSchemaOptions, QueryOptions
from pyhudi.config.options_streamer_events import EventFileOptions, QueueOptions
from pyhudi.config.options_streams import StreamSinkOptions, StreamSourceOptions
from pyhudi.config.options_table import KeyOptions, TableOptions
from pyhudi.config.options_ttl import ExpiryOptions
from pyhudi.config.options_write import (
    BloomOptions,
    ConcurrencyOptions,
    FileOptions,
    IndexOptions,
    InputOptions,
    RequestOptions,
    SqlOptions,
)
from pyhudi.config.refused_keys import REFUSED, Side, is_refusable, refusal
from pyhudi.config.unsupported_keys import UNSUPPORTED, unsupported_area
from pyhudi.errors import ConfigError, UnsupportedFeatureError

_FOLDER_VARIABLE = "HUDI_CONF_DIR"
_FOLDER = "/etc/hudi/conf"
_NAME = "hudi-defaults.conf"


@dataclass(frozen=True, slots=True)
class Section:
    """A titled group of options."""

    title: str
    group: type

    @property
    def options(self) -> Iterator[Option[Any]]:
        """The options of the group, in the order of their declaration."""
        return (declared for _, declared in options_of(self.group))


SECTIONS = (
    Section("Where the table is", LocationOptions),
    Section("The operation", RequestOptions),
    Section("The table", TableOptions),
    Section("Key generators", KeyOptions),
    Section("Incoming rows", InputOptions),
    Section("Index", IndexOptions),
    Section("Buckets", BucketOptions),
    Section("Bloom filters", BloomOptions),
    Section("Files", FileOptions),
    Section("Mergers", MergingOptions),
    Section("Log files", LogOptions),
    Section("Compaction", CompactionOptions),
    Section("Cleaning", CleaningOptions),
    Section("Archiving", ArchivingOptions),
    Section("Expiry of partitions", ExpiryOptions),
    Section("Clustering", ClusteringOptions),
    Section("The metadata table", MetadataTableOptions),
    Section("The record index", RecordIndexOptions),
    Section("Bootstrap", BootstrapOptions),
    Section("Memory", MemoryOptions),
    Section("Concurrency", ConcurrencyOptions),
    Section("Markers and early conflict detection", MarkerOptions),
    Section("The table lock", LockOptions),
    Section("Metrics", MetricsOptions),
    Section("Commit callbacks", CallbackOptions),
    Section("Validators before a commit", ValidatorOptions),
    Section("Reads", ReadOptions),
    Section("Streams from tables", StreamSourceOptions),
    Section("Streams into tables", StreamSinkOptions),
    Section("The streamer", StreamerOptions),
    Section("The streamer: files", FolderOptions),
    Section("The streamer: Kafka", KafkaOptions),
    Section("The streamer: Hudi tables", HudiSourceOptions),
    Section("The streamer: databases", JdbcOptions),
    Section("The streamer: queries", QueryOptions),
    Section("The streamer: S3 events", QueueOptions),
    Section("The streamer: files that events name", EventFileOptions),
    Section("The streamer: change data", ChangeDataOptions),
    Section("The streamer: schemas", SchemaProviderOptions),
    Section("The streamer: schemas of databases", JdbcSchemaOptions),
    Section("The streamer: transformers", TransformerOptions),
    Section("The streamer: error tables", ErrorTableOptions),
    Section("Catalogs", CatalogOptions),
    Section("SQL", SqlOptions),
)


def _by_spelling() -> Mapping[str, Option[Any]]:
    found: dict[str, Option[Any]] = {}
    for section in SECTIONS:
        for declared in section.options:
            for spelling in declared.spellings:
                if spelling in found:
                    raise AssertionError(f"the option {spelling} is declared twice")
                found[spelling] = declared
    return MappingProxyType(found)


OPTIONS: Mapping[str, Option[Any]] = _by_spelling()
"""Every honoured option by each of its spellings."""


def given_options(options: Mapping[str, Any], side: Side) -> dict[str, str]:
    """The honoured options of a mapping, as text by main key. None counts as not given.

    Warns (`OptionWarning`) about `hoodie.*` keys without effect, and about a file of options that is not read.

    Raises:
        ConfigError: two spellings of one option have different values.
        UnsupportedFeatureError: an option must not be ignored on this side (`refused_keys`).
    """
    warn_of_defaults_file()
    given: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for key, value in options.items():
        if value is None:
            continue
        declared = OPTIONS.get(key)
        if declared is None:
            _refuse_or_warn(key, text_of(value), side)
            continue
        text = text_of(value)
        if given.setdefault(declared.key, text) != text:
            raise ConfigError(
                f"{spelled[declared.key]} and {key} are two names of one option and differ: give one of them",
                values=(given[declared.key], text),
            )
        spelled.setdefault(declared.key, key)
    return given


def nearest_key(key: str) -> str | None:
    """The known key that is most similar to a misspelt one. Honoured keys have precedence."""
    families = [area.keys for area in UNSUPPORTED] + [refused.keys for refused in REFUSED]
    others = [name for names in families for name in names if not name.endswith(".")]
    for known in (list(OPTIONS), others):
        if close := difflib.get_close_matches(key, known, n=1, cutoff=0.85):
            return close[0]
    return None


def _refuse_or_warn(key: str, text: str, side: Side) -> None:
    """Refuse a key that pyhudi does not honour, or warn that it has no effect."""
    if (reason := refusal(key, text, side)) is not None:
        raise UnsupportedFeatureError(f"{key} is not supported with this value: {reason}", option=key)
    area = unsupported_area(key)
    if area is not None:
        if not area.is_quiet(text):
            warn_of_option(f"{key} has no effect ({area.area}: {area.reason})")
        return
    if is_refusable(key):
        return
    nearest = nearest_key(key.lower())
    if key.lower().startswith("hoodie."):
        hint = f": did you mean {nearest}?" if nearest else ", and no key that is known looks like it"
        warn_of_option(f"{key} has no effect: this key is unknown{hint}")
    elif nearest is not None and nearest in OPTIONS and not nearest.startswith("hoodie."):
        warn_of_option(f"{key} has no effect: did you mean {nearest}?")


def warn_of_defaults_file() -> None:
    """Warn (`OptionWarning`) where there is such a file: jobs of JVM Hudi on this machine go by its options.

    Cost: one look for a local file. What lies on other stores is not looked for.
    """
    folder = os.environ.get(_FOLDER_VARIABLE, _FOLDER)
    file = Path(folder.removeprefix("file:"), _NAME)
    if file.is_file():
        warn_of_option(
            f"the options in {file} have no effect: pyhudi reads none but those that it is given, as in hudi_options"
        )
