"""The plan of a merging of archive files of table version 6: which files, and the one that takes their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import MERGE_ARCHIVE_PLAN
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.timeline.archived_log import is_archive_file

MERGE_PLAN_FILE: Final = "mergeArchivePlan"
"""The name of the plan's file, beside the files of the archive."""

_RECORD: Final = "HoodieMergeArchiveFilePlan"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ArchiveMergePlan:
    """The names of the files that are merged, and the name of the merged one."""

    files: tuple[str, ...]
    merged: str


def encode_merge_plan(plan: ArchiveMergePlan, *, folder_uri: str) -> bytes:
    """The content of the plan's file. `folder_uri`: the folder of the archive, which JVM Hudi expects in each path."""
    values = {
        "version": _VERSION,
        "candidate": [f"{folder_uri}/{name}" for name in plan.files],
        "mergedArchiveFileName": plan.merged,
    }
    return encode_container(MERGE_ARCHIVE_PLAN, values)


def decode_merge_plan(data: bytes, *, path: str) -> ArchiveMergePlan:
    """The plan in a file. Raises `CorruptDataError` if it is damaged, or names what is no file of an archive."""
    record = decode_container(data, path=path)
    if record.name != _RECORD:
        raise CorruptDataError("the file holds another record than a plan of merging", path=path, record=record.name)
    fields = RecordFields(record.values, path=path, name=_RECORD)
    files = tuple(file.rpartition("/")[2] for file in fields.texts("candidate") or ())
    merged = fields.text("mergedArchiveFileName") or ""
    for name in (*files, merged):
        if not is_archive_file(name) or "/" in name:
            raise CorruptDataError("a plan of merging names another file than of an archive", path=path, name=name)
    return ArchiveMergePlan(files, merged)
