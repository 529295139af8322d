"""Bulk insert: rows go directly from the input into new file groups."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi.config.enums import Arrangement
from pyhudi.engine.protocol import Distribution
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.format.timeline.instant import Action
from pyhudi.table.remembered_files import latest_slices
from pyhudi.tasks.bulk_insert import SplitTask, write_split
from pyhudi.tasks.markers import task_markers
from pyhudi.tasks.sort_rows import SortOrder, sorted_rows
from pyhudi.transaction.transaction import mark_inflight
from pyhudi.write.finish import committed, makes_empty_commit, take_back, without_commit, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult
from pyhudi.write.stored_texts import check_date_folders


def bulk_insert(job: WriteJob, rows: Any, *, overwrite: bool = False) -> WriteResult:
    """Write all rows as new records. With `overwrite` they replace all rows of the table.

    Cost: one pass over the input, after the sort that `hoodie.bulkinsert.sort.mode` asks for; a stream of Arrow is
    sorted in bounded memory, by way of local disk. Files reach the maximum size only as far as the splits of the input
    do.
    """
    distribution = _distribution(job)
    if isinstance(rows, pa.RecordBatchReader) and distribution.sort_columns:
        rows = _in_order(rows, distribution.sort_columns, job.config.memory.spill_folder)
        distribution = replace(distribution, arrangement=Arrangement.NONE)
    action = Action.REPLACE_COMMIT if overwrite else job.action
    operation = WriteOperation.INSERT_OVERWRITE_TABLE if overwrite else WriteOperation.BULK_INSERT
    requested = encode_requested_replace_metadata(requested_replace(operation)) if overwrite else b""
    with write_transaction(job, action, requested) as transaction:
        # Before the tasks write: what they leave besides the files of the commit is deleted, and not to be remembered.
        latest = latest_slices(transaction.base, job.lister) if overwrite else {}
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        with task_markers(transaction, job.config, job.engine) as markers:
            target = job.target(transaction.instant_time, markers)
            task = SplitTask(
                target=target,
                keys=job.keys,
                seed=job.environment.ids.uuid(),
                spill_folder=job.config.memory.spill_folder,
            )
            results = job.engine.map_splits(
                rows,
                functools.partial(write_split, task),
                distribution=distribution,
                description="bulk insert",
            )
        stats = [stat for result in results for stat in result]
        if not stats and not overwrite and not makes_empty_commit(job, is_computed=False):
            take_back(transaction, operation)
            return without_commit(job, operation)
        check_date_folders(job.table, job.keys, {stat.partition_path or "" for stat in stats})
        replaced = None
        if overwrite:
            paths = sorted(set(latest) | {stat.partition_path or "" for stat in stats})
            replaced = {path: tuple(file.file_id for file in latest.get(path, ())) for path in paths}
        return committed(job, transaction, operation, stats, replaced)


def _distribution(job: WriteJob) -> Distribution:
    return Distribution(
        job.config.files.sort_mode,
        partition_columns=tuple(field.name for field in job.keys.partition_fields),
        key_columns=job.keys.record_key_fields,
        splits=job.config.splits,
    )


def _in_order(rows: pa.RecordBatchReader, columns: tuple[str, ...], spill_folder: str | None) -> pa.RecordBatchReader:
    """The rows of a stream in order. As its size is not known, 2 MiB are held in the end for each run on disk."""
    schema = normalise(rows.schema)  # Arrow cannot sort by columns of some types, nor reorder them
    batches = (align(batch, schema) for batch in rows)
    found = sorted_rows(batches, SortOrder(columns), stored_bytes=0, spill_folder=spill_folder)
    return pa.RecordBatchReader.from_batches(schema, found)
