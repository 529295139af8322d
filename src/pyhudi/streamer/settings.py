"""The settings of one streamer: its arguments, property files and options, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from pyhudi.api.arguments import joined, known_options, table_type_of
from pyhudi.config.location import table_path
from pyhudi.config.option import text_of
from pyhudi.config.registry import OPTIONS
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.options import select_storage_options
from pyhudi.streamer.change_data import ChangeData, change_data_of
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.named_files import properties_of_file
from pyhudi.streamer.schemas import group_of, provided_schema
from pyhudi.streamer.transformers import Transform, check_can_run, options_by_id, transforms_of

OPERATION: Final = "hoodie.datasource.write.operation"
_OPERATIONS: Final = (
    WriteOperation.UPSERT,
    WriteOperation.INSERT,
    WriteOperation.BULK_INSERT,
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
    WriteOperation.DELETE,
    WriteOperation.DELETE_PARTITION,
)
_INLINE: Final = "hoodie.compact.inline"
_BESIDE: Final = "hoodie.datasource.compaction.async.enable"
_BATCH_ID: Final = "hoodie.write.batch.id"
_PARTITIONS: Final = "hoodie.datasource.write.partitions.to.delete"
T = TypeVar("T")
_ERROR_CLASS: Final = "hoodie.errortable.write.class"
_NOT_NEEDED: Final = (".jdbc.driver.class", ".schema.jdbc.driver.type")
"""Options of databases that JVM Hudi needs: here the URL of the database says which driver it is."""
_OWN: Final = ("hoodie.streamer.", "hoodie.deltastreamer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One streamer: its table, its source, and how a batch is written.

    `options` are those of the write, the source and the stores; `client` those of the source's client, such as
    `bootstrap.servers`. Both may hold credentials.
    """

    path: str
    source_class: str
    options: Mapping[str, str] = field(repr=False)
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    source_limit: int | None = None
    checkpoint: str | None = None
    ignore_checkpoint: str | None = None
    commits_without_change: bool = False
    schema: pa.Schema | None = None
    transforms: tuple[Transform, ...] = ()
    changes: ChangeData | None = None

    @property
    def reads_kafka(self) -> bool:
        """Whether the source is a topic."""
        return self.source_class.endswith("KafkaSource") or self.changes is not None

    def group(self, kind: type[T]) -> T:
        """Options of one kind."""
        return group_of(kind, self.options)


def settings_of(config: StreamerConfig) -> Settings:
    """What the arguments of a streamer describe. Options that are given count over those of the property file.

    Raises `ConfigError` and `UnsupportedFeatureError`; nothing is written. Cost: a read of the files that are named.
    """
    conf = config.hoodie_conf or {}
    stores = select_storage_options({name: text_of(value) for name, value in conf.items()})
    of_file = {} if config.props is None else properties_of_file(config.props, stores)
    given: dict[str, Any] = {**of_file, **conf}
    named = {name: value for name, value in given.items() if _is_ours(name) and not name.endswith(_NOT_NEEDED)}
    client = {name: text_of(value) for name, value in given.items() if not _is_ours(name) and value is not None}
    by_id = {name: text_of(named.pop(name)) for name in options_by_id(config.transformer_class, list(named))}
    options = known_options(named, call="streamer.run")
    _check(config, options)
    operation = _operation(config.op, options)
    changes = change_data_of(config.source_class, operation, options)
    schema = provided_schema(config.schemaprovider_class, config.schema, options)
    if changes is not None and config.schema is not None:
        schema = config.schema  # as it was given: its units say what the numbers of messages are
    ordering, table_type = config.source_ordering_fields, config.table_type
    described = {
        OPERATION: operation.value,
        "hoodie.table.name": config.target_table,
        "hoodie.datasource.write.table.type": None if table_type is None else table_type_of(table_type),
        "hoodie.table.ordering.fields": joined(ordering, "source_ordering_fields"),
        **(_without_duplicates(operation) if config.filter_dupes else {}),
        **_compaction(config, options),
    }
    transforms = transforms_of(config.transformer_class, {**options, **by_id})
    if config.spark is None:
        check_can_run(transforms)
    return Settings(
        path=table_path(config.target_base_path, options),
        source_class=config.source_class,
        options={**options, **{name: value for name, value in described.items() if value is not None}},
        client=client,
        source_limit=config.source_limit,
        checkpoint=config.checkpoint,
        ignore_checkpoint=config.ignore_checkpoint,
        commits_without_change=config.allow_commit_on_no_checkpoint_change,
        schema=schema,
        transforms=transforms,
        changes=changes,
    )


def _is_ours(name: str) -> bool:
    """Whether an option is one of a table, of a store, or of commit metadata; others go to the source's client."""
    return name.lower().startswith(("hoodie.", "_")) or bool(select_storage_options({name: ""}))


def _check(config: StreamerConfig, options: Mapping[str, str]) -> None:
    if _BATCH_ID in options:
        raise ConfigError(f"the streamer numbers its batches: leave {_BATCH_ID} out", option=_BATCH_ID)
    if _PARTITIONS in options:
        raise ConfigError(f"the rows of a batch say which partitions end: leave {_PARTITIONS} out", option=_PARTITIONS)
    limit = config.source_limit
    if limit is not None and (isinstance(limit, bool) or limit < 1):
        raise ConfigError("source_limit must be a number of bytes or messages from 1 on", given=limit)
    if min(config.max_retry_count, config.retry_interval_seconds, config.min_sync_interval_seconds) < 0:
        raise ConfigError("max_retry_count, retry_interval_seconds and min_sync_interval_seconds cannot be below 0")
    if min(config.max_pending_compactions, config.max_pending_clustering) < 1:
        raise ConfigError("max_pending_compactions and max_pending_clustering must be numbers from 1 on")
    if config.post_write_termination is not None and not config.continuous:
        raise ConfigError("post_write_termination is for continuous=True: otherwise a run is one round")
    for name in options:
        if name == _ERROR_CLASS:
            raise UnsupportedFeatureError(f"the error table is an ordinary table: leave {name} out", option=name)
        if name.startswith(_OWN) and name not in OPTIONS:
            raise UnsupportedFeatureError(
                f"{name} is not built: docs/ingestion.md lists what the streamer can do", option=name
            )


def _operation(op: str, options: Mapping[str, str]) -> WriteOperation:
    found = next((operation for operation in _OPERATIONS if operation.value == str(op).lower()), None)
    if found is None:
        raise ConfigError("unknown operation", op=op, known=[operation.value.upper() for operation in _OPERATIONS])
    named = options.get(OPERATION)
    if named is not None and named.lower() != found.value:
        raise ConfigError(f"op says {found.value} and {OPERATION} says {named}: leave the option out")
    return found


def _without_duplicates(operation: WriteOperation) -> dict[str, str]:
    """The options by which an insert drops rows whose keys the table has, and all but one of each key in a batch."""
    if operation is not WriteOperation.INSERT:
        raise ConfigError(
            "filter_dupes drops rows whose keys the table has, which an upsert would write: use op=INSERT with it",
            op=operation.value.upper(),
        )
    return {"hoodie.datasource.insert.dup.policy": "drop", "hoodie.combine.before.insert": "true"}


def _compaction(config: StreamerConfig, options: Mapping[str, str]) -> dict[str, str]:
    """Who compacts a merge-on-read table: a round before it ends, with `continuous` a thread beside the next ones."""
    if config.disable_compaction:
        return {_INLINE: "false", _BESIDE: "false"}
    if not config.continuous or _INLINE in options or _BESIDE in options:
        return {}
    return {_INLINE: "false", _BESIDE: "true"}
