"""The file-system view for readers of the columns that a table had at some time."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.table.file_system_view import FileGroup, FileSystemView
from pyhudi.table.schema_history import load_names_by_write


def with_names_of(view: FileSystemView, until: str) -> FileSystemView:
    """The view with its files under the names of the newest write until an instant time.

    Cost: none but for a table whose columns have ids; then a listing and a read.
    """
    if all(columns is None for columns in view.committed.columns.values()):
        return view
    names = load_names_by_write(view.storage, view.timeline, view.committed, until=until)
    groups = {
        group_id: FileGroup(
            group_id,
            tuple(replace(base, names=names) for base in group.base_files),
            tuple(replace(log, names=names) for log in group.logs),
        )
        for group_id, group in view.groups.items()
    }
    return replace(view, groups=groups)
