"""Every cell of the table of conflicts, by the shipped code: what must give way does, and nothing else.

What ours meets comes onto the timeline between the beginning and the commit of ours, put there by ours where this
release can do it, and otherwise by hand in the form that JVM Hudi gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.cleaning import save
from tests.support.table_builder import THREE_ROWS, TableBuilder, every_version
from tests.support.table_files import begun, ended
from tests.support.tables import LATER_MS, SCHEMA, StepClock, contents, environment, open_table, rows

import pyhudi
from pyhudi.errors import LockLostError, TransactionError, WriteConflictError
from pyhudi.format.avro.container import encode_container
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA
from pyhudi.format.metadata.clean import CleanPlan, encode_clean_plan
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.compaction import LOG_COMPACTOR, CompactionOperation, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.restore import RestorePlan, encode_restore_plan
from pyhudi.format.metadata.rollback import RollbackPlan, encode_rollback_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema import alterations
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.format.schema.internal_types import first_schema
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.cleaning.execute import pending_cleans, schedule_clean
from pyhudi.services.upgrade.change import check_nothing_runs
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.pending_clusterings import load_clustering_plans, possible_clusterings
from pyhudi.table.schema import TableSchema
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path, load_compaction_plan
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.conflicts.table import TABLE, Ground, Other, Own, as_markdown, conflict_grounds

Act = Callable[[Storage], object]
PAGE = Path(__file__).parents[4] / "docs" / "design" / "concurrency.md"
CLOCK = StepClock()
OPTIONS = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
PACKING = {"hoodie.parquet.small.file.limit": "100000000"}


def opened(storage: Storage) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(CLOCK), **OPTIONS)


def prepared(kind: str, version: int) -> Storage:
    """Groups in oslo and rome, and on merge-on-read a log in `hamn`, whose group can be compacted."""
    table = TableBuilder(version, kind, options=OPTIONS, clock=CLOCK)
    return table.insert(*THREE_ROWS, (4, "hamn", 1, "a")).upsert((4, "hamn", 2, "b")).build()


def prepared_buckets(kind: str, version: int) -> Storage:
    """The same rows, with one bucket in each partition."""
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = TableBuilder(version, kind, options={**OPTIONS, **buckets}, clock=CLOCK)
    return table.insert(*THREE_ROWS, (4, "hamn", 1, "a")).upsert((4, "hamn", 2, "b")).build()


def group_of(storage: Storage, city: str) -> FileGroupId:
    files = opened(storage).inspect.files().to_pylist()
    (found,) = (FileGroupId(row["partition_path"], row["file_id"]) for row in files if city in row["partition_path"])
    return found


# -- what JVM Hudi would put on a timeline ------------------------------------------------------------------------


def service(operation: WriteOperation, action: Action, city: str) -> Act:
    """A completed compaction or clustering of the group of a city: its new file is a copy of the old one."""

    def act(storage: Storage) -> None:
        group = group_of(storage, city)
        is_clustering = operation is WriteOperation.CLUSTER
        file_id = "00000000-0000-0000-0000-00000000c1u5-0" if is_clustering else group.file_id
        instant = begun(storage, action)
        path = f"{group.partition_path}/{file_id}_1-0-1_{instant.requested_time}.parquet"
        (previous,) = (
            row["path"] for row in opened(storage).inspect.files().to_pylist() if row["file_id"] == group.file_id
        )
        storage.put(path, storage.read(previous))
        metadata = CommitMetadata(
            operation=operation,
            stats_by_partition={group.partition_path: (WriteStat(file_id=file_id, path=path, num_inserts=1),)},
            compacted=not is_clustering,
            replaced_file_ids={group.partition_path: (group.file_id,)} if is_clustering else None,
        )
        ended(storage, instant, metadata)

    return act


def compaction_plan(action: Action, city: str) -> Act:
    def act(storage: Storage) -> None:
        group = group_of(storage, city)
        operation = CompactionOperation(
            file_id=group.file_id,
            partition_path=group.partition_path,
            base_instant_time="20260101000000000",
            delta_files=(f".{group.file_id}_20260101000000000.log.1_0-0-0",),
        )
        compactor = LOG_COMPACTOR if action is Action.LOG_COMPACTION else None
        begun(
            storage, action, encode_compaction_plan(CompactionPlan(operations=(operation,), compactor_class=compactor))
        )

    return act


def clustering_plan(city: str) -> Act:
    def act(storage: Storage) -> None:
        group = group_of(storage, city)
        slices = [{"fileId": group.file_id, "partitionPath": group.partition_path, "version": 1}]
        plan = {"inputGroups": [{"slices": slices, "numOutputFileGroups": 1, "version": 1}], "version": 1}
        values = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": {}, "version": 1}
        begun(storage, Action.CLUSTERING, encode_container(REQUESTED_REPLACE_METADATA, values))

    return act


def clean_plan(city: str | None) -> Act:
    """A clean that is about to delete the newest slice of a city, or nothing."""

    def act(storage: Storage) -> None:
        files = opened(storage).inspect.files().to_pylist()
        paths = tuple(row["path"] for row in files if city is not None and city in row["partition_path"])
        plan = CleanPlan(policy="KEEP_LATEST_COMMITS", files={f"city={city}": paths} if paths else {})
        begun(storage, Action.CLEAN, encode_clean_plan(plan, table_uri=storage.uri))

    return act


def restore_of_jvm_hudi(storage: Storage) -> None:
    plan = RestorePlan(to="20260101000000000", instants=(), is_ours=False)
    begun(storage, Action.RESTORE, encode_restore_plan(plan))


def rollback_plan(choose: Callable[[Storage], str]) -> Act:
    def act(storage: Storage) -> None:
        begun(
            storage, Action.ROLLBACK, encode_rollback_plan(RollbackPlan(instant_time=choose(storage), action="commit"))
        )

    return act


def newest_completed(storage: Storage) -> str:
    return load_table(storage).timeline.completed_writes[-1].requested_time


def newest_pending(storage: Storage) -> str:
    timeline = load_table(storage).timeline
    return max(i.requested_time for i in (*timeline.pending_writes, *timeline.pending_compactions))


def pending(action: Action) -> Act:
    return lambda storage: begun(storage, action)


def completed(action: Action) -> Act:
    return lambda storage: ended(storage, begun(storage, action))


def change_of_schema(*, changes: bool) -> Act:
    def act(storage: Storage) -> None:
        schema = SCHEMA.append(pa.field("extra", pa.int64())) if changes else SCHEMA
        extra = {"schema": arrow_to_avro(schema, table_name="t")}
        metadata = CommitMetadata(operation=WriteOperation.ALTER_SCHEMA, stats_by_partition={}, extra=extra)
        ended(storage, begun(storage, Action.COMMIT), metadata)

    return act


def earlier_change_by_ids(storage: Storage) -> None:
    """A change of JVM Hudi that took its instant just before the pending plan, and is completed after its run began."""
    plan = newest_planned(storage)
    instant = Instant(InstantTime(str(int(plan) - 1)), Action.COMMIT, InstantState.REQUESTED)
    table = load_table(storage)
    storage.put(instant_path(instant, table.version), b"")
    avro = arrow_to_avro(SCHEMA, table_name="t")
    columns = alterations.rename_column(first_schema(SCHEMA, avro), ("note",), "remark")
    schema = TableSchema.from_columns(columns, avro, table_name="t")
    metadata = CommitMetadata(
        operation=WriteOperation.ALTER_SCHEMA,
        stats_by_partition={},
        extra=schema.extra_metadata(None, instant.requested_time),
    )
    ended(storage, instant, metadata)


def newest_planned(storage: Storage) -> str:
    table = load_table(storage)
    return max(i.requested_time for i in (*table.timeline.pending_compactions, *possible_clusterings(table.timeline)))


# -- what ours does ------------------------------------------------------------------------------------------------


def upsert(*values: tuple[int, str, int, str], **options: str) -> Act:
    return lambda storage: opened(storage).upsert(rows(*values), hudi_options=options)


def overwrite(*values: tuple[int, str, int, str]) -> Act:
    return lambda storage: opened(storage).insert_overwrite(rows(*values))


def widened(write: str, *values: tuple[int, str, int, str], **options: str) -> Act:
    wide = rows(*values).append_column("extra", pa.array([1] * len(values)))
    return lambda storage: getattr(opened(storage), write)(wide, hudi_options=options)


NEW = (9, "bern", 1, "n")
WRITE_OSLO, WRITE_ROME = upsert((1, "oslo", 5, "w")), upsert((3, "rome", 5, "w"))
OVERWRITE_OSLO, OVERWRITE_ROME = overwrite((7, "oslo", 1, "o")), overwrite((7, "rome", 1, "o"))
PACKED_INTO_ROME = upsert((9, "rome", 1, "n"), **PACKING)
"""A new row in the base file of a group, on merge-on-read too."""


def merged_into_bern(storage: Storage) -> None:
    """A new row, whose key is in no partition."""
    opened(storage).merge(rows(NEW), on="id").when_not_matched_insert_all().execute()


LOCK_LESS = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
APPEND_TO_OSLO = upsert((1, "oslo", 5, "w"), **LOCK_LESS)


def ADD_TIP(storage: Storage) -> None:  # noqa: N802 - an act like the others
    opened(storage).alter.add_column("tip", pa.float64())


MINE: dict[tuple[Own, Ground | None], Act] = {
    **{(Own.LOCK_LESS_WRITE, ground): APPEND_TO_OSLO for ground in (None, *Ground)},
    (Own.LOCK_LESS_WRITE, Ground.BUCKET): upsert(NEW, **LOCK_LESS),
    # With None: what every harmless action of another is met with.
    (Own.WRITE, None): WRITE_OSLO,
    (Own.WRITE, Ground.GROUP): WRITE_OSLO,
    (Own.WRITE, Ground.BASE_FILE): PACKED_INTO_ROME,
    (Own.WRITE, Ground.NEW_KEYS): upsert(NEW),
    (Own.WRITE, Ground.BUCKET): upsert(NEW),
    (Own.WRITE, Ground.PARTITION): lambda storage: opened(storage).bulk_insert(rows(NEW)),
    (Own.WRITE, Ground.READ): merged_into_bern,
    (Own.WRITE, Ground.SCHEMA): WRITE_OSLO,
    (Own.WRITE, Ground.ORIGIN): WRITE_OSLO,
    (Own.WRITE, Ground.ITSELF): WRITE_OSLO,
    (Own.WRITE, Ground.ANYTHING): WRITE_OSLO,
    (Own.OVERWRITE, None): OVERWRITE_OSLO,
    (Own.OVERWRITE, Ground.GROUP): OVERWRITE_OSLO,
    (Own.OVERWRITE, Ground.BUCKET): overwrite(NEW),
    (Own.OVERWRITE, Ground.PARTITION): overwrite(NEW),
    (Own.OVERWRITE, Ground.SCHEMA): OVERWRITE_OSLO,
    (Own.OVERWRITE, Ground.ORIGIN): OVERWRITE_OSLO,
    (Own.OVERWRITE, Ground.ITSELF): OVERWRITE_OSLO,
    (Own.OVERWRITE, Ground.ANYTHING): OVERWRITE_OSLO,
    **{(Own.SCHEMA_CHANGE, ground): ADD_TIP for ground in (None, *Ground)},
}
THEIRS: dict[tuple[Other, Ground | None], Act] = {
    # With None: as near to ours as it may come without being in the way.
    (Other.WRITE, None): upsert((3, "rome", 5, "t"), (4, "hamn", 5, "t")),
    (Other.WRITE, Ground.GROUP): upsert((2, "oslo", 5, "t")),
    (Other.WRITE, Ground.NEW_KEYS): upsert(NEW),
    (Other.WRITE, Ground.BUCKET): upsert(NEW),
    (Other.WRITE, Ground.PARTITION): upsert(NEW),
    (Other.WRITE, Ground.READ): upsert((3, "rome", 5, "t")),
    (Other.WRITE, Ground.SCHEMA): widened("upsert", (3, "rome", 5, "t")),
    (Other.OVERWRITE, None): OVERWRITE_ROME,
    (Other.OVERWRITE, Ground.GROUP): OVERWRITE_OSLO,
    (Other.OVERWRITE, Ground.NEW_KEYS): overwrite(NEW),
    (Other.OVERWRITE, Ground.BUCKET): overwrite(NEW),
    (Other.OVERWRITE, Ground.PARTITION): overwrite(NEW),
    (Other.OVERWRITE, Ground.READ): OVERWRITE_ROME,
    (Other.OVERWRITE, Ground.SCHEMA): widened("insert_overwrite", (3, "rome", 5, "t")),
    (Other.SCHEMA_CHANGE, None): change_of_schema(changes=False),
    (Other.SCHEMA_CHANGE, Ground.SCHEMA): change_of_schema(changes=True),
    (Other.SCHEMA_CHANGE, Ground.EARLIER_COLUMNS): earlier_change_by_ids,
    (Other.CLUSTERING_PLAN, None): clustering_plan("rome"),
    (Other.CLUSTERING_PLAN, Ground.GROUP): clustering_plan("oslo"),
    (Other.CLUSTERING, None): service(WriteOperation.CLUSTER, Action.REPLACE_COMMIT, "rome"),
    (Other.CLUSTERING, Ground.GROUP): service(WriteOperation.CLUSTER, Action.REPLACE_COMMIT, "oslo"),
    (Other.ROLLBACK, None): rollback_plan(lambda _: "20260101000000000"),
    (Other.ROLLBACK, Ground.ORIGIN): rollback_plan(newest_completed),
    (Other.ROLLBACK, Ground.ITSELF): rollback_plan(newest_pending),
    (Other.RESTORE, Ground.ANYTHING): restore_of_jvm_hudi,
    (Other.CLEAN, None): clean_plan(None),
    (Other.CLEAN, Ground.GROUP): clean_plan("oslo"),
    (Other.CLEAN, Ground.ANYTHING): pending(Action.CLEAN),
    (Other.SAVEPOINT, Ground.ANYTHING): completed(Action.SAVEPOINT),
    (Other.ROLLBACK, Ground.ANYTHING): rollback_plan(newest_completed),
    (Other.SAVEPOINT, None): lambda storage: save(
        storage, load_table(storage).timeline.completed_writes[0].requested_time
    ),
    (Other.INDEX_BUILD_PENDING, Ground.ANYTHING): pending(Action.INDEXING),
    (Other.INDEX_BUILD_PENDING, None): pending(Action.INDEXING),
    (Other.INDEX_BUILD, None): completed(Action.INDEXING),
}
for met, action, operation in (
    (Other.COMPACTION, Action.COMMIT, WriteOperation.COMPACT),
    (Other.LOG_COMPACTION, Action.DELTA_COMMIT, WriteOperation.LOG_COMPACT),
):
    THEIRS[met, None] = service(operation, action, "rome")
    THEIRS[met, Ground.GROUP] = service(operation, action, "oslo")
    THEIRS[met, Ground.BASE_FILE] = service(operation, action, "rome")
for met, action in (
    (Other.COMPACTION_PLAN, Action.COMPACTION),
    (Other.LOG_COMPACTION_PLAN, Action.LOG_COMPACTION),
):
    THEIRS[met, None] = compaction_plan(action, "rome")
    THEIRS[met, Ground.GROUP] = compaction_plan(action, "oslo")
    THEIRS[met, Ground.BASE_FILE] = compaction_plan(action, "rome")
WIDENS: dict[Other, dict[Own, Act]] = {
    # The other way round: ours changes the columns, and a service that is planned later does not.
    met: {
        Own.WRITE: widened("upsert", (1, "oslo", 5, "w")),
        Own.LOCK_LESS_WRITE: widened("upsert", (1, "oslo", 5, "w"), **LOCK_LESS),
        Own.OVERWRITE: widened("insert_overwrite", (7, "oslo", 1, "o")),
        Own.SCHEMA_CHANGE: ADD_TIP,
    }
    for met in (Other.COMPACTION, Other.LOG_COMPACTION, Other.CLUSTERING)
}


def schema_service(met: Other) -> Act:
    operation, action = {
        Other.COMPACTION: (WriteOperation.COMPACT, Action.COMMIT),
        Other.LOG_COMPACTION: (WriteOperation.LOG_COMPACT, Action.DELTA_COMMIT),
        Other.CLUSTERING: (WriteOperation.CLUSTER, Action.REPLACE_COMMIT),
    }[met]

    def act(storage: Storage) -> None:
        is_clustering = operation is WriteOperation.CLUSTER
        metadata = CommitMetadata(
            operation=operation,
            stats_by_partition={},
            compacted=not is_clustering,
            replaced_file_ids={} if is_clustering else None,
            extra={"schema": arrow_to_avro(SCHEMA, table_name="t")},
        )
        ended(storage, begun(storage, action), metadata)

    return act


# -- the cells -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One ground of a cell, or None for the pair that has nothing in common."""

    met: Other
    ours: Own
    kind: str
    version: int
    ground: Ground | None

    def __str__(self) -> str:
        ground = "apart" if self.ground is None else self.ground.value
        return f"{self.kind}{self.version} {self.met.name.lower()} {self.ours.name.lower()} {ground}"


