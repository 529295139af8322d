"""Orphans: files of tasks that were still running when their write was rolled back.

pyhudi ignores such files. JVM Hudi ignores them while the instant of the write lies within the active timeline; later
it reads them as files of an archived write. So each write deletes the orphans that it finds.
"""

from __future__ import annotations

import logging

from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.writes import load_archived_writes
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.state import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from pyhudi.table.timeline import load_timeline

_log = logging.getLogger("pyhudi")


def remove_orphans(view: FileSystemView) -> None:
    """Delete the files of a view whose writes were certainly rolled back.

    A write puts its instant before its first file, and an instant leaves the timeline by a rollback or by archival. So
    a file was rolled back if its write was on the timeline neither before the files were listed nor after, and is not
    in the archive. Files older than the active timeline are kept, as the archive may have been shortened. Files of
    other tables in folders of this one are kept, too. Cost: nothing if there is no such file; otherwise a listing, the
    archive (`load_archived_writes`), two requests for each folder with such files and each above it, and one for each
    file.
    """
    suspects = {info.path: name.instant_time for info in view.orphans if (name := parse_data_file(info.name))}
    if not suspects:
        return
    now = load_timeline(view.storage, view.timeline.version)
    known = {instant.requested_time for timeline in (view.timeline, now) for instant in timeline.instants}
    archived = load_archived_writes(view.storage, now.version, frozenset(suspects.values()))
    tables: dict[str, bool] = {}
    for path, instant_time in sorted(suspects.items()):
        if instant_time in known or now.starts_after(instant_time) or archived.has(instant_time):
            continue
        if _is_of_other_table(view.storage, path, tables):
            continue
        _log.warning("a file of the write %s, which was rolled back, is deleted: %s", instant_time, path)
        view.storage.delete(path)


def _is_of_other_table(storage: Storage, path: str, known: dict[str, bool]) -> bool:
    """Whether a file lies in a table in a folder of this one; `known`: the answers for folders so far."""
    folder = path.rpartition("/")[0]
    while folder:
        if folder not in known:
            properties = (f"{folder}/{name}" for name in (PROPERTIES_PATH, PROPERTIES_BACKUP_PATH))
            known[folder] = any(storage.info(name) is not None for name in properties)
        if known[folder]:
            return True
        folder = folder.rpartition("/")[0]
    return False
