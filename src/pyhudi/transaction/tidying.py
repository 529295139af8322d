"""Removal of what a write that has ended leaves: markers, files of lost attempts, its intent and its heartbeat."""

from __future__ import annotations

import logging

from pyhudi.errors import HudiError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.heartbeat import heartbeat_path
from pyhudi.transaction.intents import withdraw
from pyhudi.transaction.markers.reading import load_markers
from pyhudi.transaction.plan_fencing import forget_runs

_log = logging.getLogger("pyhudi")


def tidy_up_after_commit(
    storage: Storage,
    own: str,
    metadata: CommitMetadata,
    *,
    has_runs: bool,
    all_named: bool = False,
    announced: bool = True,
) -> None:
    """Remove the markers, run files, intent and heartbeat of a committed write, whose instant time is `own`.

    `all_named`: the metadata name all files that tasks wrote. `announced`: it may have an intent.

    The heartbeat goes last: if this process dies first, it tells other writers that something is left to clean.
    Also removes the files of tasks that ended while the write waited for the lock and committed: JVM Hudi would show
    them. Files of lost attempts are searched again, because a task creates its marker long before its file.
    """
    try:
        for path in () if all_named else sorted(load_markers(storage, own) - metadata.paths()):
            # A log of version 6 carries the instant of its slice, and a plan that was made since may name it.
            name = parse_data_file(path.rpartition("/")[2])
            if name is not None and name.instant_time == own:
                storage.delete(path)
        if has_runs:
            forget_runs(storage, own)
        tidy_up(storage, own, announced=announced)
    except HudiError as error:
        # The commit stands; raising would make the caller run it again.
        _log.warning("markers and heartbeat of a commit could not be removed; a later write will do it: %s", error)


def tidy_up(storage: Storage, instant_time: str, *, announced: bool = True) -> None:
    """Remove markers, intent and heartbeat of a completed or rolled back write. Cost: three requests.

    `announced`: it may have an intent; under a lock that cannot be lost a commit stores none.
    """
    storage.delete_folder(marker_folder(instant_time))
    if announced:
        withdraw(storage, instant_time)
    storage.delete(heartbeat_path(instant_time))
