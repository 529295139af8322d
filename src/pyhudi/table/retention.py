"""Checks whether cleans have deleted files of a past state of the table.

A listing does not show it: a file group whose old file was deleted looks like a group that was created later. So the
metadata of cleans are read. A clean deletes nothing that was current when it began. So only cleans that began after the
requested state, or after the table was loaded, matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.clean import decode_clean_metadata, decode_clean_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_cleaned_files, archived_metadata, archived_replacements
from pyhudi.table.committed_files import CommittedFiles
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.timeline import instant_path, load_timeline


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A file group with deleted files: their paths by the instants in their names.

    `base_times`: instants of all its base files, deleted or not. `replaced_at`: the write of the active timeline that
    replaced the group, if one did.
    """

    gone_bases: Mapping[str, str]
    gone_logs: Mapping[str, str]
    base_times: tuple[str, ...]
    replaced_at: str | None

    def lost_at(self, counts: Callable[[str], bool]) -> str | None:
        """A deleted file of the slice that these writes make, or None."""
        if self.replaced_at is not None and counts(self.replaced_at):
            return None
        newest = max(filter(counts, self.base_times), default=None)
        if newest is not None:
            return self.gone_bases.get(newest)
        return next((path for time, path in sorted(self.gone_logs.items()) if counts(time)), None)

    @property
    def written_by(self) -> frozenset[str]:
        """The instants in the names of deleted files."""
        return frozenset([*self.gone_bases, *self.gone_logs])

    @property
    def needless_from(self) -> str | None:
        """The first write after which no deleted file was current; None if that is not known."""
        last = max(self.written_by)
        later = [time for time in self.base_times if time > last]
        return min(later, default=self.replaced_at)


@dataclass(frozen=True)
class Cleaned:
    """What cleans have deleted since a moment, by file group."""

    storage: Storage = field(repr=False)
    version: TableVersion
    groups: Mapping[FileGroupId, CleanedGroup]
    committed: CommittedFiles = field(repr=False)

    def lost_at(self, counts: Callable[[str], bool], *, of: Collection[str] | None = None) -> dict[FileGroupId, str]:
        """One deleted file of each group that is incomplete in the state that these writes make.

        `of`: only groups that may have rows of these writes. Cost: the archived timeline if a file seems to be lost, as
        an archived write may have replaced the group.
        """
        found = {group: path for group, cleaned in self.groups.items() if (path := cleaned.lost_at(counts)) is not None}
        if of is not None and found:
            found = self._only_of(found, of)
        return {
            group: path
            for group, path in found.items()
            if (replaced_at := self._replaced_before.get(group)) is None or not counts(replaced_at)
        }

    @property
    def needless_from(self) -> str | None:
        """The first write after which the table is complete; None if that is not known."""
        times = [lost.needless_from or self._replaced_before.get(group) for group, lost in self.groups.items()]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None

    def _only_of(self, found: Mapping[FileGroupId, str], writes: Collection[str]) -> dict[FileGroupId, str]:
        """Those of the groups that may have rows of these writes.

        The names of logs of table version 6 do not show their writes, nor those that an upgraded table has kept; of the
        latter, the metadata of the writes tell.
        """
        touched: Collection[FileGroupId] = ()
        if self.version.has_completion_times and any(self.groups[group].gone_logs for group in found):
            touched = self._touched_by(writes)

        def may_be(group: FileGroupId) -> bool:
            cleaned = self.groups[group]
            if cleaned.gone_logs and (not self.version.has_completion_times or group in touched):
                return True
            return not cleaned.written_by.isdisjoint(writes)

        return {group: path for group, path in found.items() if may_be(group)}

    def _touched_by(self, writes: Collection[str]) -> frozenset[FileGroupId]:
        """The groups that these writes wrote to. Cost: the archive if one of them was archived."""
        touched = set(self.committed.touched_by(writes))
        if not all(map(self.committed.timeline.is_committed, writes)):
            touched |= {
                FileGroupId(path, stat.file_id)
                for write, metadata in archived_metadata(self.storage, self.version)
                if write.requested_time in writes
                for path, stats in metadata.stats_by_partition.items()
                for stat in stats
            }
        return frozenset(touched)

    @cached_property
    def _replaced_before(self) -> Mapping[FileGroupId, str]:
        return archived_replacements(self.storage, self.version)


def load_cleaned(storage: Storage, view: FileSystemView, *, since: str | None = None) -> Cleaned:
    """What was cleaned since an instant time, and since the table of this view was loaded.

    Call it after listing the files: a clean puts its plan before it deletes. Cost: one listing; a read per clean since
    then, also in the archived timeline if it reaches back that far. Raises `CorruptDataError` naming damaged
    metadata.
    """
    loaded = view.timeline
    now = load_timeline(storage, loaded.version)
    known = {clean.requested_time for clean in loaded.instants if clean.action is Action.CLEAN}
    paths: set[str] = set()
    for clean in now.instants:
        is_later = since is not None and clean.requested_time > since
        if clean.action is Action.CLEAN and (is_later or clean.requested_time not in known):
            paths |= _files_of(storage, loaded.version, clean)
    after = loaded.latest_time if since is None else since
    if now.starts_after(after):
        paths |= archived_cleaned_files(storage, loaded.version, after=after)
    return Cleaned(storage, loaded.version, _by_group(view, paths), view.committed)


def _files_of(storage: Storage, version: TableVersion, clean: Instant) -> frozenset[str]:
    if clean.state is InstantState.COMPLETED:
        path = instant_path(clean, version)
        return read_decoded(storage, path, CONTAINER_BYTES_MAX, decode_clean_metadata).paths
    path = instant_path(replace(clean, state=InstantState.REQUESTED), version)
    return read_decoded(storage, path, CONTAINER_BYTES_MAX, decode_clean_plan).paths


def _by_group(view: FileSystemView, paths: set[str]) -> dict[FileGroupId, CleanedGroup]:
    gone_bases: dict[FileGroupId, dict[str, str]] = defaultdict(dict)
    gone_logs: dict[FileGroupId, dict[str, str]] = defaultdict(dict)
    for path in paths:
        partition_path, _, name = path.rpartition("/")
        file = parse_data_file(name)
        if file is None or _is_there(view, path, group := FileGroupId(partition_path, file.file_id)):
            continue
        gone = gone_bases if isinstance(file, BaseFileName) else gone_logs
        gone[group][file.instant_time] = path
    return {
        group: CleanedGroup(
            gone_bases[group],
            gone_logs[group],
            tuple(sorted({*gone_bases[group], *_base_times(view, group)})),
            view.replaced.get(group),
        )
        for group in {*gone_bases, *gone_logs}
    }


def _is_there(view: FileSystemView, path: str, group: FileGroupId) -> bool:
    found = view.groups.get(group)
    if found is None:
        return False
    return path in {file.path for file in found.base_files} or path in {log.path for log in found.logs}


def _base_times(view: FileSystemView, group: FileGroupId) -> set[str]:
    found = view.groups.get(group)
    return set() if found is None else {file.instant_time for file in found.base_files}
