"""The table of conflicts: on which grounds an action of ours gives way to another action on the timeline.

The table is total: it has a cell for every pair of an action that this release performs and one that it may find on a
timeline, those of JVM Hudi included. The check (`pyhudi.transaction.conflicts.check`) decides by it, and the table in
`docs/design/concurrency.md` is printed from it. An empty cell means that the two never conflict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.format.timeline.table_version import TableVersion


class Ground(enum.Enum):
    """What two actions have in common, so that the second one must give way."""

    GROUP = "file group"
    """Both change, create or replace the same file group."""
    BASE_FILE = "base file"
    """Own wrote a base file, which the compaction does not read, in a file group that the other compacts."""
    BUCKET = "bucket"
    """Both made, or wrote to, a file group of the same bucket of a simple bucket index, under different ids."""
    NEW_KEYS = "new keys"
    """Own looked its keys up, and inserts into a partition that the other inserted into: the keys may be the same. With
    a global index the partition does not matter."""
    PARTITION = "partition"
    """One replaces a partition that the other inserts into or replaces."""
    READ = "rows read"
    """Own computed its rows from rows of the table (a merge, an update, a deletion by condition), and the other changed
    rows in a partition that it read."""
    SCHEMA = "schema"
    """One changes the table's columns, and the other does not make the same change."""
    EARLIER_COLUMNS = "earlier columns"
    """Columns go by ids, and the other, which was requested before ours, changed them after ours began: files of ours
    would be read by names that they do not have."""
    ORIGIN = "origin"
    """The other rolls back a completed write that ours began from."""
    ITSELF = "itself"
    """The other rolls ours back, or completes it."""
    ANYTHING = "anything"
    """The other action conflicts with every concurrent action."""


class Other(enum.Enum):
    """Another action on the timeline; the value is its name in the documentation.

    Completed actions count if they completed since ours began. Compaction plans count if they were made since then,
    because a write respects the plans that it finds; clustering plans count while they are pending.
    """

    WRITE = "upsert, insert, bulk_insert, delete"
    OVERWRITE = "insert_overwrite, insert_overwrite_table, delete_partition, truncate, expiry of partitions"
    SCHEMA_CHANGE = "change of columns (ALTER TABLE)"
    COMPACTION_PLAN = "plan of a compaction"
    COMPACTION = "compaction"
    LOG_COMPACTION_PLAN = "plan of a log compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING_PLAN = "pending clustering"
    CLUSTERING = "clustering"
    ROLLBACK = "rollback, pending or completed"
    RESTORE = "restore, pending or completed"
    CLEAN = "clean, pending or completed"
    SAVEPOINT = "savepoint"
    INDEX_BUILD_PENDING = "pending index build (JVM Hudi's)"
    INDEX_BUILD = "index build"


class Own(enum.Enum):
    """An action of this release; the value is its name in the documentation."""

    WRITE = "write"
    LOCK_LESS_WRITE = "lock-less write"
    OVERWRITE = "overwrite"
    SCHEMA_CHANGE = "change of columns"
    COMPACTION_PLAN = "planning of a compaction"
    COMPACTION = "run of a compaction"
    CLUSTERING_PLAN = "planning of a clustering"
    CLUSTERING = "run of a clustering"
    ROLLBACK = "rollback of a failed write"
    CLEAN = "clean"
    ARCHIVING = "archiving"
    SAVEPOINT = "making or deleting a savepoint"
    RESTORE = "restore"
    VERSION_CHANGE = "upgrade or downgrade"
    INDEX_CHANGE = "building or dropping an index"


@dataclass(frozen=True, slots=True)
class Cell:
    """The grounds on which ours gives way, in table version 6 and from version 8 on."""

    version_6: frozenset[Ground]
    version_8: frozenset[Ground]


def _on(*grounds: Ground) -> Cell:
    return Cell(frozenset(grounds), frozenset(grounds))


