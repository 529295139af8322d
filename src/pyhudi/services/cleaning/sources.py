"""Sources of bootstrapped tables at a clean: they are deleted with their skeletons where that was asked for.

The bootstrap index keeps the entries of deleted skeletons, as JVM Hudi's cleans leave it: readers ask it for files that
they have listed, and to write it anew would take its whole size under the table lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.clean import CleanPlan
from pyhudi.format.timeline.instant import SKELETON_INSTANT
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


def _skeletons(paths: Iterable[str]) -> list[FileGroupId]:
    """The file groups of the skeleton files among these."""
    found = []
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        name = parse_data_file(file)
        if isinstance(name, BaseFileName) and name.instant_time == SKELETON_INSTANT:
            found.append(FileGroupId(folder, name.file_id))
    return found
