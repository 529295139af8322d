"""The files of an active timeline in the other layout: names, and the bodies that differ. Pure.

Version 6 keeps commit metadata as JSON, a pending clustering as a replace commit, and no completion times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from pyhudi.format.avro.container import MAGIC
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from pyhudi.format.metadata.commit import commit_record, decode_commit_metadata, encode_commit_metadata
from pyhudi.format.metadata.replace import decode_requested_replace_metadata
from pyhudi.format.timeline.archived_log_writing import encode_values
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.table_version import MetadataEncoding, TableVersion
from pyhudi.table.timeline import WRITE_ACTIONS

_NO_VERSION: Final[Mapping[str, None]] = {"version": None}
"""As in the records of JVM Hudi, where the field is null."""


@dataclass(frozen=True, slots=True)
class InstantFile:
    """A file of the active timeline. `reached` is when it was put, as an instant time."""

    instant: Instant
    data: bytes = field(repr=False)
    reached: InstantTime
    path: str


def in_other_layout(
    files: Iterable[InstantFile], target: TableVersion, bounds: Mapping[str, str]
) -> tuple[tuple[Instant, bytes], ...]:
    """The instants and contents that the files of one requested time have in the target version.

    `bounds`: by the requested time of a completed write that of the next one (`completion_in_version_8`).

    Raises:
        CorruptDataError: the content of a file is damaged.
    """
    files = tuple(files)
    clusters = target.has_clustering_action and any(map(_plans_clustering, files))
    return tuple((_instant_in(file, target, bounds, clusters=clusters), _body_in(file, target)) for file in files)


def _plans_clustering(file: InstantFile) -> bool:
    instant = file.instant
    if instant.state is not InstantState.REQUESTED or instant.action is not Action.REPLACE_COMMIT or not file.data:
        return False
    return decode_requested_replace_metadata(file.data, path=file.path).clustered is not None


def _instant_in(file: InstantFile, target: TableVersion, bounds: Mapping[str, str], *, clusters: bool) -> Instant:
    instant = file.instant
    if instant.state is InstantState.COMPLETED:
        has_time = target.has_completion_times
        completion = completion_in_version_8(instant, file.reached, bounds) if has_time else None
        return replace(instant, completion_time=completion)
    if clusters and instant.action is Action.REPLACE_COMMIT:
        return replace(instant, action=Action.CLUSTERING)
    return instant


def completion_in_version_8(instant: Instant, reached: str, bounds: Mapping[str, str]) -> InstantTime:
    """The completion time of an instant of version 6: when its completed file was put, as in JVM Hudi.

    From version 8 on completion times order the writes, and decide to which slice a log belongs. In version 6 instant
    times do. A copied table has files that are all younger than its writes; so a time that would not lie between the
    write and the next one is not taken, but the instant time itself.
    """
    own = instant.requested_time
    bound = bounds.get(own) if instant.action in WRITE_ACTIONS else None
    return InstantTime(reached) if own < reached and (bound is None or reached < bound) else own


def _body_in(file: InstantFile, target: TableVersion) -> bytes:
    instant, data = file.instant, file.data
    if instant.action not in WRITE_ACTIONS or instant.state is InstantState.REQUESTED or not data:
        return data
    if target.metadata_encoding is MetadataEncoding.JSON:
        metadata = decode_commit_metadata(data, path=file.path)
        if instant.state is not InstantState.COMPLETED or instant.action is not Action.REPLACE_COMMIT:
            metadata = replace(metadata, replaced_file_ids=None)
        return encode_commit_metadata(metadata, target)
    if data.startswith(MAGIC):
        return data
    decode_commit_metadata(data, path=file.path)  # checks the types and the paths
    is_replacement = instant.action is Action.REPLACE_COMMIT and instant.state is InstantState.COMPLETED
    schema = REPLACE_COMMIT_METADATA if is_replacement else COMMIT_METADATA
    values = {**commit_record(data, path=file.path).values, **_NO_VERSION}
    if is_replacement and values.get("partitionToReplaceFileIds") is None:
        values["partitionToReplaceFileIds"] = {}
    return encode_values(schema, values, path=file.path)


def write_bounds(times: Iterable[str]) -> dict[str, str]:
    """By the requested time of each write that of the next one."""
    ordered = sorted(set(times))
    return dict(pairwise(ordered))
