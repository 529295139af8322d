"""The checks of the metadata table that readers make at open, before they use any of its records."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import HudiError, MetadataTableWarning, NotFoundError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, parse_properties
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.metadata_table.folders import PROPERTIES_PATH
from pyhudi.metadata_table.state import MetadataState
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX, missing_writes
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.timeline import load_timeline

_TIME_DIGITS = 17
_VERSION = "hoodie.table.version"
_log = logging.getLogger("pyhudi")
_REBUILD: Final = (
    "Build it again with table.recovery.rebuild_metadata_table(), or drop it with a write under "
    "hoodie.metadata.enable=false"
)
_warned: WeakKeyDictionary[Storage, set[tuple[str, str]]] = WeakKeyDictionary()


def problem_for_reads(state: MetadataState) -> str | None:
    """Why the metadata table must not be used; None if it may be.

    Damage in its files shows when they are read. Cost: one read; where its timeline has what the table's lacks, one
    listing.
    """
    if FILES not in state.table.config.metadata_partitions:
        return "its building was not finished"
    problem = _problem_of_properties(state)
    if problem is not None:
        return problem
    if not state.timeline.completed_writes:
        return "it has no completed commit"
    missing = missing_writes(state.table.timeline, state.timeline)
    if missing:
        return f"it lacks {len(missing)} write(s) of the table, the first of them {missing[0]}"
    unknown = _unknown_writes(state)
    if unknown:
        return f"it has {len(unknown)} write(s) that the table does not have, the first of them {unknown[0]}"
    return None


def is_ahead(state: MetadataState) -> str | None:
    """Why indexes of the newest state say nothing of the table as it was loaded; None if nothing was committed since.

    A later write may have moved records, or made bounds of partitions tighter; so may one that is being committed.
    Cost: none.
    """
    known = {instant.requested_time for instant in state.table.timeline.instants}
    since = max(known, default="")
    later = (
        write.requested_time
        for write in state.timeline.completed_writes
        if write.action is Action.DELTA_COMMIT and len(write.requested_time) == _TIME_DIGITS
    )
    # A write that was pending then may have been completed since, and be in a base file of the metadata table.
    pending = known - {
        instant.requested_time for instant in state.table.timeline.instants if instant.state is InstantState.COMPLETED
    }
    is_later = any((time > since or time in pending) and time not in state.log_compactions for time in later)
    return "something was committed after the table was opened" if is_later else None


def missing_files(state: MetadataState) -> str | None:
    """What `files` itself lacks: every commit writes to it, so each must have left a log, or be in the base file.

    Pure but for the listing of `MetadataState.slices`. Raises as that.
    """
    (group, *_) = state.slices(FILES)
    if group.base is None:
        return "the base file of its list of files is missing"
    compactions = [
        instant.requested_time for instant in state.timeline.completed_writes if instant.action is Action.COMMIT
    ]
    if group.base_instant < max(compactions, default=""):
        return f"what the compaction {max(compactions)} wrote is missing"
    if not state.timeline.version.has_completion_times:
        return None  # names of logs do not show their writes
    names = (parse_data_file(path.rpartition("/")[2]) for path in group.logs)
    there = {name.instant_time for name in names if name is not None}
    for write in sorted(state.valid & state.table.timeline.completed_times):
        if state.log_times.get(write, "") > group.base_instant and write not in there:
            return f"what {write} wrote is missing"
    return None


def _problem_of_properties(state: MetadataState) -> str | None:
    try:
        values = parse_properties(
            read_at_most(state.storage, PROPERTIES_PATH, PROPERTIES_BYTES_MAX), path=PROPERTIES_PATH
        )
    except NotFoundError:
        return "its properties are missing"
    except HudiError as error:
        return f"its properties are damaged ({error.message})"
    version = values.get(_VERSION, "")
    if version != str(state.table.version):
        return f"it is of version {version or 'unknown'}, and the table of version {state.table.version}"
    with suppress(HudiError):
        TableConfig.from_properties(values, path=PROPERTIES_PATH)
        return None
    return "its properties cannot be understood"


def _unknown_writes(state: MetadataState) -> tuple[str, ...]:
    """Delta commits of the metadata table whose action the table neither has nor can have archived.

    A restore of JVM Hudi has some of its own, which say what the table has then.
    """
    suspects = _not_on(state, frozenset(instant.requested_time for instant in state.table.timeline.instants))
    if not suspects:
        return ()
    # The table's timeline was loaded first: what began since is no contradiction.
    now = load_timeline(state.storage, state.table.version)
    return _not_on(state, frozenset(instant.requested_time for instant in now.instants))


def _ends_of_restores(state: MetadataState) -> Iterator[str]:
    """Until when restores of the table wrote to the metadata table, under times of their own."""
    timeline = state.table.timeline
    for instant in timeline.instants:
        if instant.action is Action.RESTORE and instant.state is InstantState.COMPLETED:
            later = (
                write.requested_time
                for write in timeline.completed_writes
                if write.requested_time > instant.requested_time
            )
            yield instant.completion_time or min(later, default=timeline.latest_time)


def _not_on(state: MetadataState, known: frozenset[str]) -> tuple[str, ...]:
    # Writes before the oldest one may have been archived; an `indexing` instant stays longer than they.
    first = max([state.table.timeline.first_time or "", *_ends_of_restores(state)])
    last = max(known, default="")
    return tuple(
        instant.requested_time
        for instant in state.timeline.instants
        if instant.state is InstantState.COMPLETED
        and instant.action is Action.DELTA_COMMIT
        and first < instant.requested_time < last
        and instant.requested_time not in known
        and instant.requested_time not in state.log_compactions
        # Actions of its own have longer times in version 6.
        and len(instant.requested_time) == _TIME_DIGITS
        and not instant.requested_time.startswith(INITIAL_PREFIX)
    )


def warn_of_metadata_table(storage: Storage, reason: str, *, is_listed: bool = False) -> None:
    """Warn that the metadata table is not used. `is_listed`: files are listed instead, of which each read tells."""
    is_new = _is_new(storage, "", reason)
    if is_listed:
        _warn(
            "the metadata table is not used",
            reason,
            f"files are listed instead, which gives the right rows. {_REBUILD}",
        )
    elif is_new:
        _warn("no index of the metadata table is used", reason, _REBUILD)


def warn_of_index(storage: Storage, index: str, reason: str, *, is_there: bool = True) -> None:
    """Warn that an index is not used, for each reason once as long as a process uses this store.

    `index`: the name of its partition. `is_there`: whether the table has it, so that it is to be built again.
    """
    if _is_new(storage, index, reason):
        verb = "refresh" if is_there else "create"
        _warn(
            f"the index {index} is not used",
            reason,
            f"Build it {'again ' if is_there else ''}with table.indexes.{verb}({index!r})",
        )


def _is_new(storage: Storage, index: str, reason: str) -> bool:
    warned = _warned.setdefault(itself(storage), set())
    is_new = (index, reason) not in warned
    warned.add((index, reason))
    return is_new


def _warn(what: str, reason: str, repair: str) -> None:
    _log.warning("%s: %s; %s", what, reason, repair)
    warnings.warn(f"{what}: {reason}; {repair}", MetadataTableWarning, stacklevel=5)