_ONLY_MOR = {Other.COMPACTION_PLAN, Other.COMPACTION, Other.LOG_COMPACTION_PLAN, Other.LOG_COMPACTION}
_KINDS = (("cow", 9), ("cow", 6), ("mor", 8), ("mor", 6))


def cases(*ours: Own) -> list[Case]:
    found = []
    for met in Other:
        for kind, version in _KINDS:
            if kind == "cow" and (met in _ONLY_MOR or ours[0] in (Own.COMPACTION_PLAN, Own.COMPACTION)):
                continue
            if (kind, version) == ("cow", 6) and ours[0] in (Own.CLUSTERING_PLAN, Own.CLUSTERING):
                continue  # it differs from ("cow", 9) in names of instants alone
            for one in ours:
                if one is Own.LOCK_LESS_WRITE and (kind, version) != ("mor", 8):
                    continue
                cell = TABLE[met][one]
                grounds = cell.version_6 if version == 6 else cell.version_8
                # What the tests meet begins later than ours: of writes, all are then in the way of new columns.
                always = one is Own.SCHEMA_CHANGE and met in (Other.WRITE, Other.OVERWRITE, Other.SCHEMA_CHANGE)
                apart = () if Ground.ANYTHING in grounds or always else (None,)
                found += [Case(met, one, kind, version, ground) for ground in (*apart, *grounds)]
    return sorted(found, key=str)


