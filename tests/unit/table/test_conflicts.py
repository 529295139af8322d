"""The table of conflicts, cell by cell."""

from __future__ import annotations

import pytest

from pyhudi.format.commit_metadata import CommitMetadata, WriteOperation, WriteStat
from pyhudi.table.conflicts import Footprint, UniqueKeys, footprint_of, shared_ground
from pyhudi.table.file_system_view import FileGroupId


def footprint(
    *,
    rewrites: str = "",
    replaces: str = "",
    inserts_into: str = "",
    empties: str = "",
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
) -> Footprint:
    """A footprint; groups are written `partition/id`, words are separated by spaces."""

    def groups(text: str) -> frozenset[FileGroupId]:
        return frozenset(FileGroupId(*word.split("/")) for word in text.split())

    return Footprint(
        rewritten=groups(rewrites),
        replaced=groups(replaces),
        inserted_partitions=frozenset(inserts_into.split()),
        replaced_partitions=frozenset(empties.split()) | {group.partition_path for group in groups(replaces)},
        unique_keys=unique_keys,
        schema=None,
    )


UPDATE_P1 = footprint(rewrites="p/1")
UPDATE_P2 = footprint(rewrites="p/2")
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
    assert bool(shared_ground(mine, theirs)) is conflicts


def test_the_footprint_of_a_commit_names_groups_partitions_and_schema() -> None:
    metadata = CommitMetadata(
        operation=WriteOperation.INSERT_OVERWRITE,
        stats_by_partition={
            "p": (WriteStat(file_id="1-0", num_inserts=2), WriteStat(file_id="2-0", num_update_writes=3)),
            "q": (WriteStat(file_id="", num_inserts=0), WriteStat(file_id="3-0", num_deletes=1)),
        },
        replaced_file_ids={"r": ("4-0",), "s": ()},
        extra={"schema": "S"},
    )

    found = footprint_of(metadata, UniqueKeys.IN_TABLE)

    assert found == Footprint(
        rewritten=frozenset({FileGroupId("p", "1-0"), FileGroupId("p", "2-0"), FileGroupId("q", "3-0")}),
        replaced=frozenset({FileGroupId("r", "4-0")}),
        inserted_partitions=frozenset({"p"}),
        replaced_partitions=frozenset({"r", "s"}),
        unique_keys=UniqueKeys.IN_TABLE,
        schema="S",
    )
    assert found.is_replace
