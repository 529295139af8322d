"""Bodies of `.indexing` instants: which partitions of the metadata table an action built, and from which writes."""

from __future__ import annotations

from typing import Any, Final

from pyhudi.format.avro.container import encode_container
from pyhudi.format.metadata.avro_schemas import INDEX_COMMIT_METADATA, INDEX_PLAN

_VERSION: Final = 1


def encode_index_plan(partition: str, upto: str) -> bytes:
    """The body of `.indexing.requested`. `upto`: the newest write whose records the first files of the index have."""
    return encode_container(INDEX_PLAN, {"version": _VERSION, "indexPartitionInfos": [_info(partition, upto)]})


def encode_index_metadata(partition: str, upto: str) -> bytes:
    """The body of a completed `.indexing`, as JVM Hudi writes it: without an operation."""
    values = {"version": _VERSION, "operationType": None, "indexPartitionInfos": [_info(partition, upto)]}
    return encode_container(INDEX_COMMIT_METADATA, values)


def _info(partition: str, upto: str) -> dict[str, Any]:
    return {"version": _VERSION, "metadataPartitionPath": partition, "indexUptoInstant": upto, "extraMetadata": {}}
