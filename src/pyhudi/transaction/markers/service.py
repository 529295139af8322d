"""The marker service stores the markers of many tasks in few files; a task continues when its markers are stored.

    MARKERS.type              the kind of the markers in the folder; written first
    MARKERS0, MARKERS1, ...   one marker per line

Markers that arrive while a batch is being stored form the next batch. The number of requests thus depends on the
latency of the store, not on the number of data files, and no timer is needed. No store can append, so a batch replaces
a whole file: the one with the fewest lines, so that little is written again.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.errors import HudiError, TransactionError, WriteConflictError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.markers import (
    MARKERS_TYPE_FILE,
    Marker,
    MarkersType,
    encode_markers_file,
    is_markers_file,
    marker_folder,
    markers_file_name,
)
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.transaction.markers.early_conflicts import EarlyDetection, check_groups_are_free
from pyhudi.transaction.markers.reading import groups_of_files

FILES_MIN = 20
"""As many files as JVM Hudi creates by default; until there are so many, each batch creates one."""
LINES_MAX = 1_000
"""When all files are as long as this, a batch creates another one, so that the size of a file is limited."""


@dataclass(slots=True)
class _Request:
    markers: Sequence[Marker]
    groups_exist: bool
    is_answered: bool = False
    error: BaseException | None = None


class MarkerService:
    """The markers of one write. Thread-safe; lives in the process that commits the write.

    With `detection`, markers of files in existing groups are stored only if no other live writer writes to these
    groups; after the first conflict no marker is stored any more.
    """

    def __init__(self, storage: Storage, instant_time: str, detection: EarlyDetection | None) -> None:
        self._storage, self._instant_time, self._detection = storage, instant_time, detection
        self._folder = marker_folder(instant_time)
        self._changed = threading.Condition()  # guards the three below
        self._waiting: list[_Request] = []
        self._is_storing = False
        self._is_stopped = False
        # Only the thread that stores a batch uses the fields below.
        self._files: dict[int, list[Marker]] | None = None
        self._next_number = 0
        self._known: set[Marker] = set()
        self._checked: set[FileGroupId] = set()
        self._conflict: WriteConflictError | None = None

    @property
    def instant_time(self) -> str:
        """The instant time of the write."""
        return self._instant_time

    def create(self, markers: Sequence[Marker], *, groups_exist: bool) -> None:
        """Store the markers, and return when they are durable.

        Markers that were stored before cost nothing. `groups_exist`: see `create_markers`.

        Raises:
            WriteConflictError: another live writer writes to one of the groups.
            TransactionError: the write has ended, or a marker names a file of another write.
            StorageError: perhaps not all markers were stored; the data files must not be written.
        """
        for marker in markers:
            _check_is_of(self._instant_time, marker)
        request = _Request(markers, groups_exist)
        with self._changed:
            self._waiting.append(request)
            self._changed.wait_for(lambda: request.is_answered or not self._is_storing)
            batch: list[_Request] = []
            if not request.is_answered:
                # No other task is storing a batch, so this one does it for all that wait.
                self._is_storing = True
                batch, self._waiting = self._waiting, []
        if batch:
            self._serve(batch)
        if request.error is not None:
            # A copy, because several tasks may raise what was one error of their batch.
            raise copy.copy(request.error)

    def stop(self) -> None:
        """Wait for the batch that is being stored, and refuse later requests."""
        with self._changed:
            self._is_stopped = True
            self._changed.wait_for(lambda: not self._is_storing)

    def _serve(self, batch: list[_Request]) -> None:
        try:
            self._check_may_go_on(batch)
            self._store([marker for request in batch for marker in request.markers])
        except BaseException as error:
            for request in batch:
                request.error = error
            if not isinstance(error, HudiError):
                raise
        finally:
            with self._changed:
                for request in batch:
                    request.is_answered = True
                self._is_storing = False
                self._changed.notify_all()

    def _check_may_go_on(self, batch: list[_Request]) -> None:
        if self._is_stopped:
            raise TransactionError(
                "the write of this task has ended, so it must not write more files", instant=self._instant_time
            )
        if self._conflict is not None:
            raise copy.copy(self._conflict)
        if self._detection is None:
            return
        paths = (marker.data_path for request in batch if request.groups_exist for marker in request.markers)
        groups = set(groups_of_files(paths)) - self._checked
        if not groups:
            return
        try:
            check_groups_are_free(self._storage, self._instant_time, self._detection, groups)
        except WriteConflictError as conflict:
            self._conflict = conflict
            raise
        self._checked |= groups

    def _store(self, markers: Sequence[Marker]) -> None:
        new = [marker for marker in dict.fromkeys(markers) if marker not in self._known]
        if not new:
            return
        files = self._files if self._files is not None else self._begin()
        number = self._file_with_room(files)
        lines = [*files.get(number, ()), *new]
        self._storage.put(f"{self._folder}/{markers_file_name(number)}", encode_markers_file(lines), durable=False)
        files[number] = lines
        self._known.update(new)
        self._next_number = max(self._next_number, number + 1)

    def _begin(self) -> dict[int, list[Marker]]:
        """Create the folder. Marker files of an earlier, dead execution of the same compaction stay unchanged."""
        existing = [info.name for info in self._storage.list_folder(self._folder).files if is_markers_file(info.name)]
        self._next_number = max((int(name.removeprefix("MARKERS")) + 1 for name in existing), default=0)
        kind = MarkersType.TIMELINE_SERVER_BASED.value.encode()
        self._storage.put(f"{self._folder}/{MARKERS_TYPE_FILE}", kind, durable=False)
        self._files = {}
        return self._files

    def _file_with_room(self, files: dict[int, list[Marker]]) -> int:
        if len(files) < FILES_MIN:
            return self._next_number
        shortest = min(files, key=lambda number: len(files[number]))
        return shortest if len(files[shortest]) < LINES_MAX else self._next_number


def _check_is_of(instant_time: str, marker: Marker) -> None:
    """A marker is a reason to delete a file: what it names must be a file that only this write can have begun.

    Logs of table version 6 carry the instant of their slice, so of logs the name does not tell.
    """
    name = parse_data_file(marker.data_path.rpartition("/")[2])
    if name is None or (name.instant_time != instant_time and not isinstance(name, LogFileName)):
        raise TransactionError("this file is not of the write that announces it", path=marker.data_path)
