"""Clean plans and clean metadata: the bodies of `.clean.requested` and `.clean`.

Plans contain absolute URIs of files, metadata only their names. Both are decoded to paths relative to the table, so
that a table can be moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

_PLAN: Final = "HoodieCleanerPlan"
_METADATA: Final = "HoodieCleanMetadata"


def decode_clean_plan(data: bytes, *, path: str) -> frozenset[str]:
    """Decode the files that a requested clean will delete, relative to the table.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record.
        UnsafePathError: the path of a partition or file leads out of the table's data.
    """
    fields = _fields_of(data, _PLAN, path)
    # Before Hudi 0.6, plans had file names in another map, which later releases leave empty.
    files = [
        _paths(partition, names, path)
        for partition, names in (fields.text_lists("filesToBeDeletedPerPartition") or {}).items()
    ]
    files += [
        _paths(partition, (entry.text("filePath") or "" for entry in entries), path)
        for partition, entries in fields.record_lists("filePathsToBeDeletedPerPartition").items()
    ]
    return frozenset().union(*files)


def decode_clean_metadata(data: bytes, *, path: str) -> frozenset[str]:
    """Decode the files that a completed clean deleted, relative to the table. Raises as `decode_clean_plan`."""
    return cleaned_files(_fields_of(data, _METADATA, path), path=path)


def cleaned_files(metadata: RecordFields, *, path: str) -> frozenset[str]:
    """The files in a decoded `HoodieCleanMetadata`, relative to the table. Raises as `decode_clean_plan`.

    Files whose deletion failed count, too: if a clean is repeated, it fails for files that the first run deleted.
    """
    return frozenset().union(
        *(
            _paths(
                partition, (*(entry.texts("successDeleteFiles") or ()), *(entry.texts("failedDeleteFiles") or ())), path
            )
            for partition, entry in metadata.record_map("partitionMetadata").items()
        )
    )


def _fields_of(data: bytes, name: str, path: str) -> RecordFields:
    if not data:
        raise CorruptDataError("the clean metadata is empty", path=path)
    record = decode_container(data, path=path)
    if record.name != name:
        raise CorruptDataError("the record in the file is not that of its file name", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=name)


def _paths(partition_path: str, files: Iterable[str], path: str) -> frozenset[str]:
    folder = f"{check_data_path(partition_path, source=path)}/" if partition_path else ""
    return frozenset(folder + check_file_name(file.rpartition("/")[2], source=path) for file in files)
