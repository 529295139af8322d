"""Requests of replace commits: the bodies of `.replacecommit.requested` and `.clustering.requested`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.metadata.write_operation import WriteOperation, operation_of_word
from pyhudi.format.safe_paths import check_data_path, check_file_name

_RECORD: Final = "HoodieRequestedReplaceMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplaceMetadata:
    """The request of a replace commit.

    `clustered` has (partition path, file id) of the input file groups of a clustering plan; None without a plan. Other
    parts of a plan are not decoded. `unknown` has fields of newer writers.
    """

    operation: WriteOperation | None = None
    extra: Mapping[str, str] | None = None
    version: int | None = None
    clustered: frozenset[tuple[str, str]] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


def requested_replace(operation: WriteOperation) -> RequestedReplaceMetadata:
    """The request of an operation as in JVM Hudi, where only that of DELETE_PARTITION has content."""
    if operation is WriteOperation.DELETE_PARTITION:
        return RequestedReplaceMetadata(operation=operation, extra={}, version=1)
    return RequestedReplaceMetadata()


def encode_requested_replace_metadata(metadata: RequestedReplaceMetadata) -> bytes:
    """Encode the body of the requested instant, in any table version.

    Raises:
        UnsupportedFeatureError: the request contains a clustering plan, which this release cannot write.
    """
    if metadata.clustered is not None:
        raise UnsupportedFeatureError("clustering plans cannot be written")
    values = {
        "operationType": None if metadata.operation is None else metadata.operation.name,
        "clusteringPlan": None,
        "extraMetadata": None if metadata.extra is None else dict(metadata.extra),
        "version": metadata.version,
    }
    return encode_container(REQUESTED_REPLACE_METADATA, values)


def decode_requested_replace_metadata(data: bytes, *, path: str) -> RequestedReplaceMetadata:
    """Decode the body of a requested replace commit or clustering.

    Raises:
        CorruptDataError: it is empty or damaged, or another record.
        UnsafePathError: the path of a partition or file group leads out of the table's data.
    """
    record = decode_container(data, path=path)
    if record.name != _RECORD:
        raise CorruptDataError(
            "the record in the file is not the request of a replace commit", path=path, record=record.name
        )
    fields = RecordFields(record.values, path=path, name=_RECORD)
    word, plan = fields.text("operationType"), fields.record("clusteringPlan")
    operation = None if word is None else operation_of_word(word) or WriteOperation.UNKNOWN
    return RequestedReplaceMetadata(
        operation=operation,
        extra=fields.text_map("extraMetadata"),
        version=fields.number("version"),
        clustered=None if plan is None else _clustered(plan, path),
        unknown=fields.unknown,
    )


def _clustered(plan: RecordFields, path: str) -> frozenset[tuple[str, str]]:
    found = set()
    for group in plan.records("inputGroups"):
        for part in group.records("slices"):
            file_id = part.text("fileId")
            if file_id is None:
                # Planners must know every claimed file group; one without id could be any.
                raise part.damage("fileId")
            partition_path = check_data_path(part.text("partitionPath") or "", source=path)
            found.add((partition_path, check_file_name(file_id, source=path)))
    return frozenset(found)
