"""The decision before a write, under the lock: a metadata table is created, kept, made smaller, or dropped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.initialize import initialize_partitions
from pyhudi.metadata_table.partitions.maintained import maintained_partition
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, Source
from pyhudi.metadata_table.requested_indexes import can_be_built
from pyhudi.metadata_table.undone_writes import saying_undone_writes
from pyhudi.metadata_table.write_checks import checked_timeline, problem_for_writes
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.metadata_table import drop_metadata_table, drop_partitions, has_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_timeline

_log = logging.getLogger("pyhudi")


def settle_metadata_table(
    source: Source,
    wanted: bool | None,
    check_held: CheckHeld,
    *,
    indexes: Sequence[MetadataPartition] = (),
) -> TableState:
    """Give the table the metadata table that it is to have, at the begin of a write; the table as it is then.

    `wanted`: True creates one, False drops it, None keeps what is there. `indexes`: partitions that are built where
    they are not there, and with them the metadata table, unless `wanted` is False. Cost: nothing where nothing is to
    do; otherwise see `initialize_partitions` and `drop_metadata_table`.
    """
    table = source.table
    if wanted is False:
        if not has_metadata_table(table):
            return table
        check_held()
        drop_metadata_table(table)
        return table.reload()
    if has_metadata_table(table):
        table = _without_undone_writes(with_kept_partitions(table, check_held), check_held)
    asked = [
        index for index in indexes if index.name not in table.config.metadata_partitions and can_be_built(index, table)
    ]
    if (wanted or asked) and FILES not in table.config.metadata_partitions:
        asked.insert(0, maintained_partition(FILES, table))
    if not asked:
        return table
    return initialize_partitions(replace(source, table=table), asked, check_held)


def _without_undone_writes(table: TableState, check_held: CheckHeld) -> TableState:
    """The table without indexes that say what JVM Hudi has rolled back (`saying_undone_writes`); a warning tells.

    Cost: that of `saying_undone_writes`; a put and deletes where something is dropped.
    """
    if not has_metadata_table(table):
        return table  # it was dropped just now
    inner = checked_timeline(table) or load_timeline(table.storage, inner_version(table.version))
    wrong = sorted(saying_undone_writes(table, inner))
    if not wrong:
        return table
    _log.warning(
        "%s went on to say what a write said that was rolled back, and is dropped: build it again if it is needed",
        ", ".join(wrong),
    )
    check_held()
    drop_partitions(table, wrong)
    return table.reload()


def with_kept_partitions(table: TableState, check_held: CheckHeld) -> TableState:
    """The table without half-built partitions of its metadata table, which a commit drops.

    The whole metadata table is dropped where it cannot be trusted, with a warning: a commit that went on from there
    would make the next upsert of JVM Hudi lose rows. Cost: a listing; a put and deletes where something is dropped.
    """
    config = table.config
    if not has_metadata_table(table):
        return table
    reason = problem_for_writes(table)
    if reason is not None:
        _log.warning(
            "the metadata table is dropped: %s; a write with hoodie.metadata.enable=true builds it again", reason
        )
        check_held()
        drop_metadata_table(table)
        return table.reload()
    if not config.metadata_partitions_inflight:
        return table
    check_held()
    drop_partitions(table, config.metadata_partitions_inflight)
    return table.reload()
