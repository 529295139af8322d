"""The check for conflicts: whether an action may still be completed on the timeline as it is now.

The rules are those of the table of conflicts (`pyhudi.transaction.conflicts.table`). All checks run under the table
lock, on a timeline that was loaded under it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from pyhudi.errors import LockLostError, WriteConflictError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.pending_clusterings import load_clustering_plan, load_clustering_plans
from pyhudi.table.timeline import Timeline, load_compaction_plan, load_rollback_plan
from pyhudi.transaction.conflicts.footprint import (
    Footprint,
    Heirs,
    Reads,
    footprint_of,
    footprint_of_clustering_plan,
    footprint_of_compaction_plan,
    forgotten_heirs,
    schemas_clash,
    shared_ground,
)
from pyhudi.transaction.conflicts.table import Other, Own, conflict_grounds
from pyhudi.transaction.idempotence import BATCH_ID_METADATA
from pyhudi.transaction.intents import Intent

_EXCLUSIVE = {
    Action.RESTORE: Other.RESTORE,
    Action.INDEXING: Other.INDEX_BUILD_PENDING,
}


def excluding_instant(timeline: Timeline, own: Own) -> Instant | None:
    """A pending action of JVM Hudi that excludes ours, if there is one."""
    for instant in timeline.instants:
        other = _EXCLUSIVE.get(instant.action)
        if other is None or instant.state is InstantState.COMPLETED:
            continue
        if conflict_grounds(other, own, timeline.version):
            return instant
    return None


def check_nothing_exclusive(timeline: Timeline, own: Own, *, base: Timeline | None = None) -> None:
    """Raise `WriteConflictError` while a restore or an index build is pending, or where a restore came after `base`."""
    found = excluding_instant(timeline, own)
    if found is None and base is not None:
        restored = {i.requested_time for i in base.instants if i.action is Action.RESTORE}
        restores = (i for i in timeline.instants if i.action is Action.RESTORE and i.requested_time not in restored)
        found = next(restores, None)
    if found is not None:
        raise WriteConflictError(
            f"{'an index build of JVM Hudi' if found.action is Action.INDEXING else 'a restore'} excludes all other "
            "writes; nothing of this call is visible; run it again when that has ended (whoever began it has to finish "
            "it if the process is dead)",
            winner=found.requested_time,
            action=found.action.value,
        )


def check_still_ours(timeline: Timeline, base: Timeline, storage: Storage, own: InstantTime) -> None:
    """Raise unless our instant is pending and the only one at its time, and all writes that it began from still count.

    Raises `LockLostError` when another process rolled our instant back, or is about to, because its heartbeat had
    expired, and `WriteConflictError` when a completed write of the base was rolled back. Cost: one read per rollback
    since the base.
    """
    at_our_time = [instant for instant in timeline.instants if instant.requested_time == own]
    is_pending = len(at_our_time) == 1 and at_our_time[0].state is not InstantState.COMPLETED
    undone = _check_origin(timeline, base, storage, own)
    if not is_pending or own in undone:
        raise LockLostError(
            "another process took this action over because its heartbeat had expired; nothing of this run is visible; "
            "run it again",
            instant=own,
        )


def _check_origin(timeline: Timeline, base: Timeline, storage: Storage, own: InstantTime) -> set[str]:
    """Raise `WriteConflictError` where a completed write of the base is no more. Gives what has been rolled back since.

    An interrupted rollback counts: it has deleted files already, even if the instant is still there.
    """
    finished = {
        i.requested_time
        for i in base.instants
        if i.action is Action.ROLLBACK and i.state is InstantState.COMPLETED
    }  # fmt: skip
    targets: set[str] = set()
    for rollback in timeline.instants:
        if rollback.action is not Action.ROLLBACK or rollback.requested_time in finished:
            continue
        target = load_rollback_plan(storage, rollback, timeline.version).instant_time
        targets.add(target)
        if target in base.completed_times:
            raise WriteConflictError(
                "a completed write that this one began from was rolled back; nothing of this write is visible; run it "
                "again",
                instant=own,
                winner=rollback.requested_time,
                rolled_back=target,
            )
    gone = base.completed_times - timeline.completed_times
    if timeline.first_time is not None and any(instant_time > timeline.first_time for instant_time in gone):
        # Archived instants are older than all that remain; so these were removed otherwise.
        raise WriteConflictError(
            "a completed write that this one began from is no longer on the timeline; nothing of this write is "
            "visible; run it again",
            instant=own,
            rolled_back=max(gone),
        )
    return targets


def check_conflicts(
    timeline: Timeline,
    base: Timeline,
    storage: Storage,
    *,
    own: InstantTime,
    mine: Footprint,
    base_schema: str | None,
    passes_clusterings: bool = False,
    resizes: Collection[str] = (),
) -> None:
    """Raise `WriteConflictError` when a write that completed, or a plan that was made, since the base conflicts.

    `passes_clusterings`: pending clusterings do not count, because they give way. `resizes`: nor do these clusterings,
    pending or completed since, as the write changed the file groups that they make, too. Cost: one read per write that
    completed meanwhile, per compaction that was planned meanwhile, and per pending clustering; in version 6 also per
    pending replace commit, which may be one.
    """
    # The write respected the compaction plans that were there when it began.
    known = base.completed_times | {instant.requested_time for instant in base.pending_compactions}
    for instant in timeline.completed_writes:
        if instant.requested_time in known or instant.requested_time in resizes:
            continue
        theirs = footprint_of(load_commit_metadata(storage, instant, timeline.version))
        later = instant.requested_time > own
        if schemas_clash(mine, theirs, base_schema, theirs_began_later=later):
            raise schema_conflict(own, winner=instant.requested_time)
        if shared := shared_ground(mine, theirs, timeline.version):
            raise conflict("another writer changed the same file groups or partitions first", own, instant, shared)
    for instant in timeline.pending_compactions:
        if instant.requested_time in known:
            continue
        theirs = footprint_of_compaction_plan(load_compaction_plan(storage, instant, timeline.version))
        if shared := shared_ground(mine, theirs, timeline.version):
            raise conflict(
                "a compaction was planned meanwhile for file groups that this write changed", own, instant, shared
            )
    if not passes_clusterings:
        check_clusterings(timeline, storage, own=own, mine=mine, resizes=resizes)


def check_groups_unchanged(
    timeline: Timeline, base: Timeline, storage: Storage, *, own: InstantTime, mine: Footprint, heirs: Heirs
) -> None:
    """Raise `WriteConflictError` when a file group that a clustering read was changed since the base.

    Buckets with `heirs` may have been, if these were, too. Cost: one read per write that completed meanwhile.
    """
    made = frozenset(group for groups in heirs.values() for group in groups)
    for instant in timeline.completed_writes:
        if instant.requested_time in base.completed_times:
            continue
        theirs = footprint_of(load_commit_metadata(storage, instant, timeline.version))
        shared = shared_ground(mine, theirs, timeline.version) - made - heirs.keys() | forgotten_heirs(theirs, heirs)
        if shared:
            raise conflict("a write changed file groups that this clustering reads", own, instant, shared)


def check_rows_read(timeline: Timeline, base: Timeline, storage: Storage, *, own: InstantTime, read: Reads) -> None:
    """Raise `WriteConflictError` when rows that a write read to compute its own have been changed since the base.

    So they have if a write that it read was rolled back. Cost: one read per write that completed since.
    """
    check_nothing_exclusive(timeline, Own.WRITE, base=base)
    _check_origin(timeline, base, storage, own)
    mine = Footprint(kind=Other.WRITE, read=read)
    for instant in timeline.completed_writes:
        if instant.requested_time in base.completed_times:
            continue
        theirs = footprint_of(load_commit_metadata(storage, instant, timeline.version))
        if shared := shared_ground(mine, theirs, timeline.version):
            raise conflict("another writer changed rows that this write read", own, instant, shared)


def check_clusterings(
    timeline: Timeline, storage: Storage, *, own: InstantTime, mine: Footprint, resizes: Collection[str] = ()
) -> None:
    """Raise `WriteConflictError` when a file group that we change is input of a pending clustering.

    The clustering writes the rows as they were when it was planned into new groups, and replaces the old groups: our
    changes would be lost. `resizes`, and the cost: see `check_conflicts`.
    """
    for instant, groups in load_clustering_plans(storage, timeline, besides=own):
        if instant.requested_time in resizes:
            continue
        if shared := shared_ground(mine, footprint_of_clustering_plan(groups), timeline.version):
            remedy = "roll the plan back (recovery.rollback); SparkAllowUpdateStrategy does so by itself"
            if (gone := _missing_input(storage, timeline, instant)) is not None:
                remedy = f"it can never run, as the file {gone} of its plan is gone: {remedy}"
            else:
                remedy = f"let it finish (services.run), or {remedy}"
            raise conflict(
                f"a clustering is planned for file groups that this write changes: {remedy}", own, instant, shared
            )


def _missing_input(storage: Storage, timeline: Timeline, clustering: Instant) -> str | None:
    """A file that a planned clustering reads and that is gone: a restore of JVM Hudi leaves such plans.

    Cost: a read, and a listing per partition of the plan.
    """
    plan = load_clustering_plan(storage, timeline.version, clustering)
    slices = () if plan is None else tuple(plan.slices)
    there = {path: set(storage.list_names(path)) for path in {file_slice.partition_path for file_slice in slices}}
    missing = (
        f"{file_slice.partition_path}/{name}"
        for file_slice in slices
        for name in sorted(file_slice.file_names - there[file_slice.partition_path])
    )
    return next(missing, None)


def check_intents(
    timeline: Timeline, intents: Iterable[Intent], *, own: InstantTime, metadata: CommitMetadata, mine: Footprint
) -> None:
    """Raise `WriteConflictError` when another writer, whose intent is stored, is about to complete a conflicting write.

    Only where the table lock can be lost. Either write may be completed first, so the table of conflicts is applied in
    both directions. `intents` must have been loaded before `timeline`.
    """
    pending: dict[str, Instant] = {
        instant.requested_time: instant for instant in (*timeline.pending_writes, *timeline.pending_clusterings)
    }
    for intent in intents:
        rival = pending.get(intent.instant_time)
        if rival is None:
            continue
        theirs = footprint_of(intent.metadata, intent.unique_keys, intent.read)
        shared = shared_ground(mine, theirs, timeline.version) | shared_ground(theirs, mine, timeline.version)
        batch = metadata.extra.get(BATCH_ID_METADATA)
        is_same_batch = batch is not None and batch == intent.metadata.extra.get(BATCH_ID_METADATA)
        if shared or is_same_batch or schemas_clash(mine, theirs, None, theirs_began_later=True):
            raise conflict(
                "another writer is committing a change to the same file groups or partitions", own, rival, shared
            )


def conflict(reason: str, own: str, winner: Instant, shared: Iterable[FileGroupId | str]) -> WriteConflictError:
    """The error of a write that gives way: the winner, and the shared file groups and partitions (ten of each)."""
    items = sorted(shared, key=str)
    return WriteConflictError(
        f"{reason}; nothing of this write is visible; run it again",
        instant=own,
        winner=winner.requested_time,
        action=winner.action.value,
        file_groups=list(_first(f"{i.partition_path}/{i.file_id}" for i in items if isinstance(i, FileGroupId))),
        partitions=list(_first(item for item in items if isinstance(item, str))),
    )


def schema_conflict(own: InstantTime, *, winner: InstantTime | None) -> WriteConflictError:
    """The error of a write that gives way because of the table's columns; `winner` where it is known."""
    return WriteConflictError(
        "another writer changed the table's schema, or this write would change it under the other; nothing of this "
        "write is visible; run it again",
        instant=own,
        winner=winner,
    )


def _first(items: Iterable[str], count: int = 10) -> Iterator[str]:
    for number, item in enumerate(items):
        if number == count:
            return
        yield item