def meeting(inner: Storage, theirs: Act, at: tuple[str, str] = ("put_if_absent", "inflight")) -> FaultStorage:
    """A store on which `theirs` happens once, before ours does this to the file whose name ends like that."""
    done = False

    def hook(operation: str, path: str) -> None:
        nonlocal done
        if not done and operation == at[0] and path.endswith(at[1]):
            done = True
            theirs(inner)

    return FaultStorage(inner, before=hook)


def acts_of(case: Case) -> tuple[Act, Act]:
    if case.ground is Ground.SCHEMA and case.met in WIDENS:
        return WIDENS[case.met][case.ours], schema_service(case.met)
    return MINE[case.ours, case.ground], THEIRS[case.met, case.ground]


@pytest.mark.parametrize("case", cases(Own.WRITE, Own.LOCK_LESS_WRITE, Own.OVERWRITE, Own.SCHEMA_CHANGE), ids=str)
def test_a_write_gives_way_on_every_ground_of_its_cell_and_on_no_other(case: Case) -> None:
    has_buckets = case.ground is Ground.BUCKET or case.ours is Own.LOCK_LESS_WRITE
    prepare = prepared_buckets if has_buckets else prepared
    storage = prepare(case.kind, case.version)
    mine, theirs = acts_of(case)
    before = contents(storage)

    if case.ground is None:
        mine(meeting(storage, theirs))
        if case.ours is Own.SCHEMA_CHANGE:
            assert opened(storage).schema.names[-1] == "tip"
            return
        own = {(7, "oslo", 1, "o")} if case.ours is Own.OVERWRITE else {(1, "oslo", 5, "w")}
        assert own <= contents(storage)
        return
    with pytest.raises(TransactionError) as caught:
        mine(meeting(storage, theirs))

    expected = LockLostError if case.ground is Ground.ITSELF else WriteConflictError
    assert type(caught.value) is expected, caught.value
    if case.ground not in (Ground.ITSELF, Ground.ORIGIN):
        assert_error_names_the_winner(caught.value, case)
    if case.met not in (Other.ROLLBACK, Other.WRITE, Other.OVERWRITE, Other.CLUSTERING):
        assert contents(storage) == before
    if case.ground is not Ground.ANYTHING:
        assert not load_table(storage).timeline.pending_writes or case.met is Other.CLUSTERING_PLAN


