"""What two actions have in common, and whether the second of them gives way; pure, fact by fact."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.compaction import LOG_COMPACTOR, CompactionOperation, CompactionPlan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.format.timeline.table_version import table_version
from pyhudi.table.file_slice import FileGroupId
from pyhudi.transaction.conflicts.footprint import (
    Footprint,
    UniqueKeys,
    footprint_of,
    footprint_of_clustering_plan,
    footprint_of_compaction_plan,
    same_columns,
    schemas_clash,
    shared_ground,
)
from pyhudi.transaction.conflicts.table import Other


def footprint(
    *,
    kind: Other | None = None,
    rewrites: str = "",
    appends: str = "",
    replaces: str = "",
    inserts_into: str = "",
    empties: str = "",
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
) -> Footprint:
    """A footprint; groups are written `partition/id`, words are separated by spaces."""

    def groups(text: str) -> frozenset[FileGroupId]:
        return frozenset(FileGroupId(*word.split("/")) for word in text.split())

    overwrites = bool(replaces or empties)
    return Footprint(
        kind=kind or (Other.OVERWRITE if overwrites else Other.WRITE),
        rewritten=groups(rewrites) | groups(appends),
        rebased=groups(rewrites),
        replaced=groups(replaces),
        inserted_partitions=frozenset(inserts_into.split()),
        replaced_partitions=frozenset(empties.split()) | {group.partition_path for group in groups(replaces)},
        unique_keys=unique_keys,
    )


UPDATE_P1 = footprint(rewrites="p/1")
UPDATE_P2 = footprint(rewrites="p/2")
APPEND_P1 = footprint(appends="p/1")
COMPACTION_P1 = footprint(kind=Other.COMPACTION, rewrites="p/1")
LOG_COMPACTION_P1 = footprint(kind=Other.LOG_COMPACTION, appends="p/1")
CLUSTERING_P1 = footprint(kind=Other.CLUSTERING, rewrites="p/6", replaces="p/1", inserts_into="p")
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
        pytest.param(GLOBAL_UPSERT_P, OVERWRITE_Q, True, id="global upsert after new rows of an overwrite"),
        pytest.param(UPSERT_UPDATES_ONLY, INSERT_Q, False, id="global upsert without new keys"),
        pytest.param(INSERT_P, OVERWRITE_P, True, id="rows into a replaced partition"),
        pytest.param(INSERT_Q, OVERWRITE_P, False, id="rows beside a replaced partition"),
        pytest.param(OVERWRITE_P, INSERT_P, True, id="replacement of a partition that got rows"),
        pytest.param(OVERWRITE_Q, INSERT_P, False, id="replacement beside a partition that got rows"),
        pytest.param(EMPTY_P, INSERT_P, True, id="replacement of a partition that was empty and got rows"),
        pytest.param(INSERT_P, EMPTY_P, True, id="rows into a partition that was replaced while empty"),
        pytest.param(EMPTY_P, EMPTY_P, True, id="two replacements of an empty partition"),
        pytest.param(NOTHING, OVERWRITE_P, False, id="no change"),
        pytest.param(UPDATE_P1, CLUSTERING_P1, True, id="update of a group that was clustered"),
        pytest.param(OVERWRITE_P, CLUSTERING_P1, True, id="replacement of a group that was clustered"),
        pytest.param(UPDATE_P2, CLUSTERING_P1, False, id="update beside a clustering"),
        pytest.param(UPSERT_P, CLUSTERING_P1, False, id="new keys where rows were clustered"),
        pytest.param(INSERT_P, CLUSTERING_P1, False, id="new rows where rows were clustered"),
        pytest.param(OVERWRITE_P, COMPACTION_P1, False, id="replacement of a group that was compacted"),
    ],
)
def test_two_overlapping_writes(mine: Footprint, theirs: Footprint, conflicts: bool) -> None:
    assert bool(shared_ground(mine, theirs, table_version(9))) is conflicts


P1 = CompactionOperation(file_id="1", partition_path="p", base_instant_time="1", delta_files=("x",))
PLAN_P1 = CompactionPlan(operations=(P1,))
LOG_PLAN_P1 = CompactionPlan(operations=(P1,), compactor_class=LOG_COMPACTOR)


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

    for theirs in (
        footprint_of_compaction_plan(PLAN_P1),
        footprint_of_compaction_plan(LOG_PLAN_P1),
        COMPACTION_P1,
        LOG_COMPACTION_P1,
    ):
        assert shared_ground(mine, theirs, table_version(version)) == ground, theirs.kind


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_clustering_is_in_the_way_of_all_that_changes_its_input(version: int) -> None:
    plan = footprint_of_clustering_plan([FileGroupId("p", "1")])

    for mine in (UPDATE_P1, APPEND_P1, OVERWRITE_P):
        assert shared_ground(mine, plan, table_version(version)) == {FileGroupId("p", "1")}
    for mine in (UPDATE_P2, INSERT_P, UPSERT_P, OVERWRITE_Q):
        assert not shared_ground(mine, plan, table_version(version))


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
        kind=Other.OVERWRITE,
        rewritten=frozenset({FileGroupId("p", "1-0"), FileGroupId("p", "2-0"), FileGroupId("q", "3-0")}),
        rebased=frozenset({FileGroupId("p", "1-0")}),
        replaced=frozenset({FileGroupId("r", "4-0")}),
        inserted_partitions=frozenset({"p"}),
        replaced_partitions=frozenset({"r", "s"}),
        unique_keys=UniqueKeys.IN_TABLE,
        schema="S",
    )


@pytest.mark.parametrize(
    ("operation", "more", "kind"),
    [
        (WriteOperation.UPSERT, {}, Other.WRITE),
        (WriteOperation.UNKNOWN, {}, Other.WRITE),
        (WriteOperation.DELETE_PARTITION, {"replaced_file_ids": {}}, Other.OVERWRITE),
        (WriteOperation.UNKNOWN, {"replaced_file_ids": {}}, Other.OVERWRITE),
        (WriteOperation.CLUSTER, {"replaced_file_ids": {}}, Other.CLUSTERING),
        (WriteOperation.COMPACT, {"compacted": True}, Other.COMPACTION),
        (WriteOperation.UNKNOWN, {"compacted": True}, Other.COMPACTION),
        (WriteOperation.LOG_COMPACT, {"compacted": True}, Other.LOG_COMPACTION),
        (WriteOperation.ALTER_SCHEMA, {}, Other.SCHEMA_CHANGE),
    ],
)
def test_the_kind_of_a_commit_is_told_by_its_metadata(operation: WriteOperation, more: dict, kind: Other) -> None:
    metadata = CommitMetadata(operation=operation, stats_by_partition={}, **more)

    assert footprint_of(metadata).kind is kind


def avro(*names: str, table: str = "t") -> str:
    return arrow_to_avro(pa.schema([(name, pa.int64()) for name in names]), table_name=table)


def with_schema(schema: str | None) -> Footprint:
    return Footprint(kind=Other.WRITE, schema=schema)


@pytest.mark.parametrize(
    ("mine", "theirs", "later", "clash"),
    [
        pytest.param(avro("a"), avro("a"), True, False, id="nobody changes anything"),
        pytest.param(avro("a"), avro("a", table="other name"), True, False, id="other names for the same columns"),
        pytest.param(avro("a"), None, True, False, id="a commit that says nothing of columns"),
        pytest.param(avro("a"), avro("a", "b"), False, True, id="they add a column"),
        pytest.param(avro("a", "b"), avro("a", "b"), False, False, id="both add the same column"),
        pytest.param(avro("a", "b"), avro("a", "c"), False, True, id="each adds another column"),
        pytest.param(avro("a", "b"), avro("a"), False, False, id="mine adds a column, theirs began before"),
        pytest.param(avro("a", "b"), avro("a"), True, True, id="mine adds a column, theirs would hide it"),
        pytest.param(avro("a"), "no schema", True, True, id="what is not understood"),
    ],
)
def test_changes_of_the_schema(mine: str, theirs: str | None, later: bool, clash: bool) -> None:
    found = schemas_clash(with_schema(mine), with_schema(theirs), avro("a"), theirs_began_later=later)

    assert found is clash


def test_a_missing_schema_is_the_same_only_as_another_missing_one() -> None:
    assert same_columns(None, None)
    assert not same_columns(None, avro("a"))
    assert not same_columns(avro("a"), None)
