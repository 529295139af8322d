"""The file groups of a partition of the metadata table, as the names of its files show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action
from pyhudi.metadata_table.file_group import EXTENSION, FIRST_TASK, GroupTarget, file_ids
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, PlacedPartition
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_compaction_plan, load_timeline


def group_target(table: TableState, partition: MetadataPartition, instant_time: str, created_ms: int) -> GroupTarget:
    """Where the logs of a partition go under an instant. Cost: a listing, but for `files` from version 8 on none."""
    by_slice = not table.version.has_completion_times
    slices: dict[str, tuple[str, int]] = {}
    if partition.name == FILES and not by_slice:
        ids = file_ids(partition.file_id_prefix, 1)
    else:
        names = table.storage.list_names(partition_folder(partition.name))
        slices = newest_slices((*names, *_planned(table, partition.name)), partition.file_id_prefix)
        ids = tuple(sorted(slices))
        is_placed = isinstance(partition, PlacedPartition)
        if not is_placed and (ids != file_ids(partition.file_id_prefix, len(ids)) or not ids):
            raise CorruptDataError(
                "a partition of the metadata table lacks file groups; drop the metadata table with "
                "hoodie.metadata.enable=false",
                path=partition_folder(partition.name),
                file_groups=len(ids),
            )
    return GroupTarget(
        storage=table.storage.spec,
        partition=partition.name,
        file_ids=ids,
        instant_time=instant_time,
        version=table.version,
        names_slice=slices if by_slice else {},
        created_ms=created_ms,
    )


def _planned(table: TableState, partition: str) -> Iterator[str]:
    """The names of base files that pending compactions will write: in version 6 new logs belong to their slices.

    Cost: a listing in version 6; a read for each pending compaction, of which there is one only after a crash.
    """
    if table.version.has_completion_times:
        return
    inner = load_timeline(table.storage, inner_version(table.version))
    for instant in inner.pending_compactions:
        if instant.action is not Action.COMPACTION:
            continue
        for operation in load_compaction_plan(table.storage, instant, inner.version).operations:
            if operation.partition_path == partition:
                yield str(BaseFileName(operation.file_id, FIRST_TASK, instant.requested_time, EXTENSION))


def newest_slices(names: Iterable[str], prefix: str) -> dict[str, tuple[str, int]]:
    """By file id the instant of its newest slice and the number of the slice's next log, as version 6 names them."""
    found: dict[str, tuple[str, int]] = {}
    for name in map(parse_data_file, names):
        if name is None or not name.file_id.startswith(prefix):
            continue
        number = name.version if isinstance(name, LogFileName) else 0
        instant_time, next_number = found.get(name.file_id, ("", 1))
        if name.instant_time > instant_time:
            found[name.file_id] = (name.instant_time, number + 1)
        elif name.instant_time == instant_time:
            found[name.file_id] = (instant_time, max(next_number, number + 1))
    return found