def _row(
    *,
    write: Cell,
    lock_less: Cell | None = None,
    overwrite: Cell,
    schema_change: Cell | None = None,
    plan: Cell | None = None,
    run: Cell | None = None,
    clustering_plan: Cell | None = None,
    clustering: Cell | None = None,
    rollback: Cell | None = None,
    clean: Cell | None = None,
    archiving: Cell | None = None,
    savepoint: Cell | None = None,
    restore: Cell | None = None,
    version_change: Cell | None = None,
    index_change: Cell | None = None,
) -> Mapping[Own, Cell]:
    return {
        Own.WRITE: write,
        Own.LOCK_LESS_WRITE: lock_less or write,
        Own.OVERWRITE: overwrite,
        Own.SCHEMA_CHANGE: schema_change or _NEVER,
        Own.COMPACTION_PLAN: plan or _NEVER,
        Own.COMPACTION: run or _NEVER,
        Own.CLUSTERING_PLAN: clustering_plan or _NEVER,
        Own.CLUSTERING: clustering or _NEVER,
        Own.ROLLBACK: rollback or _NEVER,
        Own.CLEAN: clean or _NEVER,
        Own.ARCHIVING: archiving or _NEVER,
        Own.SAVEPOINT: savepoint or _NEVER,
        Own.RESTORE: restore or _NEVER,
        Own.VERSION_CHANGE: version_change or _NEVER,
        Own.INDEX_CHANGE: index_change or _NEVER,
    }


_NEVER: Final = _on()
_GROUP, _SCHEMA, _ALL = _on(Ground.GROUP), _on(Ground.SCHEMA), _on(Ground.ANYTHING)
# A log of version 6 carries the instant of its slice, so a log that was written meanwhile would belong to the slice
# before the compaction. From version 8 on its completion time counts, and only a base file conflicts.
_BESIDE_PLAN: Final = Cell(frozenset({Ground.GROUP}), frozenset({Ground.BASE_FILE}))
_BESIDE_COMPACTION: Final = Cell(
    _BESIDE_PLAN.version_6 | {Ground.SCHEMA},
    _BESIDE_PLAN.version_8 | {Ground.SCHEMA},
)

