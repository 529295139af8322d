"""The files of one file slice, in the form that tasks get."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyhudi.io.log.block_filter import BlockFilter, Stretch
from pyhudi.storage.protocol import StorageSpec


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file outside the table that has the columns of a skeleton file, row for row.

    `path` is relative to the folder of `storage`; `size`: its bytes at the bootstrap. `path_values`: columns and their
    texts in the names of its folders, None for the null partition; they count where the file lacks the column.
    """

    storage: StorageSpec = field(hash=False)
    path: str
    size: int
    path_values: tuple[tuple[str, str | None], ...] = ()

    @property
    def uri(self) -> str:
        """Where it is, for Spark and for messages."""
        return f"{self.storage.uri.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of one slice by their paths in the table: a base file if there is one, logs in merge order.

    `committed`: for each log, what completed writes wrote; empty if that was not loaded. `source`: if the base file is
    the skeleton of a bootstrap, the file with the other columns.
    """

    base: str | None
    logs: tuple[str, ...]
    committed: tuple[tuple[Stretch, ...], ...] = ()
    source: SourceFile | None = None

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of one Parquet file."""
        return not self.logs and self.source is None

    def judged_by(self, blocks: BlockFilter) -> BlockFilter:
        """The filter of a table's blocks, for this slice."""
        if not self.committed:
            return blocks
        return replace(blocks, stretches=dict(zip(self.logs, self.committed, strict=True)))
