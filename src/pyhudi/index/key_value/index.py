"""Indexes that remember keys: INMEMORY, HBASE and an index of your own.

They know file groups of keys from earlier writes (`locations.py`), so that only these groups are searched. Before a
lookup such an index catches up with the table: it adds the keys of all writes that were completed since it last looked,
of any writer and with any index. So it never lacks a record, and a table that it has never seen is read once. It is
read again where it has lost a write since, by a rollback or a restore, or where another table stands in its place.

Which of the groups holds a key, if any, is decided by the files, as with the other indexes. So what a store says of
writes that died or were rolled back does not count, whatever it says.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import FilePart, TaskFiles
from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, TaskContext, spread
from pyhudi.format.schema.meta_columns import COMMIT_TIME, RECORD_KEY
from pyhudi.format.timeline.instant import BOOTSTRAP_INSTANTS, Action, InstantState
from pyhudi.index.delivery import keys_of_splits, staged_keys, tag_task
from pyhudi.index.key_value.locations import Coverage, Location, Locations, emptied_store
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.search import search, to_search
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.index.tagging import TagTask, stored_rows
from pyhudi.storage.open import open_spec
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RememberingIndex:
    """An index over remembered locations.

    Cost: the keys of the batch, asked of the store; the key columns of the file groups that it names; and, to catch up,
    those of the groups that were written since. Two or three rounds of tasks. Where other machines do not reach the
    store, the tasks that need it run in this process.
    """

    locations: Locations

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """See `Index.tag`."""
        self._catch_up(engine, lookup, slices)
        searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
        found = self._find(engine, lookup)
        if lookup.view.timeline.completed_writes and not self.locations.coverage().at:
            raise emptied_store()
        number_of = {file_slice.group: number for number, file_slice in enumerate(slices)}
        candidates = {number_of[location.group] for location in found if location.group in number_of}
        return search(engine, lookup, slices, searched, sorted(candidates))

    def _catch_up(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> None:
        """Add the keys of the writes that are not in yet, by what the newest slices of their file groups hold."""
        view, coverage = lookup.view, self.locations.coverage()
        writes = identities(view)
        missing = {time for identity, time in writes.items() if identity not in coverage.writes}
        is_stale = _oldest_kept(view) > coverage.until or _has_lost(view, lookup.instant_time, coverage)
        tasks = [
            task
            for file_slice in slices
            if (task := _fill_task(self.locations, lookup, file_slice, None if is_stale else missing)) is not None
        ]
        if not missing and not is_stale:
            return
        if not coverage.at:
            self.locations.begin(lookup.instant_time)
        if tasks:
            size = sum(file_slice.size for file_slice in slices)
            engine.map(
                fill_locations,
                tasks,
                size_bytes=size,
                description="add keys to the index",
                in_this_process=not self.locations.is_shared,
            )
        self.locations.cover(Coverage(frozenset(writes), _complete_until(view), lookup.instant_time))

    def _find(self, engine: Engine, lookup: Lookup) -> Mapping[Location, int]:
        """The locations of the staged keys. Those of file groups that are gone for good are removed."""
        shares = spread(dict(enumerate(split.rows for split in lookup.splits)), engine.parallelism * TASKS_PER_CORE)
        tasks = [FindTask(self.locations, tag_task(lookup, (), [lookup.splits[n] for n in share])) for share in shares]
        counts: Counter[Location] = Counter()
        for result in self._asked(engine, lookup, find_locations, tasks, "ask the index"):
            counts.update(result)
        if gone := _gone_for_good(lookup.view, counts):
            tasks = [replace(task, gone=gone) for task in tasks]
            self._asked(engine, lookup, forget_locations, tasks, "remove old entries of the index")
        return counts

    def _asked(
        self,
        engine: Engine,
        lookup: Lookup,
        function: Callable[[TaskContext, FindTask], R],
        tasks: Sequence[FindTask],
        description: str,
    ) -> list[R]:
        """Run a function of staged keys where the store is reached."""
        return engine.map(
            function,
            tasks,
            size_bytes=sum(split.bytes for split in lookup.splits),
            description=description,
            files=TaskFiles(lookup.folder, FindTask.reads, writes=False),
            in_this_process=not self.locations.is_shared,
        )


@dataclass(frozen=True, slots=True)
class FillTask:
    """Add the keys of a slice. `written_by`: only rows of these writes; None: all of its rows."""

    locations: Locations
    tagging: TagTask
    searched: SliceToSearch
    location: Location
    written_by: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class FindTask:
    """Ask for the locations of staged keys; with `gone`, remove these locations of them instead."""

    locations: Locations
    tagging: TagTask
    gone: frozenset[Location] = frozenset()

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        return keys_of_splits(self.tagging)


def fill_locations(_: TaskContext, task: FillTask) -> None:
    """Add the keys of a slice to the index. Memory: a batch of keys."""
    storage = open_spec(task.tagging.storage)
    columns = [RECORD_KEY, COMMIT_TIME]
    for rows in stored_rows(storage, task.searched.files, task.tagging.merging, columns):
        keys = rows.column(RECORD_KEY)
        check_stored_keys(keys, task.tagging.key_patterns)
        if task.written_by is not None:
            keys = keys.filter(pc.is_in(rows.column(COMMIT_TIME), pa.array(sorted(task.written_by), pa.string())))
        if len(keys):
            task.locations.add(keys, task.location)


def find_locations(_: TaskContext, task: FindTask) -> dict[Location, int]:
    """The locations of the staged keys of some splits. Memory: a bounded number of staged keys."""
    counts: Counter[Location] = Counter()
    for staged in staged_keys(task.tagging):
        counts.update(task.locations.find(staged.keys))
    return dict(counts)


def forget_locations(_: TaskContext, task: FindTask) -> None:
    """Remove locations of the staged keys of some splits."""
    for staged in staged_keys(task.tagging):
        task.locations.forget(staged.keys, task.gone)


def _fill_task(
    locations: Locations, lookup: Lookup, file_slice: FileSlice, missing: Collection[str] | None
) -> FillTask | None:
    """What to add of a slice; None if all its records are in. `missing`: the writes that are not; None: any may be."""
    searched = to_search(lookup, 0, file_slice)
    tagging = tag_task(lookup, ())
    files = lookup.view.committed.groups.get(file_slice.group, ())
    if missing is None:
        return FillTask(locations, tagging, searched, Location(file_slice.instant_time, file_slice.group), None)
    late = [committed for committed in files if committed.instant_time in missing]
    if not late or _only_updates(lookup, file_slice, [committed.file.name for committed in late]):
        return None
    # A group that only such writes have written may hold records of older times, which a clustering brought.
    is_new = len(late) == len(files)
    location = Location(max(committed.instant_time for committed in late), file_slice.group)
    return FillTask(locations, tagging, searched, location, None if is_new else frozenset(missing))


def _only_updates(lookup: Lookup, file_slice: FileSlice, names: Sequence[str]) -> bool:
    """Whether these files are logs over the slice's base file that hold no new record."""
    logs = {str(log.name) for log in file_slice.logs}
    return file_slice.base is not None and file_slice.group not in lookup.decided_by_logs and logs.issuperset(names)