@every_version
def test_a_write_to_what_jvm_hudi_is_about_to_cluster_is_refused_before_any_data_is_written(version: int) -> None:
    storage = prepared("cow", version)
    clustering_plan("oslo")(storage)
    watched = FaultStorage(storage)

    with pytest.raises(WriteConflictError, match="cluster"):
        WRITE_OSLO(watched)

    assert not any(one.name == "open_output" and one.path.startswith("city=") for one in watched.effects)


def assert_error_names_the_winner(error: TransactionError, case: Case) -> None:
    assert error.context["winner"] > error.context.get("instant", "")
    if case.ground in (Ground.GROUP, Ground.BASE_FILE):
        city = "rome" if case.ground is Ground.BASE_FILE else "oslo"
        assert all(city in group for group in error.context["file_groups"])
        assert error.context["file_groups"]
    if case.ground is Ground.BUCKET:
        assert all("bern/0000000" in group for group in error.context["file_groups"])
        assert error.context["file_groups"]
    if case.ground in (Ground.NEW_KEYS, Ground.PARTITION):
        assert error.context["partitions"] == ["city=bern"]


@pytest.mark.parametrize("ours", [Own.WRITE, Own.OVERWRITE], ids=lambda ours: ours.value)
def test_a_restore_that_ended_meanwhile_is_in_the_way_of_everything(ours: Own) -> None:
    storage = prepared("cow", 9)

    with pytest.raises(WriteConflictError, match="restore"):
        MINE[ours, None](meeting(storage, completed(Action.RESTORE)))


