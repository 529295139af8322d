"""The table of conflicts: over what each action gives way to each other one.

The table is total: it has a cell for every pair of an action that this release performs and one that it may meet on a
timeline, real Hudi's included. The check (`pyhudi.transaction.conflicts.check`) decides by it, and the table in
`docs/design/concurrency.md` is printed from it. An empty cell means that the two never disturb each other.

Source: reliability.md 5.1 and rows 27, 28, 53, 55, 56; mission rows S5-34, S5-39, S5-40, S5-43.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.format.timeline.table_version import TableVersion


class Ground(enum.Enum):
    """What two actions can have in common, so that the second one must give way."""

    GROUP = "file group"
    """Both change, make or replace one file group."""
    BASE_FILE = "base file"
    """Ours made a base file in a file group that the other one compacts, and that the compaction does not read."""
    NEW_KEYS = "new keys"
    """Ours looked its keys up and adds some to a partition that the other one added rows to: they may be the same. With
    a global index the partition does not matter."""
    PARTITION = "partition"
    """One replaces a partition that the other one adds rows to, or replaces."""
    SCHEMA = "schema"
    """One changes the table's columns, and the other one does not make the same change."""
    ORIGIN = "origin"
    """The other one takes back a completed write that ours began from."""
    ITSELF = "itself"
    """The other one takes ours back, or finishes it."""
    ANYTHING = "anything"
    """The other one bears no company."""


