"""The entries of a record index, read without the code under test: base HFiles and logs, merged by hand."""

from __future__ import annotations

from collections import defaultdict

from tests.support.metadata_tables import FOLDER
from tests.support.tables import open_table

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.hfile.reader import HFile, read_hfile
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.metadata_table.locations import locations_of
from pyhudi.format.metadata_table.records import decode_metadata_records
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN
from pyhudi.format.schema.meta_columns import FILE_NAME, PARTITION_PATH, RECORD_KEY
from pyhudi.format.timeline.instant import InstantState
from pyhudi.io.log.scan import open_log
from pyhudi.metadata_table.folders import inner_version
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import load_timeline

Entries = dict[str, tuple[str, str]]
"""Partition path and file id by record key."""


def entries_of_index(storage: Storage) -> Entries:
    """What readers of the record index find: of delta commits that count, in the order in which they were completed."""
    table = load_table(storage)
    assert "record_index" in table.config.metadata_partitions
    inner = load_timeline(storage, inner_version(table.version))
    done = {one.requested_time for one in table.timeline.instants if one.state is InstantState.COMPLETED}
    counting: dict[str, str] = {
        one.requested_time: one.completion_time or one.requested_time
        for one in inner.instants
        if one.state is InstantState.COMPLETED
        and (
            one.requested_time in done
            or one.requested_time.startswith("0" * 10)
            or table.timeline.starts_after(one.requested_time)
        )
    }
    bases: dict[str, tuple[str, FileInfo]] = {}
    logs: dict[str, list[tuple[str, int, str, FileInfo]]] = defaultdict(list)
    for info in storage.list_folder(f"{FOLDER}/record_index").files:
        name = parse_data_file(info.name)
        if isinstance(name, BaseFileName) and name.instant_time in counting:
            bases[name.file_id] = max(
                bases.get(name.file_id, ("", info)), (name.instant_time, info), key=lambda one: one[0]
            )
        if isinstance(name, LogFileName):
            logs[name.file_id].append((counting.get(name.instant_time, "~"), name.version, name.instant_time, info))
    entries: Entries = {}
    for file_id, found in logs.items():
        group: Entries = {}
        base_time = bases[file_id][0] if file_id in bases else ""
        if file_id in bases:
            _add(group, read_hfile(storage.read(bases[file_id][1].path), path=file_id))
        for completed, _, instant_time, info in sorted(found, key=lambda one: one[:3]):
            if completed < base_time:
                continue
            with open_log(storage, info.path) as log:
                for block in log.blocks():
                    if block.instant_time not in counting or instant_time not in counting:
                        continue
                    if block.kind is BlockType.HFILE_DATA:
                        _add(group, read_hfile(log.content(block), path=info.path))
                    elif block.kind is BlockType.DELETE:
                        deletes = decode_delete_block(log.content(block), [], path=info.path, offset=0)
                        for key in deletes.record_keys.to_pylist():
                            group.pop(key, None)
        assert not entries.keys() & group.keys()
        entries |= group
    return entries


def _add(group: Entries, hfile: HFile) -> None:
    assert hfile.schema is not None
    records = decode_metadata_records(
        hfile.keys, hfile.values, RECORD_INDEX_COLUMN, avro_schema=hfile.schema, path="", offset=0
    )
    if records.num_rows:
        partitions, ids = locations_of(records.column(2), path="")
        places = zip(partitions.to_pylist(), ids.to_pylist(), strict=True)
        group.update(zip(records.column(0).to_pylist(), places, strict=True))


def places_of_records(storage: Storage) -> Entries:
    """Where the records of a table are, by the rows that a scan gives: what the entries must say."""
    scan = open_table(storage).scan([RECORD_KEY, PARTITION_PATH, FILE_NAME]).to_arrow()
    rows = [tuple(row.values()) for row in scan.to_pylist()]
    assert len({key for key, _, _ in rows}) == len(rows)
    return {key: (path, name.partition("_")[0]) for key, path, name in rows}
