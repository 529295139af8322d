"""Archived timelines made by hand, as JVM Hudi writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.avro.records import encode_avro_records
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.storage.protocol import Storage

_TEXT = ["null", "string"]
_SCHEMA = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "fields": [
        {"name": "commitTime", "type": _TEXT},
        {"name": "actionType", "type": _TEXT},
        {
            "name": "hoodieRollbackMetadata",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "HoodieRollbackMetadata",
                    "fields": [{"name": "commitsRollback", "type": {"type": "array", "items": "string"}}],
                },
            ],
        },
        {"name": "actionState", "type": _TEXT},
    ],
}


def archive_file_of_version_6(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """An archive file of table version 6 with these entries: time, action, state and what was rolled back."""
    avro = json.dumps(_SCHEMA)
    rollback = pa.struct([pa.field("commitsRollback", pa.list_(pa.field("item", pa.string(), False)), False)])
    schema = pa.schema(
        [
            ("commitTime", pa.string()),
            ("actionType", pa.string()),
            ("hoodieRollbackMetadata", rollback),
            ("actionState", pa.string()),
        ]
    )
    blocks = []
    for entry in entries:
        content = encode_avro_records(pa.RecordBatch.from_pylist([entry], schema), avro)
        # JVM Hudi leaves the instant time out; its place in these blocks is of no meaning.
        headers = {BlockHeader.SCHEMA: avro, BlockHeader.INSTANT_TIME: "0"}
        blocks.append(b"".join(encode_block(BlockType.AVRO_DATA, headers, content)))
    return b"".join(blocks)


def completed_in_version_6(*times: str) -> bytes:
    """The same with commits that were completed at these times."""
    row = {"actionType": "commit", "actionState": "COMPLETED", "hoodieRollbackMetadata": None}
    return archive_file_of_version_6([{"commitTime": time, **row} for time in times])


def archive_commits(storage: Storage, *times: str, version: int = 9) -> None:
    """Put an archive of commits that were completed at these times, in the place of any other."""
    if version == 6:
        storage.put(".hoodie/archived/.commits_.archive.1_1-0-1", completed_in_version_6(*times))
        return
    columns = {
        "instantTime": list(times),
        "completionTime": list(times),
        "action": ["commit"] * len(times),
        "metadata": pa.nulls(len(times), pa.binary()),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    folder, name = ".hoodie/timeline/history", f"{min(times)}_{max(times)}_0.parquet"
    storage.put(f"{folder}/{name}", data)
    storage.put(f"{folder}/manifest_1", json.dumps({"files": [{"fileName": name, "fileLen": len(data)}]}).encode())
    storage.put(f"{folder}/_version_", b"1")
