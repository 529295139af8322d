"""Requests of replace commits: the bodies of `.replacecommit.requested` and `.clustering.requested`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError, InternalError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA
from pyhudi.format.metadata.clustering import ClusteringPlan, clustering_plan_of, clustering_plan_values
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.metadata.write_operation import WriteOperation, operation_of_word

_RECORD: Final = "HoodieRequestedReplaceMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplaceMetadata:
    """The request of a replace commit; that of a clustering has its plan. `unknown` has fields of newer writers."""

    operation: WriteOperation | None = None
    extra: Mapping[str, str] | None = None
    version: int | None = None
    plan: ClusteringPlan | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def clustered(self) -> frozenset[tuple[str, str]] | None:
        """Partition path and file id of the input file groups of a clustering; None without a plan."""
        return (
            None
            if self.plan is None
            else frozenset((file_slice.partition_path, file_slice.file_id) for file_slice in self.plan.slices)
        )


def requested_replace(operation: WriteOperation) -> RequestedReplaceMetadata:
    """The request of an operation as in JVM Hudi, where only that of DELETE_PARTITION has content."""
    if operation is WriteOperation.DELETE_PARTITION:
        return RequestedReplaceMetadata(operation=operation, extra={}, version=1)
    return RequestedReplaceMetadata()


def requested_clustering(plan: ClusteringPlan) -> RequestedReplaceMetadata:
    """The request of a clustering, as in JVM Hudi."""
    return RequestedReplaceMetadata(operation=WriteOperation.CLUSTER, extra={}, version=1, plan=plan)


def encode_requested_replace_metadata(metadata: RequestedReplaceMetadata, *, table_uri: str | None = None) -> bytes:
    """Encode the body of the requested instant, in any table version.

    `table_uri`: the base path of the table; needed for a clustering plan, whose paths are absolute.
    """
    if metadata.plan is not None and table_uri is None:
        raise InternalError("a clustering plan was encoded without the path of its table")
    values = {
        "operationType": None if metadata.operation is None else metadata.operation.name,
        "clusteringPlan": None if metadata.plan is None else clustering_plan_values(metadata.plan, table_uri or ""),
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
        plan=None if plan is None else clustering_plan_of(plan, path),
        unknown=fields.unknown,
    )
