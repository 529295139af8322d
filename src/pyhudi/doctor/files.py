"""Findings of data files: missing, cut off, not to be opened, of no write; partitions without their metafile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pyhudi.doctor.finding import Finding, Mend, Severity, evenly, restore_before
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.timeline.instant import Action
from pyhudi.io.slices.base_rows import is_unchanged
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.repair.metadata_files import metafile_problem, partition_metafiles
from pyhudi.storage.bounded import at_once
from pyhudi.storage.open import open_spec
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.committed_files import Shortfall
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.lister import list_data_files
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState


def file_findings(call: ServiceCall, view: FileSystemView) -> Iterator[Finding]:
    """What is wrong with the files of the newest file slices. Cost: none; where some are missing, two listings."""
    shortfalls = view.shortfalls()
    if shortfalls:  # a clean may have passed since the view was loaded
        now = call.table.reload()
        again = {shortfall.path for shortfall in load_view(now.storage, now.timeline).shortfalls()}
        shortfalls = [shortfall for shortfall in shortfalls if shortfall.path in again]
    yield from (_shortfall(call.table, shortfall) for shortfall in shortfalls)
    yield from _savepoint_findings(call.table)
    for info in view.orphans:
        yield Finding(
            severity=Severity.WARNING,
            problem="file of no write",
            path=info.path,
            detail="its write is neither on the timeline nor archived: readers ignore it, JVM Hudi not for ever",
            command="doctor PATH --fix",
            mend=Mend.ORPHANS,
        )
    for info in view.unnamed:
        yield Finding(
            severity=Severity.WARNING,
            problem="file that its write does not name",
            path=info.path,
            detail="a task attempt that did not count left it. Readers of pyhudi leave it out, those of JVM Hudi may"
            " read it in place of the file that counts: delete it",
        )


def folder_findings(table: TableState, view: FileSystemView, *, limit: int) -> Iterator[Finding]:
    """What is wrong in the folders of partitions: metafiles, and files whose names are none of Hudi.

    Cost: a listing of the table, a read per partition, of at most so many partitions.
    """
    folders = {
        folder: metafiles for folder, metafiles in partition_metafiles(table.storage).items() if folder in view.latest
    }
    for folder, metafiles in folders.items():
        if not metafiles.is_marked:
            detail = "JVM Hudi does not see the rows of this partition where it lists the store"
            yield _metafile("partition without its metafile", folder, detail)
        for name in metafiles.strays:
            yield Finding(
                severity=Severity.WARNING,
                problem="file is not Hudi's",
                path=f"{folder}/{name}" if folder else name,
                detail="no writer of Hudi names a file so. pyhudi leaves it out; where JVM Hudi lists the store, its "
                "reads of the partition fail. Move it out of the table",
            )
    marked = [folder for folder, metafiles in folders.items() if metafiles.as_text]
    chosen = evenly(marked, limit)
    problems = at_once(table.storage, lambda folder: metafile_problem(table.storage, folder), chosen)
    for folder, problem in zip(chosen, problems, strict=True):
        if problem is not None:
            detail = f"{problem}: JVM Hudi's input format for Hive looks for the table by it"
            yield _metafile("partition metafile is damaged", folder, detail)


def _metafile(problem: str, folder: str, detail: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        problem=problem,
        path=folder,
        detail=detail,
        command="doctor PATH --fix",
        mend=Mend.METAFILES,
    )


def _shortfall(table: TableState, shortfall: Shortfall) -> Finding:
    is_missing = shortfall.found is None
    seen = "is not there" if is_missing else f"has {shortfall.found:,} bytes"
    command = restore_before(table, shortfall.instant_time)
    return Finding(
        severity=Severity.ERROR,
        problem="file is missing" if is_missing else "file is cut off",
        path=shortfall.path,
        detail=f"{seen}; write {shortfall.instant_time} left {shortfall.expected:,} bytes; put a copy back"
        + ("" if command is None else "; if there is no copy, go back to the state before that write"),
        command=command,
    )


def _savepoint_findings(table: TableState) -> Iterator[Finding]:
    """Files that savepoints keep and that are gone. Cost: a listing of the table, and a read per savepoint."""
    if not any(instant.action is Action.SAVEPOINT for instant in table.timeline.instants):
        return
    there = {info.path for info in list_data_files(table.storage)}
    try:
        savepoints = load_savepoints(table.storage, table.timeline)
    except (CorruptDataError, NotFoundError):
        return  # a damaged one has a finding of its own, and others were deleted meanwhile
    for instant_time, savepoint in savepoints.items():
        missing = sorted(savepoint.paths - there)
        if missing:
            yield Finding(
                severity=Severity.ERROR,
                problem="savepoint lacks files",
                path=instant_time,
                detail=f"{len(missing):,} of its files are gone, such as {missing[0]}: the table cannot go back to it. "
                "Put a copy back, or give the savepoint up",
                command=f"savepoint PATH --delete {instant_time}",
            )


def readable_view(table: TableState) -> FileSystemView:
    """The view of all files, which leaves damaged ones out with a warning. Cost: a listing of the table."""
    return load_view(table.storage, table.timeline, skips_damaged=True)


def source_findings(table: TableState, slices: list[FileSlice]) -> Iterator[Finding]:
    """Files of a bootstrapped table's source that are gone, or were changed. Cost: a request per source file."""
    if not table.config.values.get("hoodie.bootstrap.base.path"):
        return
    sources = load_sources(table.storage, {file_slice.partition_path for file_slice in slices})
    groups = {
        file_slice.group for file_slice in slices if file_slice.base is not None and file_slice.base.source is not None
    }
    for group, source in sources.items():
        if group not in groups:
            continue
        info = open_spec(source.storage).info(source.path)
        if info is None or not is_unchanged(source, info):
            yield Finding(
                severity=Severity.ERROR,
                problem="source has changed",
                path=source.uri,
                detail="the file of the source is gone"
                if info is None
                else f"the file of the source has {info.size:,} bytes of {_time(info.modified_ms)}, and had "
                f"{source.size:,} bytes of {_time(source.modified_ms)} at the bootstrap",
                command=None,
            )


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}Z"
