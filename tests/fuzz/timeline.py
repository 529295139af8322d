"""Parsers of the timeline: names and times of instants, and what their files say."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from typing import Any

from tests.fuzz import golden, mutations
from tests.fuzz.hostile_avro import container, damaged_container, doubling, record
from tests.fuzz.target import PATH, Target, require, text_of

from pyhudi.errors import CorruptDataError, HudiError, UnsafePathError
from pyhudi.format.avro.container import MAGIC, decode_container
from pyhudi.format.bootstrap_notes import SourceIdentity, decode_note, encode_note
from pyhudi.format.metadata.clean import decode_clean_metadata, decode_clean_plan
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, decode_commit_metadata, encode_commit_metadata
from pyhudi.format.metadata.compaction import CompactionPlan, decode_compaction_plan, encode_compaction_plan
from pyhudi.format.metadata.replace import decode_requested_replace_metadata, encode_requested_replace_metadata
from pyhudi.format.metadata.restore import (
    RestoreMetadata,
    RestorePlan,
    decode_restore_plan,
    decode_restored_instants,
    encode_restore_metadata,
    encode_restore_plan,
)
from pyhudi.format.metadata.rollback import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from pyhudi.format.metadata.savepoint import SavepointMetadata, decode_savepoint_metadata, encode_savepoint_metadata
from pyhudi.format.metadata.written_files import decode_written_files
from pyhudi.format.safe_paths import data_path_problem
from pyhudi.format.schema.internal_schema import parse_schema_history, version_at
from pyhudi.format.schema.stored_names import stored_names
from pyhudi.format.timeline.archived_log import parse_archive_file
from pyhudi.format.timeline.archived_log_writing import content_of, parse_archived_states
from pyhudi.format.timeline.instant import (
    InstantTime,
    collapse,
    format_instant_time,
    instant_file_name,
    instant_time_from_user,
    next_instant_time,
    parse_instant_file_name,
    parse_instant_time,
)
from pyhudi.format.timeline.lsm_history import parse_history_file, parse_manifest, parse_version_file
from pyhudi.format.timeline.table_version import V6, V8, V9
from pyhudi.table.written_files import written_files_of

_LAYOUTS = (V6, V8, V9)


def _names(path: str) -> str:
    return path.rpartition("/")[2]


def _instant_names() -> tuple[bytes, ...]:
    return tuple(sorted({_names(path).encode() for path in golden.files() if "/.hoodie/" in path}))[::7]


def _check_instant_name(data: bytes) -> None:
    name = text_of(data)
    for version in _LAYOUTS:
        try:
            instant = parse_instant_file_name(name, version)
        except CorruptDataError as error:
            require(str(error.context["path"]).endswith(name), "the error does not name the file")
            continue
        if instant is not None:
            require(instant_file_name(instant, version) == name, f"{instant} has another name")
            require(collapse([instant]) == (instant,), "one instant collapses to something else")


def _check_instant_time(data: bytes) -> None:
    text = text_of(data)
    moment = parse_instant_time(text, UTC)
    if moment is not None and len(text) == 17:
        require(format_instant_time(moment, UTC) == text, "the moment has another instant time")
    asked = instant_time_from_user(text, UTC)
    require(asked.isdigit() and asked.isascii(), "an instant time from a user is not made of digits")
    require(next_instant_time(asked) > asked, "the next instant time is not later")


def _check_next_time(data: bytes) -> None:
    text = InstantTime(text_of(data))
    require(next_instant_time(text) > text, "the next instant time is not later")


def _metadata(*suffixes: str) -> tuple[bytes, ...]:
    return golden.chosen(lambda path: "/.hoodie/" in path and _names(path).partition(".")[2] in suffixes)


def _commits() -> tuple[bytes, ...]:
    return _metadata("commit", "deltacommit", "replacecommit", "inflight", "deltacommit.inflight")


def _known(metadata: CommitMetadata) -> CommitMetadata:
    """Without what encoding leaves out."""
    stats = {
        path: tuple(replace(stat, unknown={}) for stat in found) for path, found in metadata.stats_by_partition.items()
    }
    return replace(metadata, stats_by_partition=stats, unknown={})


def _bootstrap_notes() -> tuple[bytes, ...]:
    sources = (SourceIdentity("city=a/f.parquet", 12, 1_790_000_000_000, "id-0"), SourceIdentity("b", 0, 0))
    stat = WriteStat(file_id="id-0", path="city=a/id-0_0-0-0_00000000000001.parquet", partition_path="city=a")
    return (encode_note(3, sources, (stat,)), encode_note(0, (), ()))


def _check_bootstrap_note(data: bytes) -> None:
    note = decode_note(data, path=PATH)
    again = decode_note(encode_note(note.task, note.sources, note.stats), path=PATH)
    require((again.task, again.sources) == (note.task, note.sources), "another value after encoding and decoding")
    require(
        [stat.path for stat in again.stats] == [stat.path for stat in note.stats],
        "other files after encoding and decoding",
    )


def _check_commit(data: bytes) -> None:
    known = _known(decode_commit_metadata(data, path=PATH))
    metadata_of = known.file_groups(), known.paths()
    version = V9 if data.startswith(MAGIC) else V6
    again = decode_commit_metadata(encode_commit_metadata(known, version), path=PATH)
    if version is V6:
        # Its JSON has fewer fields than Avro, and the fields of logs only where a log version is.
        again = _known(again)
        require(
            (again.operation, again.extra, again.compacted) == (known.operation, known.extra, known.compacted),
            "changed",
        )
        require(again.file_groups() == metadata_of[0], "other file groups after encoding and decoding")
        require(again.paths() == metadata_of[1], "other paths after encoding and decoding")
        require(again.replaced_file_ids == known.replaced_file_ids, "other replaced groups after encoding and decoding")
    else:
        require(again == known, "another value after encoding and decoding")


def _check_written_files(data: bytes) -> None:
    found = decode_written_files(data, path=PATH)
    # It takes what the whole of the metadata would be refused for, but where both decode they agree.
    with suppress(CorruptDataError, UnsafePathError):
        whole = decode_commit_metadata(data, path=PATH)
        require(found == written_files_of(whole), "other files than the whole of the metadata has")


def _check_replace(data: bytes) -> None:
    metadata = decode_requested_replace_metadata(data, path=PATH)
    # A foreign schema may have wider numbers; what we write are those that we were given or made.
    if metadata.clustered is None and abs(metadata.version or 0) < 1 << 31:
        again = decode_requested_replace_metadata(encode_requested_replace_metadata(metadata), path=PATH)
        require(again == replace(metadata, unknown={}), "another value after encoding and decoding")


def _check_clean_plan(data: bytes) -> None:
    _check_cleaned(decode_clean_plan(data, path=PATH).paths)


def _check_clean(data: bytes) -> None:
    _check_cleaned(decode_clean_metadata(data, path=PATH).paths)


def _check_savepoint(data: bytes) -> None:
    metadata = decode_savepoint_metadata(data, path=PATH)
    _check_cleaned(metadata.paths)
    again = decode_savepoint_metadata(encode_savepoint_metadata(metadata), path=PATH)
    require(again == metadata, "another value after encoding and decoding")


def _check_restore_plan(data: bytes) -> None:
    plan = decode_restore_plan(data, path=PATH)
    require(decode_restore_plan(encode_restore_plan(plan), path=PATH) == plan, "another value after a round")


def _check_restore(data: bytes) -> None:
    require(all(isinstance(one, str) for one in decode_restored_instants(data, path=PATH)), "a time that is no text")


def _savepoints() -> tuple[bytes, ...]:
    files = {"p=1": ("a-0_1-2-3_20260131235959999.parquet", ".a-0_20260131235959999.log.1_1-0-1"), "": ()}
    made = (
        SavepointMetadata(created_by="u", created_ms=1, comment="c", name=name, files=files) for name in (None, "n")
    )
    return tuple(map(encode_savepoint_metadata, made))


def _restores() -> tuple[bytes, ...]:
    rollback = RollbackMetadata(start_time="2", time_taken_ms=1, instant_time="1", action="commit")
    made = RestoreMetadata(start_time="3", time_taken_ms=1, instants=(("1", "commit"),), rollbacks=(rollback,))
    return (encode_restore_metadata(made),)


def _restore_plans() -> tuple[bytes, ...]:
    instants = (("20260131235959999", "deltacommit"), ("20260131235959998", "replacecommit"))
    made = (
        RestorePlan(to=to, instants=instants, is_ours=ours) for to, ours in (("20260131000000000", True), (None, False))
    )
    return tuple(map(encode_restore_plan, made))


def _check_cleaned(paths: frozenset[str]) -> None:
    for path in paths:
        require(data_path_problem(path) is None, f"a cleaned file outside of the data: {path!r}")


def _check_rollback_plan(data: bytes) -> None:
    plan = decode_rollback_plan(data, path=PATH)
    known: RollbackPlan = replace(
        plan, unknown={}, requests=tuple(replace(request, unknown={}) for request in plan.requests)
    )
    require(decode_rollback_plan(encode_rollback_plan(known), path=PATH) == known, "another value after encoding")


def _check_rollback(data: bytes) -> None:
    metadata = decode_rollback_metadata(data, path=PATH)
    partitions: dict[str, RollbackPartition] = {
        path: replace(partition, unknown={}) for path, partition in metadata.partitions.items()
    }
    known: RollbackMetadata = replace(metadata, unknown={}, partitions=partitions)
    require(
        decode_rollback_metadata(encode_rollback_metadata(known), path=PATH) == known, "another value after encoding"
    )


def _check_compaction(data: bytes) -> None:
    plan = decode_compaction_plan(data, path=PATH)
    known: CompactionPlan = replace(
        plan, unknown={}, operations=tuple(replace(operation, unknown={}) for operation in plan.operations)
    )
    has_nan = any(math.isnan(value) for operation in known.operations for value in operation.metrics.values())
    if not has_nan and abs(known.version or 0) < 1 << 31:
        require(
            decode_compaction_plan(encode_compaction_plan(known), path=PATH) == known, "another value after encoding"
        )


def _plan_seeds() -> tuple[bytes, ...]:
    folder = golden.GOLDEN / "compaction_plans"
    return (*(path.read_bytes() for path in sorted(folder.glob("*.avro"))), *_metadata("compaction.requested"))


def _container_seeds() -> tuple[bytes, ...]:
    made: list[tuple[Any, bytes]] = [
        (record("T", a="long"), b"\2"),
        (record("T", a={"type": "array", "items": "long"}), b"\4\2\2\0"),
        (doubling("null", 20), b""),
        (record("T", a={"type": "map", "values": doubling("null", 6)}), b"\2\2k\0"),
    ]
    import json

    return (
        *(container(json.dumps(schema).encode(), content) for schema, content in made),
        *_metadata("clean", "clean.requested", "savepoint", "restore", "rollback", "rollback.requested"),
    )


def _check_container(data: bytes) -> None:
    require(isinstance(decode_container(data, path=PATH).name, str), "a record without a name")


def _schema_histories() -> tuple[bytes, ...]:
    columns = [
        {"id": 0, "name": "a", "optional": True, "type": "long"},
        {"id": 1, "name": "l", "type": {"type": "array", "element_id": 4, "element": "string"}},
        {"id": 2, "name": "m", "type": {"type": "map", "key_id": 5, "key": "string", "value_id": 6, "value": "int"}},
        {"id": 3, "name": "s", "type": {"type": "record", "fields": [{"id": 7, "name": "b", "type": "int"}]}},
    ]
    versions = [{"version_id": number, "type": "record", "fields": columns} for number in (20260131235959999, 0)]
    return (json.dumps({"schemas": versions}).encode(), b'{"schemas":[]}')


def _check_schema_history(data: bytes) -> None:
    versions = parse_schema_history(data, path=PATH)
    require(list(versions) == sorted(versions, key=lambda one: one.version), "versions out of order")
    for one in versions:
        require(stored_names(one, one) is None, "renamed by itself")
        require(0 <= version_at(versions, str(one.version).zfill(17)) < len(versions), "a version that is not there")


def _check_manifest(data: bytes) -> None:
    for file in parse_manifest(data, path=PATH):
        require(type(file.size) is int and file.size >= 0, "a size that is none")
        require("/" not in file.name, "a history file outside of its folder")


def _check_version(data: bytes) -> None:
    require(parse_version_file(data, path=PATH) >= 0, "a negative version")


def _check_history(data: bytes) -> None:
    entries = parse_history_file(data, path=PATH)
    for entry in entries:
        require(isinstance(entry.instant_time, str), "an instant without a time")
    times = parse_history_file(data, path=PATH, metadata=False)
    require([entry.instant_time for entry in times] == [entry.instant_time for entry in entries], "other instants")


def _check_archive(data: bytes) -> None:
    # First what an upgrade reads of it, because it decodes all members.
    with suppress(HudiError):
        for state in parse_archived_states(data, path=PATH):
            content_of(state)
    for instant in parse_archive_file(data, path=PATH):
        require(all(isinstance(time, str) for time in instant.rolled_back), "a time that is no text")
    for instant in parse_archive_file(data, path=PATH, details=True):
        _check_cleaned(instant.cleaned)
        if instant.metadata is not None:
            require(all(isinstance(path, str) for path in instant.metadata.paths()), "a file of no name")


def _archives() -> tuple[bytes, ...]:
    """Files of the archive of version 6, and one cut down to a block of a few instants."""
    import json

    from tests.fuzz.hostile_avro import block

    from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block

    rollback = record("R", commitsRollback={"type": "array", "items": "string"})
    kinds: tuple[list[Any], ...] = (
        ["null", rollback],
        ["null", record("R", commitsRollback="long")],
        ["null", record("R", commitsRollback="string")],
    )
    kinds = (*kinds, ["null", record("R", at={"type": "long", "logicalType": "timestamp-micros"})])
    bodies = (b"\2\2\x06001\0", b"\2\x06", b"\2\x06001", b"\2" + b"\xfe" * 8 + b"\x7f")
    made = []
    for kind, body in zip(kinds, bodies, strict=True):
        schema = json.dumps(
            record("A", commitTime="string", actionType="string", actionState="string", hoodieRollbackMetadata=kind)
        )
        datum = b"\x06001\x10rollback\x12COMPLETED" + body
        made.append(
            b"".join(
                encode_block(
                    BlockType.AVRO_DATA, {BlockHeader.INSTANT_TIME: "1", BlockHeader.SCHEMA: schema}, block([datum])
                )
            )
        )
    return (*made, *golden.chosen(lambda path: ".commits_.archive" in path))


TARGETS = (
    Target(name="instant-name", seeds=_instant_names, mutate=mutations.text, check=_check_instant_name),
    Target(
        name="instant-time",
        seeds=lambda: (b"20260131235959999", b"20260131235959", b"2026-01-31 23:59:59.999", b"2026-01-31", b"0" * 17),
        mutate=mutations.text,
        check=_check_instant_time,
        names_path=False,
    ),
    Target(
        name="next-instant-time",
        seeds=lambda: (b"20260131235959999", b"20260131235959", b"00000000000000001", b"99991231235959999", b"010"),
        mutate=mutations.text,
        check=_check_next_time,
        names_path=False,
    ),
    Target(
        name="commit",
        seeds=_commits,
        mutate=mutations.several(damaged_container, mutations.json_text, mutations.binary),
        check=_check_commit,
    ),
    Target(
        name="bootstrap-note",
        seeds=_bootstrap_notes,
        mutate=mutations.several(mutations.json_text, mutations.binary),
        check=_check_bootstrap_note,
    ),
    Target(
        name="written-files",
        seeds=_commits,
        mutate=mutations.several(damaged_container, mutations.json_text, mutations.binary),
        check=_check_written_files,
    ),
    Target(
        name="replace-request",
        seeds=lambda: _metadata("replacecommit.requested", "clustering.requested"),
        mutate=damaged_container,
        check=_check_replace,
    ),
    Target(
        name="rollback-plan",
        seeds=lambda: _metadata("rollback.requested"),
        mutate=damaged_container,
        check=_check_rollback_plan,
    ),
    Target(name="rollback", seeds=lambda: _metadata("rollback"), mutate=damaged_container, check=_check_rollback),
    Target(
        name="clean-plan",
        seeds=lambda: _metadata("clean.requested"),
        mutate=damaged_container,
        check=_check_clean_plan,
    ),
    Target(name="clean", seeds=lambda: _metadata("clean"), mutate=damaged_container, check=_check_clean),
    Target(name="savepoint", seeds=_savepoints, mutate=damaged_container, check=_check_savepoint),
    Target(name="restore-plan", seeds=_restore_plans, mutate=damaged_container, check=_check_restore_plan),
    Target(name="restore", seeds=_restores, mutate=damaged_container, check=_check_restore),
    Target(name="compaction-plan", seeds=_plan_seeds, mutate=damaged_container, check=_check_compaction),
    Target(name="avro-container", seeds=_container_seeds, mutate=damaged_container, check=_check_container),
    Target(
        name="history-version",
        seeds=lambda: (b"1", b"12\n", b"999999999999999999"),
        mutate=mutations.text,
        check=_check_version,
    ),
    Target(
        name="history-manifest",
        seeds=lambda: (
            b'{"files":[{"fileName":"001_003_0.parquet","fileLen":12},{"fileName":"004_009_1.parquet","fileLen":9}]}',
            *golden.chosen(lambda path: "/history/manifest" in path),
        ),
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_manifest,
    ),
    Target(
        name="schema-history",
        seeds=_schema_histories,
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_schema_history,
    ),
    Target(
        name="history-file",
        seeds=lambda: golden.chosen(lambda path: "/history/" in path and path.endswith(".parquet")),
        mutate=mutations.binary,
        check=_check_history,
        arrow_allocates=True,
    ),
    Target(name="archive-log", seeds=_archives, mutate=mutations.several(mutations.binary), check=_check_archive),
)