TABLE: Final[Mapping[Other, Mapping[Own, Cell]]] = {
    Other.WRITE: _row(
        write=_on(Ground.GROUP, Ground.BUCKET, Ground.NEW_KEYS, Ground.READ, Ground.SCHEMA),
        # Both append to logs of the group, and readers merge what they wrote.
        lock_less=_on(Ground.BUCKET, Ground.SCHEMA),
        overwrite=_on(Ground.GROUP, Ground.BUCKET, Ground.PARTITION, Ground.SCHEMA),
        schema_change=_SCHEMA,
        # Only under PreferWriterConflictResolutionStrategy; otherwise the write has given way to the plan.
        clustering=_GROUP,
        # While one is pending; a clustering that was only planned is taken along.
        version_change=_ALL,
    ),
    Other.OVERWRITE: _row(
        write=_on(Ground.GROUP, Ground.BUCKET, Ground.NEW_KEYS, Ground.PARTITION, Ground.READ, Ground.SCHEMA),
        lock_less=_on(Ground.GROUP, Ground.BUCKET, Ground.SCHEMA),
        overwrite=_on(Ground.GROUP, Ground.BUCKET, Ground.PARTITION, Ground.SCHEMA),
        schema_change=_SCHEMA,
        clustering=_GROUP,
        version_change=_ALL,
    ),
    Other.SCHEMA_CHANGE: _row(
        write=_SCHEMA,
        overwrite=_SCHEMA,
        schema_change=_SCHEMA,
        run=_on(Ground.EARLIER_COLUMNS),
        clustering=_on(Ground.EARLIER_COLUMNS),
        version_change=_ALL,
    ),
    # An overwrite writes new file groups only, and readers ignore replaced groups, compacted or not.
    Other.COMPACTION_PLAN: _row(
        write=_BESIDE_PLAN,
        lock_less=_NEVER,
        overwrite=_NEVER,
        plan=_GROUP,
        clustering_plan=_GROUP,
        version_change=_ALL,
    ),
    # Plans of ours leave each other's file groups alone; a compaction of JVM Hudi may have been planned beside ours.
    Other.COMPACTION: _row(
        write=_BESIDE_COMPACTION, lock_less=_SCHEMA, overwrite=_SCHEMA, schema_change=_SCHEMA, clustering=_GROUP
    ),
    Other.LOG_COMPACTION_PLAN: _row(
        write=_BESIDE_PLAN,
        lock_less=_NEVER,
        overwrite=_NEVER,
        plan=_GROUP,
        clustering_plan=_GROUP,
        version_change=_ALL,
    ),
    Other.LOG_COMPACTION: _row(
        write=_BESIDE_COMPACTION, lock_less=_SCHEMA, overwrite=_SCHEMA, schema_change=_SCHEMA, clustering=_GROUP
    ),
    # A clustering copies the rows of its plan into new groups, even if the old groups have changed since.
    Other.CLUSTERING_PLAN: _row(
        write=_GROUP,
        overwrite=_GROUP,
        plan=_GROUP,
        clustering_plan=_GROUP,
        version_change=_ALL,
    ),
    # It copies rows and inserts none, so new keys and new rows in its partitions do not conflict.
    Other.CLUSTERING: _row(
        write=_on(Ground.GROUP, Ground.SCHEMA),
        overwrite=_on(Ground.GROUP, Ground.SCHEMA),
        schema_change=_SCHEMA,
        clustering=_GROUP,
    ),
    Other.ROLLBACK: _row(
        write=_on(Ground.ITSELF, Ground.ORIGIN),
        overwrite=_on(Ground.ITSELF, Ground.ORIGIN),
        schema_change=_on(Ground.ITSELF, Ground.ORIGIN),
        run=_on(Ground.ITSELF, Ground.ORIGIN),
        clustering=_on(Ground.ITSELF, Ground.ORIGIN),
        rollback=_on(Ground.ITSELF),
        # An older slice may be the newest of its group again, which the plan of a clean does not know.
        clean=_ALL,
        savepoint=_on(Ground.ORIGIN),
        version_change=_ALL,
    ),
    Other.RESTORE: _row(
        write=_ALL,
        overwrite=_ALL,
        schema_change=_ALL,
        plan=_ALL,
        run=_ALL,
        clustering_plan=_ALL,
        clustering=_ALL,
        rollback=_ALL,
        clean=_ALL,
        archiving=_ALL,
        savepoint=_ALL,
        restore=_ALL,
        version_change=_ALL,
        index_change=_ALL,
    ),
    # Its plan spares the newest slice of each group and the inputs of pending plans.
    # Of two plans that were made at one time the second may name files of the first, or know too little of it.
    # A savepoint or a restore must not need what a planned clean is about to delete.
    Other.CLEAN: _row(
        write=_NEVER,
        overwrite=_NEVER,
        clean=_ALL,
        savepoint=_GROUP,
        restore=_GROUP,
        version_change=_ALL,
    ),
    # A plan that was made before a savepoint does not spare its files.
    Other.SAVEPOINT: _row(write=_NEVER, overwrite=_NEVER, clean=_ALL),
    # All of these take the metadata table away, which an index build is writing to.
    Other.INDEX_BUILD_PENDING: _row(
        write=_ALL,
        overwrite=_ALL,
        schema_change=_ALL,
        run=_ALL,
        clustering=_ALL,
        rollback=_ALL,
        clean=_ALL,
        archiving=_ALL,
        restore=_ALL,
        version_change=_ALL,
        index_change=_ALL,
    ),
    Other.INDEX_BUILD: _row(write=_NEVER, overwrite=_NEVER),
}
"""By the other action and by ours: the grounds on which ours gives way."""


def conflict_grounds(other: Other, own: Own, version: TableVersion) -> frozenset[Ground]:
    """On which grounds an action of ours gives way to another one; none where the two never conflict."""
    cell = TABLE[other][own]
    return cell.version_8 if version.has_completion_times else cell.version_6


def as_markdown() -> str:
    """The table as the documentation shows it, a line for each action that may be on the timeline."""
    lines = [
        f"| on the timeline | {' | '.join(own.value for own in Own)} |",
        f"|---|{'---|' * len(Own)}",
    ]
    for other, row in TABLE.items():
        lines.append(f"| {other.value} | {' | '.join(_cell_text(row[own]) for own in Own)} |")
    return "\n".join(lines)


def _cell_text(cell: Cell) -> str:
    if cell.version_6 == cell.version_8:
        return _grounds_text(cell.version_8)
    return f"{_grounds_text(cell.version_8)}; version 6: {_grounds_text(cell.version_6)}"


def _grounds_text(grounds: frozenset[Ground]) -> str:
    return ", ".join(ground.value for ground in Ground if ground in grounds) or "never"
