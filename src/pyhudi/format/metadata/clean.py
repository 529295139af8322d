"""What cleans delete: the bodies of `.clean.requested` (plans) and of `.clean` (what was done).

Plans name files by absolute URIs, metadata by their names alone. Readers get both as paths in the table, so that a
table that was moved is understood, too.
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
    """The files that a requested clean is going to delete, relative to the table.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record.
        UnsafePathError: a partition or a file of it would lie outside of the table's data.
    """
    fields = _fields_of(data, _PLAN, path)
    # Before Hudi 0.6 plans had names in a map of their own, which later ones leave empty.
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
    """The files that a completed clean has deleted, relative to the table. Errors: see `decode_clean_plan`."""
    return cleaned_files(_fields_of(data, _METADATA, path), path=path)


def cleaned_files(metadata: RecordFields, *, path: str) -> frozenset[str]:
    """The files in a decoded `HoodieCleanMetadata`, relative to the table. Errors: see `decode_clean_plan`.

    Those whose deletion failed count, too: of a clean that was run again it fails where the first run got through.
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
        raise CorruptDataError("the metadata of the clean are empty", path=path)
    record = decode_container(data, path=path)
    if record.name != name:
        raise CorruptDataError("the file holds another record than its name says", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=name)


def _paths(partition_path: str, files: Iterable[str], path: str) -> frozenset[str]:
    folder = f"{check_data_path(partition_path, source=path)}/" if partition_path else ""
    return frozenset(folder + check_file_name(file.rpartition("/")[2], source=path) for file in files)
