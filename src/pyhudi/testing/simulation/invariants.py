"""Invariants K1 to K9 and K12 to K21 of `docs/reliability.md`: what holds of a table whatever its writers did.

`Watcher` checks each change when it is made. The functions check a world in which no actor runs any more, and the
answers that the actors got. Each yields a sentence for every violation, which begins with the number of the invariant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyhudi.errors import CorruptDataError, HistoryNotSettledError, HudiError, WriteConflictError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.metadata.clean import CleanPlan, decode_clean_plan
from pyhudi.format.metadata.commit import CommitMetadata, decode_commit_metadata
from pyhudi.format.metadata.restore import decode_restore_plan, decode_restored_instants
from pyhudi.format.metadata.rollback import decode_rollback_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.archived_log import is_archive_file
from pyhudi.format.timeline.archived_log_writing import MERGE_PLAN_FILE
from pyhudi.format.timeline.instant import Action, Instant, InstantState, completed_action, parse_instant_file_name
from pyhudi.format.timeline.lsm_history import VERSION_FILE
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.services.restore.execute import pending_restores
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_cleaned_files, archived_metadata, history_files, times_in
from pyhudi.table.archive.logs import logged_instants
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.lister import list_data_files
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, instant_path, load_rollback_plan, load_timeline, position_of
from pyhudi.testing.simulation.bucket_tables import is_of_undone_resize, resize_of
from pyhudi.testing.simulation.captured_changes import check_captured, check_columns, check_replays
from pyhudi.testing.simulation.file_invariants import check_blocks, check_metadata_table
from pyhudi.testing.simulation.history import EXPIRY, Answer, History, Verdict
from pyhudi.testing.simulation.key_value_writes import STRAY, WRITER, Request
from pyhudi.testing.simulation.scheduler import Actor, Run
from pyhudi.testing.simulation.world import Stored
from pyhudi.transaction.heartbeat import heartbeat_path
from pyhudi.transaction.idempotence import BATCH_ID_METADATA

TEMPORARY_FOLDERS = (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.aux")
"""Folders of files that are of no use once their writer has ended."""


def is_archived(storage: Storage, version: TableVersion, instant: Instant) -> bool:
    """Whether the archived timeline has this instant. Cost: that of the whole archive."""
    return (instant.requested_time, instant.action.value) in archived_instants(storage, version)


def archived_instants(storage: Storage, version: TableVersion) -> list[tuple[str, str]]:
    """Time and action of every instant of the archived timeline, as often as it is there. Cost: the whole archive."""
    if not version.has_completion_times:
        return [(instant.instant_time, instant.action) for instant in logged_instants(storage, version)]
    files = history_files(storage, version)
    return [(time, action) for file in files for time, _, action in times_in(storage, version, file)]


ReadRows = Callable[[TableState, "str | None"], list[tuple[str, str]]]


@dataclass(slots=True)
class Watcher:
    """Looks at each change of the store as it is made, and ends the run at the first that must not be.

    `ordered`: whether writes become visible in the order of their completion times. `owners`: who put the requested
    instant of a time. `completed`: writes that are so now. `ended`: writes that were completed at any time, or
    given up by their own writer. `listed`: data files by the completed write that needs them. `makers`: who put a data
    file; `strays`: those put when their write's heartbeat was gone, for which whoever put them must look himself.
    `resizes`: planned clusterings. Logs that are named after them are of other writes, and go with them.
    """

    run: Run
    table: TableState
    ordered: bool = True
    owners: dict[str, int] = field(default_factory=dict)
    completed: dict[str, Instant] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    listed: dict[str, str] = field(default_factory=dict)
    makers: dict[str, int] = field(default_factory=dict)
    strays: set[str] = field(default_factory=set)
    cleanable: set[str] = field(default_factory=set)
    replaced: set[tuple[str, str]] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    resizes: set[str] = field(default_factory=set)

    @property
    def neglected(self) -> Collection[str]:
        """Files that an actor put after their write had ended and did not delete, though it has not died since."""
        world = self.run.world
        return sorted(
            path for path in self.strays if path in world.objects and not self.run.actors[self.makers[path]].is_dead
        )

    def __call__(self, actor: Actor, operation: str, path: str, previous: Stored | None) -> None:
        """See `simulated.Watch`."""
        is_removal = operation in ("delete", "delete_folder")
        folder, _, name = path.rpartition("/")
        if folder == self.table.version.timeline_folder:
            instant = parse_instant_file_name(name, self.table.version)
            if instant is not None:
                found = self._removed(actor, instant) if is_removal else self._put(actor, instant, path, previous)
                self._report(found)
        elif folder == self.table.version.history_folder and (name == VERSION_FILE or is_archive_file(name)):
            self._report(next(archived_twice(self.table), None))
        elif not path.startswith(".hoodie") and parse_data_file(name) is not None:
            self._report(self._removed_data(actor, path) if is_removal else self._put_data(actor, path, previous))

    def _report(self, found: str | None) -> None:
        if found is not None:
            self.run.fail(found)

    def _put(self, actor: Actor, instant: Instant, path: str, previous: Stored | None) -> str | None:
        stored = self.run.world.objects[path]
        if previous is not None and self.run.world.exclusive:
            return f"K5: {path} was replaced"
        if instant.action is Action.CLEAN and instant.state is InstantState.REQUESTED:
            paths = decode_clean_plan(stored.data, path=path).paths
            self.cleanable |= paths
            return self._needed_of_plan(instant, paths)
        if instant.state is InstantState.REQUESTED:
            self.owners[instant.requested_time] = actor.number
            if instant.action is Action.CLUSTERING:
                self.resizes.add(instant.requested_time)
            if instant.action is Action.RESTORE:
                # It takes back the writes of living writers, too.
                self.ended |= {time for time, _ in decode_restore_plan(stored.data, path=path).instants}
            if instant.action is Action.ROLLBACK:
                target = decode_rollback_plan(stored.data, path=path).instant_time
                self.undone.add(target)
                # Whoever gives up his own write lets everybody finish that.
                self.ended |= {target} if self.owners.get(target) == actor.number else set()
        if instant.state is not InstantState.COMPLETED or instant.action not in WRITE_ACTIONS:
            return None
        return self._completed(instant, decode_commit_metadata(stored.data, path=path))

    def _completed(self, instant: Instant, metadata: CommitMetadata) -> str | None:
        time = instant.requested_time
        if time in self.completed:
            # Whoever lost the lock in the midst of the put takes it away again; `check_endings` sees that it is gone.
            return f"K7: {time} was completed twice" if self.ordered else None
        if instant.completion_time is not None and instant.completion_time <= time:
            return f"K8: {time} was completed at {instant.completion_time}"
        later = [other for other in self.completed.values() if position_of(other) >= position_of(instant)]
        self.completed[time] = instant
        self.ended.add(time)
        if later and self.ordered and instant.completion_time is not None:
            return f"K8: {time} was completed at {instant.completion_time}, not after {position_of(later[0])}"
        for partition, file_ids in (metadata.replaced_file_ids or {}).items():
            self.replaced.update((partition, file_id) for file_id in file_ids)
        for stats in metadata.stats_by_partition.values():
            for stat in stats:
                if resize_of(stat.path, self.resizes) in self.undone:
                    continue
                for path, size in ((stat.path, stat.file_size_in_bytes), *(stat.cdc_stats or {}).items()):
                    self.listed[path] = time
                    found = self.run.world.info(path)
                    # Whoever lost the lock in the midst of the put takes it away again; `check_files` sees that.
                    if self.ordered and (found is None or found.size != size):
                        return f"K6: {time} was completed without its file {path}"
        return None

    def _needed_of_plan(self, instant: Instant, paths: Collection[str]) -> str | None:
        """K16: no clean names a file of the newest slice of its group, or of a write that is not completed."""
        bases: dict[tuple[str, str], str] = {}
        for path, time in self.listed.items():
            name = parse_data_file(path.rpartition("/")[2])
            if isinstance(name, BaseFileName):
                group = (path.rpartition("/")[0], name.file_id)
                bases[group] = max(bases.get(group, ""), time)
        for path in sorted(paths):
            name = parse_data_file(path.rpartition("/")[2])
            if path not in self.listed:
                if name is not None and not self.table.timeline.is_committed(name.instant_time):
                    return f"K16: the clean {instant.requested_time} names {path}, which is of no completed write"
                continue
            group = (path.rpartition("/")[0], name.file_id if name is not None else "")
            is_newest = isinstance(name, BaseFileName) and bases.get(group) == self.listed[path]
            if is_newest and group not in self.replaced:
                return f"K16: the clean {instant.requested_time} names {path}, the newest base file of its group"
        return None

    def _removed(self, actor: Actor, instant: Instant) -> str | None:
        if instant.state is not InstantState.COMPLETED:
            return None
        time = instant.requested_time
        storage, version = self.table.storage, self.table.version
        if is_archived(storage, version, instant):
            return self._left_before(instant)
        if instant.action not in WRITE_ACTIONS:
            return f"K17: the {instant.action.value} {time} left the timeline, and is not archived"
        if self.completed.get(time) != instant:
            return None
        self.completed.pop(time)
        self.listed = {path: of for path, of in self.listed.items() if of != time}
        is_taken_back = time in self.undone or self.owners.get(time) == actor.number
        return None if is_taken_back else f"K17: the write {time} left the timeline, and is not archived"

    def _left_before(self, instant: Instant) -> str | None:
        """K17: archived writes leave oldest first, so that readers see the newest part of the timeline, without holes.

        What is archived stays completed, and its files are needed as before. Its completed file goes last: what is left
        without it looks like an instant of a dead writer, which others roll back.
        """
        timeline = load_timeline(self.table.storage, self.table.version)
        if any(other.requested_time == instant.requested_time for other in timeline.instants):
            return f"K17: {instant.requested_time} is archived, and looks pending on the timeline"
        older = [write for write in timeline.completed_writes if write.requested_time < instant.requested_time]
        if instant.action in WRITE_ACTIONS and older:
            return f"K17: {instant.requested_time} left the timeline before {older[0].requested_time}"
        return None

    def _put_data(self, actor: Actor, path: str, previous: Stored | None) -> str | None:
        if previous is not None and self.run.world.exclusive:
            return f"K5: {path} was replaced"
        self.makers[path] = actor.number
        name = parse_data_file(path.rpartition("/")[2])
        is_told = name is not None and _tells(self.table, name) and resize_of(path, self.resizes) is None
        if name is not None and is_told and self.owners.get(name.instant_time) != actor.number:
            self.strays |= {path} if heartbeat_path(name.instant_time) not in self.run.world.objects else set()
        return None

    def _removed_data(self, actor: Actor, path: str) -> str | None:
        if path in self.cleanable or resize_of(path, self.resizes) in self.undone:
            self.listed.pop(path, None)
            return None
        if path in self.listed:
            return f"K6: {path} was deleted, which the completed write {self.listed[path]} needs"
        name = parse_data_file(path.rpartition("/")[2])
        owner = self.owners.get(name.instant_time) if name is not None else None
        if self.makers.get(path) == actor.number:
            return None
        if name is None or owner is None or owner == actor.number or name.instant_time in self.ended:
            return None
        writer = self.run.actors[owner] if owner < len(self.run.actors) else None
        if writer is not None and not (writer.is_dead or writer.is_done or writer.was_away):
            return f"K9: {actor.name} deleted {path} of {writer.name}, who is alive"
        return None


@dataclass(frozen=True, slots=True)
class Facts:
    """A table at rest, with the metadata of its completed writes, and what everybody was told of it.

    `read` gives the rows of a table, now or as of an instant time. `archived`: the writes of the archived timeline.
    """

    table: TableState
    read: ReadRows
    metadata: Mapping[str, CommitMetadata]
    history: History
    archived: tuple[Instant, ...] = ()

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.table.storage

    @property
    def writes(self) -> list[Instant]:
        """The completed writes in the order in which they became visible, the archived ones first."""
        found = {instant.requested_time: instant for instant in (*self.archived, *self.table.timeline.completed_writes)}
        return sorted(found.values(), key=lambda instant: (position_of(instant), instant.requested_time))

    def writer(self, instant_time: str) -> str:
        """The actor whose write it is; an empty text for a compaction."""
        metadata = self.metadata[instant_time]
        otherwise = EXPIRY if metadata.operation is WriteOperation.DELETE_PARTITION else ""
        if metadata.operation is WriteOperation.ALTER_SCHEMA:
            return next((answer.actor for answer in self.history.answers if answer.instant == instant_time), "")
        return metadata.extra.get(WRITER, otherwise)

    def before(self, seen: Collection[str]) -> frozenset[str]:
        """What a reader knew whose timeline had these completed writes: they, and those archived before them."""
        older = (instant.requested_time for instant in self.archived if instant.requested_time < min(seen, default="9"))
        return frozenset(seen).union(older)

    def expected(self, instants: Iterable[str]) -> dict[str, str]:
        """The rows that these writes make, one after the other."""
        wanted = frozenset(instants)
        rows: dict[str, str] = {}
        for instant in self.writes:
            request = self.history.requests.get(self.writer(instant.requested_time))
            if instant.requested_time in wanted and request is not None and self._may_change(request, instant):
                rows = request.apply_to(rows)
        return rows

    def _may_change(self, request: Request, instant: Instant) -> bool:
        """Whether a write changed anything: one that computes its rows decides nothing by rows that came after it."""
        is_empty = not any(self.metadata[instant.requested_time].stats_by_partition.values())
        return request.computed is None or not is_empty


def facts_of(table: TableState, read: ReadRows, history: History) -> Facts:
    """What restores roll back counts as undone from here on.

    Cost: one read per completed write and per restore, and the archive.
    """
    history.undone |= restored(table)
    metadata = {
        str(instant.requested_time): load_commit_metadata(table.storage, instant, table.version)
        for instant in table.timeline.completed_writes
    }
    archived = dict(archived_metadata(table.storage, table.version))
    metadata |= {str(instant.requested_time): found for instant, found in archived.items()}
    return Facts(table, read, metadata, history, tuple(archived))


def restored(table: TableState) -> set[str]:
    """The instant times that restores roll back, pending ones among them. Cost: one read per restore."""
    found: set[str] = set()
    for instant in table.timeline.instants:
        if instant.action is Action.RESTORE:
            path = instant_path(replace(instant, state=InstantState.REQUESTED, completion_time=None), table.version)
            with suppress(CorruptDataError):  # of a process that died in the midst of it, before it did anything
                found |= {time for time, _ in decode_restore_plan(table.storage.read(path), path=path).instants}
    return found


def check_at_rest(facts: Facts, *, unique: bool, ordered: bool) -> Iterator[str]:
    """What holds whenever no actor is running, with or without leftovers of dead writers.

    `unique`: whether the writes promise unique keys. `ordered`: see `Watcher`.
    """
    yield from check_rows(facts, unique=unique)
    yield from check_readers(facts)
    yield from check_answers(facts)
    yield from check_files(facts)
    yield from check_savepoints(facts)
    yield from check_endings(facts)
    yield from check_archive(facts)
    yield from check_restores(facts)
    yield from check_metadata_table(facts.table, facts.metadata)
    if unique:
        yield from check_captured(facts.table, facts.expected(facts.metadata))
    yield from check_columns(facts.table, facts.history)
    if ordered:
        yield from check_order(facts)
        yield from check_followers(facts)
        yield from check_replays(facts.history, facts.metadata.keys(), lambda seen: facts.expected(facts.before(seen)))


def check_rows(facts: Facts, *, unique: bool) -> Iterator[str]:
    """K1, K4: what is visible, now and as of each write, is what the completed writes make of one another.

    As of a write readers may be refused, while one is pending that began before it.
    """
    timeline = facts.table.timeline
    first_pending = min((write.requested_time for write in timeline.pending_writes), default=None)
    plans = clean_plans(facts.storage, timeline)
    earliest = max((plan.earliest[0] for plan in plans if plan.earliest is not None), default="")
    for as_of in [None, *(write.requested_time for write in timeline.completed_writes)]:
        if as_of is not None and as_of < earliest:
            continue
        try:
            rows = facts.read(facts.table, as_of)
        except HistoryNotSettledError:
            if as_of is None or first_pending is None or as_of < first_pending:
                yield f"K1: as of {as_of or 'now'} the rows are refused, though no write is pending there"
            continue
        if unique and (twice := [a for (a, _), (b, _) in pairwise(rows) if a == b]):
            yield f"K4: keys {twice} are in two file groups as of {as_of or 'now'}"
        if unique:
            wanted = facts.expected(t for t in facts.before(timeline.completed_times) if as_of is None or t <= as_of)
            if dict(rows) != wanted:
                yield f"K1: as of {as_of or 'now'} the rows are {rows}, and must be {sorted(wanted.items())}"


def check_readers(facts: Facts) -> Iterator[str]:
    """K2, K3: each reader saw the completed writes of one moment, all that were acknowledged before among them."""
    for answer in facts.history.answers:
        if (answer.rows is None and not answer.is_whole) or answer.is_followed:
            continue
        seen = answer.seen if answer.is_whole else facts.before(answer.seen)
        wanted = facts.expected(seen)
        if answer.rows is not None and seen <= facts.metadata.keys() and dict(answer.rows) != wanted:
            yield f"K2: {answer.actor} saw {answer.rows}, and the table was {sorted(wanted.items())}"
        for before in facts.history.answers:
            is_earlier = before.verdict is Verdict.DONE and before.instant is not None and before.ended < answer.began
            if is_earlier and before.instant not in seen | facts.history.undone:
                yield f"K3: {answer.actor} began after {before.actor} was done, and did not see its write"


def check_answers(facts: Facts) -> Iterator[str]:
    """K3: what was acknowledged is there, what was refused is not, and what is unknown can be found out."""
    committed = {facts.writer(time): time for time in facts.metadata}
    for answer in facts.history.answers:
        if answer.rows is not None or answer.actor not in facts.history.requests:
            continue
        match answer.verdict:
            case Verdict.DONE if answer.instant not in {*facts.metadata, *facts.history.undone, None}:
                yield f"K3: {answer.actor} was told that {answer.instant} is committed, and it is not"
            case Verdict.DONE if answer.actor not in committed and _is_own(facts, answer):
                yield f"K3: {answer.actor} was told that {answer.instant} is committed, and that is another one's write"
            case Verdict.REFUSED | Verdict.DONE if answer.instant is None and answer.actor in committed:
                was_told = "no commit" if answer.error is None else type(answer.error).__name__
                yield f"K3: {answer.actor} got {was_told}; {committed[answer.actor]} is committed"
            case Verdict.UNKNOWN if (instant := _instant_of(answer.error)) is not None:
                outcome = outcome_of(facts.table, instant)
                if (outcome is Outcome.COMMITTED) is not (instant in facts.metadata):
                    yield f"K3: {instant} is said to be {outcome.value}, which it is not"


def _is_own(facts: Facts, answer: Answer) -> bool:
    """Whether the write in an actor's answer must be its own: not if it was undone, another's batch, or none at all."""
    return answer.instant not in {*facts.history.undone, None} and facts.history.requests[answer.actor].batch is None


def _instant_of(error: HudiError | None) -> str | None:
    instant = None if error is None else error.context.get("instant")
    return None if instant is None else str(instant)


def check_conflicts(history: History) -> Iterator[str]:
    """K13: no write fails because of writers in other partitions. Does not hold where compactions are planned."""
    for answer in history.answers:
        if not isinstance(answer.error, WriteConflictError) or answer.actor not in history.requests:
            continue
        mine = history.requests[answer.actor]
        rivals = [request for name, request in history.requests.items() if name != answer.actor and "-" in name]
        is_same_batch = mine.batch is not None and any(mine.batch == rival.batch for rival in rivals)
        if not is_same_batch and not any(mine.partition_paths & rival.partition_paths for rival in rivals):
            yield f"K13: {answer.actor} failed by a conflict, and no other write touches its partitions: {answer.error}"


def check_files(facts: Facts) -> Iterator[str]:
    """K6: every file of a completed write is there, with the length that its metadata tell."""
    cleaned = archived_cleaned_files(facts.storage, facts.table.version, after="").union(
        *(plan.paths for plan in clean_plans(facts.storage, facts.table.timeline))
    )
    for time, metadata in facts.metadata.items():
        for stats in metadata.stats_by_partition.values():
            for stat in stats:
                info = facts.storage.info(stat.path)
                if info is None and (
                    stat.path in cleaned or is_of_undone_resize(stat.path, time, facts.table.timeline)
                ):
                    continue
                if info is None or info.size != stat.file_size_in_bytes:
                    yield f"K6: {stat.path} of {time} is {'missing' if info is None else 'of another length'}"


def check_savepoints(facts: Facts) -> Iterator[str]:
    """K6: every file that a savepoint keeps is there."""
    for time, savepoint in load_savepoints(facts.storage, facts.table.timeline).items():
        for path in sorted(savepoint.paths):
            if facts.storage.info(path) is None:
                yield f"K6: {path} is missing, which the savepoint of {time} keeps"


def check_endings(facts: Facts) -> Iterator[str]:
    """K7: no write is both completed and rolled back, or completed as two actions, and no batch was committed twice."""
    extras = (metadata.extra for metadata in facts.metadata.values())
    batches = [extra[BATCH_ID_METADATA] for extra in extras if BATCH_ID_METADATA in extra]
    for batch in {batch for batch in batches if batches.count(batch) > 1}:
        yield f"K7: the batch {batch} was committed twice"
    times = [write.requested_time for write in facts.table.timeline.completed_writes]
    completed = {(str(write.requested_time), write.action) for write in facts.table.timeline.completed_writes}
    for time in {time for time in times if times.count(time) > 1}:
        yield f"K7: {time} is completed twice"
    for rollback in facts.table.timeline.instants:
        if rollback.action is Action.ROLLBACK and rollback.state is InstantState.COMPLETED:
            plan = load_rollback_plan(facts.storage, rollback, facts.table.version)
            if (plan.instant_time, completed_action(Action(plan.action))) in completed:
                yield f"K7: {plan.instant_time} is completed, and {rollback.requested_time} is a rollback of it"


def check_archive(facts: Facts) -> Iterator[str]:
    """K17: no instant is archived twice, nor a write that replaced file groups of which there are still files."""
    yield from archived_twice(facts.table)
    kept = {write.requested_time for write in facts.table.timeline.completed_writes}
    for instant in facts.archived:
        younger = [time for time in kept if time > instant.requested_time]
        if facts.metadata[instant.requested_time].replaced_file_ids and younger:
            yield from _check_replaced(facts, instant)


def archived_twice(table: TableState) -> Iterator[str]:
    """K17: the instants that the archived timeline has more than once. Cost: that of the whole archive.

    While a plan says which files of version 6 are merged, the merged one repeats the others.
    """
    if table.storage.info(f"{table.version.history_folder}/{MERGE_PLAN_FILE}") is not None:
        return
    for (time, action), number in Counter(archived_instants(table.storage, table.version)).items():
        if number > 1:
            yield f"K17: the {action} {time} is archived {number} times"


def _check_replaced(facts: Facts, write: Instant) -> Iterator[str]:
    """K17: of file groups that an archived write replaced no file is left: readers would show their rows again."""
    for partition, file_ids in (facts.metadata[write.requested_time].replaced_file_ids or {}).items():
        for info in facts.storage.list_folder(partition).files:
            name = parse_data_file(info.name)
            if name is not None and name.file_id in file_ids and write not in facts.table.timeline.instants:
                yield f"K17: {info.path} is there, and the write that replaced it, {write.requested_time}, is archived"


def check_restores(facts: Facts) -> Iterator[str]:
    """K7: nothing that a completed restore has rolled back is on the timeline."""
    there = {instant.requested_time for instant in facts.table.timeline.completed_writes}
    for restore in facts.table.timeline.instants:
        if restore.action is Action.RESTORE and restore.state is InstantState.COMPLETED:
            path = instant_path(restore, facts.table.version)
            for time in sorted(there & decode_restored_instants(facts.storage.read(path), path=path)):
                yield f"K7: {time} is completed, and {restore.requested_time} has restored it away"


def check_order(facts: Facts) -> Iterator[str]:
    """K8: completion times differ, so that a position in the history is one moment."""
    positions = [position_of(write) for write in facts.writes]
    for position in {position for position in positions if positions.count(position) > 1}:
        yield f"K8: two writes were completed at {position}"


def check_followers(facts: Facts) -> Iterator[str]:
    """K12: an incremental reader gets each write once. Not in version 6, as with JVM Hudi."""
    if not facts.table.version.has_completion_times:
        return
    for actor in {answer.actor for answer in facts.history.answers if answer.since is not None}:
        reads = [answer for answer in facts.history.answers if answer.actor == actor and answer.since is not None]
        given = [time for read in reads for time in read.seen]
        last = max(read.position for read in reads)
        missed = {
            write.requested_time
            for write in facts.writes
            if position_of(write) <= last and position_of(write) > (reads[0].since or "")
        } - {*given}
        if missed or len(given) != len({*given}):
            yield f"K12: {actor} was given {sorted(given)}, and missed {sorted(missed)}"


def _tells(table: TableState, name: BaseFileName | LogFileName) -> bool:
    """Whether the name of a file tells which write made it: that of a log of version 6 does not."""
    return isinstance(name, BaseFileName) or table.version.has_completion_times


def check_attempts(facts: Facts, *, are_swept: bool) -> Iterator[str]:
    """K15: no reader sees a row of an attempt that outlives its write, and later writes remove its files.

    `are_swept`: whether all actors have ended, and one more write has visited all partitions since. Files of attempts
    of completed writes may stay, and logs of version 6, whose names do not tell their write.
    """
    seen = [(answer.actor, row) for answer in facts.history.answers for row in answer.rows or ()]
    for who, (key, value) in (*seen, *(("the table", row) for row in facts.read(facts.table, None))):
        if value == STRAY:
            yield f"K15: {who} shows {key} as an attempt wrote it that its write did not wait for"
    known = {*facts.metadata, *(instant.requested_time for instant in facts.table.timeline.instants)}
    for info in list_data_files(facts.storage) if are_swept else ():
        name = parse_data_file(info.name)
        if name is not None and _tells(facts.table, name) and name.instant_time not in known:
            yield f"K15: {info.path} of a write that was rolled back is still there, though a write looked there since"


def check_recovered(facts: Facts, *, excused: Collection[str]) -> Iterator[str]:
    """K14: after a recovery nothing of a dead writer is left, but for what a planned service will replace.

    `excused`: instant times of writers that others had to take for dead and that went on; paths of puts that landed
    late. What comes after a rollback is never visible, and stays.
    """
    table, storage = facts.table, facts.storage
    timeline = table.timeline
    # A writer whose write is restored away while it lives goes on until it looks at the timeline.
    excused = {*excused, *restored(table)}
    for instant in (*timeline.pending_writes, *timeline.pending_rollbacks, *pending_restores(timeline)):
        if instant_path(instant, table.version) not in excused:
            yield f"K14: {instant.action.value} {instant.requested_time} is still pending"
    planned = {instant.requested_time for instant in (*timeline.pending_compactions, *timeline.pending_clusterings)}
    for folder in TEMPORARY_FOLDERS:
        for info in storage.list_recursive(folder):
            if not {*planned, *excused} & {info.path, *info.path.split("/")}:
                yield f"K14: {info.path} is left over"
    # A log in a bucket that a resize makes is named after the resize, and another write lists it.
    of_resizes = {path for metadata in facts.metadata.values() for path in metadata.paths() if ".log." in path}
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if name is None or (isinstance(name, LogFileName) and not table.version.has_completion_times):
            continue
        if name.instant_time in {*planned, *excused}:
            continue
        if name.instant_time not in facts.metadata:
            yield f"K14: {info.path} belongs to no completed write"
        elif info.path not in facts.metadata[name.instant_time].paths() and info.path not in of_resizes:
            yield f"K14: {info.path} is of a lost attempt of a completed write"
    if not table.version.has_completion_times:
        yield from check_blocks(facts.storage, facts.metadata, excused)


def clean_plans(storage: Storage, timeline: Timeline) -> tuple[CleanPlan, ...]:
    """The plans of the cleans on a timeline, completed or not. Cost: a read for each."""
    cleans = [instant for instant in timeline.instants if instant.action is Action.CLEAN]
    requested = (replace(clean, state=InstantState.REQUESTED, completion_time=None) for clean in cleans)
    paths = [instant_path(request, timeline.version) for request in requested]
    return tuple(decode_clean_plan(storage.read(path), path=path) for path in paths)
