"""Rules by which the metadata table stays true, each broken: a short life of a table shows it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.crashes import copied, opened, rows
from tests.support.mutants.tools import Patch, always, nothing, patched
from tests.support.table_builder import THREE_ROWS, TableBuilder

from pyhudi.errors import HudiError, MetadataTableWarning
from pyhudi.metadata_table import entries, lookup, merged_pieces, merging, record_changes, undo, update
from pyhudi.metadata_table import rollback as metadata_rollback
from pyhudi.metadata_table.partitions import column_stats, partition_stats, record_index, secondary_index
from pyhudi.services.indexing import build
from pyhudi.services.metadata_table import compaction, log_compaction
from pyhudi.services.metadata_table import run as services_of_metadata
from pyhudi.services.rollback import execute as rollback_run
from pyhudi.storage.protocol import Storage

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
UNSERVED = {**INDEXED, "hoodie.table.services.enabled": "false"}
JOINING = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "2",
}
Life = Callable[[Storage], None]


@functools.cache
def _table_with_indexes() -> Storage:
    storage = copied(TableBuilder(9, "mor", has_delete_flag=True, options=INDEXED).insert(*THREE_ROWS).build())
    opened(storage, **INDEXED).indexes.create("by_note", "secondary", "note")
    return storage


def table_with_indexes() -> Storage:
    return copied(_table_with_indexes())


def changes(storage: Storage) -> None:
    """Rows change their values, leave, and come."""
    opened(storage, **UNSERVED).upsert(rows((1, "oslo", 9, "c"), (7, "bern", 9, "z"), gone=((2, "oslo", 9, "a"),)))


def clusters(storage: Storage) -> None:
    changes(storage)
    opened(storage, **UNSERVED).services.cluster(
        hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"}
    )


def merges(storage: Storage) -> None:
    """The metadata table is compacted again and again."""
    changes(storage)
    for number in range(6):
        opened(storage, **INDEXED).upsert(rows((1, "oslo", 10 + number, f"c{number}"), (20 + number, "rome", 9, "n")))


def joins(storage: Storage) -> None:
    """The logs of the metadata table are joined, and what was joined again."""
    often = {**INDEXED, "hoodie.metadata.compact.max.delta.commits": "100", **JOINING}
    for number in range(3):
        opened(storage, **often).upsert(rows((1, "oslo", 10 + number, f"c{number}"), (20 + number, "rome", 9, "n")))
        opened(storage, **often).upsert(
            rows((30, "rome", number, "n"), gone=((2, "oslo", 9, "a"), (20, "rome", 9, "")))
        )


def takes_joined_back(storage: Storage) -> None:
    changes(storage)
    written = opened(storage).inspect.history(1)["instant"][0].as_py()
    opened(storage, **{**UNSERVED, **JOINING}).services.run(only="metadata_table")
    opened(storage, **UNSERVED).recovery.rollback(written)


def takes_back(storage: Storage) -> None:
    changes(storage)
    written = opened(storage).inspect.history(1)["instant"][0].as_py()
    opened(storage, **UNSERVED).recovery.rollback(written)


def takes_merged_back(storage: Storage) -> None:
    changes(storage)
    written = opened(storage).inspect.history(1)["instant"][0].as_py()
    opened(storage, **{**UNSERVED, "hoodie.metadata.compact.max.delta.commits": "1"}).services.run(
        only="metadata_table"
    )
    opened(storage, **UNSERVED).recovery.rollback(written)


def takes_back_what_was_there(storage: Storage) -> None:
    changes(storage)
    written = opened(storage).inspect.history(1)["instant"][0].as_py()
    for name in ("by_note", "record_index", "partition_stats"):
        opened(storage).indexes.drop(name)
    table = opened(storage, **UNSERVED)
    table.indexes.create("record_index")
    table.refresh().indexes.create("by_note", "secondary", "note")
    table.refresh().indexes.create("partition_stats")
    opened(storage, **UNSERVED).recovery.rollback(written)


def moves_in_pieces(storage: Storage) -> None:
    """A row goes to another partition, and the index is written an entry at a time."""
    moving = {**UNSERVED, "hoodie.record.index.update.partition.path": "true"}
    with patched((entries, entries.PIECE_BYTES, 1)):
        opened(storage, **moving).upsert(rows((1, "rome", 9, "c"), (7, "bern", 9, "z"), (8, "bern", 9, "z")))


def builds_beside_a_writer(storage: Storage) -> None:
    opened(storage).indexes.drop("by_note")
    done = []

    def write_first(*arguments: Any, **named: Any) -> Any:
        built = build_files(*arguments, **named)
        if not done:
            done.append(True)
            changes(storage)
        return built

    build_files = build.write_initial_files
    with patched((build, build_files, write_first)):
        opened(storage, **UNSERVED).indexes.create("by_note", "secondary", "note")


def is_true(storage: Storage, life: Life) -> bool:
    """Whether the metadata table says after a life what the table has, and nothing failed."""
    before = {*opened(storage).handle.state.config.metadata_partitions}
    try:
        life(storage)
        table = opened(storage, **INDEXED)
        found = table.scan(["id", "note"]).to_arrow()
        wanted = sorted(found["id"].to_pylist())
        looked_up = sorted(table.lookup(list(range(40)))["id"].to_pylist())
        kept = {*table.handle.state.config.metadata_partitions} == before
        return kept and looked_up == wanted and not table.inspect.metadata_check().num_rows
    except (HudiError, MetadataTableWarning):
        return False


@dataclass(frozen=True)
class Broken:
    """A broken rule, and a life that shows it."""

    name: str
    patches: tuple[Patch, ...]
    life: Life

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def broken(name: str, life: Life, *patches: Patch) -> Broken:
    return Broken(name, patches, life)


def only_what_came(*arguments: Any, **options: Any) -> Any:
    return [found for found in rows_that_changed(*arguments, **options) if found[0]]


def without_the_last(before: Any, now: Any) -> Any:
    return list(steps_of_build(before, now))[:-1]


def none_of_the_removed(base: pa.Table, later: pa.Table, payload: str) -> pa.Table:
    kept = np.zeros(later.num_rows, np.bool_)
    return merge_of_records(base, later.set_column(3, merging.REMOVED, pa.array(kept)), payload)


def the_last_of_all(statistics: pa.StructArray, is_last: Any, _counts: Any) -> pa.StructArray:
    return statistics.filter(pa.array(is_last))


def tight(*arguments: Any, **options: Any) -> Any:
    return records_of_bounds(*arguments, **{**options, "is_tight": True})


def without_its_last_log(state: Any, group: Any, payload: str) -> Any:
    return group_as_read(state, replace(group, logs=group.logs[:-1], log_sizes=group.log_sizes[:-1]), payload)


def each_piece_by_itself(pieces: Any, payloads: Any, **options: Any) -> Any:
    return (records for piece in pieces for records in records_of_pieces([piece], payloads, **options))


def the_first_piece(*arguments: Any, **options: Any) -> Any:
    return itertools.islice(entries_in_order(*arguments, **options), 1)


def up_to_the_end_of_the_base_file(sources: Any) -> bytes | None:
    base, *_ = sources
    base.fill()
    return read_to(sources) if base.waiting.num_rows else None


def joined_without_the_last(state: Any, group: Any, payload: str) -> Any:
    _, instants = logs_as_joined(state, group, payload)
    return logs_as_joined(state, replace(group, logs=group.logs[:-1]), payload)[0], instants


def joined_without_what_went(later: pa.Table, payload: str) -> Any:
    found = records_as_joined(later, payload)
    return replace(found, records=found.records.filter(pc.is_valid(found.records.column(payload))))


def all_equal(left: Any, _: Any) -> Any:
    return np.ones(len(left), np.bool_)


def every_file(_: Any, files: Any) -> set[str]:
    return {info.path for info in files}


group_as_read = compaction.merged_in_pieces
read_to = merged_pieces._read_to
logs_as_joined = log_compaction.joined_logs
records_as_joined = merging.joined_records
rows_that_changed = entries.changed_rows
records_of_pieces = entries._records
entries_in_order = entries.in_order
steps_of_build = build.steps_between
merge_of_records = merging.merged_records
records_of_bounds = partition_stats._records
NO_GROUPS = always(())

BROKEN = (
    broken(
        "the record index does not follow writes",
        changes,
        (record_index, record_index.slice_changes, NO_GROUPS),
    ),
    broken(
        "removed rows keep their entries",
        changes,
        (entries, entries.changed_rows, only_what_came),
    ),
    broken(
        "a clustering keeps the entries of its rows",
        clusters,
        (record_index, record_index.changed_locations, NO_GROUPS),
    ),
    broken(
        "equal keys in two pieces of an index count twice",
        moves_in_pieces,
        (entries, entries._records, each_piece_by_itself),
    ),
    broken(
        "an index has the first piece of its entries only",
        moves_in_pieces,
        (entries, entries.in_order, the_first_piece),
    ),
    broken(
        "the secondary index does not follow writes", changes, (secondary_index, secondary_index._changes, NO_GROUPS)
    ),
    broken(
        "a changed value counts as the same",
        changes,
        (record_changes, record_changes._equal, all_equal),
    ),
    broken(
        "bounds of a partition are those of the last write",
        changes,
        (partition_stats, records_of_bounds, tight),
    ),
    broken(
        "the last of several statistics counts",
        merges,
        (merging, merging.merged_statistics, the_last_of_all),
    ),
    broken(
        "statistics are not written",
        changes,
        (column_stats, column_stats.ranges_of_change, NO_GROUPS),
    ),
    broken(
        "a build does not catch up with the last write",
        builds_beside_a_writer,
        (build, steps_of_build, without_the_last),
    ),
    broken(
        "a build follows nothing",
        builds_beside_a_writer,
        (build, steps_of_build, NO_GROUPS),
    ),
    broken(
        "a rollback leaves the delta commit",
        takes_back,
        (metadata_rollback, undo.undo_delta_commit, nothing),
    ),
    broken(
        "a merged write counts as one that can be taken back",
        takes_merged_back,
        (undo, undo.is_merged, always(False)),
        (metadata_rollback, undo.is_merged, always(False)),
    ),
    broken(
        "what was built on a write is kept when it is taken back",
        takes_back_what_was_there,
        (undo, undo._has, always(False)),
    ),
    broken(
        "indexes that cannot follow a rollback are kept",
        takes_merged_back,
        (rollback_run, rollback_run.drop_what_stays, lambda table, *_: table),
    ),
    broken(
        "removed entries survive a compaction",
        merges,
        (merged_pieces, merge_of_records, none_of_the_removed),
    ),
    broken(
        "a compaction leaves out what lies behind the last key of the base file",
        merges,
        (merged_pieces, merged_pieces._read_to, up_to_the_end_of_the_base_file),
    ),
    broken(
        "a compaction of the metadata table leaves logs out",
        merges,
        (compaction, group_as_read, without_its_last_log),
    ),
    broken(
        "a log compaction leaves the last log out",
        joins,
        (log_compaction, log_compaction.joined_logs, joined_without_the_last),
    ),
    broken(
        "a joined log forgets what was removed",
        joins,
        (lookup, lookup.joined_records, joined_without_what_went),
    ),
    broken(
        "a joined write counts as one that can be taken back",
        takes_joined_back,
        (undo, undo.is_merged, always(False)),
        (metadata_rollback, undo.is_merged, always(False)),
    ),
    broken(
        "a clean deletes the newest slice",
        merges,
        (services_of_metadata, services_of_metadata._old, every_file),
    ),
    broken(
        "a commit writes no records",
        changes,
        (update, update._write_logs, always([])),
    ),
)


@pytest.mark.parametrize("one", BROKEN, ids=str)
def test_metadata_table_with_a_broken_rule_is_found_to_be_wrong(one: Broken) -> None:
    storage = table_with_indexes()
    with patched(*one.patches):
        assert not is_true(storage, one.life)


@pytest.mark.parametrize("life", sorted({one.life for one in BROKEN}, key=lambda life: life.__name__))
def test_metadata_table_as_it_is_stays_true(life: Life) -> None:
    assert is_true(table_with_indexes(), life)
