"""What cleans, archivers and savepoints of JVM Hudi leave on a table, in any state that a test wants."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.avro.container import encode_container
from pyhudi.format.metadata.savepoint import SavepointMetadata, encode_savepoint_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

_NAMES = {"type": "array", "items": "string"}


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


_PLAN = {
    **_record(
        "HoodieCleanerPlan",
        policy="string",
        filePathsToBeDeletedPerPartition={
            "type": "map",
            "values": {
                "type": "array",
                "items": _record("HoodieCleanFileInfo", filePath=["null", "string"], isBootstrapBaseFile="boolean"),
            },
        },
    ),
    "namespace": "org.apache.hudi.avro.model",
}
_METADATA = {
    **_record(
        "HoodieCleanMetadata",
        startCleanTime="string",
        partitionMetadata={
            "type": "map",
            "values": _record(
                "HoodieCleanPartitionMetadata",
                partitionPath="string",
                policy="string",
                deletePathPatterns=_NAMES,
                successDeleteFiles=_NAMES,
                failedDeleteFiles=_NAMES,
            ),
        },
    ),
    "namespace": "org.apache.hudi.avro.model",
}


def clean_plan(uri: str, paths: Iterable[str]) -> bytes:
    """The plan to delete these files."""
    files = {
        partition: [{"filePath": f"{uri}/{path}", "isBootstrapBaseFile": False} for path in found]
        for partition, found in _by_partition(paths).items()
    }
    return encode_container(_PLAN, {"policy": "KEEP_LATEST_COMMITS", "filePathsToBeDeletedPerPartition": files})


def clean_metadata(instant_time: str, paths: Iterable[str]) -> bytes:
    """What is written down once these files were deleted."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": "KEEP_LATEST_COMMITS",
            "deletePathPatterns": [path.rpartition("/")[2] for path in found],
            "successDeleteFiles": [path.rpartition("/")[2] for path in found],
            "failedDeleteFiles": [],
        }
        for partition, found in _by_partition(paths).items()
    }
    return encode_container(_METADATA, {"startCleanTime": instant_time, "partitionMetadata": partitions})


def clean(storage: Storage, paths: Iterable[str], *, completes: bool = True) -> str:
    """Delete files of the table as a clean that begins now; returns its instant time."""
    paths = list(paths)
    table = load_table(storage)
    time = InstantTime(str(int(table.timeline.latest_time) + 1000))
    requested = Instant(time, Action.CLEAN, InstantState.REQUESTED)
    plan = clean_plan(storage.uri, paths)
    storage.put_if_absent(instant_path(requested, table.version), plan)
    storage.put_if_absent(instant_path(Instant(time, Action.CLEAN, InstantState.INFLIGHT), table.version), plan)
    for path in paths:
        storage.delete(path)
    if completes:
        ended = InstantTime(str(int(time) + 1)) if table.version.has_completion_times else None
        completed = Instant(time, Action.CLEAN, InstantState.COMPLETED, ended)
        storage.put_if_absent(instant_path(completed, table.version), clean_metadata(time, paths))
    return time


def archive(storage: Storage, instants: Collection[str]) -> None:
    """Move completed instants into a new file of the archived timeline, of versions with completion times."""
    table = load_table(storage)
    chosen = [one for one in table.timeline.instants if one.requested_time in instants]
    paths = [instant_path(one, table.version) for one in chosen]
    columns = {
        "instantTime": [one.requested_time for one in chosen],
        "completionTime": [one.completion_time for one in chosen],
        "action": [one.action.value for one in chosen],
        "metadata": [storage.read(path) for path in paths],
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    folder, name = table.version.history_folder, f"{min(instants)}_{max(instants)}_0.parquet"
    storage.put(f"{folder}/{name}", data)
    storage.put(f"{folder}/manifest_1", json.dumps({"files": [{"fileName": name, "fileLen": len(data)}]}).encode())
    storage.put(f"{folder}/_version_", b"1")
    for info in storage.list_folder(table.version.timeline_folder).files:
        if info.name[:17] in instants:
            storage.delete(info.path)


def save(storage: Storage, instant_time: str) -> None:
    """A savepoint of the table as it is now, as JVM Hudi makes one."""
    table = load_table(storage)
    latest = load_view(storage, table.timeline).latest
    files = {
        partition: tuple(
            file.path.rpartition("/")[2] for one in slices for file in (one.base, *one.logs) if file is not None
        )
        for partition, slices in latest.items()
    }
    ended = InstantTime(str(int(table.timeline.latest_time) + 1)) if table.version.has_completion_times else None
    instant = Instant(InstantTime(instant_time), Action.SAVEPOINT, InstantState.INFLIGHT)
    storage.put(instant_path(instant, table.version), b"")
    completed = replace(instant, state=InstantState.COMPLETED, completion_time=ended)
    storage.put(
        instant_path(completed, table.version), encode_savepoint_metadata(SavepointMetadata(created_ms=1, files=files))
    )


def _by_partition(paths: Iterable[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(path.rpartition("/")[0], []).append(path)
    return found


def completed_at(storage: Storage, instant_time: str, completion_time: str) -> None:
    """Let a completed write have completed at another time, as one that took long."""
    timeline = load_table(storage).timeline
    (instant,) = (one for one in timeline.completed_writes if one.requested_time == instant_time)
    path = instant_path(instant, timeline.version)
    late = replace(instant, completion_time=InstantTime(completion_time))
    storage.put(instant_path(late, timeline.version), storage.read(path))
    storage.delete(path)
