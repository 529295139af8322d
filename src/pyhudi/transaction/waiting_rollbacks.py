"""Rollbacks that wait for JVM Hudi: its pending writes without a heartbeat, beside which pyhudi commits.

A single writer of JVM Hudi keeps no heartbeat, so its write does not show whether it is at work or died. pyhudi
therefore leaves its write alone. The next single writer of JVM Hudi rolls it back before it writes, but refuses to
where later commits are on the timeline, and fails from then on; unless the write has a heartbeat file, of whatever
age, because then several writers may have been there. So a commit gives such writes a file that stands in for a
heartbeat, and says so (`STAND_IN`).
"""

from __future__ import annotations

import logging
from contextlib import suppress

from pyhudi.errors import AlreadyExistsError
from pyhudi.format.timeline.instant import Instant
from pyhudi.storage.protocol import Storage
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.timeline import Timeline, begun_rollbacks
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, STAND_IN, heartbeat_path

_log = logging.getLogger("pyhudi")


def let_jvm_hudi_roll_back(storage: Storage, timeline: Timeline, completed: Instant) -> None:
    """Give the earlier pending writes without a heartbeat one that stands in for it, before a commit is put.

    Also the write of a rollback that JVM Hudi began, whose instant may be gone. Not a completed one: there the refusal
    of JVM Hudi spares what later commits stand on. Cost: nothing where no earlier write is pending, nor a rollback;
    else a listing, a read for each rollback, and a put for each write without a heartbeat.
    """
    pending = [write for write in timeline.pending_writes if write.requested_time < completed.requested_time]
    undone = {
        plan.instant_time
        for _, plan in begun_rollbacks(storage, timeline)
        if not plan.is_ours
        and plan.instant_time < completed.requested_time
        and not timeline.is_committed(plan.instant_time)
    }
    if not pending and not undone:
        return
    known = set(storage.list_names(HEARTBEAT_FOLDER))
    # A plan is executed again, and with a heartbeat its process would count as one of pyhudi.
    waiting = {
        str(write.requested_time)
        for write in pending
        if write.requested_time not in known and not is_clustering_plan(storage, timeline.version, write)
    }
    for instant_time in sorted(waiting | (undone - known)):
        with suppress(AlreadyExistsError):
            storage.put_if_absent(heartbeat_path(instant_time), STAND_IN)
    for instant_time in sorted(waiting - undone):
        _log.warning(
            "write %s is pending and has no heartbeat: if it is of JVM Hudi and died, JVM Hudi rolls it back when it "
            "writes again, or roll_back_failed_writes(eager=True) does; if it is at work, it does not look for commit "
            "%s, and changes of one of the two may be lost (docs/concurrency.md)",
            instant_time,
            completed.requested_time,
        )
