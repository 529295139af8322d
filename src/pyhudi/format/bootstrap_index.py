"""The bootstrap index: which file of the source a skeleton file belongs to.

A bootstrap of mode METADATA_ONLY leaves the files of a source where they are. For each it writes a skeleton, a base
file with the meta columns only, whose rows are in the order of the source's. Two HFiles join them, without compression:

    .partitions   part=<partition path>                      all source files of a partition, by file id
    .fileids      part=<partition path>;fileid=<file id>     the source file of one file id

A value is an Avro container. The file info of both has `INDEX_INFO`, which names the folder of the source.

https://github.com/apache/hudi/blob/master/rfc/rfc-12/rfc-12.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import ContainerEncoder, decode_container, encode_container
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.writer import BLOCK_BYTES, HFileWriter
from pyhudi.format.metadata.avro_schemas import BOOTSTRAP_FILE, BOOTSTRAP_INDEX_INFO, BOOTSTRAP_PARTITION
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name
from pyhudi.format.timeline.instant import SKELETON_INSTANT

_NAME: Final = f"00000000-0000-0000-0000-000000000000-0_1-0-1_{SKELETON_INSTANT}.hfile"
INDEX_FOLDER: Final = ".hoodie/.aux/.bootstrap"
PARTITIONS_PATH: Final = f"{INDEX_FOLDER}/.partitions/{_NAME}"
FILE_IDS_PATH: Final = f"{INDEX_FOLDER}/.fileids/{_NAME}"

_INDEX_INFO: Final = "INDEX_INFO"

Write = Callable[[pa.Buffer | bytes], object]
"""A sink: it takes the next bytes of a file."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A file of the source: its URI, its size in bytes, and when it was changed, in milliseconds since the epoch."""

    uri: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition of a bootstrapped table, the folder of the source that it comes from, and its files by file id."""

    partition_path: str
    source_path: str
    files: Mapping[str, SourceStatus] = field(repr=False)


def partition_key(partition_path: str) -> str:
    """The key of a partition in `.partitions`."""
    return f"part={partition_path}"


def decode_source_folder(file_info: Mapping[str, bytes], *, path: str) -> str:
    """The folder of the source, as the index names it: a path or a URI. Raises `CorruptDataError` where it does not."""
    info = file_info.get(_INDEX_INFO)
    if info is None:
        raise CorruptDataError("the bootstrap index does not say where its source is", path=path)
    fields = _fields_of(info, "HoodieBootstrapIndexInfo", path)
    folder = fields.text("bootstrapBasePath")
    if not folder:
        raise fields.damage("bootstrapBasePath")
    return folder


def decode_source_partition(value: bytes, *, path: str) -> SourcePartition:
    """One value of `.partitions`.

    Raises:
        CorruptDataError: it is damaged, or another record.
        UnsafePathError: it names a partition or a file id that could not be one.
    """
    fields = _fields_of(value, "HoodieBootstrapPartitionMetadata", path)
    partition_path, source_path = fields.text("partitionPath"), fields.text("bootstrapPartitionPath")
    if partition_path is None or source_path is None:
        raise fields.damage("partitionPath")
    files = {}
    for file_id, status in fields.record_map("fileIdToBootstrapFile").items():
        place = status.record("path")
        uri = place.text("uri") if place is not None else None
        size = status.number("length")
        if not uri or size is None:
            raise status.damage("path")
        files[check_file_name(file_id, source=path)] = SourceStatus(uri, size, status.count("modificationTime"))
    return SourcePartition(check_data_path(partition_path, source=path), source_path, files)


def write_partitions(
    partitions: Sequence[SourcePartition], write: Write, *, source_folder: str, created_ms: int
) -> None:
    """Write the content of `PARTITIONS_PATH` to a sink. Memory: the entries of some partitions."""
    ordered = sorted(partitions, key=lambda partition: partition_key(partition.partition_path).encode())
    encoder = ContainerEncoder(BOOTSTRAP_PARTITION)
    entries = (
        (partition_key(partition.partition_path).encode(), _partition_value(encoder, partition))
        for partition in ordered
    )
    _write_hfile(entries, write, source_folder, created_ms)


def write_file_ids(partitions: Sequence[SourcePartition], write: Write, *, source_folder: str, created_ms: int) -> None:
    """Write the content of `FILE_IDS_PATH` to a sink. Memory: some entries, and a reference to each file."""
    ordered = sorted(
        ((partition, file_id) for partition in partitions for file_id in partition.files),
        key=lambda entry: _file_key(entry[0].partition_path, entry[1]),
    )
    encoder = ContainerEncoder(BOOTSTRAP_FILE)
    entries = (
        (_file_key(partition.partition_path, file_id), _file_value(encoder, partition, partition.files[file_id]))
        for partition, file_id in ordered
    )
    _write_hfile(entries, write, source_folder, created_ms)


def _file_key(partition_path: str, file_id: str) -> bytes:
    return f"{partition_key(partition_path)};fileid={file_id}".encode()


def _write_hfile(entries: Iterable[tuple[bytes, bytes]], write: Write, source_folder: str, created_ms: int) -> int:
    writer = HFileWriter(write, codec=HFileCodec.NONE)
    keys, values, size = list[bytes](), list[bytes](), 0
    for key, value in entries:
        keys.append(key)
        values.append(value)
        size += len(key) + len(value)
        if size >= BLOCK_BYTES:
            writer.add(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
            keys, values, size = [], [], 0
    writer.add(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    info = {"bootstrapBasePath": source_folder, "createdTimestamp": created_ms, "numKeys": writer.entry_count}
    encoded = encode_container(BOOTSTRAP_INDEX_INFO, {"version": None, **info})
    writer.close(created_ms=created_ms, file_info={_INDEX_INFO: encoded})
    return writer.entry_count


def _partition_value(encoder: ContainerEncoder, partition: SourcePartition) -> bytes:
    values = {
        "version": None,
        "bootstrapPartitionPath": partition.source_path,
        "partitionPath": partition.partition_path,
        "fileIdToBootstrapFile": {file_id: _status(file) for file_id, file in sorted(partition.files.items())},
    }
    return encoder.encode(values)


def _file_value(encoder: ContainerEncoder, partition: SourcePartition, status: SourceStatus) -> bytes:
    values = {
        "version": None,
        "bootstrapPartitionPath": partition.source_path,
        "bootstrapFileStatus": _status(status),
        "partitionPath": partition.partition_path,
    }
    return encoder.encode(values)


def _status(status: SourceStatus) -> dict[str, object]:
    return {
        "version": None,
        "path": {"version": None, "uri": status.uri},
        "length": status.size,
        "isDir": False,
        "blockReplication": 1,
        "blockSize": _BLOCK_BYTES,
        "modificationTime": status.modified_ms,
        "accessTime": status.modified_ms,
    }


_BLOCK_BYTES: Final = 32 * 1024 * 1024
"""What Hadoop says of files on local disk. Readers ignore it."""


def _fields_of(value: bytes, name: str, path: str) -> RecordFields:
    record = decode_container(value, path=path)
    if record.name != name:
        raise CorruptDataError("the bootstrap index holds another record", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=name)
