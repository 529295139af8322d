"""Findings of data files: missing, cut off, not to be opened, of no write; partitions without their metafile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pyhudi.doctor.finding import Finding, Mend, Severity
from pyhudi.io.slices.base_rows import is_unchanged
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.repair.metadata_files import partition_metafiles
from pyhudi.storage.open import open_spec
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.committed_files import Shortfall
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.state import TableState

_LATER = "if there is no copy, go back to a state before it: pyhudi restore PATH INSTANT"


def file_findings(call: ServiceCall, view: FileSystemView) -> Iterator[Finding]:
    """What is wrong with the files of the newest file slices. Cost: two listings of the table."""
    shortfalls = view.shortfalls()
    if shortfalls:  # a clean may have passed since the view was loaded
        now = call.table.reload()
        again = {shortfall.path for shortfall in load_view(now.storage, now.timeline).shortfalls()}
        shortfalls = [shortfall for shortfall in shortfalls if shortfall.path in again]
    yield from map(_shortfall, shortfalls)
    for info in view.orphans:
        yield Finding(
            severity=Severity.WARNING,
            problem="file of no write",
            path=info.path,
            detail="its write is neither on the timeline nor archived: readers ignore it, JVM Hudi not for ever",
            command="doctor PATH --fix",
            mend=Mend.ORPHANS,
        )
    for partition, metafiles in partition_metafiles(call.table.storage).items():
        if not metafiles.is_marked and partition in view.latest:
            yield Finding(
                severity=Severity.WARNING,
                problem="partition without its metafile",
                path=partition,
                detail="JVM Hudi does not see the rows of this partition where it lists the store",
                command="doctor PATH --fix",
                mend=Mend.METAFILES,
            )


def _shortfall(one: Shortfall) -> Finding:
    is_missing = one.found is None
    detail = "is not there" if is_missing else f"has {one.found:,} bytes"
    return Finding(
        severity=Severity.ERROR,
        problem="file is missing" if is_missing else "file is cut off",
        path=one.path,
        detail=f"{detail}; write {one.instant_time} left {one.expected:,} bytes; put a copy back; {_LATER}",
        command="restore PATH INSTANT",
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
