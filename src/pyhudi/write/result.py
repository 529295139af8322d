"""`WriteResult`: the outcome of a write, for its caller."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.instant import InstantTime
from pyhudi.markup import Shown


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteResult(Shown):
    """What a completed write did.

    `instant` is its requested time (`_hoodie_commit_time` of its rows); `completion_time` is when it became visible,
    from where `HudiTable.changes` can go on (in version 6, which has no completion times, the instant again).
    `files` counts base files written, `bytes` their size, `replaced_files` file groups taken out by an overwrite,
    `seconds` the wall-clock time of the call.
    """

    instant: InstantTime
    completion_time: InstantTime
    operation: str
    inserted: int
    updated: int
    deleted: int
    files: int
    bytes: int
    replaced_files: int
    partitions: int
    seconds: float

    def __repr__(self) -> str:
        rows = f"{self.inserted:,} inserted, {self.updated:,} updated, {self.deleted:,} deleted"
        replaced = f", {self.replaced_files:,} replaced" if self.replaced_files else ""
        return (
            f"WriteResult({self.operation} {self.instant}: {rows}; files: {self.files:,} written{replaced}, "
            f"{self.bytes:,} bytes; {self.seconds:.2f} s)"
        )


def result_of(
    metadata: CommitMetadata, instant: InstantTime, completion_time: InstantTime, seconds: float
) -> WriteResult:
    """The result that a commit's metadata spell."""
    stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
    replaced = metadata.replaced_file_ids or {}
    return WriteResult(
        instant=instant,
        completion_time=completion_time,
        operation=metadata.operation.value,
        inserted=sum(stat.num_inserts or 0 for stat in stats),
        updated=sum(stat.num_update_writes or 0 for stat in stats),
        deleted=sum(stat.num_deletes or 0 for stat in stats),
        files=len(stats),
        bytes=sum(stat.total_write_bytes or 0 for stat in stats),
        replaced_files=sum(len(ids) for ids in replaced.values()),
        partitions=len(set(metadata.stats_by_partition) | set(replaced)),
        seconds=seconds,
    )