@pytest.mark.parametrize(("kind", "version"), _KINDS)
def test_new_rows_are_not_packed_into_what_is_about_to_be_clustered(kind: str, version: int) -> None:
    storage = prepared(kind, version)
    clustered = group_of(storage, "rome")
    clustering_plan("rome")(storage)

    PACKED_INTO_ROME(storage)

    groups = {row["file_id"] for row in opened(storage).inspect.files().to_pylist() if "rome" in row["partition_path"]}
    assert len(groups) == 2
    assert clustered.file_id in groups


@pytest.mark.parametrize("case", cases(Own.COMPACTION_PLAN), ids=str)
def test_a_compaction_is_planned_around_other_plans(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    WRITE_OSLO(storage)  # now oslo and hamn have logs
    if case.met is Other.RESTORE:
        THEIRS[case.met, case.ground](storage)
        with pytest.raises(WriteConflictError, match="restore"):
            opened(storage).services.schedule()
        return
    hamn, oslo = group_of(storage, "hamn"), group_of(storage, "oslo")
    THEIRS[case.met, case.ground](storage)

    planned = opened(storage).services.schedule()

    table = load_table(storage)
    (instant,) = (i for i in table.timeline.pending_compactions if i.requested_time == planned)
    operations = load_compaction_plan(storage, instant, table.version).operations
    groups = {FileGroupId(one.partition_path, one.file_id) for one in operations}
    assert hamn in groups
    assert (oslo in groups) is (case.ground is None)


@pytest.mark.parametrize("case", cases(Own.COMPACTION), ids=str)
def test_a_compaction_is_run_whatever_it_meets_but_what_takes_it_back(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    instant = opened(storage).services.schedule()
    assert instant is not None
    store = meeting(storage, THEIRS[case.met, case.ground], at=("open_output", ".parquet"))

    if case.ground is None:
        done = opened(store).services.run(instant)
        assert done["instant"].to_pylist() == [instant]
        assert load_table(storage).timeline.is_committed(instant)
    else:
        with pytest.raises(LockLostError if case.ground is Ground.ITSELF else WriteConflictError):
            opened(store).services.run(instant)
        assert not load_table(storage).timeline.is_committed(instant)


SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "note"}
OF_OSLO = {**SORTED, "hoodie.clustering.plan.strategy.partition.selected": "city=oslo"}
PREFER_WRITER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"


@pytest.mark.parametrize("case", cases(Own.CLUSTERING_PLAN), ids=str)
def test_a_clustering_is_planned_around_other_plans(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    if case.met is Other.RESTORE:
        THEIRS[case.met, case.ground](storage)
        with pytest.raises(WriteConflictError, match="restore"):
            opened(storage).services.schedule("clustering", hudi_options=SORTED)
        return
    oslo = group_of(storage, "oslo")
    THEIRS[case.met, case.ground](storage)

    planned = opened(storage).services.schedule("clustering", hudi_options=SORTED)

    plans = load_clustering_plans(storage, load_table(storage).timeline)
    groups = {group for instant, found in plans if instant.requested_time == planned for group in found}
    assert groups
    assert (oslo in groups) is (case.ground is None)


@pytest.mark.parametrize("case", cases(Own.CLUSTERING), ids=str)
def test_a_clustering_gives_way_on_every_ground_of_its_cell_and_on_no_other(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIONS, "hoodie.write.lock.conflict.resolution.strategy", PREFER_WRITER)
    storage = prepared(case.kind, case.version)
    instant = opened(storage).services.schedule("clustering", hudi_options=OF_OSLO)
    assert instant is not None
    theirs = rollback_plan(lambda _: instant) if case.ground is Ground.ITSELF else THEIRS[case.met, case.ground]
    store = meeting(storage, theirs, at=("open_output", ".parquet"))

    if case.ground is None:
        assert opened(store).services.run(instant)["outcome"].to_pylist() == ["done"]
        assert load_table(storage).timeline.is_committed(instant)
        return
    with pytest.raises(LockLostError if case.ground is Ground.ITSELF else WriteConflictError):
        opened(store).services.run(instant)
    assert not load_table(storage).timeline.is_committed(instant)
    if case.ground is Ground.GROUP and case.met in (Other.WRITE, Other.OVERWRITE):
        assert opened(storage).services.pending().num_rows == 0, "its plan is rolled back"


def killed(act: Act, storage: Storage, *, at: str) -> None:
    """Let the process of an action die before it puts the file whose name ends like this."""

    def die(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(at):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        act(FaultStorage(storage, before=die))


def much_later(storage: Storage) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(StepClock(LATER_MS)), **OPTIONS)


@pytest.mark.parametrize("case", cases(Own.CLEAN), ids=str)
def test_a_clean_is_planned_unless_something_came_that_its_plan_does_not_know(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    for number in range(3):
        upsert((1, "oslo", 6 + number, "w"), **PACKING)(storage)
        if case.kind == "mor":
            opened(storage).services.compact()
    call = replace(
        opened(storage).handle.service_call({"hoodie.clean.commits.retained": "1"}, call="clean"),
        table=load_table(storage),
    )
    THEIRS[case.met, case.ground](storage)

    if case.ground is None:
        assert schedule_clean(call) is not None
    else:
        with suppress(WriteConflictError):
            assert schedule_clean(call) is None
    planned = {one.requested_time for one in pending_cleans(load_table(storage).timeline)}
    assert bool(planned) is (case.ground is None or case.met is Other.CLEAN)


@pytest.mark.parametrize("case", cases(Own.ROLLBACK), ids=str)
def test_a_failed_write_is_rolled_back_whatever_is_on_the_timeline(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    before = contents(storage)

    killed(WRITE_ROME, storage, at="commit")
    (dead,) = load_table(storage).timeline.pending_writes
    if case.ground is Ground.ITSELF:
        killed(lambda store: much_later(store).recovery.roll_back_failed_writes(), storage, at="rollback.inflight")
        assert load_table(storage).timeline.pending_rollbacks
    else:
        THEIRS[case.met, case.ground](storage)

    done = much_later(storage).recovery.roll_back_failed_writes()

    is_gone = dead not in load_table(storage).timeline.instants
    assert is_gone is (case.ground is not Ground.ANYTHING)
    assert (dead.requested_time in {one.instant for one in done}) is is_gone
    if case.met in (Other.RESTORE, Other.CLEAN, Other.SAVEPOINT):
        assert contents(storage) == before


@pytest.mark.parametrize("case", cases(Own.SAVEPOINT), ids=str)
def test_a_savepoint_is_made_unless_its_state_is_about_to_go(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    newest = newest_completed(storage)
    THEIRS[case.met, case.ground](storage)

    if case.ground is None:
        assert opened(storage).savepoints.create(newest).instant == newest
        return
    with pytest.raises(WriteConflictError) as caught:
        opened(storage).savepoints.create(newest)
    assert caught.value.context["winner"]
    assert not [one for one in load_table(storage).timeline.instants if one.action is Action.SAVEPOINT]


@pytest.mark.parametrize("case", cases(Own.RESTORE), ids=str)
def test_a_table_is_restored_unless_another_one_restores_it_or_is_about_to_delete_the_state(case: Case) -> None:
    storage = prepared(case.kind, case.version)
    target, before = newest_completed(storage), contents(storage)
    upsert((3, "rome", 9, "later"))(storage)
    if case.met is Other.CLEAN and case.ground is Ground.GROUP:
        (path,) = (path for path in _files_as_of(storage, target) if "hamn" in path and path.endswith(".parquet"))
        plan = CleanPlan(policy="KEEP_LATEST_COMMITS", files={"city=hamn": (path,)})
        begun(storage, Action.CLEAN, encode_clean_plan(plan, table_uri=storage.uri))
    else:
        THEIRS[case.met, case.ground](storage)

    if case.ground is None:
        opened(storage).recovery.restore(target)
        assert contents(storage) == before
        return
    with pytest.raises(WriteConflictError) as caught:
        opened(storage).recovery.restore(target)
    assert caught.value.context["winner"]
    assert load_table(storage).timeline.completed_writes[-1].requested_time > target


def _files_as_of(storage: Storage, instant: str) -> list[str]:
    files = opened(storage).scan(as_of=instant).files().to_pylist()
    return [path for row in files for path in (row["path"], *row["logs"]) if path is not None]


# -- the operations behind the two words for writes ------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """A write in one partition, and what the table of conflicts wants to know of it."""

    run: Callable[[pyhudi.HudiTable, str, int], Any]
    changes: bool = False
    adds: bool = False
    looks_up: bool = False
    replaces: bool = False
    everywhere: bool = False


OPERATIONS: dict[str, Operation] = {
    "upsert of a known key": Operation(lambda t, city, key: t.upsert(rows((key, city, 5, "u"))), changes=True),
    "upsert of a new key": Operation(lambda t, city, _: t.upsert(rows((9, city, 5, "n"))), adds=True, looks_up=True),
    "insert": Operation(lambda t, city, _: t.insert(rows((9, city, 5, "n"))), adds=True),
    "bulk_insert": Operation(lambda t, city, _: t.bulk_insert(rows((9, city, 5, "n"))), adds=True),
    "delete": Operation(lambda t, city, key: t.delete(rows((key, city, 0, ""))), changes=True),
    "delete_partition": Operation(lambda t, city, _: t.delete_partition(f"city={city}"), replaces=True),
    "insert_overwrite": Operation(
        lambda t, city, _: t.insert_overwrite(rows((8, city, 5, "o"))), adds=True, replaces=True
    ),
    "insert_overwrite_table": Operation(
        lambda t, city, _: t.insert_overwrite_table(rows((8, city, 5, "o"))),
        adds=True,
        replaces=True,
        everywhere=True,
    ),
}
_OPERATION_PAIRS = [
    pytest.param(mine, theirs, same, *_KINDS[(m + t + same) % 4], id=f"{mine} after {theirs}, {where}")
    for m, mine in enumerate(OPERATIONS)
    for t, theirs in enumerate(OPERATIONS)
    for same, where in ((True, "one partition"), (False, "two partitions"))
]


def gives_way(mine: Operation, theirs: Operation, *, same: bool) -> bool:
    """What the table says of two operations."""
    grounds = TABLE[Other.OVERWRITE if theirs.replaces else Other.WRITE][Own.OVERWRITE if mine.replaces else Own.WRITE]
    facts = {
        Ground.GROUP: (mine.changes or mine.replaces) and (theirs.changes or theirs.replaces),
        Ground.NEW_KEYS: same and mine.adds and mine.looks_up and theirs.adds,
        Ground.PARTITION: (mine.replaces and (theirs.adds or theirs.replaces)) or (theirs.replaces and mine.adds),
    }
    overlap = same or mine.everywhere or theirs.everywhere
    return overlap and any(facts.get(ground, False) for ground in grounds.version_8)


@pytest.mark.parametrize(("mine", "theirs", "same", "kind", "version"), _OPERATION_PAIRS)
def test_every_pair_of_operations_does_what_the_table_says(
    mine: str, theirs: str, same: bool, kind: str, version: int
) -> None:
    storage = prepared(kind, version)
    my_city, my_key = ("oslo", 1) if same else ("rome", 3)
    store = meeting(storage, lambda inner: OPERATIONS[theirs].run(opened(inner), "oslo", 2))

    if gives_way(OPERATIONS[mine], OPERATIONS[theirs], same=same):
        with pytest.raises(WriteConflictError):
            OPERATIONS[mine].run(opened(store), my_city, my_key)
        assert len(load_table(storage).timeline.completed_writes) == 3
    else:
        OPERATIONS[mine].run(opened(store), my_city, my_key)
        assert len(load_table(storage).timeline.completed_writes) == 4


OF_JVM_HUDI_OR_OURS = {
    Other.WRITE: Action.COMMIT,
    Other.OVERWRITE: Action.REPLACE_COMMIT,
    Other.SCHEMA_CHANGE: Action.COMMIT,
    Other.COMPACTION_PLAN: Action.COMPACTION,
    Other.COMPACTION: Action.COMMIT,
    Other.LOG_COMPACTION_PLAN: Action.LOG_COMPACTION,
    Other.LOG_COMPACTION: Action.DELTA_COMMIT,
    Other.CLUSTERING_PLAN: Action.CLUSTERING,
    Other.CLUSTERING: Action.REPLACE_COMMIT,
    Other.ROLLBACK: Action.ROLLBACK,
    Other.RESTORE: Action.RESTORE,
    Other.CLEAN: Action.CLEAN,
    Other.SAVEPOINT: Action.SAVEPOINT,
    Other.INDEX_BUILD_PENDING: Action.INDEXING,
    Other.INDEX_BUILD: Action.INDEXING,
}


@pytest.mark.parametrize("met", Other, ids=lambda met: met.name.lower())
def test_a_change_of_version_gives_way_to_what_is_pending_by_its_cell_and_to_nothing_else(met: Other) -> None:
    storage = prepared("cow", 9)
    action, gives_way = OF_JVM_HUDI_OR_OURS[met], bool(TABLE[met][Own.VERSION_CHANGE].version_8)
    instant = begun(storage, action)
    if not gives_way:
        ended(storage, instant)
        check_nothing_runs(load_table(storage))
        return
    storage.put(instant_path(replace(instant, state=InstantState.INFLIGHT), load_table(storage).version), b"")

    with pytest.raises(WriteConflictError) as caught:
        check_nothing_runs(load_table(storage))

    assert caught.value.context["winner"] == instant.requested_time


# -- the table itself ------------------------------------------------------------------------------------------------


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(Other)
    assert all(set(row) == set(Own) for row in TABLE.values())


def test_the_grounds_of_version_9_are_those_of_version_8() -> None:
    from pyhudi.format.timeline.table_version import table_version

    for met in Other:
        for ours in Own:
            found = [conflict_grounds(met, ours, table_version(number)) for number in (6, 8, 9)]
            assert found == [TABLE[met][ours].version_6, *[TABLE[met][ours].version_8] * 2]


def test_the_documentation_shows_the_table_as_it_is() -> None:
    (shown,) = re.findall(r"<!-- the table of conflicts -->\n(.*?)\n\n", PAGE.read_text(), re.DOTALL)

    assert shown == as_markdown()
