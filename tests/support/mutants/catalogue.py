"""The mutants: one rule of the protocol broken in each, and where it is searched for."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants import defects
from tests.support.mutants.tools import Mutant, Patch, always, no_lock, nothing

from pyhudi.api import row_changes
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.slices.files import SliceFiles
from pyhudi.metadata_table import rollback as metadata_rollback
from pyhudi.read.cdc import planning
from pyhudi.services.archiving import archive as archiving
from pyhudi.services.archiving import into_history, into_logs
from pyhudi.services.cleaning import policy as cleaning_policy
from pyhudi.services.clustering import schedule as clustering_schedule
from pyhudi.services.compaction import schedule as compaction_schedule
from pyhudi.services.frame import planned_run
from pyhudi.services.restore import execute as restore_run
from pyhudi.services.restore import plan as restore_plan
from pyhudi.services.rollback import execute as rollback_run
from pyhudi.services.rollback import rollback
from pyhudi.table import file_system_view, instant_times, remembered_files, written_files
from pyhudi.table.committed_files import CommittedFiles
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.timeline import Timeline
from pyhudi.tasks.cdc import ChangeDataLog
from pyhudi.testing.simulation import key_value_writes as thin
from pyhudi.testing.simulation import scenarios
from pyhudi.testing.simulation import start_tables as kinds
from pyhudi.testing.simulation.campaign import CLOCKS, CRASHES, FAULTS, PAUSES, TWO_CRASHES
from pyhudi.testing.simulation.explore import Budget
from pyhudi.testing.simulation.scheduler import Powers
from pyhudi.testing.simulation.simulated import SimStorage
from pyhudi.transaction import heartbeat, publish, tidying, transaction
from pyhudi.transaction.conflicts import check as conflict_check
from pyhudi.transaction.conflicts import footprint
from pyhudi.transaction.heartbeat import Liveness
from pyhudi.transaction.locks.storage_based import LockRecord
from pyhudi.transaction.locks.table_lock import HeldLock
from pyhudi.write import finish, staged
from pyhudi.write.operations import RowsRead

ORDER = Budget(deviations=1, schedules=1_500, seconds=240.0)
TWICE = Budget(deviations=2, schedules=6_000, seconds=240.0)
CRASH = replace(ORDER, powers=CRASHES)
FAULT = replace(ORDER, powers=FAULTS)
PAUSE = replace(ORDER, powers=PAUSES)
CLOCK = replace(ORDER, powers=CLOCKS)
LEASE_ENDS = replace(TWICE, schedules=10_000, powers=Powers(pauses=True))
SET_BACK = replace(TWICE, mishaps=2, powers=CLOCKS)


def mutant(
    name: str, why: str, *patches: Patch, at: str, within: Budget = ORDER, breaks: str, known: str = ""
) -> Mutant:
    return Mutant(
        name=name, why=why, patches=patches, family=at, budget=within, breaks=tuple(breaks.split()), known=known
    )


def _footprints(replacement: object) -> tuple[Patch, ...]:
    """What a write knows of itself, and of others."""
    return tuple((module, module.footprint_of, replacement) for module in (transaction, conflict_check))


NO_CONFLICT_CHECK = mutant(
    "no look at conflicts",
    "two writers that read one version must not both put the next one",
    (transaction, transaction.check_conflicts, nothing),
    at="cow8/lock/update+update",
    breaks="K1",
)

CONFLICTS = (
    NO_CONFLICT_CHECK,
    mutant(
        "no look at conflicts in logs of version 6",
        "a log may change rows that another write moved",
        (transaction, transaction.check_conflicts, nothing),
        at="mor6/lock/update+delete",
        breaks="K1",
    ),
    mutant(
        "conflicts are looked for before the lock is taken",
        "another one commits between the look and the put",
        (transaction, transaction.check_conflicts, nothing),
        (finish, finish.commit, defects.commit_that_checks_before_it_has_the_lock),
        at="cow8/lock/update+update",
        breaks="K1",
    ),
    mutant(
        "conflicts are looked for on the timeline of the beginning",
        "what was completed meanwhile is what matters",
        (transaction, transaction.check_conflicts, defects.check_of_the_beginning),
        at="cow8/lock/update+update",
        breaks="K1",
    ),
    mutant(
        "writes that were pending at the beginning count as known",
        "they were completed later, and nobody has read them",
        (transaction, transaction.check_conflicts, defects.check_that_takes_pending_writes_for_known),
        at="cow8/lock/update+update-2",
        within=TWICE,
        breaks="K1",
    ),
    mutant(
        "only writes that began later are looked at",
        "who began first may end last",
        (transaction, transaction.check_conflicts, defects.check_that_looks_at_younger_writes_only),
        at="cow8/lock/update+update-2",
        within=TWICE,
        breaks="K1",
    ),
    mutant(
        "changed file groups are no conflict",
        "a file group is rewritten as a whole",
        *_footprints(defects.footprint_without_rewritten_groups),
        at="cow6/lock/update+update-2",
        breaks="K1",
    ),
    mutant(
        "the same new key is no conflict",
        "two file groups would get it",
        *_footprints(defects.footprint_without_promise),
        at="cow8/lock/new+new",
        breaks="K4",
    ),
    mutant(
        "new rows of others are no conflict",
        "they may be the same keys",
        *_footprints(defects.footprint_without_new_rows),
        at="cow6/lock/new+new",
        breaks="K4",
    ),
    mutant(
        "replaced file groups are no conflict",
        "a change of them would vanish",
        *_footprints(defects.footprint_without_replaced_groups),
        at="cow8/lock/update+drop",
        breaks="K1",
    ),
    mutant(
        "replaced partitions are no conflict",
        "rows that came meanwhile would stay",
        *_footprints(defects.footprint_without_replaced_partitions),
        at="cow8/lock/new+drop",
        breaks="K1",
    ),
    mutant(
        "the batch is not looked for at the commit",
        "another process may have written it meanwhile",
        (transaction, transaction.check_batch_is_new, nothing),
        at="cow8/lock/batch+batch",
        breaks="K7",
    ),
)

TIMES = (
    mutant(
        "instant times are those of the clock",
        "two clocks, or one that stands still, give one time twice",
        (transaction, transaction.next_time, defects.time_of_the_clock),
        at="cow8/lock/update+update-b",
        breaks="K13 K5 K8",
    ),
    mutant(
        "completion times are those of the clock",
        "who became visible later must have a later time",
        (instant_times, instant_times.next_time, defects.time_of_the_clock),
        at="cow8/lock/update+update-b",
        breaks="K8",
    ),
    mutant(
        "completion times follow the beginning",
        "who began first may become visible last",
        (transaction, transaction.completed_now, defects.completed_right_after_its_beginning),
        at="cow8/lock/update+update-b",
        breaks="K8",
    ),
    mutant(
        "a requested instant replaces another one",
        "two writers would share one instant time, and its files",
        (SimStorage, SimStorage.put_if_absent, defects.put_over(defects.InstantState.REQUESTED)),
        at="cow8/lease/update+update-b",
        within=SET_BACK,
        breaks="K5 K7",
        known="1=b 10=p",
    ),
    mutant(
        "a completed instant replaces another one",
        "what was visible would change",
        (SimStorage, SimStorage.put_if_absent, defects.put_over(defects.InstantState.COMPLETED)),
        at="mor6/lease/compact+compact",
        within=PAUSE,
        breaks="K5",
    ),
    mutant(
        "nobody looks for another action at his instant time",
        "names of two actions differ, so that exclusive creation does not help",
        (publish, publish.check_alone, nothing),
        at="cow8/lease/update-b+overwrite",
        within=SET_BACK,
        breaks="K1 K5 K6 K7 K8 K9 K13 K14",
        known="1=b 10=p",
    ),
)

LOCKS = (
    mutant(
        "commits without the lock",
        "two checks at one moment both find nothing",
        (transaction, transaction.table_lock, no_lock),
        at="cow8/lock/update+update",
        breaks="K1 K13",
    ),
    mutant(
        "recovery without the lock",
        "two would roll back one writer at one moment",
        (rollback, rollback.table_lock, no_lock),
        at="cow8/lock/update+recover+recover",
        within=replace(TWICE, powers=PAUSES),
        breaks="K5 K6 K13 K14",
    ),
    mutant(
        "plans without the lock",
        "a write may be completed between the look and the plan",
        (compaction_schedule, compaction_schedule.table_lock, no_lock),
        at="mor8/lock/update+schedule",
        breaks="K1 K6 K13",
    ),
    mutant(
        "nobody looks whether the lock is still held",
        "a lease ends while its process stands still",
        (HeldLock, HeldLock.check_held, nothing),
        at="mor8/lease/update+schedule",
        within=PAUSE,
        breaks="K1 K6",
    ),
    mutant(
        "a lease is taken that is not over",
        "its holder is at work",
        (LockRecord, LockRecord.is_free, always(True)),
        at="cow8/lease/update-b+both",
        breaks="K1 K8 K13",
    ),
    mutant(
        "a lease is taken without comparing",
        "of two that find it free both would have it",
        (SimStorage, SimStorage.put_if_match, defects.put_whatever_is_there),
        at="cow8/lease/update+update-b",
        within=TWICE,
        breaks="K8 K13",
        known="23=1 54=0",
    ),
)

INTENTS = (
    mutant(
        "intents are not published",
        "the lease may end between the check and the put",
        (transaction, transaction.put_intent, nothing),
        at="cow8/lease/update+update-2",
        within=LEASE_ENDS,
        breaks="K1",
    ),
    mutant(
        "intents are withdrawn before the put",
        "the lease may end in the put",
        (transaction, transaction.put_completed, defects.put_completed_without_intent),
        at="cow8/lease/update+update-2",
        within=LEASE_ENDS,
        breaks="K1",
    ),
    mutant(
        "intents are not looked at",
        "who took the lease over must see who had it",
        (transaction, transaction.check_intents, nothing),
        at="cow8/lease/update+update-2",
        within=LEASE_ENDS,
        breaks="K1",
    ),
    mutant(
        "intents are read after the timeline",
        "one may be completed and withdrawn in between",
        (transaction, transaction.standing_intents, defects.IntentsReadLate),
        at="cow8/lease/update+update-2",
        within=LEASE_ENDS,
        breaks="K1",
        known="32=p 59=0",
    ),
    mutant(
        "plans are made beside intents",
        "a commit in its last put is older than the plan, and not in it",
        (compaction_schedule, compaction_schedule.standing_intents, always(())),
        at="mor8/lease/update+schedule",
        within=PAUSE,
        breaks="K1",
    ),
)

LAST_PUT = (
    mutant(
        "nobody looks whether his instant is still pending",
        "it may have been rolled back",
        (transaction, transaction.check_still_ours, nothing),
        at="cow8/lock/update+recover",
        within=PAUSE,
        breaks="K6 K7 K13",
    ),
    mutant(
        "nobody looks back after the last put",
        "a rollback may have come before it",
        (transaction, transaction.check_not_undone, nothing),
        at="cow8/lease/update+recover",
        within=PAUSE,
        breaks="K1 K3 K6 K7",
    ),
    mutant(
        "a commit tidies up before its last put",
        "without a heartbeat nobody knows that its writer is dead",
        (transaction, transaction.put_completed, defects.put_completed_after_tidying_up),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "an unknown outcome is called a failure",
        "the commit may stand",
        (transaction, transaction.put_completed, defects.put_completed_that_is_sure_it_failed),
        at="cow8/lock/update+read",
        within=FAULT,
        breaks="K3",
    ),
    mutant(
        "an unknown outcome is called a success",
        "the put may not have reached the store",
        (transaction, transaction.put_completed, defects.put_completed_that_is_sure_it_succeeded),
        at="cow8/lock/update+read",
        within=FAULT,
        breaks="K3",
    ),
    mutant(
        "a put of unknown outcome is made again with another time",
        "the first one may have succeeded",
        (transaction, transaction.put_completed, defects.put_completed_twice),
        at="cow8/lock/update+read",
        within=FAULT,
        breaks="K7",
    ),
    mutant(
        "files of lost attempts stay",
        "nobody knows later that they do not count",
        (transaction, transaction.load_markers, always(frozenset())),
        (tidying, tidying.load_markers, always(frozenset())),
        at="cow8/lock/retried+read",
        breaks="K14",
    ),
    mutant(
        "files of all attempts go",
        "one of them is the commit's",
        (transaction, transaction.delete_lost_attempts, defects.delete_every_attempt),
        at="cow8/lock/retried+read",
        breaks="K6",
    ),
)

HEARTBEATS = (
    mutant(
        "no heartbeat",
        "a dead writer looks like one who never kept any",
        (heartbeat.Heartbeat, heartbeat.Heartbeat.start, nothing),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "the first beat comes later",
        "the writer may die before it",
        (heartbeat.Heartbeat, heartbeat.Heartbeat.start, defects.start_without_a_first_beat),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a heartbeat that stops beating",
        "a long write would count as dead",
        (heartbeat.Heartbeat, heartbeat.Heartbeat._beat_again, defects.beat_again_in_vain),
        at="cow8/lock/update+update",
        within=replace(TWICE, powers=CLOCKS),
        breaks="K9 K13",
        known="8=j 16=1",
    ),
    mutant(
        "a heartbeat is removed when it stops",
        "what a failed write leaves could never be told from a living one's",
        (heartbeat.Heartbeat, heartbeat.Heartbeat.stop, defects.stop_and_be_forgotten),
        at="cow8/lock/update+update",
        within=FAULT,
        breaks="K14",
    ),
    mutant(
        "every other writer counts as dead",
        "a fresh heartbeat says that he is not",
        (rollback, rollback.liveness_at, always(Liveness.DEAD)),
        at="cow8/lock/update+recover",
        breaks="K9 K13",
    ),
    mutant(
        "no other writer counts as dead",
        "what he left would stay",
        (rollback, rollback.liveness_at, always(Liveness.ALIVE)),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a compaction is run beside a living run",
        "it would remove the other one's files",
        (planned_run, planned_run.is_running, always(False)),
        at="mor8/lock/compact+compact",
        breaks="K6 K9 K13",
    ),
)

ROLLBACKS = (
    mutant(
        "recovery does not look again under the lock",
        "who seemed dead may have committed",
        (kinds, kinds.roll_back_failed_writes, defects.recover_without_looking_again),
        (scenarios, scenarios.roll_back_failed_writes, defects.recover_without_looking_again),
        at="cow8/lock/update+recover",
        within=PAUSE,
        breaks="K3 K6 K7 K9",
    ),
    mutant(
        "a rollback misses a file",
        "nobody will look for it again",
        (rollback, rollback.find_leftovers, defects.leftovers_without_the_first_file),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a rollback takes files of all that are pending",
        "the others may be alive",
        (rollback, rollback.find_leftovers, defects.leftovers_of_all_pending_writes),
        at="cow8/lock/update+update-b+recover",
        within=replace(TWICE, powers=PAUSES),
        breaks="K6 K9",
    ),
    mutant(
        "a rollback deletes before its plan is there",
        "who dies in it leaves a completed write without files",
        (rollback, rollback.find_leftovers, defects.leftovers_deleted_before_the_plan),
        at="cow8/lock/update+undo",
        within=CRASH,
        breaks="K6",
    ),
    mutant(
        "a rollback removes the instant before its plan is there",
        "who dies in it leaves files of which nothing is known",
        (rollback, rollback.find_leftovers, defects.leftovers_after_the_instant),
        at="cow8/lock/update+late",
        within=TWO_CRASHES,
        breaks="K14",
    ),
    mutant(
        "a rollback ends without deleting",
        "the files stay for ever",
        (rollback, rollback.run_rollback, defects.run_that_leaves_the_files),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a rollback leaves the pending instant",
        "it would be rolled back again and again",
        (rollback_run, rollback_run._delete, defects.delete_pending_last),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a rollback of version 6 forgets the command block",
        "the blocks would count as soon as the instant is archived",
        (rollback_run, rollback_run.exclude_blocks, nothing),
        at="mor6/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "half of a rollback stays half",
        "who recovers may die, too",
        (rollback, rollback.resume_rollbacks, always([])),
        at="cow8/lock/update+late",
        within=TWO_CRASHES,
        breaks="K14",
    ),
    mutant(
        "a rollback leaves the markers",
        "the next look at them would take them for somebody's",
        (rollback, rollback.tidy_up, defects.tidy_up_but_for_markers),
        (rollback_run, rollback_run.tidy_up, defects.tidy_up_but_for_markers),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a rollback leaves the heartbeat",
        "every later write would look at it",
        (rollback, rollback.tidy_up, defects.tidy_up_but_for_the_heartbeat),
        (rollback_run, rollback_run.tidy_up, defects.tidy_up_but_for_the_heartbeat),
        at="cow8/lock/update+recover",
        within=CRASH,
        breaks="K14",
    ),
    mutant(
        "a rollback does not look whether its write was completed meanwhile",
        "its writer may stand in the last put",
        (rollback, rollback._was_completed, always(False)),
        at="cow8/lease/update+recover",
        within=replace(TWICE, powers=PAUSES),
        breaks="K3 K6 K7",
    ),
    mutant(
        "a completed write is taken back from under later ones",
        "they were made from its rows",
        (rollback, rollback.check_rollback, nothing),
        at="cow8/lock/update+undo",
        breaks="K1 K6 K13",
    ),
)

ATTEMPTS = (
    mutant(
        "a task does not look for its write after its put",
        "nobody looks for its file when the write has ended",
        (thin, thin.check_write_is_running, nothing),
        at="cow8/lock/outlived+attempt",
        breaks="K15",
    ),
    mutant(
        "a task looks for its write before its put",
        "the write may end in between",
        (thin, thin.check_write_is_running, nothing),
        (thin, thin._put_file, defects.put_file_after_the_look),
        at="cow8/lock/outlived+attempt",
        within=TWICE,
        breaks="K15",
    ),
    mutant(
        "a task removes its log of version 6",
        "a plan may name it by now",
        (thin, thin.check_write_is_running, defects.check_that_removes_logs_of_slices),
        at="mor6/lock/update+schedule",
        within=PAUSE,
        breaks="K13",
    ),
    mutant(
        "nobody removes files of writes that were rolled back",
        "a task may put one between its rollback's look and the end of its heartbeat",
        (thin, thin.remove_orphans, nothing),
        at="cow8/lock/abandoned+attempt+update",
        breaks="K15",
    ),
    mutant(
        "a sweep takes files of pending writes",
        "their writers are alive",
        (thin, thin.remove_orphans, defects.sweep_of_pending_writes_too),
        at="cow8/lock/outlived+attempt+update",
        breaks="K6 K9",
    ),
    mutant(
        "a sweep goes by the timeline of its beginning",
        "what it lists may be of writes that began since",
        (thin, thin.remove_orphans, defects.sweep_by_the_timeline_of_the_beginning),
        at="cow8/lock/update+update",
        breaks="K6 K9",
    ),
    mutant(
        "files of completed writes count by the time in their names",
        "attempts that nobody waited for have the same",
        (CommittedFiles, CommittedFiles.names, always(True)),
        at="cow8/lock/outlived+attempt+read",
        breaks="K1 K2 K4 K13 K15",
    ),
    mutant(
        "logs of version 6 count by the time in their blocks",
        "attempts that nobody waited for have the same",
        (SliceFiles, SliceFiles.judged_by, lambda _self, blocks: blocks),
        at="mor6/lock/outlived+attempt+read",
        breaks="K1 K2 K4 K15",
    ),
)

READERS = (
    mutant(
        "a reader lists files before it loads the timeline",
        "a write that is completed in between would be half there, or taken for damaged",
        (scenarios, scenarios.load_table, defects.load_after_listing),
        (thin, thin.load_view, defects.view_of_what_was_listed_before),
        at="cow8/lock/update+read",
        breaks="K2 K3 K13",
    ),
    mutant(
        "a reader takes files of pending writes",
        "they may never be completed",
        (file_system_view, file_system_view._counts, always(True)),
        at="cow8/lock/update+read",
        breaks="K2",
    ),
    mutant(
        "a reader takes blocks of pending writes",
        "they may never be completed",
        (thin, thin.block_filter, always(BlockFilter())),
        at="mor6/lock/update+read",
        breaks="K1 K2",
    ),
    mutant(
        "a reader sees replaced file groups",
        "the partition has given way",
        (file_system_view, file_system_view.committed_files, defects.committed_files_that_replace_nothing),
        at="cow8/lock/update+drop",
        breaks="K1",
    ),
)

COMPACTION = (
    mutant(
        "a compaction does not look whether it was taken over",
        "its files may be gone",
        (transaction, transaction.check_newest_run, nothing),
        (publish, publish.is_newest_run, always(True)),
        at="mor8/lease/compact+compact",
        within=PAUSE,
        breaks="K5 K6 K7 K13",
    ),
    mutant(
        "a compaction forgets what a dead run left",
        "its files would stay beside those of this run",
        (planned_run, planned_run._remove_previous_run, defects.removes_only_the_markers),
        at="mor8/lock/compact+late",
        within=CRASH,
        breaks="K1 K14",
    ),
    mutant(
        "appends of version 6 go to the slice that is being compacted",
        "the compaction does not read them, and readers not after it",
        (
            FileSystemView,
            FileSystemView.slice_time_for_appends,
            defects.appends_to_the_newest_base_file,
        ),
        at="mor6/lock/schedule+update+compact",
        breaks="K1",
    ),
    mutant(
        "logs belong to the slice of their beginning",
        "a plan that was made since does not name them",
        (
            Timeline,
            Timeline.completion_times,
            property(defects.logs_by_their_beginning),
        ),
        at="mor8/lock/update+schedule",
        breaks="K1",
    ),
    mutant(
        "a plan of version 6 is made beside a running write, which does not look at plans",
        "its log would get the name of a slice that is closed",
        (compaction_schedule, compaction_schedule.is_clustering_plan, always(True)),
        (conflict_check, conflict_check.footprint_of_compaction_plan, defects.footprint_of_nothing),
        at="mor6/lock/update+schedule",
        breaks="K1",
    ),
)

CLEANING = (
    mutant(
        "a clean deletes the newest slice, too",
        "every reader needs it",
        (cleaning_policy, cleaning_policy._reasons, defects.reasons_to_keep_nothing),
        at="cow8/lock/update+update+clean",
        breaks="K16",
    ),
)

CLUSTERING = (
    mutant(
        "a clustering does not look for writes that it does not know",
        "it would replace what they wrote by what was there before",
        (transaction, transaction.check_groups_unchanged, nothing),
        at="cow8/lock/preferred+cluster",
        breaks="K1",
    ),
    mutant(
        "a write does not look for planned clusterings, and they do not look for writes",
        "the clustering would undo it",
        (transaction, transaction.check_clusterings, nothing),
        (conflict_check, conflict_check.check_clusterings, nothing),
        (transaction, transaction.check_groups_unchanged, nothing),
        at="mor8/lock/update+cluster",
        breaks="K1",
    ),
    mutant(
        "a clustering is planned beside another one of its file groups",
        "their rows would be there twice",
        (clustering_schedule, clustering_schedule.load_clustering_plans, always(())),
        (transaction, transaction.check_groups_unchanged, nothing),
        at="cow8/lock/cluster+cluster",
        breaks="K1 K4",
    ),
    mutant(
        "a clustering is run beside a living run",
        "it would remove the other one's files",
        (planned_run, planned_run.is_running, always(False)),
        at="cow8/lock/cluster+cluster",
        breaks="K6 K9 K13",
    ),
)

ARCHIVING = (
    mutant(
        "instants leave the timeline before they are in the archive",
        "whoever asks for history would not find them",
        (into_history, into_history._publish, nothing),
        at="long-cow8/lock/tidy+recall",
        breaks="K17 K1",
    ),
    mutant(
        "the youngest of the archived instants leaves first",
        "readers of the moment would see a timeline with a hole",
        (archiving, archiving.files_of_instants, defects.files_of_the_youngest_first),
        at="long-cow8/lock/tidy+read",
        breaks="K17 K1 K2",
    ),
    mutant(
        "a replacement is archived while files are there that it replaced",
        "readers would show their rows again",
        (archiving, archiving._first_replacement, always(None)),
        at="long-cow8/lock/update+archive",
        breaks="K17 K1 K4",
    ),
    mutant(
        "the version file names a manifest that is not there yet",
        "an archiver that dies between leaves an archive without its newest instants",
        (into_history, into_history._put_manifest, defects.put_manifest_last),
        at="long-cow8/lock/archive+recall",
        within=CRASH,
        breaks="K6 K17 K13",
    ),
    mutant(
        "what a dead archiver has archived is archived again",
        "an instant is in the archive once",
        (into_history, into_history._archived_already, always(frozenset())),
        at="long-cow8/lock/archive+archive",
        within=CRASH,
        breaks="K17",
    ),
    mutant(
        "two archive at once",
        "one of them would take away what the other one is reading, or archive it again",
        (archiving, archiving.table_lock, no_lock),
        at="long-cow8/lock/archive+archive",
        breaks="K13 K17",
    ),
    mutant(
        "metadata of a write that was archived meanwhile are not looked for in the archive",
        "whoever loaded the timeline before would show what it replaced, or fail",
        (written_files, written_files.archived_commit, always(None)),
        at="long-cow8/lock/update+tidy",
        breaks="K13 K1 K2",
    ),
    mutant(
        "in version 6 a write that completed beside a pending one is archived",
        "the pending one would not find it when it looks for conflicts",
        (archiving, archiving._beside_pending, always(None)),
        at="long-cow6/lock/update+update-b+update-2+update-b+tidy",
        within=TWICE,
        breaks="K1",
        known="17=1 50=2 69=0 85=3 120=4",
    ),
    mutant(
        "in version 6 instants leave the timeline and are not archived",
        "whoever asks for history would not find them",
        (archiving, archiving.add_to_logs, nothing),
        at="long-cow6/lock/tidy+recall",
        breaks="K17 K1",
    ),
    mutant(
        "in version 6 the youngest of the archived instants leaves first",
        "readers of the moment would see a timeline with a hole",
        (archiving, archiving.files_of_instants, defects.files_of_the_youngest_first),
        at="long-mor6/lock/tidy+read",
        breaks="K17",
    ),
    mutant(
        "the completed file of an archived instant leaves first",
        "what is left looks like a write of a dead process, and its files would be removed",
        (archiving, archiving.files_of_instants, defects.completed_files_first),
        at="long-cow6/lock/tidy+read",
        breaks="K17",
    ),
    mutant(
        "in version 6 what a dead archiver has archived is archived again",
        "an instant is in the archive once",
        (into_logs, into_logs._archived_already, always(frozenset())),
        at="long-cow6/lock/archive+archive",
        within=CRASH,
        breaks="K17",
    ),
)

MERGED_ARCHIVES = (
    mutant(
        "an expiry does not look at what was written since it began",
        "rows would go that were written after the decision",
        (transaction, transaction.check_conflicts, nothing),
        at="cow8/lock/overwrite+expire",
        breaks="K1 K4",
    ),
    mutant(
        "archive files are merged into one that is never put",
        "whoever asks for history would not find what they had",
        (into_logs, into_logs.create, defects.create_plan_only),
        at="long-cow6/lock/tidy+recall",
        breaks="K17 K1",
    ),
)

RESTORES = (
    mutant(
        "a write goes on after a restore",
        "what it began from may be gone, and so is its own instant",
        (transaction, transaction.check_nothing_exclusive, nothing),
        (transaction, transaction.check_still_ours, nothing),
        at="cow8/lock/both+restore",
        breaks="K1 K6 K7 K13",
    ),
    mutant(
        "nobody finishes a restore that died",
        "it keeps all writers out",
        (restore_run, restore_run.finish_restores, lambda table, *_: table),
        at="cow8/lock/update+restore+late",
        within=CRASH,
        breaks="K13 K14",
    ),
    mutant(
        "a restore ends without rolling back what is left",
        "what came after its target is still there",
        (restore_run, restore_run.roll_back_instant, defects.rollback_of_nothing),
        at="cow8/lock/both+restore",
        breaks="K7",
    ),
    mutant(
        "a restore does not look whether its state is there",
        "a clean may have deleted files of it",
        (restore_plan, restore_plan.audit, defects.audit_of_nothing),
        at="cow8/lock/update+update+clean+restore",
        within=TWICE,
        breaks="K1 K6 K13",
    ),
    mutant(
        "a savepoint does not look at planned cleans",
        "whoever executes them deletes its files",
        (restore_plan, restore_plan._check_cleans, nothing),
        at="cow8/lock/update+update+clean+save",
        within=TWICE,
        breaks="K6",
    ),
)

METADATA_TABLE = (
    mutant(
        "a commit leaves the metadata table as it is",
        "its files would be hidden from every reader of the metadata table",
        (transaction, transaction.apply_change, always("")),
        (transaction, transaction.with_kept_partitions, defects.with_all_partitions),
        at="listed-cow8/lock/update+update",
        breaks="K18",
    ),
    mutant(
        "a rollback leaves the delta commit of its write",
        "the metadata table would go on to name files that are gone",
        (rollback_run, rollback_run.begin_rollback, always(False)),
        at="listed-cow8/lock/both+undo",
        breaks="K18",
    ),
    mutant(
        "a rollback does not ask what a compaction has merged",
        "the write before may be merged: a write compacts the metadata table before it begins, and may die",
        (metadata_rollback, metadata_rollback.is_merged, always(False)),
        at="listed-cow8/lock/both+undo",
        within=CRASH,
        breaks="K18",
    ),
)
COMPUTED_ROWS = (
    mutant(
        "rows that were read are no ground",
        "a row is inserted because no other row has its value, and by then one has",
        (footprint, footprint.conflict_grounds, defects.grounds_without_rows_read),
        at="cow8/lock/claim+claim",
        breaks="K1",
    ),
    mutant(
        "rows that were read are looked at only from the beginning of the write on",
        "they are read before the write begins",
        (thin, thin.check_rows_read, nothing),
        at="mor6/lock/extend+update",
        breaks="K1",
    ),
    mutant(
        "a whole write does not look at the rows that it read when it begins",
        "they are read before the write begins",
        (staged, staged.check_rows_read, nothing),
        at="whole-cow8/lock/extend+update",
        breaks="K1",
    ),
    mutant(
        "a merge that inserts says that it read only what it changes",
        "that no row matched is true of all partitions, or of none",
        (row_changes, row_changes.rows_read, always(RowsRead.CHANGED)),
        at="whole-cow8/lock/claim+claim",
        breaks="K1",
    ),
    mutant(
        "a write that was rolled back has been read all the same",
        "rows are changed that were never there",
        (conflict_check, conflict_check._check_origin, always(frozenset())),
        at="cow6/lock/merge+undo+update",
        breaks="K1 K6 K7",
    ),
)

CAPTURED_CHANGES = (
    mutant(
        "deletes are not captured",
        "who follows the changes would keep the rows",
        (ChangeDataLog, ChangeDataLog.deleted, nothing),
        at="captured-cow8/lock/discard+capture",
        breaks="K20",
    ),
    mutant(
        "changes begin with the position that was read already",
        "each change is given once",
        (
            planning,
            planning.in_range,
            lambda position, begin, end: begin <= position and (end is None or position <= end),
        ),
        at="captured-cow8/lock/update+capture",
        breaks="K20",
    ),
    mutant(
        "the slice before a write has the write",
        "the image before a change would be that after it",
        (planning._Planner, planning._Planner._counts_until, defects.slice_before_a_write_with_it),
        at="captured-mor8/lock/overwrite+capture",
        breaks="K20",
    ),
)

COLUMNS = (
    mutant(
        "two changes of columns are no conflict",
        "the columns of the table would be those of one of them",
        (conflict_check, conflict_check.schemas_clash, always(False)),
        at="captured-cow8/lock/add+add",
        breaks="K21",
    ),
    mutant(
        "a change of columns beside a write is no conflict",
        "the write has the columns of before, and the last one of them counts",
        (transaction, transaction.check_conflicts, defects.check_without_columns),
        (finish, finish._check_schema_unchanged, nothing),
        at="captured-cow8/lock/update+add",
        breaks="K1 K21",
    ),
    mutant(
        "no history of columns is kept",
        "files of before would be read by the names of today",
        (transaction, transaction.keep_schema_history, nothing),
        at="captured-cow8/lock/update+rename",
        breaks="K1 K6",
    ),
)
LISTINGS = (
    mutant(
        "listings are remembered under any timeline",
        "another process wrote files meanwhile",
        (remembered_files, remembered_files._remembered, defects.remembered_under_any_timeline),
        at="whole-cow8/lock/twice+update",
        breaks="K1 K13",
    ),
    mutant(
        "a write hands on listings past what others have completed beside it",
        "their files are not among its own",
        (transaction, transaction.hand_on_files, defects.handed_on_from_any_timeline),
        at="whole-mor8/lock/twice+compact",
        breaks="K1 K13",
    ),
    mutant(
        "a write hands on listings without its own files",
        "its next write would not find them",
        (transaction, transaction.hand_on_files, defects.handed_on_without_own_files),
        at="whole-cow8/lock/twice+update",
        breaks="K1 K13",
    ),
)
MUTANTS = (
    *CONFLICTS,
    *TIMES,
    *LOCKS,
    *INTENTS,
    *LAST_PUT,
    *HEARTBEATS,
    *ROLLBACKS,
    *ATTEMPTS,
    *READERS,
    *COMPACTION,
    *CLUSTERING,
    *CLEANING,
    *ARCHIVING,
    *MERGED_ARCHIVES,
    *RESTORES,
    *METADATA_TABLE,
    *COMPUTED_ROWS,
    *CAPTURED_CHANGES,
    *COLUMNS,
    *LISTINGS,
)

EQUIVALENT = {
    "a second compaction is planned for a file group": "both read what is there and give the same rows; the first is "
    "only of no use, and JVM Hudi does not expect two plans for a group",
    "what a write began from may be rolled back": "our rollback refuses to take a completed write back while another "
    "is pending; the look is there for JVM Hudi's, which does not",
    "an absent heartbeat means death": "our writers keep one from before their instant is there until after it is "
    "completed; the look is there for writers of JVM Hudi that keep none",
    "a plan of version 6 is made beside a running write": "the write looks at plans, too, and gives way; only both "
    "together make a mutant",
    "the inflight instant goes before the files, after the plan": "whoever finds the plan deletes the files by it",
    "a failed write does not roll itself back": "the next writer does, when its heartbeat has expired",
    "a sweep looks at the timeline only before it lists": "whoever takes his time under the lock is above all that the "
    "sweep knows, and such files it passes over; the second look is there for JVM Hudi 0.15, which takes its time "
    "first, see tests/unit/services/test_orphans.py",
    "listings are remembered beside an action of others that is only pending": "its files count for nobody until it is "
    "completed, which the timeline shows, and what a pending clean deletes is of no newest slice",
    "markers come after their files, or not at all": "a rollback lists files by the instant in their names, too",
}
"""Changes that no schedule can tell from the protocol as it is, and why: what the rules are for beside safety."""