def identities(view: FileSystemView) -> dict[str, str]:
    """The completed writes by what does not come again, with their requested times.

    That is the requested and the completion time. Version 6 has no completion times, and the instants of a bootstrap
    are the same for every table: there it is the file groups that the bootstrap began.
    """
    found = {}
    for time, completed in view.timeline.completion_times.items():
        if completed != time:
            found[f"{time}_{completed}"] = time
        elif time in BOOTSTRAP_INSTANTS:
            began = sorted(
                group.file_id
                for group, files in view.committed.groups.items()
                if any(committed.instant_time == time for committed in files)
            )
            found[f"{time}_{hashlib.sha256(' '.join(began).encode()).hexdigest()[:16]}"] = time
        else:
            found[time] = time
    return found


def _has_lost(view: FileSystemView, instant_time: str, coverage: Coverage) -> bool:
    """Whether the table has lost a write that the index has seen: by a rollback or a restore, or it is another table.

    File groups may be back then whose keys the index never added, as that write had replaced them, or moved or deleted
    their records. Writes that are archived are not lost; nor are those that began after the view was loaded, as others
    that use the store may have seen them.
    """
    there, oldest = identities(view), _oldest_kept(view)
    pending = {
        instant.requested_time for instant in view.timeline.instants if instant.state is not InstantState.COMPLETED
    }
    return any(
        oldest <= time < instant_time and time not in pending
        for write in coverage.writes - there.keys()
        for time in (write.partition("_")[0],)
    )


def _oldest_kept(view: FileSystemView) -> str:
    """The instant time before which writes may have been archived; above all times if nothing tells.

    A write that a savepoint keeps tells nothing: JVM Hudi archives newer writes and leaves it where it is.
    """
    timeline = view.timeline
    saved = {instant.requested_time for instant in timeline.instants if instant.action is Action.SAVEPOINT}
    times = [instant.requested_time for instant in (*timeline.completed_writes, *timeline.pending_writes)]
    return min((time for time in times if time not in saved), default="" if not times else _NEVER)


_NEVER = "~"
"""Above all instant times."""


def _complete_until(view: FileSystemView) -> str:
    """The oldest pending instant time, or the newest write if none is pending: what is not seen yet ends above it."""
    timeline = view.timeline
    pending = (*timeline.pending_writes, *timeline.pending_clusterings, *timeline.pending_compactions)
    newest = max(timeline.completed_times, default="")
    return min((instant.requested_time for instant in pending), default=newest)


def _gone_for_good(view: FileSystemView, locations: Collection[Location]) -> frozenset[Location]:
    """Locations of groups without files that no rollback or restore brings back: they end before the active timeline.

    A younger one stays, as another process may have added it by a newer timeline than this view's.
    """
    known = {*view.groups, *view.committed.groups, *view.replaced}
    return frozenset(
        location
        for location in locations
        if location.group not in known and view.timeline.starts_after(location.instant_time)
    )
