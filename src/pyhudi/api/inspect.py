"""`table.inspect`: what a table is made of and what happened to it, without reading its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.api.arguments import count_of, texts_of
from pyhudi.api.handle import TableHandle
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.instant import Instant
from pyhudi.markup import Shown
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import SlicesByPartition, load_view
from pyhudi.table.lister import EngineLister
from pyhudi.table.schema import load_table_schema
from pyhudi.table.timeline import position_of

if TYPE_CHECKING:
    from pyhudi.api.sizes import TableSizes
    from pyhudi.write.result import WriteResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail(Shown):
    """What kind of table this is, and how large.

    Attributes:
        name: the table's name.
        uri: where its folder is.
        type: "COPY_ON_WRITE" or "MERGE_ON_READ".
        version: the table version: 6, 8 or 9.
        record_key_fields: the columns of the record key; empty for a table that generates keys.
        partition_fields: the columns that partition it.
        ordering_fields: the columns that say which version of a record is the newest.
        merge_mode: how the versions of a record become one.
        partitions: how many partitions have files.
        base_files: how many base files readers need.
        logs: how many log files readers need.
        bytes: the size of both.
        writes: how many completed writes the active timeline has.
        pending: the instants of writes that are not completed.
    """

    name: str
    uri: str
    type: str
    version: int
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] | None
    ordering_fields: tuple[str, ...]
    merge_mode: str
    partitions: int
    base_files: int
    logs: int
    bytes: int
    writes: int
    pending: tuple[str, ...]


@dataclass(frozen=True)
class Inspect:
    """Metadata of a table, as of the moment when it was opened. `HudiTable.inspect` makes it.

    Methods that read metadata raise `CorruptDataError` where these do not parse.
    """

    _handle: TableHandle = field(repr=False)

    def detail(self) -> TableDetail:
        """Name, type, version, keys, merge mode, and size of the table. Cost: one listing of each partition."""
        state = self._handle.state
        config, latest = state.config, self._latest()
        slices = [file_slice for group in latest.values() for file_slice in group]
        base_files, logs = _file_counts(slices)
        return TableDetail(
            name=config.name,
            uri=state.storage.uri,
            type=config.table_type.value,
            version=config.version.number,
            record_key_fields=config.record_key_fields,
            partition_fields=config.partition_fields,
            ordering_fields=config.ordering_fields,
            merge_mode=config.merge_mode.value,
            partitions=len(latest),
            base_files=base_files,
            logs=logs,
            bytes=sum(file_slice.size for file_slice in slices),
            writes=len(state.timeline.completed_writes),
            pending=tuple(instant.requested_time for instant in state.timeline.pending_writes),
        )

    def columns(self) -> pa.Table:
        """The columns without `_hoodie_*`, and what they are for.

        Columns: column, type, nullable, and the place of the column, from 1 on, among those that make the record key
        (key), the partition path (partition) and the order of versions (ordering); null where it is none of them. Cost:
        one read.
        """
        state = self._handle.state
        schema, config = load_table_schema(state), state.config
        roles = {
            "key": config.record_key_fields,
            "partition": config.partition_fields or (),
            "ordering": config.ordering_fields,
        }
        rows = [
            {
                "column": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                **{role: names.index(field.name) + 1 if field.name in names else None for role, names in roles.items()},
            }
            for field in (schema.arrow if schema is not None else ())
        ]
        return table_of("column string, type string, nullable bool, key int64, partition int64, ordering int64", rows)

    def history(self, limit: int | None = None) -> pa.Table:
        """The completed writes, newest first, archived ones among them; `limit` of them, or all.

        Columns: instant, completion_time, action, operation, inserted, updated, deleted, files, bytes.

        Cost: one read per write of the active timeline; the archived timeline only where `limit` is not reached before.
        """
        columns = (
            "instant string, completion_time string, action string, operation string, inserted int64, updated int64, "
            "deleted int64, files int64, bytes int64"
        )
        return table_of(columns, map(_history_row, islice(self._writes(), count_of(limit, "limit"))))

    def last_write(self) -> WriteResult | None:
        """What the write did that completed last; None for a table without any. Cost: one read."""
        from pyhudi.write.result import result_of

        write = max(self._handle.state.timeline.completed_writes, key=position_of, default=None)
        if write is None:
            return None
        metadata = load_commit_metadata(self._handle.state.storage, write, self._handle.state.version)
        return result_of(metadata, write.requested_time, position_of(write), 0.0)

    def position(self) -> str | None:
        """How far the table object sees: the `end` of `changes` now, and the `begin` of the next; None without a write.

        It is the newest completion time; in table version 6 the newest instant before which no write is running. Cost:
        nothing.
        """
        from pyhudi.read.stream import newest_position

        return newest_position(self._handle.state)

    def commit_value(self, key: str) -> str | None:
        """The newest value that a write stored in its commit under a key, which it got as an option; None if none did.

        Such keys begin with `_` (`hoodie.datasource.write.commitmeta.key.prefix`). A pipeline keeps here how far it has
        read its source: the rows and the position are there together or not at all. Cost: one read per write until it
        is found; the archived timeline only where no active write has it.

        >>> result = table.upsert(rows, hudi_options={"_orders_position": "20261123060735652"})
        >>> table.inspect.commit_value("_orders_position")
        '20261123060735652'
        """
        return next((metadata.extra[key] for _, metadata in self._writes() if key in metadata.extra), None)

    def late_rows(self, partition: str, after: str) -> int:
        """How many rows were written to a partition, inserted, updated or deleted, after a completed write.

        That write is the one with which the partition was taken to be complete: `HudiTable.watermark().instant`.

        Raises `InvalidRequestError` if the active timeline does not have the write. Cost: one read per later write.
        """
        from pyhudi.api.watermark import late_rows_of

        return late_rows_of(self._handle, partition, after)

    def timeline(self) -> pa.Table:
        """The instants of the active timeline, of writes and of services, completed or not, by requested time.

        Columns: instant, action ("commit", "deltacommit", "rollback", …), state ("requested", "inflight", "completed"),
        completion_time (null where it is pending, and in table version 6). Cost: no request.
        """
        rows = (
            (instant.requested_time, instant.action.value, instant.state.name.lower(), instant.completion_time)
            for instant in self._handle.state.timeline.instants
        )
        return table_of("instant string, action string, state string, completion_time string", rows)

    def files(self) -> pa.Table:
        """The newest file slice of each file group.

        Columns: partition_path, file_id, path and size of the base file (null where there is none), logs (their paths),
        log_size, instant (where the slice begins). Sizes are in bytes. Cost: one listing of each partition.
        """
        rows = [
            {
                "partition_path": file_slice.partition_path,
                "file_id": file_slice.file_id,
                "path": file_slice.base.path if file_slice.base else None,
                "size": file_slice.base.size if file_slice.base else None,
                "logs": [log.path for log in file_slice.logs],
                "log_size": sum(log.size for log in file_slice.logs),
                "instant": file_slice.instant_time,
            }
            for slices in self._latest().values()
            for file_slice in slices
        ]
        columns = (
            "partition_path string, file_id string, path string, size int64, logs list<string>, log_size int64, "
            "instant string"
        )
        return table_of(columns, rows)

    def stats(self, columns: Sequence[str] | None = None) -> pa.Table:
        """What the footers of the newest base files say about their columns: one row per base file and column.

        Columns: partition_path, file_id, path, column, rows, nulls, min, max, bytes (compressed).

        `min` and `max` are text: times in ISO form, bytes in hexadecimal, other values as Python writes them. Both are
        null where the file has no value in the column or its writer kept no bounds, as pyhudi does for NaN; other
        writers leave NaN out of the bounds. `nulls` is null where the writer did not count them. Readers skip by
        these bounds. A writer may have shortened long texts: then `min` is below the least value, or `max` above the
        greatest one. Logs have no statistics, so newer values may lie outside.

        `columns`: names of columns, meta columns among them, or paths in nested ones, such as "point.x"; by default all
        columns of the table without the meta columns. Nested columns have a row for each value in them, under its path.

        Cost: one listing of each partition, and the footer of each base file, read by the engine's tasks.

        Raises `ConfigError` for a column that the table does not have.
        """
        wanted = None if columns is None else texts_of(columns, "columns")
        from pyhudi.read.statistics import collect_statistics

        return collect_statistics(self._handle.state, self._handle.engine, self._latest(), wanted)

    def partitions(self) -> pa.Table:
        """The partitions that have files, by path; a table without partitions has one, with an empty path.

        Columns: partition_path, file_groups, base_files, logs, bytes. Cost: one listing of each partition.
        """
        columns = "partition_path string, file_groups int64, base_files int64, logs int64, bytes int64"
        rows = (
            (path, len(slices), *_file_counts(slices), sum(file_slice.size for file_slice in slices))
            for path, slices in sorted(self._latest().items())
        )
        return table_of(columns, rows)

    def sizes(self) -> TableSizes:
        """How the files of the table are cut: small files, logs beside base files, skew of partitions.

        Cost: one listing of each partition.

        >>> table.inspect.sizes().log_ratio
        0.0
        """
        from pyhudi.api.sizes import sizes_of
        from pyhudi.config.write_config import WriteConfig

        limit = WriteConfig.from_options(self._handle.options).files.small_file_limit
        return sizes_of(self._latest(), limit)

    def write_amplification(self, limit: int | None = None) -> pa.Table:
        """What the completed writes and services wrote for what they changed, newest first; `limit` of them, or all.

        Columns: instant; operation; rows_changed (inserted, updated, deleted); rows_written (changed ones, and those
        beside them in the same files); bytes_changed (the share of `bytes_written` that the changed rows have in their
        files); bytes_written; amplification (`bytes_written` over `bytes_changed`; null where nothing was changed).

        Compactions and clusterings change nothing and write: the amplification of a stretch of time is the sum of
        `bytes_written` over that of `bytes_changed`. Cost: as `history`.
        """
        from pyhudi.api.sizes import amplification_table

        return amplification_table(islice(self._writes(), count_of(limit, "limit")))

    def metadata_check(self) -> pa.Table:
        """Where the metadata table differs from the store; no rows where it does not, or where there is none.

        Columns: problem ("not listed": a file of a completed write that the metadata table lacks; "gone from the
        store": the other way round; "another size"; "without statistics" and "other statistics": of a column in a base
        file; for bounds of a partition, path is its path; "without entry": keys of a file slice that an index lacks or
        has elsewhere; "entry without row": an index has more entries than the table has rows; "without filter": of a
        base file; "not valid" and "unreadable": reads list the store, see detail); path; stored_bytes and
        listed_bytes (sizes in the store and in the metadata table); detail (text).

        What is wrong is repaired by `recovery.rebuild_metadata_table`. Cost: a recursive listing of the table, the
        metadata table's list of files, and with column statistics a footer per base file; with indexes over record keys
        the key columns of the table and all of the index, a file group at a time, in this process.

        >>> table.inspect.metadata_check().num_rows
        0
        """
        from pyhudi.metadata_table.checks.files import differences

        return differences(self._handle.state.reload())

    def findings(self, *, files: int = 1000) -> pa.Table:
        """What is wrong with the table as it is now, the worst first; no rows for a healthy one. Nothing is written.

        Looks at: instants that are damaged, died, wait, or have impossible times; files that are missing, cut off,
        damaged, of no write, or not Hudi's; metafiles of partitions; rows in the wrong partition, under a key twice,
        or not as their meta columns and footers say; savepoints; the metadata table and its indexes; the source of a
        bootstrap; properties; locks; services that are due.

        Columns: severity ("error": rows are missing, wrong or twice, or the table cannot be used; "warning": something
        died or is damaged that readers do not notice; "note": work that is due); problem (in a few words that do not
        change); path (a file, partition or instant); detail; command (of `pyhudi`, which mends it; null if no one thing
        does); mend (what `recovery.mend` does about it; null for nothing).

        `files`: how many file slices are opened at most, from all over the table; if it has more, statistics and
        indexes are not compared with them. Cost: a read per write of the active timeline, some listings of the table;
        opened slices are read as a whole, twice where they have logs; a read per partition, of at most as many.

        >>> table.inspect.findings().num_rows
        0
        """
        # Loads much that other looks do not need.
        from pyhudi.doctor.diagnosis import diagnose
        from pyhudi.doctor.finding import findings_table

        call = self._handle.service_call(None, call="findings")
        return findings_table(diagnose(call, count_of(files, "files") or 0), call.table.storage.uri)

    def _latest(self) -> SlicesByPartition:
        state = self._handle.state
        lister = EngineLister(state.storage, self._handle.engine)
        return load_view(state.storage, state.timeline, lister=lister).latest

    def _writes(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        state = self._handle.state
        for instant in reversed(state.timeline.completed_writes):
            yield instant, load_commit_metadata(state.storage, instant, state.version)
        for instant, metadata in archived_metadata(state.storage, state.version):
            if not state.timeline.is_committed(instant.requested_time):
                yield instant, metadata


def _file_counts(slices: Sequence[FileSlice]) -> tuple[int, int]:
    """How many base files and how many logs slices have."""
    return sum(file_slice.base is not None for file_slice in slices), sum(len(file_slice.logs) for file_slice in slices)


def _history_row(write: tuple[Instant, CommitMetadata]) -> dict[str, Any]:
    from pyhudi.write.result import result_of

    instant, metadata = write
    result = result_of(metadata, instant.requested_time, position_of(instant), 0.0)
    return {
        **asdict(result),
        "instant": result.instant,
        "completion_time": result.completion_time,
        "action": instant.action.value,
    }
