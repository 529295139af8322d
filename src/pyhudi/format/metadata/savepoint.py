"""Savepoint metadata: the body of `.savepoint`, which names the files that a savepoint keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import SAVEPOINT_METADATA
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

_RECORD: Final = "HoodieSavepointMetadata"
_VERSION: Final = 1
_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
_NAME_NOTE: Final = "pyhudi.savepoint.name"
"""The entry of the container's header with the name; JVM Hudi ignores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata:
    """Which files a savepoint keeps: names of base and log files, by partition path.

    `created_by`, `comment`: what its maker wrote down. `created_ms`: milliseconds since the epoch. `name`: only
    savepoints of pyhudi may have one.
    """

    created_by: str = ""
    created_ms: int = 0
    comment: str = ""
    name: str | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def paths(self) -> frozenset[str]:
        """The files, relative to the table."""
        return frozenset(
            f"{partition}/{name}" if partition else name for partition, names in self.files.items() for name in names
        )


def encode_savepoint_metadata(metadata: SavepointMetadata) -> bytes:
    """The body of a completed savepoint, in every table version."""
    values = {
        "savepointedBy": metadata.created_by,
        "savepointedAt": metadata.created_ms,
        "comments": metadata.comment,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in metadata.files.items()
        },
        "version": _VERSION,
    }
    notes = None if metadata.name is None else {_NAME_NOTE: metadata.name.encode()}
    return encode_container(SAVEPOINT_METADATA, values, notes)


def decode_savepoint_metadata(data: bytes, *, path: str) -> SavepointMetadata:
    """Which files a savepoint keeps.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record.
        UnsafePathError: a partition or a file of it would lie outside the table's data.
    """
    record = decode_container(data, path=path)
    if record.name != _RECORD:
        raise CorruptDataError("the file holds another record than its name says", path=path, record=record.name)
    fields = RecordFields(record.values, path=path, name=_RECORD)
    created_ms, files = fields.count("savepointedAt"), {}
    if not 0 <= created_ms <= _MS_MAX:
        raise fields.damage("savepointedAt")
    for partition, entry in fields.record_map("partitionMetadata").items():
        folder = check_data_path(partition, source=path) if partition else ""
        names = entry.texts("savepointDataFile") or ()
        files[folder] = tuple(check_file_name(name, source=path) for name in names)
    return SavepointMetadata(
        created_by=fields.text("savepointedBy") or "",
        created_ms=created_ms,
        comment=fields.text("comments") or "",
        name=_name_in(record.notes),
        files=files,
    )


def _name_in(notes: Mapping[str, bytes]) -> str | None:
    name = notes.get(_NAME_NOTE)
    return None if name is None else name.decode(errors="replace")
