"""`WriteResult`: the outcome of a write, for its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.instant import InstantTime
from pyhudi.markup import Shown


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteResult(Shown):
    """What a completed write did.

    A write that had nothing to write may have made no commit (`hoodie.allow.empty.commit`): see `has_committed`.
    `files` counts base files written, `bytes` their size, `replaced_files` file groups taken out by an overwrite,
    `seconds` the wall-clock time of the call.

    `calls` counts what the write asked of the table's store, and what the table services asked that ran after it before
    the call returned: by what the files are for (`data`, `timeline`, `metadata_table`, `markers`, …), and by kind, as
    object stores name them (`PUT`, `GET`, `HEAD`, `LIST`, `DELETE`). A file counts once, however many parts it is read
    or written in. It is empty in the results of writes that were made by an earlier call, and two results
    with other calls are equal.
    """

    _instant: InstantTime | None
    _completion_time: InstantTime | None
    operation: str
    inserted: int
    updated: int
    deleted: int
    files: int
    bytes: int
    replaced_files: int
    partitions: int
    seconds: float
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)

    @property
    def has_committed(self) -> bool:
        """Whether the write made a commit. Cost: none."""
        return self._instant is not None

    @property
    def instant(self) -> InstantTime:
        """The requested time of the commit, the `_hoodie_commit_time` of its rows.

        Raises:
            InvalidRequestError: the write made no commit.

        Cost: none.
        """
        return self._of_commit(self._instant)

    @property
    def completion_time(self) -> InstantTime:
        """When the commit became visible, from where `HudiTable.changes` can go on.

        In version 6, which has no completion times, the instant.

        Raises:
            InvalidRequestError: the write made no commit.

        Cost: none.
        """
        return self._of_commit(self._completion_time)

    def _of_commit(self, time: InstantTime | None) -> InstantTime:
        if time is None:
            raise InvalidRequestError(
                "this write found nothing to write and made no commit, so it has no instant: ask has_committed first, "
                "or write with hoodie.allow.empty.commit=true",
                operation=self.operation,
            )
        return time

    def __repr__(self) -> str:
        rows = f"{self.inserted:,} inserted, {self.updated:,} updated, {self.deleted:,} deleted"
        replaced = f", {self.replaced_files:,} replaced" if self.replaced_files else ""
        return (
            f"WriteResult({self.operation} {self._instant or 'without a commit'}: {rows}; files: {self.files:,} "
            f"written{replaced}, {self.bytes:,} bytes; {self.seconds:.2f} s)"
        )


def result_of(
    metadata: CommitMetadata, instant: InstantTime | None, completion_time: InstantTime | None, seconds: float
) -> WriteResult:
    """The result that a commit's metadata spell; of a write without a commit both times are None."""
    stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
    replaced = metadata.replaced_file_ids or {}
    return WriteResult(
        _instant=instant,
        _completion_time=completion_time,
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
