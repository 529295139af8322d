"""Settings of the tasks of a write or a table service, from the table and the options."""

from __future__ import annotations

from pyhudi.config.enums import LogBlockFormat
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.spilled_rows import spill_settings
from pyhudi.format.log.cdc import change_schema
from pyhudi.format.schema.avro_arrow import avro_with_meta_columns
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.format.timeline.instant import format_instant_time, parse_instant_time
from pyhudi.io.base_file import BaseFileSettings
from pyhudi.io.key_footer import BloomSettings
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.table_rules import TableRules
from pyhudi.metadata_table.partitions.column_stats import columns_to_report
from pyhudi.metadata_table.requested_indexes import has_column_stats
from pyhudi.table.archive.writes import block_filter
from pyhudi.table.instant_times import table_zone
from pyhudi.table.schema import TableSchema
from pyhudi.table.state import TableState
from pyhudi.tasks.cdc import ChangeDataSettings
from pyhudi.tasks.data_file import WriteTarget
from pyhudi.tasks.log_writer import LogSettings
from pyhudi.transaction.heartbeat import heartbeat_path
from pyhudi.transaction.markers.announcing import TaskMarkers


def write_target(
    table: TableState,
    config: WriteConfig,
    instant_time: str,
    schema: TableSchema,
    rules: MergeRules,
    markers: TaskMarkers,
) -> WriteTarget:
    """The target of an instant, with the file settings of the options."""
    files, bloom = config.files, config.bloom
    filters = BloomSettings(bloom.filter_type, bloom.num_entries, bloom.false_positive_rate, bloom.dynamic_max_entries)
    return WriteTarget(
        storage=table.storage.spec,
        instant_time=instant_time,
        schema=schema.arrow,
        rules=rules,
        files=BaseFileSettings(
            codec=files.codec.arrow_name,
            max_file_size=files.max_file_size,
            row_group_size=files.block_size,
            page_size=files.page_size,
            avro_schema=avro_with_meta_columns(schema.avro),
            bloom=filters if bloom.enabled else None,
            indexed_columns=columns_to_report(table, schema) if has_column_stats(table) else (),
        ),
        markers=markers,
        heartbeat=heartbeat_path(instant_time),
        tombstones_since=_tombstones_since(table, config, instant_time),
    )


def change_data_settings(table: TableState, schema: TableSchema) -> ChangeDataSettings | None:
    """How writes of rows log their changes; None if the table does not ask for it. Services change no rows."""
    if not table.config.cdc_enabled:
        return None
    mode, has_docs = table.config.change_data_mode, table.version.has_completion_times
    return ChangeDataSettings(mode, change_schema(mode, schema.avro, has_docs=has_docs))


def _tombstones_since(table: TableState, config: WriteConfig, instant_time: str) -> str | None:
    """The instant from which on footers keep deletes; all deletes if that of the write is not a calendar time."""
    hours = config.input.tombstone_hours
    if not hours:
        return None
    zone = table_zone(table.config)
    now_ms = parse_instant_time(instant_time, zone)
    return "" if now_ms is None else format_instant_time(max(0, now_ms - hours * 3_600_000), zone)


def merge_settings(table: TableState, config: WriteConfig, schema: TableSchema, rules: TableRules) -> MergeSettings:
    """How slices of the table are merged, under this schema and the current timeline."""
    return MergeSettings(
        schema=with_meta_columns(schema.arrow),
        rules=rules,
        blocks=block_filter(table.timeline, table.timeline.completed_times),
        spill=spill_settings(config.memory),
    )


def log_settings(table: TableState, config: WriteConfig) -> LogSettings:
    """How logs of the table are written."""
    logs = config.logs
    return LogSettings(
        in_parquet=logs.block_format is not LogBlockFormat.AVRO,
        wraps_arrays=table.version.has_several_ordering_fields,
        wraps_dates=table.version.has_date_wrappers,
        block_size=logs.max_block_size,
        file_size=logs.max_file_size,
    )
