"""The records of files: each is a row, or fails alone, and has a place in its file."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from pyhudi.engine.local import as_table
from pyhudi.storage.protocol import FileInfo
from pyhudi.streamer.sources.apart import (
    Apart,
    FailedRecord,
    Origin,
    UnreadableError,
    numbered,
    read_apart,
    with_numbers,
)
from pyhudi.streamer.sources.avro_rows import joined_rows
from pyhudi.streamer.sources.file_rows import Reading, rows_of_files
from pyhudi.streamer.sources.json_rows import joined, rows_of_json

_JSON: Final = "json"
_CSV: Final = "csv"
_FAILURE: Final = "JSON_ROW_DESERIALIZATION_FAILURE"


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of a file, whose first one has the number `begin`. `lines`: the text of each, if it has one."""

    file: FileInfo
    begin: int
    places: Sequence[int]
    lines: Sequence[bytes] | None = field(default=None, repr=False)


def rows_apart_of_files(kind: str, files: Sequence[FileInfo], reading: Reading, *, fits: bool) -> Apart:
    """The rows of files, apart from lines of JSON that cannot be read. What other files have cannot fail alone.

    Raises as `rows_of_files`. Everything is in memory. Cost: as `rows_of_files`.
    """
    tables: list[pa.Table] = []
    failed: list[FailedRecord] = []
    records: list[_Records] = []
    begin = 0
    for file in files:
        if kind == _JSON:
            found = _lines(file, begin, reading)
            parts, bad = _rows_of_lines(found, reading, fits=fits)
            tables += parts
            failed += bad
        else:
            rows = as_table(rows_of_files(kind, [file], reading))
            found = _Records(file, begin, range(1, rows.num_rows + 1))
            tables.append(with_numbers(rows, begin))
        records.append(found)
        begin += len(found.places)
    rows = joined(tables, None) if kind in (_JSON, _CSV) else joined_rows(tables, reading.stored)
    return Apart(rows=rows, failed=tuple(failed), origins=functools.partial(_origins, reading.storage.uri, records))


def _lines(file: FileInfo, begin: int, reading: Reading) -> _Records:
    """The lines of a file that are not blank, by their numbers from 1 on."""
    with closing(reading.storage.open_input(file.path)) as source:
        lines = [(place, line) for place, line in enumerate(source.read().split(b"\n"), 1) if line.strip()]
    return _Records(file, begin, [place for place, _ in lines], [line for _, line in lines])


def _rows_of_lines(records: _Records, reading: Reading, *, fits: bool) -> tuple[list[pa.Table], list[FailedRecord]]:
    begin, lines = records.begin, records.lines or ()

    def read(start: int, stop: int) -> pa.Table:
        values = pa.array(lines[start:stop], pa.binary())
        if isinstance(values, pa.ChunkedArray):
            raise UnreadableError(None, "it is longer than 2 GiB")
        return numbered(
            lambda: rows_of_json(values, reading.wanted, reading.stored, fits=fits), begin + start, stop - start
        )

    parts, failed = read_apart(len(lines), read, _FAILURE)
    return parts, [FailedRecord(begin + one.number, one.kind, one.reason) for one in failed]


def _origins(uri: str, records: Sequence[_Records], numbers: Sequence[int]) -> list[Origin]:
    """Where records are. A file that is written again is another one, so its time belongs to their names."""
    begins = [part.begin for part in records]
    found = []
    for number in numbers:
        part = records[bisect.bisect_right(begins, number) - 1]
        place = number - part.begin
        path, position = f"{uri}/{part.file.path}", str(part.places[place])
        payload = None if part.lines is None else part.lines[place]
        found.append(
            Origin(id=f"{path}@{part.file.modified_ms}|{position}", source=path, position=position, payload=payload)
        )
    return found
