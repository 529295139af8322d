"""Procedures that look into log files: their blocks, and the records in them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import InvalidRequestError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.io.log.records import LogContent, rows_of_block
from pyhudi.io.log.scan import open_log
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import read_merged
from pyhudi.read.scan import plan_table_scan
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE_OR_PATH,
    Rows,
    flag,
    needed,
    number,
    procedure,
)
from pyhudi.sql.procedures.globs import glob_pattern
from pyhudi.storage.paths import local_path
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState

_TYPES = {BlockType.COMMAND: "COMMAND_BLOCK", BlockType.DELETE: "DELETE_BLOCK", BlockType.CORRUPT: "CORRUPT_BLOCK"}
"""JVM Hudi's names of blocks that have no rows; others end with `_BLOCK`, too."""


def _matching_logs(table: TableState, pattern: str) -> list[str]:
    """The paths of the logs that match, in the order of their writes. None lies outside the table's folder."""
    base = str(local_path(table.storage.uri) or table.storage.uri).rstrip("/")
    plain = str(local_path(pattern) or pattern) if "://" in pattern or pattern.startswith("file:") else pattern
    if plain.startswith("/") or "://" in plain:
        if not plain.startswith(f"{base}/"):
            raise InvalidRequestError(
                "log_file_path_pattern must lie in the table's folder", pattern=pattern, path=table.storage.uri
            )
        plain = plain[len(base) + 1 :]
    wanted = glob_pattern(plain)
    found: list[tuple[LogFileName, str]] = []
    for info in list_data_files(table.storage):
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and wanted.fullmatch(info.path):
            found.append((name, info.path))
    return [path for _, path in sorted(found, key=lambda named: (named[0].instant_time, named[0].version, named[1]))]


@procedure(
    *TABLE_OR_PATH,
    needed("log_file_path_pattern"),
    number("limit", 10),
    FILTER,
    answer="instant_time string, record_count int, block_type string, header_metadata string, footer_metadata string",
    limits_rows=True,
)
def show_logfile_metadata(context: CallContext, given: Given) -> Rows:
    """The blocks of the log files that match a pattern: write, type, records and headers.

    One row per block, but one for all blocks of the same write, type and headers that follow each other.
    """
    table = context.table(given).handle.state
    for path in _matching_logs(table, given.text("log_file_path_pattern")):
        with open_log(table.storage, path) as reader:
            for block in reader.blocks():
                headers = {header.name: text for header, text in sorted(block.headers.items())}
                yield (
                    block.instant_time if block.kind is not BlockType.CORRUPT else "corrupt_block",
                    _count(LogContent(path, block, reader.content(block))),
                    _type(block),
                    json.dumps(headers, separators=(",", ":"), ensure_ascii=False),
                    "{}",
                )


def _type(block: LogBlock) -> str:
    return _TYPES.get(block.kind, f"{block.kind.name}_BLOCK")


def _count(content: LogContent) -> int:
    if content.block.kind is BlockType.DELETE:
        found = decode_delete_block(
            content.data, ordering_types=(), path=content.path, offset=content.block.content_offset
        )
        return len(found.record_keys)
    return sum(batch.num_rows for batch in rows_of_block(content))


@procedure(
    *TABLE_OR_PATH,
    needed("log_file_path_pattern"),
    flag("merge", False),
    number("limit", 10),
    FILTER,
    answer="records string",
    limits_rows=True,
)
def show_logfile_records(context: CallContext, given: Given) -> Rows:
    """The records in the log files that match a pattern, as JSON; with merge => true, the newest of each."""
    table = context.table(given).handle.state
    paths = _matching_logs(table, given.text("log_file_path_pattern"))
    if not paths:
        raise InvalidRequestError("there is no log file of this pattern", pattern=given.text("log_file_path_pattern"))
    batches = _merged(table, paths) if given.flag("merge") else _stored(table, paths)
    for batch in batches:
        for row in batch.to_pylist():
            yield (json.dumps(row, default=_plain, ensure_ascii=False),)


def _stored(table: TableState, paths: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_log(table.storage, path) as reader:
            for block in reader.blocks():
                yield from rows_of_block(LogContent(path, block, reader.content(block)))


def _merged(table: TableState, paths: list[str]) -> Iterator[pa.RecordBatch]:
    """The newest version of each record in these logs, as the table merges them."""
    merging = plan_table_scan(table, ReadConfig.from_options({})).merging
    groups: dict[FileGroupId, list[str]] = defaultdict(list)
    for path in paths:
        name = parse_data_file(path.rpartition("/")[2])
        assert name is not None
        groups[FileGroupId(path.rpartition("/")[0], name.file_id)].append(path)
    for logs in groups.values():
        yield from read_merged(table.storage, SliceFiles(None, tuple(logs)), merging, merging.schema.names)


def _plain(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
