"""The files of one file slice, in the form that tasks get."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyhudi.format.file_names import parse_data_file
from pyhudi.format.schema.stored_names import NamesByWrite, StoredNames
from pyhudi.io.log.block_filter import BlockFilter, Stretch
from pyhudi.storage.protocol import StorageSpec


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file outside the table that has the columns of a skeleton file, row for row.

    `path` is relative to the folder of `storage`; `size` and `modified_ms`: its bytes at the bootstrap, and when it had
    been changed (0: not known). `path_values`: columns and their texts in the names of its folders, None for the null
    partition; they count where the file lacks the column.
    """

    storage: StorageSpec = field(hash=False)
    path: str
    size: int
    modified_ms: int
    path_values: tuple[tuple[str, str | None], ...] = ()

    @property
    def uri(self) -> str:
        """Where it is, for Spark and for messages."""
        return f"{self.storage.uri.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of one slice by their paths in the table: a base file if there is one, logs in merge order.

    `committed`: for each log, what completed writes wrote; empty if that was not loaded. `source`: if the base file is
    the skeleton of a bootstrap, the file with the other columns. `names`: what the columns of today are called in the
    files of each write; None where no file has other names.
    """

    base: str | None
    logs: tuple[str, ...]
    committed: tuple[tuple[Stretch, ...], ...] = ()
    source: SourceFile | None = None
    names: NamesByWrite | None = field(default=None, hash=False)

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of one Parquet file, under its names."""
        return not self.logs and self.source is None and self.names_in_base is None

    @property
    def names_in_base(self) -> StoredNames | None:
        """What the columns of today are called in the base file; None if they have today's names."""
        if self.names is None or self.base is None:
            return None
        name = parse_data_file(self.base.rpartition("/")[2])
        return None if name is None else self.names.of(name.instant_time)

    @property
    def has_other_names(self) -> bool:
        """Whether columns of today may have other names in one of the files."""
        return self.names_in_base is not None or (self.names is not None and bool(self.logs))

    def judged_by(self, blocks: BlockFilter) -> BlockFilter:
        """The filter of a table's blocks, for this slice."""
        if not self.committed:
            return blocks
        return replace(blocks, stretches=dict(zip(self.logs, self.committed, strict=True)))
