"""Early conflict detection: a write fails before it rewrites a file group that another live writer is rewriting.

It only saves work: whether two writes conflict is decided at the commit. A writer checks first and creates its marker
afterwards, so the first writer of a file group continues. If two check at the same moment, both continue, and one of
them fails at its commit, as without detection. The other order would make both fail.

The age of a heartbeat is its distance from the newest heartbeat of all. These times are all from the clock of the
store, so the clocks of the machines that tasks run on do not matter.
"""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.markers import MARKERS_ROOT
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.timeline import Timeline, load_timeline
from pyhudi.transaction.conflicts.check import conflict
from pyhudi.transaction.conflicts.footprint import footprint_of
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, HeartbeatSettings, Liveness, liveness_at
from pyhudi.transaction.markers.reading import groups_in_markers

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyDetection:
    """What the check of other writers needs.

    `known_commits`: the writes that were completed when this one began, if later commits count as conflicts too; None
    if they do not.
    """

    heartbeat: HeartbeatSettings
    version: TableVersion
    known_commits: frozenset[str] | None


def check_groups_are_free(
    storage: Storage, instant_time: str, detection: EarlyDetection, groups: AbstractSet[FileGroupId]
) -> None:
    """Raise `WriteConflictError` when another live writer has a marker for a file of one of these groups.

    With `known_commits` also when a write that completed since changed one of them.

    Cost: one listing if no other write has markers and commits do not count. Otherwise two more listings (timeline,
    heartbeats), per other live write what `groups_in_markers` costs and one read, and one read per commit since this
    write began.
    """
    listing = storage.list_folder(MARKERS_ROOT)
    others = {folder.rpartition("/")[2] for folder in listing.folders} - {instant_time}
    if not others and detection.known_commits is None:
        return
    timeline = load_timeline(storage, detection.version)
    _check_commits(storage, timeline, instant_time, detection, groups)
    pending = {str(instant.requested_time): instant for instant in timeline.pending_writes}
    for other in _live_writers(storage, others & pending.keys(), detection.heartbeat):
        if shared := groups & _announced_by(storage, other, {group.partition_path for group in groups}):
            raise conflict("another writer is writing the same file groups", instant_time, pending[other], shared)


def _check_commits(
    storage: Storage,
    timeline: Timeline,
    instant_time: str,
    detection: EarlyDetection,
    groups: AbstractSet[FileGroupId],
) -> None:
    if detection.known_commits is None:
        return
    for instant in timeline.completed_writes:
        if instant.requested_time in detection.known_commits:
            continue
        metadata = load_commit_metadata(storage, instant, timeline.version)
        if metadata.compacted:
            # Most compactions do not conflict with a write; the check at the commit decides.
            continue
        footprint = footprint_of(metadata)
        if shared := groups & (footprint.rewritten | footprint.replaced):
            raise conflict("another writer changed the same file groups first", instant_time, instant, shared)


def _live_writers(storage: Storage, instant_times: AbstractSet[str], settings: HeartbeatSettings) -> list[str]:
    """The pending instants whose writers are alive. Cost: a listing, and a read per instant."""
    if not instant_times:
        return []
    beats = {info.name: info for info in storage.list_folder(HEARTBEAT_FOLDER).files}
    now_ms = max((info.modified_ms for info in beats.values()), default=0)
    return [
        instant_time
        for instant_time in sorted(instant_times & beats.keys())
        if liveness_at(storage, beats[instant_time], settings, now_ms) is Liveness.ALIVE
    ]


def _announced_by(storage: Storage, instant_time: str, partition_paths: AbstractSet[str]) -> frozenset[FileGroupId]:
    try:
        return groups_in_markers(storage, instant_time, partition_paths)
    except NotFoundError:
        # The write has ended, and its markers were removed between listing and reading.
        return frozenset()
    except CorruptDataError as damage:
        _log.warning(
            "the markers of another writer cannot be read; conflicts are detected at the commit only: %s", damage
        )
        return frozenset()
