"""Restore plans and restore metadata: the bodies of `.restore.requested` and `.restore`, in every table version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import RESTORE_METADATA, RESTORE_PLAN
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.metadata.rollback import OUR_NAME, WRITER, RollbackMetadata, rollback_values
from pyhudi.format.safe_paths import check_file_name

_PLAN: Final = "HoodieRestorePlan"
_METADATA: Final = "HoodieRestoreMetadata"
_PLAN_VERSION: Final = 2
_METADATA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore is going to roll back.

    `to`: the requested time of the write whose state comes back; None in plans of releases before Hudi 0.12.
    `instants`: time and action of what is rolled back, in this order. `is_ours`: whether pyhudi made the plan, as its
    header records. pyhudi restores under the table lock.
    """

    to: str | None
    instants: tuple[tuple[str, str], ...]
    is_ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata:
    """What a completed restore has done. `start_time` is its own instant. `instants`: see `RestorePlan`."""

    start_time: str
    time_taken_ms: int
    instants: tuple[tuple[str, str], ...]
    rollbacks: tuple[RollbackMetadata, ...]


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """The body of the requested restore."""
    values = {
        "instantsToRollback": _infos(plan.instants),
        "version": _PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.to,
    }
    return encode_container(RESTORE_PLAN, values, {WRITER: OUR_NAME} if plan.is_ours else None)


def decode_restore_plan(data: bytes, *, path: str) -> RestorePlan:
    """The plan of a requested restore.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record.
        UnsafePathError: an instant time of it could not be part of a file name.
    """
    fields, notes = _fields_of(data, _PLAN, path)
    return RestorePlan(
        to=fields.text("savepointToRestoreTimestamp"),
        instants=_instants_in(fields, "instantsToRollback", path),
        is_ours=notes.get(WRITER) == OUR_NAME,
    )


def encode_restore_metadata(metadata: RestoreMetadata) -> bytes:
    """The body of the completed restore."""
    values = {
        "startRestoreTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "instantsToRollback": [instant_time for instant_time, _ in metadata.instants],
        "hoodieRestoreMetadata": {
            rollback.instant_time: [rollback_values(rollback)] for rollback in metadata.rollbacks
        },
        "version": _METADATA_VERSION,
        "restoreInstantInfo": _infos(metadata.instants),
    }
    return encode_container(RESTORE_METADATA, values)


def decode_restored_instants(data: bytes, *, path: str) -> frozenset[str]:
    """The requested times of what a completed restore has rolled back. Raises `CorruptDataError` for a damaged body."""
    fields, _ = _fields_of(data, _METADATA, path)
    return frozenset(fields.texts("instantsToRollback") or ())


def decode_restored_files(data: bytes, *, path: str) -> frozenset[str]:
    """The files that a completed restore deleted, as its rollbacks name them. Raises `CorruptDataError` for damage."""
    fields, _ = _fields_of(data, _METADATA, path)
    return frozenset(
        file
        for rollbacks in fields.record_lists("hoodieRestoreMetadata").values()
        for rollback in rollbacks
        for partition in rollback.record_map("partitionMetadata").values()
        for file in partition.texts("successDeleteFiles") or ()
    )


def _infos(instants: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"commitTime": instant_time, "action": action} for instant_time, action in instants]


def _instants_in(fields: RecordFields, name: str, path: str) -> tuple[tuple[str, str], ...]:
    found = []
    for info in fields.records(name):
        instant_time, action = info.text("commitTime"), info.text("action")
        if instant_time is None or action is None:
            raise fields.damage(name)
        found.append((check_file_name(instant_time, source=path), action))
    return tuple(found)


def _fields_of(data: bytes, name: str, path: str) -> tuple[RecordFields, dict[str, bytes]]:
    record = decode_container(data, path=path)
    if record.name != name:
        raise CorruptDataError("the file holds another record than its name says", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=name), dict(record.notes)
