"""The statistics that a metadata table has, merged by hand, and those that the rows of its files have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.metadata_tables import FOLDER, _inner, _valid

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.metadata_table.records import decode_metadata_records
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN
from pyhudi.io.log.scan import open_log
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

Payload = dict[str, Any]


def statistics_known(storage: Storage, partition: str) -> dict[str, list[Payload]]:
    """The payloads by key, oldest first: those that readers unite; a tight one forgets those before it."""
    known: dict[str, list[Payload]] = {}
    for key, payload in _events(storage, partition):
        if payload is None:
            known.pop(key, None)
        elif partition == "column_stats" or payload.get("isTightBound"):
            known[key] = [payload]
        else:
            known.setdefault(key, []).append(payload)
    return known


def _events(storage: Storage, partition: str) -> Iterator[tuple[str, Payload | None]]:
    table = load_table(storage)
    valid = _valid(storage, table)
    parsed = [(parse_data_file(info.name), info) for info in storage.list_folder(f"{FOLDER}/{partition}").files]
    completion: dict[str, str] = {
        one.requested_time: one.completion_time or one.requested_time for one in _inner(storage, table)
    }
    of_version_6 = not table.version.has_completion_times
    for file_id in sorted({name.file_id for name, _ in parsed if name is not None}):
        bases = [(name, info) for name, info in parsed if isinstance(name, BaseFileName) and name.file_id == file_id]
        newest = ""
        if bases:
            base, info = max(bases, key=lambda found: found[0].instant_time)
            newest = base.instant_time
            yield from _of_hfile(storage.read(info.path))
        logs = [(name, info) for name, info in parsed if isinstance(name, LogFileName) and name.file_id == file_id]
        if of_version_6:
            newest = newest or max(name.instant_time for name, _ in logs)
            logs = sorted((log for log in logs if log[0].instant_time == newest), key=lambda log: log[0].version)
        else:
            later = [log for log in logs if completion.get(log[0].instant_time, "") > newest]
            logs = sorted(later, key=lambda log: (completion[log[0].instant_time], log[0].version))
        for _, info in logs:
            with open_log(storage, info.path) as log:
                blocks = [block for block in log.blocks() if block.instant_time in valid]
                for block in blocks:
                    if block.kind is BlockType.HFILE_DATA:
                        yield from _of_hfile(log.content(block))
                    elif block.kind is BlockType.DELETE:
                        deleted = decode_delete_block(log.content(block), (), path=info.path, offset=0)
                        yield from ((key, None) for key in deleted.record_keys.to_pylist())


def _of_hfile(data: Any) -> Iterator[tuple[str, Payload | None]]:
    hfile = read_hfile(data, path="")
    assert hfile.schema is not None
    records = decode_metadata_records(
        hfile.keys, hfile.values, COLUMN_STATS_COLUMN, avro_schema=hfile.schema, path="", offset=0
    )
    yield from zip(records.column(0).to_pylist(), records.column(2).to_pylist(), strict=True)


def bound(wrapped: Any) -> Any:
    """The value in a wrapper; None without one."""
    return None if wrapped is None else next((one["value"] for one in wrapped.values() if one is not None), None)
