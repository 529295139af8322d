"""The table of conflicts, cell by cell."""

from __future__ import annotations

import pytest

from pyhudi.format.commit_metadata import CommitMetadata, WriteOperation, WriteStat
from pyhudi.format.compaction_plan import CompactionOperation, CompactionPlan
from pyhudi.format.table_version import table_version
from pyhudi.table.conflicts import Footprint, UniqueKeys, footprint_of, ground_of_plan, shared_ground
from pyhudi.table.file_slice import FileGroupId


def footprint(
    *,
    rewrites: str = "",
    appends: str = "",
    replaces: str = "",
    inserts_into: str = "",
    empties: str = "",
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
    is_compaction: bool = False,
) -> Footprint:
    """A footprint; groups are written `partition/id`, words are separated by spaces."""

    def groups(text: str) -> frozenset[FileGroupId]:
        return frozenset(FileGroupId(*word.split("/")) for word in text.split())

    return Footprint(
        rewritten=groups(rewrites) | groups(appends),
        rebased=groups(rewrites),
        replaced=groups(replaces),
        inserted_partitions=frozenset(inserts_into.split()),
        replaced_partitions=frozenset(empties.split()) | {group.partition_path for group in groups(replaces)},
        unique_keys=unique_keys,
        schema=None,
        is_compaction=is_compaction,
    )


UPDATE_P1 = footprint(rewrites="p/1")
UPDATE_P2 = footprint(rewrites="p/2")
APPEND_P1 = footprint(appends="p/1")
COMPACTION_P1 = footprint(rewrites="p/1", is_compaction=True)
INSERT_P = footprint(rewrites="p/7", inserts_into="p")
INSERT_Q = footprint(rewrites="q/8", inserts_into="q")
UPSERT_P = footprint(rewrites="p/9", inserts_into="p", unique_keys=UniqueKeys.IN_PARTITION)
UPSERT_UPDATES_ONLY = footprint(rewrites="p/2", unique_keys=UniqueKeys.IN_TABLE)
GLOBAL_UPSERT_P = footprint(rewrites="p/9", inserts_into="p", unique_keys=UniqueKeys.IN_TABLE)
OVERWRITE_P = footprint(rewrites="p/5", replaces="p/1", inserts_into="p")
OVERWRITE_Q = footprint(rewrites="q/5", replaces="q/1", inserts_into="q")
EMPTY_P = footprint(empties="p")
NOTHING = footprint()


@pytest.mark.parametrize(
    ("mine", "theirs", "conflicts"),
    [
        pytest.param(UPDATE_P1, UPDATE_P1, True, id="same file group"),
        pytest.param(UPDATE_P1, UPDATE_P2, False, id="other file group"),
        pytest.param(UPDATE_P1, OVERWRITE_P, True, id="update of a group that was replaced"),
        pytest.param(OVERWRITE_P, UPDATE_P1, True, id="replacement of a group that was updated"),
        pytest.param(OVERWRITE_P, OVERWRITE_P, True, id="two replacements"),
        pytest.param(OVERWRITE_P, OVERWRITE_Q, False, id="replacements of two partitions"),
        pytest.param(INSERT_P, INSERT_Q, False, id="inserts into two partitions"),
        pytest.param(INSERT_P, UPSERT_P, False, id="insert after upsert promises nothing"),
        pytest.param(UPSERT_P, INSERT_P, True, id="upsert after insert into its partition"),
        pytest.param(UPSERT_P, UPSERT_P, True, id="two upserts with new keys in one partition"),
        pytest.param(UPSERT_P, INSERT_Q, False, id="upsert after insert into another partition"),
        pytest.param(UPSERT_P, UPDATE_P1, False, id="new keys after an update elsewhere"),
        pytest.param(GLOBAL_UPSERT_P, INSERT_Q, True, id="global upsert after insert into any partition"),
        pytest.param(GLOBAL_UPSERT_P, UPDATE_P1, False, id="global upsert after an update elsewhere"),
        pytest.param(UPSERT_UPDATES_ONLY, INSERT_Q, False, id="global upsert without new keys"),
        pytest.param(INSERT_P, OVERWRITE_P, True, id="rows into a replaced partition"),
        pytest.param(INSERT_Q, OVERWRITE_P, False, id="rows beside a replaced partition"),
        pytest.param(OVERWRITE_P, INSERT_P, True, id="replacement of a partition that got rows"),
        pytest.param(OVERWRITE_Q, INSERT_P, False, id="replacement beside a partition that got rows"),
        pytest.param(EMPTY_P, INSERT_P, True, id="replacement of a partition that was empty and got rows"),
        pytest.param(INSERT_P, EMPTY_P, True, id="rows into a partition that was replaced while empty"),
        pytest.param(EMPTY_P, EMPTY_P, True, id="two replacements of an empty partition"),
        pytest.param(NOTHING, OVERWRITE_P, False, id="no change"),
    ],
)
def test_two_overlapping_writes(mine: Footprint, theirs: Footprint, conflicts: bool) -> None:
    assert bool(shared_ground(mine, theirs, table_version(9))) is conflicts


PLAN_P1 = CompactionPlan(
    operations=(CompactionOperation(file_id="1", partition_path="p", base_instant_time="1", delta_files=("x",)),)
)


@pytest.mark.parametrize(
    ("mine", "version", "conflicts"),
    [
        pytest.param(UPDATE_P1, 9, True, id="a base file that the compaction will not read"),
        pytest.param(UPDATE_P1, 6, True, id="a base file that the compaction will not read, in version 6"),
        pytest.param(APPEND_P1, 8, False, id="a log that is placed by its completion time"),
        pytest.param(APPEND_P1, 9, False, id="a log that is placed by its completion time, in version 9"),
        pytest.param(APPEND_P1, 6, True, id="a log that carries the name of the slice that was closed"),
        pytest.param(UPDATE_P2, 6, False, id="another group"),
        pytest.param(INSERT_P, 6, False, id="new rows beside the group"),
    ],
)
def test_a_write_during_which_a_compaction_was_planned_or_made(mine: Footprint, version: int, conflicts: bool) -> None:
    ground = {FileGroupId("p", "1")} if conflicts else set()

    assert ground_of_plan(PLAN_P1, table_version(version), mine) == ground
    assert shared_ground(mine, COMPACTION_P1, table_version(version)) == ground


def test_the_footprint_of_a_commit_names_groups_partitions_and_schema() -> None:
    metadata = CommitMetadata(
        operation=WriteOperation.INSERT_OVERWRITE,
        stats_by_partition={
            "p": (
                WriteStat(file_id="1-0", path="p/1-0_0-0-0_20260101.parquet", num_inserts=2),
                WriteStat(file_id="2-0", path="p/.2-0_20260101.log.1_0-0-0", num_update_writes=3),
            ),
            "q": (WriteStat(file_id="", num_inserts=0), WriteStat(file_id="3-0", num_deletes=1)),
        },
        replaced_file_ids={"r": ("4-0",), "s": ()},
        extra={"schema": "S"},
    )

    found = footprint_of(metadata, UniqueKeys.IN_TABLE)

    assert found == Footprint(
        rewritten=frozenset({FileGroupId("p", "1-0"), FileGroupId("p", "2-0"), FileGroupId("q", "3-0")}),
        rebased=frozenset({FileGroupId("p", "1-0")}),
        replaced=frozenset({FileGroupId("r", "4-0")}),
        inserted_partitions=frozenset({"p"}),
        replaced_partitions=frozenset({"r", "s"}),
        unique_keys=UniqueKeys.IN_TABLE,
        schema="S",
    )
    assert found.is_replace
    assert not found.is_compaction
