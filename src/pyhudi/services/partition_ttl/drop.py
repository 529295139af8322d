"""Dropping partitions: a replace commit in which nothing takes the place of their file groups.

The files stay until a clean passes the commit, so that older states stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyhudi.environment import Environment
from pyhudi.errors import SchemaMismatchError
from pyhudi.format.metadata.commit import WRITER_KEY, CommitMetadata
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, InstantTime
from pyhudi.services.clustering.hash_rings import mark_rings, put_rings, renewed_rings, with_buckets
from pyhudi.services.clustering.schedule import roll_back_clusterings
from pyhudi.services.rollback.rollback import undone_on_failure
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.idempotence import check_batch_is_new
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.transaction import begin, commit, mark_inflight, own_version

Choice = Callable[[TableState], Mapping[str, tuple[str, ...]]]
"""The ids of the file groups that go, by partition path. It may raise an error, which stops the drop."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A completed drop: the table before it, its instant, when it became visible, and its metadata."""

    base: TableState
    instant: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata


def drop_partitions(
    table: TableState,
    choose: Choice,
    *,
    settings: TransactionSettings,
    environment: Environment,
    extra: Mapping[str, str],
) -> Dropped:
    """Take the chosen file groups out of the table. `extra`: what else goes into the commit.

    The choice is made on the table as it is when the drop begins; a write that changes one of these partitions and
    completes before the drop is a conflict. Raises what `begin` and `commit` raise, and `SchemaMismatchError` for a
    table without a schema. Cost: that of a commit without files, and of the choice.
    """
    operation = WriteOperation.DELETE_PARTITION
    requested = encode_requested_replace_metadata(requested_replace(operation))
    with (
        begin(
            table, Action.REPLACE_COMMIT, requested=requested, settings=settings, environment=environment
        ) as transaction,
        undone_on_failure(transaction),
    ):
        check_batch_is_new(transaction.base, extra, known=table.timeline.completed_times)
        schema = load_table_schema(transaction.base)
        if schema is None:
            raise SchemaMismatchError("the table has no rows and no schema yet: write rows into it first")
        chosen = choose(transaction.base)
        rings = renewed_rings(
            transaction.base,
            chosen if transaction.base.has_hashing_metadata else (),
            transaction.instant_time,
            environment.ids,
        )
        replaced = with_buckets(chosen, rings)
        changes = [FileGroupId(path, file_id) for path, ids in replaced.items() for file_id in ids]
        roll_back_clusterings(transaction, changes)
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        metadata = CommitMetadata(
            operation=operation,
            stats_by_partition={},
            extra={**extra, **schema.extra_metadata(schema, transaction.instant_time), WRITER_KEY: own_version()},
            replaced_file_ids=replaced,
        )
        put_rings(table.storage, rings)
        completed = commit(transaction, metadata, base_schema=schema.avro, unique_keys=UniqueKeys.NOWHERE)
    mark_rings(table.storage, rings)
    return Dropped(transaction.base, transaction.instant_time, completed, metadata)
