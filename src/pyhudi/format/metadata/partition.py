"""`.hoodie_partition_metadata`: what makes a folder a partition in the eyes of real Hudi.

Source: `format/timeline.md` 4.3, 8.3 and trap 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.properties import format_properties, parse_properties

PARTITION_METADATA_FILE: Final = ".hoodie_partition_metadata"
"""Its name; tables with `hoodie.partition.metafile.use.base.format` put `.parquet` or `.orc` behind it."""

_COMMIT_TIME: Final = "commitTime"
_DEPTH: Final = "partitionDepth"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The write that created the partition, and how many folders lie between it and the table, itself included."""

    instant_time: str
    depth: int


def encode_partition_metadata(instant_time: str, depth: int) -> bytes:
    """The file's content. `depth` counts folders as they are on disk, 0 for the table's own folder."""
    values = {_COMMIT_TIME: instant_time, _DEPTH: str(depth)}
    return format_properties(values, comment="partition metadata")


def decode_partition_metadata(data: bytes, *, path: str) -> PartitionMetadata:
    """What the file says.

    Raises:
        CorruptDataError: the bytes are not properties text, or one of the two values is missing or no number.
    """
    values = parse_properties(data, path=path)
    instant_time, depth = values.get(_COMMIT_TIME, ""), values.get(_DEPTH, "")
    if not instant_time or not (depth.isascii() and depth.isdigit() and len(depth) <= 9):
        raise CorruptDataError("the partition metadata lacks its commit time or its depth", path=path, depth=depth[:40])
    return PartitionMetadata(instant_time, int(depth))
