"""Progress of a bootstrap that died: which of its files stay when another run goes on with it; the others are deleted.

Tasks note what they have finished, beside the markers of the write, so that whoever ends the write removes the notes.
A note counts for a bootstrap with the same table, columns and options, of a source file that is the same by size and
time, as long as the files of the table that it names are there. All other files of dead runs are deleted, before a
task of this run writes one.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import CorruptDataError, NotFoundError, UnsafePathError
from pyhudi.format.bootstrap_index import FILE_IDS_PATH, PARTITIONS_PATH
from pyhudi.format.bootstrap_notes import Note, SourceIdentity, decode_note
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.commit import JSON_BYTES_MAX, WriteStat
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT, SKELETON_INSTANT, Action
from pyhudi.storage.bounded import at_once, read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.lister import Lister
from pyhudi.table.state import TableState
from pyhudi.tasks.bootstrap import Notes
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.plan_fencing import check_newest_run
from pyhudi.transaction.transaction import Transaction, own_version
from pyhudi.write.bootstrap.plan import BootstrapPlan
from pyhudi.write.create import table_properties

_NOT_COMPARED: Final = frozenset({"hoodie.bootstrap.parallelism"})
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class Progress:
    """What earlier runs have finished of one mode of a bootstrap, and where this one notes what it finishes.

    `file_ids`: by path in the source, of files whose rows are all in the table; see `SourceIdentity`.
    `tasks`: the number of the first task of this run.
    """

    folder: str
    file_ids: Mapping[str, str]
    stats: tuple[WriteStat, ...] = ()
    tasks: int = 0

    def notes(self, number: int, files: Iterable[FileInfo], file_ids: Mapping[str, str] | None = None) -> Notes:
        """Where a task notes its files. `number`: which one of this run it is; `file_ids` of its skeletons, by path."""
        ids = file_ids or {}
        sources = [SourceIdentity(info.path, info.size, info.modified_ms, ids.get(info.path, "")) for info in files]
        return Notes(self.folder, self.tasks + number, tuple(sources))


def can_go_on(table: TableState, plan: BootstrapPlan, options: Mapping[str, str]) -> bool:
    """Whether a dead run of the same bootstrap has left what this one can keep.

    A table of which a commit is there, or a part was rolled back, is begun anew. Cost: one listing for each mode.
    """
    timeline = table.timeline
    pending = {instant.requested_time for instant in timeline.pending_writes}
    is_untouched = not timeline.completed_writes and not any(i.action is Action.ROLLBACK for i in timeline.instants)
    return (
        is_untouched
        and pending <= {SKELETON_INSTANT, FULL_RECORD_INSTANT}
        and any(table.storage.list_folder(_folder(plan, options, instant_time)).files for instant_time in pending)
    )


def progress_of(transaction: Transaction, plan: BootstrapPlan, options: Mapping[str, str], lister: Lister) -> Progress:
    """What earlier runs of this write have finished, with all else of them deleted. `lister`: of the store itself.

    Cost: nothing where there was none; else a listing of the table and of the notes, one read for each note, a delete
    for each file that does not stay, and the lock.

    Raises:
        LockLostError: another process goes on with this write.
    """
    folder = _folder(plan, options, transaction.instant_time)
    if not transaction.goes_on:
        return Progress(folder, {})
    storage = transaction.storage
    listed = {info.path: info.size for info in lister.table()}
    notes = [note for note in _notes(storage, folder) if _counts(note, plan, listed)]
    kept = _apart(notes)
    stay = {stat.path for note in kept for stat in note.stats}
    _delete(transaction, [path for path in listed if path not in stay])
    return Progress(
        folder,
        {source.path: source.file_id for note in kept for source in note.sources},
        tuple(stat for note in kept for stat in note.stats),
        max((note.task + 1 for note in kept), default=0),
    )


def _folder(plan: BootstrapPlan, options: Mapping[str, str], instant_time: str) -> str:
    """The folder of notes about files that this bootstrap would write as well."""
    given = {name: text for name, text in options.items() if name.startswith("hoodie.") and name not in _NOT_COMPARED}
    described = [own_version(), _properties(plan.config), str(plan.columns.schema), plan.source.storage.uri, given]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return f"{marker_folder(instant_time)}/notes/{digest[:32]}"


def _properties(config: WriteConfig) -> dict[str, str]:
    return {name: text for name, text in table_properties(config).items() if name != "hoodie.table.checksum"}


def _notes(storage: Storage, folder: str) -> list[Note]:
    """The notes, without those that are damaged."""
    paths = [info.path for info in storage.list_folder(folder).files]
    return [note for note in at_once(storage, lambda path: _note(storage, path), paths) if note is not None]


def _note(storage: Storage, path: str) -> Note | None:
    try:
        return decode_note(read_at_most(storage, path, JSON_BYTES_MAX), path=path)
    except (CorruptDataError, UnsafePathError, NotFoundError) as error:
        _log.warning("a note of a dead bootstrap cannot be read, and its files are written again: %s", error)
        return None


def _counts(note: Note, plan: BootstrapPlan, listed: Mapping[str, int]) -> bool:
    """Whether the source is as it was, and the files are there."""
    now = {info.path: info for files in plan.source.files.values() for info in files}
    return all(
        (info := now.get(source.path)) is not None
        and (info.size, info.modified_ms) == (source.size, source.modified_ms)
        for source in note.sources
    ) and all(listed.get(stat.path) == stat.file_size_in_bytes for stat in note.stats)


def _apart(notes: Sequence[Note]) -> list[Note]:
    """Notes of which no two are about one source file: a task may have gone on while another run wrote it again."""
    kept: list[Note] = []
    seen: set[str] = set()
    for note in sorted(notes, key=lambda note: -len(note.sources)):
        paths = {source.path for source in note.sources}
        if seen.isdisjoint(paths):
            kept.append(note)
            seen |= paths
    return kept


def _delete(transaction: Transaction, paths: Sequence[str]) -> None:
    """Delete files of dead runs of this write, and the bootstrap index, which no two runs put."""
    storage, own = transaction.storage, transaction.instant_time
    assert transaction.run is not None
    # After the listing: if this run is the newest now, the files found are of dead ones.
    with table_lock(storage, transaction.environment, wait_ms=transaction.settings.lock_wait_ms) as lock:
        check_newest_run(storage, own, transaction.run)
        lock.check_held()
    for path in paths:
        name = parse_data_file(path.rpartition("/")[2])
        if name is not None and name.instant_time == own:
            storage.delete(path)
    if own == SKELETON_INSTANT:
        for index in (PARTITIONS_PATH, FILE_IDS_PATH):
            storage.delete(index)