class Met(enum.Enum):
    """What ours may meet on the timeline; the value is its name in the documentation.

    Completed actions count that completed since ours began. Of the plans, those of compactions count if they were made
    since then, because a write respects the plans that it finds; those of clusterings as long as they are pending.
    """

    WRITE = "upsert, insert, bulk_insert, delete"
    OVERWRITE = "insert_overwrite, insert_overwrite_table, delete_partition"
    SCHEMA_CHANGE = "change of the schema alone (JVM Hudi's ALTER TABLE)"
    COMPACTION_PLAN = "plan of a compaction"
    COMPACTION = "compaction"
    LOG_COMPACTION_PLAN = "plan of a log compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING_PLAN = "pending clustering (JVM Hudi's)"
    CLUSTERING = "clustering (JVM Hudi's)"
    ROLLBACK = "rollback, pending or completed"
    RESTORE = "restore, pending or completed (JVM Hudi's)"
    CLEAN = "clean, pending or completed (JVM Hudi's)"
    SAVEPOINT = "savepoint (JVM Hudi's)"
    INDEX_BUILD_PENDING = "pending index build (JVM Hudi's)"
    INDEX_BUILD = "index build (JVM Hudi's)"


class Ours(enum.Enum):
    """What this release puts on a timeline; the value is its name in the documentation."""

    WRITE = "write"
    OVERWRITE = "overwrite"
    COMPACTION_PLAN = "planning of a compaction"
    COMPACTION = "run of a compaction"
    ROLLBACK = "rollback of a failed write"


@dataclass(frozen=True, slots=True)
class Cell:
    """The grounds on which ours gives way, in table version 6 and from version 8 on."""

    version_6: frozenset[Ground]
    version_8: frozenset[Ground]


def _on(*grounds: Ground) -> Cell:
    return Cell(frozenset(grounds), frozenset(grounds))


def _row(
    *, write: Cell, overwrite: Cell, plan: Cell | None = None, run: Cell | None = None, rollback: Cell | None = None
) -> Mapping[Ours, Cell]:
    return {
        Ours.WRITE: write,
        Ours.OVERWRITE: overwrite,
        Ours.COMPACTION_PLAN: plan or _NEVER,
        Ours.COMPACTION: run or _NEVER,
        Ours.ROLLBACK: rollback or _NEVER,
    }


_NEVER: Final = _on()
_GROUP, _SCHEMA, _ALL = _on(Ground.GROUP), _on(Ground.SCHEMA), _on(Ground.ANYTHING)
# A log of version 6 carries the name of its slice, so that one which was written meanwhile would fall behind the
# compaction; from version 8 on it is placed by its completion time, and only a base file is in the way.
_BESIDE_PLAN: Final = Cell(frozenset({Ground.GROUP}), frozenset({Ground.BASE_FILE}))
_BESIDE_COMPACTION: Final = Cell(
    _BESIDE_PLAN.version_6 | {Ground.SCHEMA},
    _BESIDE_PLAN.version_8 | {Ground.SCHEMA},
)

TABLE: Final[Mapping[Met, Mapping[Ours, Cell]]] = {
    Met.WRITE: _row(
        write=_on(Ground.GROUP, Ground.NEW_KEYS, Ground.SCHEMA),
        overwrite=_on(Ground.GROUP, Ground.PARTITION, Ground.SCHEMA),
    ),
    Met.OVERWRITE: _row(
        write=_on(Ground.GROUP, Ground.NEW_KEYS, Ground.PARTITION, Ground.SCHEMA),
        overwrite=_on(Ground.GROUP, Ground.PARTITION, Ground.SCHEMA),
    ),
    Met.SCHEMA_CHANGE: _row(write=_SCHEMA, overwrite=_SCHEMA),
    # An overwrite makes new file groups only, and what a compaction makes of replaced ones nobody sees.
    Met.COMPACTION_PLAN: _row(write=_BESIDE_PLAN, overwrite=_NEVER, plan=_GROUP),
    Met.COMPACTION: _row(write=_BESIDE_COMPACTION, overwrite=_SCHEMA),
    Met.LOG_COMPACTION_PLAN: _row(write=_BESIDE_PLAN, overwrite=_NEVER, plan=_GROUP),
    Met.LOG_COMPACTION: _row(write=_BESIDE_COMPACTION, overwrite=_SCHEMA),
    # A clustering puts the rows that it was planned for into new groups, whatever happens to the old ones meanwhile.
    Met.CLUSTERING_PLAN: _row(write=_GROUP, overwrite=_GROUP, plan=_GROUP),
    # It moves rows and adds none, so new keys and new rows in its partitions are no matter.
    Met.CLUSTERING: _row(write=_on(Ground.GROUP, Ground.SCHEMA), overwrite=_on(Ground.GROUP, Ground.SCHEMA)),
    Met.ROLLBACK: _row(
        write=_on(Ground.ITSELF, Ground.ORIGIN),
        overwrite=_on(Ground.ITSELF, Ground.ORIGIN),
        run=_on(Ground.ITSELF, Ground.ORIGIN),
        rollback=_on(Ground.ITSELF),
    ),
    Met.RESTORE: _row(write=_ALL, overwrite=_ALL, plan=_ALL, run=_ALL, rollback=_ALL),
    # Its plan spares the newest slice of each group and the inputs of pending plans.
    Met.CLEAN: _row(write=_NEVER, overwrite=_NEVER),
    Met.SAVEPOINT: _row(write=_NEVER, overwrite=_NEVER),
    # All of these take the metadata table away, which an index build is writing to.
    Met.INDEX_BUILD_PENDING: _row(write=_ALL, overwrite=_ALL, run=_ALL, rollback=_ALL),
    Met.INDEX_BUILD: _row(write=_NEVER, overwrite=_NEVER),
}
"""By what is met, and what ours is, the grounds on which ours gives way."""


def conflict_grounds(met: Met, ours: Ours, version: TableVersion) -> frozenset[Ground]:
    """On which grounds an action of ours gives way to what it meets; none where the two never disturb each other."""
    cell = TABLE[met][ours]
    return cell.version_8 if version.has_completion_times else cell.version_6


def as_markdown() -> str:
    """The table as the documentation shows it, a line for each action that may be met."""
    lines = [
        f"| met on the timeline | {' | '.join(ours.value for ours in Ours)} |",
        f"|---|{'---|' * len(Ours)}",
    ]
    for met, row in TABLE.items():
        lines.append(f"| {met.value} | {' | '.join(_cell_text(row[ours]) for ours in Ours)} |")
    return "\n".join(lines)


def _cell_text(cell: Cell) -> str:
    if cell.version_6 == cell.version_8:
        return _grounds_text(cell.version_8)
    return f"{_grounds_text(cell.version_8)}; version 6: {_grounds_text(cell.version_6)}"


def _grounds_text(grounds: frozenset[Ground]) -> str:
    return ", ".join(ground.value for ground in Ground if ground in grounds) or "never"
