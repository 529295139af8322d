"""Invariant K18 of `docs/reliability.md`: the metadata table knows the files of completed writes, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.metadata_table.lister import MetadataLister
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.metadata_table.write_checks import distrust
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState


def check_metadata_table(table: TableState, metadata: Mapping[str, CommitMetadata]) -> Iterator[str]:
    """K18, where the table has a metadata table. `metadata`: of its completed writes, by instant time."""
    if FILES not in table.config.metadata_partitions:
        return
    reason = distrust(table)
    if reason is not None:
        yield f"K18: the metadata table cannot be trusted: {reason}"
        return
    known = {info.path: info.size for info in MetadataLister(load_metadata_state(table)).table()}
    for time, written in metadata.items():
        for path in sorted(written.paths()):
            info = table.storage.info(path)
            if info is not None and known.get(path) != info.size:
                yield f"K18: the metadata table does not know {path} of {time} as it is"
    for path in sorted(known):
        if not _may_be_known(table, path):
            yield f"K18: the metadata table knows {path}, which is of no completed write"


def _may_be_known(table: TableState, path: str) -> bool:
    """Whether a file is of a completed write, as far as its name shows its write."""
    name, timeline = parse_data_file(path.rpartition("/")[2]), table.timeline
    if name is None or not (isinstance(name, BaseFileName) or table.version.has_completion_times):
        return True
    return timeline.is_committed(name.instant_time) or timeline.starts_after(name.instant_time)
