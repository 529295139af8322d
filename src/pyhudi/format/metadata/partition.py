"""Partition metadata (`.hoodie_partition_metadata`): the file that marks a folder as a partition for JVM Hudi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.properties import format_properties, parse_properties

PARTITION_METADATA_FILE: Final = ".hoodie_partition_metadata"
"""The file name. Tables with `hoodie.partition.metafile.use.base.format` append `.parquet` or `.orc`."""

PARTITION_METADATA_BYTES_MAX: Final = 1 << 20

_COMMIT_TIME: Final = "commitTime"
_DEPTH: Final = "partitionDepth"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The write that created the partition, and the depth of its folder below that of the table."""

    instant_time: str
    depth: int


def encode_partition_metadata(instant_time: str, depth: int) -> bytes:
    """Encode the file. `depth` counts folders on disk, 0 for the folder of the table itself."""
    values = {_COMMIT_TIME: instant_time, _DEPTH: str(depth)}
    return format_properties(values, comment="partition metadata")


def decode_partition_metadata(data: bytes, *, path: str) -> PartitionMetadata:
    """Decode the file.

    Raises:
        CorruptDataError: the bytes are not properties text, or one of the two values is missing or not a number.
    """
    values = parse_properties(data, path=path)
    instant_time, depth = values.get(_COMMIT_TIME, ""), values.get(_DEPTH, "")
    if not instant_time or not (depth.isascii() and depth.isdigit() and len(depth) <= 9):
        raise CorruptDataError("the partition metadata lacks its commit time or its depth", path=path, depth=depth[:40])
    return PartitionMetadata(instant_time, int(depth))
