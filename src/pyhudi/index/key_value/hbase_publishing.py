"""Keeping JVM Hudi's index in HBase beside each commit of a write with `hoodie.index.hbase.table`.

New keys get their rows before the commit, as in JVM Hudi: rows of a write that does not complete count for nothing.
Rows of records that the write moves or removes change after the commit, as an earlier change would hide them from JVM
Hudi if the commit failed. What dies in between is made good by the next write that asks the index.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyhudi.config.options_write import IndexOptions
from pyhudi.engine.protocol import TASKS_PER_CORE, TaskContext, spread
from pyhudi.errors import HudiError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.index.key_value.hbase_rows import HudiRows
from pyhudi.index.key_value.locations import Location
from pyhudi.index.key_value.stores.open import hudi_rows
from pyhudi.metadata_table.file_changes import change_of_commit
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.partitions.record_index import changed_locations, location_settings
from pyhudi.metadata_table.record_changes import RowSettings, changed_rows
from pyhudi.metadata_table.slice_changes import SliceChange
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTask:
    """Put, or change, the rows of the records of some file groups.

    `moves`: rows that name another file group change, too. `removes`: rows of removed records go, and no others change.
    """

    storage: StorageSpec
    rows: HudiRows
    changes: tuple[SliceChange, ...]
    settings: RowSettings
    instant_time: str
    moves: bool = False
    removes: bool = False


@contextmanager
def published(options: IndexOptions, source: Source, instant_time: str, metadata: CommitMetadata) -> Iterator[None]:
    """Keep JVM Hudi's index in HBase, if the options name one, beside the commit that the block makes.

    Raises what HBase fails with before the block; after it, when the write stands, that is logged.

    Cost: the record keys that came or went (`changed_rows`), asked of HBase, and a put of each new one; a round of
    tasks before the block, and two after it if records were moved or removed.
    """
    whole = _task(options, source, instant_time, metadata)
    if whole is None:
        yield
        return
    left = _run(source, whole)
    yield
    late = replace(whole, changes=tuple(change for change in whole.changes if change.number in left))
    with _logged(instant_time):
        if any(left[change.number].moved for change in late.changes):
            _run(source, replace(late, moves=True))
        if any(left[change.number].removed for change in late.changes):
            _run(source, replace(late, removes=True))


def withdraw(
    options: IndexOptions,
    source: Source,
    instant_time: str,
    metadata: CommitMetadata,
) -> None:
    """Delete the rows of file groups that a completed action has dropped. `source`: the table before it.

    JVM Hudi loses what it writes to a row of such a group. Cost: the key columns of the groups, asked of HBase, and a
    delete of each row.
    """
    with _logged(instant_time):
        whole = _task(options, source, instant_time, metadata)
        if whole is not None:
            _run(source, replace(whole, removes=True))


def _task(options: IndexOptions, source: Source, instant_time: str, metadata: CommitMetadata) -> PublishTask | None:
    """What an action changed; None without a table of HBase."""
    rows = hudi_rows(options, source.table)
    if rows is None:
        return None
    change = change_of_commit(instant_time, metadata)
    return PublishTask(
        storage=source.storage.spec,
        rows=rows,
        changes=changed_locations(change, source),
        settings=location_settings(change, source),
        instant_time=instant_time,
    )


@contextmanager
def _logged(instant_time: str) -> Iterator[None]:
    """Log an error: the action is completed, and its caller must not take it for failed."""
    try:
        yield
    except HudiError as error:
        _log.error(
            "%s is completed, but not all rows of JVM Hudi's index in HBase are changed: %s; JVM Hudi must not write "
            "before the next lookup of pyhudi with hoodie.index.hbase.table",
            instant_time,
            error,
        )


@dataclass(frozen=True, slots=True)
class Left:
    """What remains to be done for a file group: whether records `moved` to it, and whether some were `removed`."""

    moved: bool
    removed: bool


def publish(_: TaskContext, task: PublishTask) -> dict[int, Left]:
    """Change rows, and return what is left by the numbers of the changes. Memory: as `changed_rows`."""
    storage = open_spec(task.storage)
    left = {}
    for change in task.changes:
        moved = removed = 0
        location = Location(task.instant_time, change.group)
        for is_added, batch in changed_rows(storage, change, task.settings):
            keys = batch.column(RECORD_KEY)
            if is_added and not task.removes:
                moved += task.rows.point(keys, location, overwrite=task.moves)
            elif not is_added:
                removed += len(keys)
                if task.removes:
                    task.rows.drop(keys, change.group)
        if moved or removed:
            left[change.number] = Left(moved > 0, removed > 0)
    return left


def _run(source: Source, whole: PublishTask) -> dict[int, Left]:
    engine = source.engine
    assert engine is not None
    by_number = {change.number: change for change in whole.changes}
    shares: Sequence[tuple[int, ...]] = spread(
        {change.number: change.size for change in whole.changes}, engine.parallelism * TASKS_PER_CORE
    )
    tasks = [replace(whole, changes=tuple(by_number[number] for number in share)) for share in shares]
    size = sum(change.size for change in whole.changes)
    results = engine.map(publish, tasks, size_bytes=size, description="keep the index in HBase")
    return {number: left for result in results for number, left in result.items()}
