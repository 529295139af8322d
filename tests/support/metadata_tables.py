"""The metadata table of a table, read without the code under test: base HFiles and logs, merged by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tests.support.table_builder import TableBuilder

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.hfile.reader import HFile, read_hfile
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata_table.records import decode_metadata_records
from pyhudi.format.metadata_table.schema import FILES_COLUMN, KEY
from pyhudi.format.timeline.instant import Instant, InstantState
from pyhudi.io.log.scan import open_log
from pyhudi.metadata_table.folders import inner_version
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import load_timeline

FOLDER = ".hoodie/metadata"
WITH_METADATA_TABLE = {"hoodie.metadata.enable": "true"}

Listed = dict[str, dict[str, int]]
"""Sizes of files by partition path and name."""


def with_files(version: int, kind: Literal["cow", "mor"]) -> TableBuilder:
    """A table whose first write builds a metadata table."""
    return TableBuilder(version, kind, has_delete_flag=True, options=WITH_METADATA_TABLE)


def delta_commits(storage: Storage) -> list[str]:
    """The completed instants of the metadata table: its delta commits and compactions."""
    inner = load_timeline(storage, inner_version(load_table(storage).version))
    return [one.requested_time for one in inner.instants if one.state is InstantState.COMPLETED]


def files_known(storage: Storage) -> Listed:
    """What the partition `files` says, as a reader merges it: of valid delta commits only."""
    table = load_table(storage)
    valid, done = _valid(storage, table), {*delta_commits(storage)}
    files = storage.list_folder(f"{FOLDER}/files").files
    parsed = [(info, parse_data_file(info.name)) for info in files]
    bases = [
        (name.instant_time, info)
        for info, name in parsed
        if isinstance(name, BaseFileName) and name.instant_time in done
    ]
    logs = [(name, info) for info, name in parsed if isinstance(name, LogFileName)]
    newest, base = max(bases, key=lambda found: found[0])
    known: dict[str, dict[str, tuple[int, bool]]] = {}
    _merge(known, read_hfile(storage.read(base.path), path=base.path))
    completion: dict[str, str | None] = {one.requested_time: one.completion_time for one in _inner(storage, table)}
    if table.version.has_completion_times:
        logs = [(name, info) for name, info in logs if (completion.get(name.instant_time) or "") > newest]
        logs.sort(key=lambda log: completion[log[0].instant_time] or "")
    else:
        logs = [(name, info) for name, info in logs if name.instant_time >= newest]
        logs.sort(key=lambda log: (log[0].instant_time, log[0].version))
    blocks: list[tuple[str, HFile]] = []
    for _, info in logs:
        with open_log(storage, info.path) as log:
            for block in log.blocks():
                if block.kind is BlockType.COMMAND:
                    blocks = [one for one in blocks if one[0] != block.target_instant_time]
                if block.kind is BlockType.HFILE_DATA and block.instant_time in valid:
                    blocks.append((block.instant_time, read_hfile(log.content(block), path=info.path)))
    for _, hfile in blocks:
        _merge(known, hfile)
    partitions = {name for name, (_, deleted) in known.pop("__all_partitions__", {}).items() if not deleted}
    assert partitions >= {partition for partition, entries in known.items() if entries}
    return {
        partition: {name: size for name, (size, _) in sorted(known.get(partition, {}).items())}
        for partition in sorted(partitions)
        if known.get(partition)
    }


def files_committed(storage: Storage) -> Listed:
    """What the store lists of data files of completed writes, in the same form; no partitions without any."""
    table = load_table(storage)
    listed: Listed = {}
    for info in list_data_files(storage):
        partition, _, name = info.path.rpartition("/")
        parsed = parse_data_file(name)
        if parsed is None:
            continue
        if (
            (isinstance(parsed, LogFileName) and not table.version.has_completion_times)
            or table.timeline.is_committed(parsed.instant_time)
            or table.timeline.starts_after(parsed.instant_time)
        ):
            listed.setdefault(partition or ".", {})[name] = info.size
    return {partition: dict(sorted(files.items())) for partition, files in sorted(listed.items())}


def _inner(storage: Storage, table: TableState) -> tuple[Instant, ...]:
    return load_timeline(storage, inner_version(table.version)).instants


def _valid(storage: Storage, table: TableState) -> set[str]:
    completed = {one.requested_time for one in _inner(storage, table) if one.state is InstantState.COMPLETED}
    data = {one.requested_time for one in table.timeline.instants if one.state is InstantState.COMPLETED}
    first = table.timeline.first_time or ""
    return {time for time in completed if time in data or time.startswith("0" * 10) or time < first}


def _merge(known: dict[str, dict[str, tuple[int, bool]]], hfile: HFile) -> None:
    assert hfile.schema is not None
    records = decode_metadata_records(
        hfile.keys, hfile.values, FILES_COLUMN, avro_schema=hfile.schema, path="", offset=0
    )
    for key, entries in zip(records.column(KEY).to_pylist(), records.column(2).to_pylist(), strict=True):
        merged = known.setdefault(key, {})
        for name, entry in entries or []:
            _merge_entry(merged, name, entry)


def _merge_entry(merged: dict[str, tuple[int, bool]], name: str, entry: Mapping[str, object]) -> None:
    if entry["isDeleted"]:
        merged.pop(name, None)
    else:
        size = int(str(entry["size"]))
        merged[name] = (max(size, merged.get(name, (0, False))[0]), False)
