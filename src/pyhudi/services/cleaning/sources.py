"""Sources of bootstrapped tables at a clean: entries of the index go, and files where that was asked for."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pyhudi.errors import NotFoundError
from pyhudi.format.bootstrap_index import FILE_IDS_PATH, PARTITIONS_PATH, write_without_files
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.clean import CleanPlan
from pyhudi.format.timeline.instant import SKELETON_INSTANT
from pyhudi.io.hfile import open_hfile_of
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.protocol import Storage
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.file_slice import FileGroupId


def sources_to_delete(storage: Storage, plan: CleanPlan) -> Mapping[str, tuple[SourceFile, ...]]:
    """The files of the source that a plan names, by partition path.

    Of these only such as the bootstrap index has for skeleton files of the same plan, so that a plan that was tampered
    with deletes no file that the table still needs, nor one outside the source. Cost: none for a plan without any;
    else what `load_sources` costs.
    """
    if not plan.sources:
        return {}
    named = {uri for uris in plan.sources.values() for uri in uris}
    known = load_sources(storage, plan.sources)
    found: dict[str, list[SourceFile]] = defaultdict(list)
    for group in _skeletons(plan.paths):
        source = known.get(group)
        if source is not None and source.uri in named:
            found[group.partition_path].append(source)
    return {path: tuple(files) for path, files in sorted(found.items())}


def drop_index_entries(storage: Storage, deleted: Iterable[str], *, created_ms: int) -> None:
    """Take deleted skeleton files out of the bootstrap index, and remove it with its last entry. Under the table lock.

    Readers need no entry of a file that is gone; without this the index would never shrink. Cost: none where no
    skeleton was deleted; else both files of the index are read and put. Memory: the larger one.
    """
    gone = {(group.partition_path, group.file_id) for group in _skeletons(deleted)}
    if not gone:
        return
    for path in (FILE_IDS_PATH, PARTITIONS_PATH):
        left = io.BytesIO()
        try:
            with open_hfile_of(storage, path) as index:
                count = write_without_files(index.file, gone, left.write, path=path, created_ms=created_ms)
        except NotFoundError:
            continue
        if count:
            storage.put(path, left.getvalue())
        else:
            storage.delete(path)


def _skeletons(paths: Iterable[str]) -> list[FileGroupId]:
    """The file groups of the skeleton files among these."""
    found = []
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        name = parse_data_file(file)
        if isinstance(name, BaseFileName) and name.instant_time == SKELETON_INSTANT:
            found.append(FileGroupId(folder, name.file_id))
    return found
