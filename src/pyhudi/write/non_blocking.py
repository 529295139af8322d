"""Lock-less writers (`NON_BLOCKING_CONCURRENCY_CONTROL`): what a table and a write must be.

Several writers append to the logs of the same file groups at once. None waits for another or gives way to it: readers
merge the logs in the order in which their writes completed, by the rule of the table. That needs a place for every key
that all writers compute alike, and logs that belong to a slice by the completion time of their write.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.config.enums import BucketEngine, ConcurrencyMode, DuplicatePolicy, MergeMode, TableType
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.index.buckets.index import BucketIndex
from pyhudi.table.state import TableState

_OPERATIONS = (WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.DELETE)


def check_lock_less(
    table: TableState,
    config: WriteConfig,
    buckets: BucketIndex | None,
    *,
    replaces_all: bool,
    computes: bool = False,
) -> None:
    """Raise `UnsupportedFeatureError` that names all that a lock-less write needs and this one has not.

    `computes`: its rows are computed from those of the table, which no other writer may change meanwhile.
    """
    if config.concurrency.mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return
    missing = list(_missing(table, config, buckets, replaces_all=replaces_all))
    if computes:
        missing.append("rows that are not computed from the table, as those of a merge, update or deletion are")
    if missing:
        raise UnsupportedFeatureError(
            f"hoodie.write.concurrency.mode={config.concurrency.mode.value} needs {'; '.join(missing)}: leave it out, "
            "and writers detect conflicts at their commit",
            table=table.config.name,
        )


def _missing(
    table: TableState, config: WriteConfig, buckets: BucketIndex | None, *, replaces_all: bool
) -> Iterator[str]:
    if table.config.table_type is not TableType.MERGE_ON_READ:
        yield "a merge-on-read table"
    if not table.version.has_completion_times:
        yield f"table version 8 or 9, not {table.version.number}"
    if buckets is None or buckets.engine is not BucketEngine.SIMPLE:
        yield "a simple bucket index (hoodie.index.type=BUCKET)"
    if table.config.merge_mode is MergeMode.COMMIT_TIME_ORDERING:
        # JVM Hudi reads logs of one slice in the order in which their writes began, and pyhudi as they completed.
        yield "ordering fields or a merger, as readers do not agree on the order of writes at the same time"
    if config.operation not in _OPERATIONS or replaces_all:
        yield "the operation upsert, insert or delete, as others do not only append to logs"
    elif config.operation is WriteOperation.INSERT and config.duplicate_policy is not DuplicatePolicy.NONE:
        yield "hoodie.datasource.insert.dup.policy=none, as another writer may insert the same key"
    if config.markers.detects_early:
        yield "hoodie.write.concurrency.early.conflict.detection.enable=false, as nothing is a conflict"
