"""The plan of a bootstrap: which files stay, which are copied, and under which options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.config.enums import IndexType
from pyhudi.config.options_bootstrap import BootstrapMode, Translator
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.keys.partition_paths import escape_value, path_columns
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.safe_paths import check_data_path
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT, SKELETON_INSTANT
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState, create_table
from pyhudi.tasks.bootstrap import SKELETON_SCHEMA, SampleTask, seconds_per_row
from pyhudi.transaction.markers.announcing import DIRECT_MARKERS
from pyhudi.write.bootstrap.source import Source, SourceColumns, load_columns, load_source
from pyhudi.write.create import table_properties
from pyhudi.write.job import WriteJob, prepare

ModeOf = BootstrapMode | Callable[[str], BootstrapMode]
"""A mode for all partitions, or a function of their paths."""

PLAN_COLUMNS = "partition_path string, mode string, files int64, rows int64, bytes int64, seconds double"


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """A bootstrap that was checked as far as that goes without reading rows. `modes` by partition path."""

    source: Source
    columns: SourceColumns
    modes: Mapping[str, BootstrapMode]
    config: WriteConfig

    def partition_path(self, folder: str) -> str:
        """The partition path in the table of a folder of the source."""
        return self.config.bootstrap.partition_path(folder)

    def partitions_of(self, mode: BootstrapMode) -> tuple[str, ...]:
        """The paths of the partitions with a mode."""
        return tuple(path for path, of_partition in self.modes.items() if of_partition is mode)

    def to_table(self, seconds_per_row: Mapping[BootstrapMode, float]) -> pa.Table:
        """One row per partition, as `PLAN_COLUMNS`."""
        rows = [
            {
                "partition_path": self.partition_path(path),
                "mode": mode.value,
                "files": len(self.source.files[path]),
                "rows": (count := sum(self.columns.rows[info.path] for info in self.source.files[path])),
                "bytes": sum(info.size for info in self.source.files[path]),
                "seconds": count * seconds_per_row[mode],
            }
            for path, mode in self.modes.items()
        ]
        return table_of(PLAN_COLUMNS, rows)


def plan_bootstrap(
    source_storage: Storage, storage: Storage, config: WriteConfig, engine: Engine, mode: ModeOf
) -> BootstrapPlan:
    """Look at the source. Cost: a recursive listing, and one footer per file, in tasks.

    Without partition columns among the options, the table has those in the names of the source's folders.

    Raises:
        InvalidRequestError: the source has no files, or one that is no Parquet file.
        SchemaMismatchError: its files disagree about columns, or have some that no table can store.
        ConfigError: one of source and table is inside the other; there is no record key; or the source has folders and
            no partition columns are known.
        UnsupportedFeatureError: the index puts rows into buckets.
    """
    _check_apart(source_storage, storage)
    if config.index.index_type is IndexType.BUCKET:
        raise UnsupportedFeatureError(
            "files of a source are no buckets: bootstrap with another hoodie.index.type, or insert the rows into a "
            "table with a bucket index"
        )
    if not config.table.record_key_fields:
        raise ConfigError("a bootstrap needs a record key: name the columns that identify a row of the source")
    source = load_source(source_storage, engine)
    columns = load_columns(source, engine)
    config = with_translator(config, source.partition_paths, url_encode=bool(config.table.url_encode))
    _check_translated(source, config)
    modes = {path: mode if isinstance(mode, BootstrapMode) else mode(path) for path in source.partition_paths}
    return BootstrapPlan(source, columns, modes, _with_partitions(config, source))


def with_translator(config: WriteConfig, folders: Iterable[str], *, url_encode: bool) -> WriteConfig:
    """The options, with the translator that decodes where a folder cannot be a partition of the table as it is.

    `url_encode`: whether the partition paths of the table have escapes, which are those of Hive.
    """
    decoded = replace(config.bootstrap, translator=Translator.DECODED)
    can_stay = all(
        (text := decoded.partition_path(segment)) == segment or (url_encode and escape_value(text) == segment)
        for folder in folders
        for part in folder.split("/")
        for segment in (part.rpartition("=")[2],)
    )
    return config if can_stay else replace(config, bootstrap=decoded)


def _check_translated(source: Source, config: WriteConfig) -> None:
    """Raise `ConfigError` if two folders of the source would become one partition."""
    folders: dict[str, str] = {}
    for folder in source.partition_paths:
        path = check_data_path(config.bootstrap.partition_path(folder), source=f"{source.storage.uri}/{folder}")
        if path in folders:
            raise ConfigError(
                "two folders of the source have one path without escapes", folders=[folders[path], folder]
            )
        folders[path] = folder


def _check_apart(source: Storage, table: Storage) -> None:
    first, second = (f"{_plain(storage.uri)}/" for storage in (source, table))
    if first.startswith(second) or second.startswith(first):
        raise ConfigError(
            "the source and the table are the same folder, or one is inside the other: give the table a folder beside "
            "the source",
            source=source.uri,
            path=table.uri,
        )


def _plain(uri: str) -> str:
    folder = local_path(uri)
    return (str(folder.resolve()) if folder is not None else uri.replace("s3a://", "s3://")).rstrip("/")


def _with_partitions(config: WriteConfig, source: Source) -> WriteConfig:
    """The options, with the partition columns and the style of folders that the source shows."""
    table = config.table
    folders = [path for path in source.partition_paths if path]
    named = {tuple(name for name, _ in path_columns(path)) for path in folders}
    is_hive = bool(folders) and all(segment.count("=") for path in folders for segment in path.split("/"))
    fields = table.partition_fields
    if fields is None and is_hive and len(named) == 1:
        (fields,) = named
    if folders and not fields:
        raise ConfigError(
            "the files of the source are in folders: name the partition columns by which they are divided",
            path=source.storage.uri,
            folder=folders[0],
        )
    style = is_hive if table.hive_style is None else table.hive_style
    return replace(
        config,
        table=replace(table, partition_fields=fields, hive_style=style),
        what=replace(config.what, operation=WriteOperation.BULK_INSERT),
    )


def with_seconds(plan: BootstrapPlan, table: TableState | None, options: Mapping[str, str], engine: Engine) -> pa.Table:
    """The plan as a table, with estimates. Cost: some rows of the largest file of each mode.

    `table`: the one that rows are copied to; None for one that is not there yet.

    Raises what the bootstrap raises before it reads rows; and `RecordKeyError` if one of these rows has no key.
    """
    if table is None:
        table = create_table(MemoryStorage(), table_properties(plan.config))
    job = prepare(table, plan.config, plan.columns.schema, engine=engine, environment=SYSTEM, options=options)
    modes = [mode for mode in BootstrapMode if plan.partitions_of(mode)]
    found = engine.map(
        seconds_per_row, [_sample(job, plan, mode) for mode in modes], size_bytes=0, description="time some rows"
    )
    return plan.to_table({mode: seconds / engine.parallelism for mode, seconds in zip(modes, found, strict=True)})


def _sample(job: WriteJob, plan: BootstrapPlan, mode: BootstrapMode) -> SampleTask:
    largest = max((info for path in plan.partitions_of(mode) for info in plan.source.files[path]), key=lambda x: x.size)
    file = plan.source.source_file(largest)
    if mode is BootstrapMode.METADATA_ONLY:
        target = replace(job.target(SKELETON_INSTANT, DIRECT_MARKERS), heartbeat=None, schema=SKELETON_SCHEMA)
        return SampleTask(target, job.keys, job.key_columns, file)
    target = replace(job.target(FULL_RECORD_INSTANT, DIRECT_MARKERS), heartbeat=None)
    return SampleTask(target, job.keys, job.schema.arrow, file)
