"""The files that a completed write put into its table, and the file groups that it replaced, and nothing else.

A table's files are compared with what all its commits say. Decoding this much of a commit costs a third of decoding
all of it (`commit_metadata`), and it is small enough to be kept for every commit of an active timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata.commit import SCHEMA_KEY, commit_record
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.schema.internal_schema import INTERNAL_SCHEMA_KEY, InternalSchema, parse_internal_schema

_NO_COMMIT: Final = (None, "", "null")
_RECORDS: Final = ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata")


class WrittenFile(NamedTuple):
    """A base or log file, and which of its bytes, from `start` to `end`, the write put there.

    A write that appended to a log of table version 6 put there what follows `start`; every other one made its file.
    `end` is 0 where the writer did not say how long the file is. `has_predecessor`: whether the writer says that the
    file group had a file slice before.
    """

    file_id: str
    name: str
    start: int
    end: int
    has_predecessor: bool = False

    @property
    def is_log(self) -> bool:
        """Whether it is a log file."""
        return self.name.startswith(".")


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What one completed write did to files: those that it wrote and the file ids that it replaced, by partition path.

    Files of change data, which no reader of the table's rows opens, are left out. `columns`: the columns with ids under
    which the write wrote, as it says itself; None where it has none. `has_schema`: whether it names columns at all.
    """

    written: Mapping[str, tuple[WrittenFile, ...]] = field(repr=False)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    columns: InternalSchema | None = field(default=None, repr=False)
    has_schema: bool = False

    @property
    def count(self) -> int:
        """Entries in it: what it costs to keep it, in units of some 300 bytes."""
        return 1 + sum(map(len, self.written.values())) + sum(map(len, self.replaced.values()))


def decode_written_files(data: bytes, *, path: str) -> WrittenFiles:
    """The files in the body of a completed commit, delta commit or replace commit of any table version.

    Names are as the writer gave them: compare them with what a store lists, and open none that is not listed.

    Raises:
        CorruptDataError: the body is empty, truncated or damaged, or a field has another type than it must have.
    """
    record = commit_record(data, path=path)
    if record.name not in _RECORDS:
        raise CorruptDataError("the file holds another record than commit metadata", path=path, record=record.name)
    fields = RecordFields(record.values, path=path, name=record.name)
    stats = record.values.get("partitionToWriteStats") or {}
    written: dict[str, list[WrittenFile]] = {}
    try:
        for partition_stats in stats.values():
            for stat in partition_stats:
                if file_path := stat.get("path"):
                    partition_path, _, name = file_path.rpartition("/")
                    written.setdefault(partition_path, []).append(_written_file(stat, name))
    except (AttributeError, TypeError) as error:
        raise fields.damage("partitionToWriteStats") from error
    return WrittenFiles(
        {partition_path: tuple(files) for partition_path, files in written.items()},
        fields.text_lists("partitionToReplaceFileIds") or {},
        *columns_of_write(record.values.get("extraMetadata") or {}, path=path),
    )


def columns_of_write(extra: Mapping[str, Any], *, path: str) -> tuple[InternalSchema | None, bool]:
    """The columns with ids in the extra metadata of a write, and whether these name columns at all."""
    text = extra.get(INTERNAL_SCHEMA_KEY)
    # JVM Hudi reads no columns from an empty text.
    columns = parse_internal_schema(text, path=path) if text else None
    return columns, bool(extra.get(SCHEMA_KEY))


def end_of(start: int, size: int) -> int:
    """Where in a file a write ended that began at `start` and says that `size` is the file's size; 0 for not told.

    Of a log that was appended to some writers say how long the whole of it was, and some how long what they appended:
    of the two this is the end that is certain.
    """
    return size if size > start else start + size if size > 0 else 0


def _written_file(stat: Mapping[str, Any], name: str) -> WrittenFile:
    file_id, size, start = stat.get("fileId") or "", stat.get("fileSizeInBytes") or 0, stat.get("logOffset") or 0
    if not (isinstance(file_id, str) and type(size) is int and type(start) is int):
        raise TypeError
    has_predecessor = stat.get("prevCommit") not in _NO_COMMIT
    return WrittenFile(file_id, name, start, end_of(start, size), has_predecessor)
