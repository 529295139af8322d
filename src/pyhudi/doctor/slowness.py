"""Findings of what makes a table slow, although nothing is wrong with it: small files, and folders that are listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyhudi.doctor.finding import Finding, Severity
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.metadata_table import has_metadata_table

_FILES_TOO_MANY: Final = 50
_LISTED_PARTITIONS: Final = 100


def slowness_findings(call: ServiceCall, view: FileSystemView) -> Iterator[Finding]:
    """Work that would make reads faster. Cost: nothing."""
    files = call.config.files
    count = small = needed = 0
    for slices in view.latest.values():
        sizes = [file_slice.base.size for file_slice in slices if file_slice.base is not None]
        of_partition = [size for size in sizes if size < files.small_file_limit]
        count += len(sizes)
        small += len(of_partition)
        needed += -(-sum(of_partition) // files.max_file_size)
    if small - needed >= max(_FILES_TOO_MANY, count // 10):
        yield Finding(
            severity=Severity.NOTE,
            problem="many small files",
            detail=f"{small:,} base files are below {files.small_file_limit:,} bytes; {needed:,} could hold their"
            " rows. One call clusters a part of a large table: repeat it until there is nothing to cluster",
            command="cluster PATH",
        )
    if len(view.latest) >= _LISTED_PARTITIONS and not has_metadata_table(call.table):
        yield Finding(
            severity=Severity.NOTE,
            problem="no metadata table",
            detail=f"a read of the table lists {len(view.latest):,} folders, which a metadata table would save",
            command="rebuild-metadata PATH --option hoodie.metadata.enable=true",
        )
