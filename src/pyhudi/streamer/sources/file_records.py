"""The records of files: each is a row, or fails alone, and has a place in its file. A file may fail as a whole."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from pyhudi.engine.local import as_table
from pyhudi.errors import SchemaMismatchError, SourceError
from pyhudi.format.schema.evolution import Missing, write_schema
from pyhudi.storage.memory import MemoryStorage
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
from pyhudi.streamer.sources.file_rows import Reading, csv_rows, opened_text, rows_of_files
from pyhudi.streamer.sources.json_rows import joined, rows_of_json

_JSON: Final = "json"
_CSV: Final = "csv"
_FAILURE: Final = "JSON_ROW_DESERIALIZATION_FAILURE"
_BAD_ROW: Final = "CSV_ROW_DESERIALIZATION_FAILURE"
_BAD_FILE: Final = "FILE_DESERIALIZATION_FAILURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """The records of a file, whose first one has the number `begin`.

    `places`: the place of each in the file; None for a file that cannot be read, which is one record. `text`: that of
    the record with a place among these, None if it has none. `tables`: the rows of those that can be read.
    """

    file: FileInfo
    begin: int
    places: Sequence[int | None]
    tables: Sequence[pa.Table]
    failed: Sequence[FailedRecord] = ()
    text: Callable[[int], bytes | None] = field(default=lambda _: None, repr=False)


class _Read(Protocol):
    """Reads the records of a file, the first of which gets a number."""

    def __call__(self, file: FileInfo, begin: int, reading: Reading, *, fits: bool) -> _Records:
        """Raises `SourceError` and `SchemaMismatchError` for a file that cannot be read."""
        ...


def rows_apart_of_files(kind: str, files: Sequence[FileInfo], reading: Reading, *, fits: bool) -> Apart:
    """The rows of files, apart from what cannot be read: lines of JSON, rows of CSV, and otherwise whole files.

    With `fits` also files whose columns do not fit those of the table cannot be read. Raises `SchemaMismatchError`
    where files do not fit together, and what the store raises. Everything is in memory. Cost: as `rows_of_files`, and
    a second read of each file that fails.
    """
    read = _READERS.get(kind, functools.partial(_typed, kind))
    records: list[_Records] = []
    for file in files:
        begin = records[-1].begin + len(records[-1].places) if records else 0
        records.append(_file(file, begin, reading, fits=fits, read=read))
    return Apart(
        rows=joined_records(kind, [table for part in records for table in part.tables], reading.stored),
        failed=tuple(failed for part in records for failed in part.failed),
        origins=functools.partial(_origins, reading.storage.uri, records),
    )


def joined_records(kind: str, tables: Sequence[pa.Table], stored: pa.Schema | None) -> pa.Table:
    """The records of files of one kind, with the columns of all. Raises `SchemaMismatchError`."""
    return joined(list(tables), None) if kind in _READERS else joined_rows(tables, stored)


def _file(file: FileInfo, begin: int, reading: Reading, *, fits: bool, read: _Read) -> _Records:
    """The records of a file. One that fails is read again from memory, so that a store that fails is no damage."""
    try:
        return read(file, begin, reading, fits=fits)
    except (SourceError, SchemaMismatchError):
        data = reading.storage.read(file.path)
    if len(data) != file.size:
        raise SourceError(
            "a file of the source changes while it is read: move files into the folder when they are complete",
            path=f"{reading.storage.uri}/{file.path}",
        )
    copy = MemoryStorage()
    copy.put(file.path, data)
    try:
        return read(file, begin, replace(reading, storage=copy), fits=fits)
    except (SourceError, SchemaMismatchError) as error:
        failed = FailedRecord(begin, _BAD_FILE, error.message)
        return _Records(file=file, begin=begin, places=[None], tables=(), failed=[failed])


def _typed(kind: str, file: FileInfo, begin: int, reading: Reading, *, fits: bool) -> _Records:
    rows = as_table(rows_of_files(kind, [file], reading))
    if fits and reading.stored is not None:
        write_schema(reading.stored, rows.schema, missing=Missing.NULL)
    places = range(1, rows.num_rows + 1)
    return _Records(file=file, begin=begin, places=places, tables=[with_numbers(rows, begin)])


def _csv(file: FileInfo, begin: int, reading: Reading, *, fits: bool) -> _Records:
    """The rows of a file, and then those with another number of values, by their places in the file."""
    del fits  # columns that the table has are read in its types
    header = 1 if reading.options.csv_header else 0
    bad: dict[int, Any] = {}

    def pass_over(row: Any) -> str:
        bad[row.number - header] = row
        return "skip"

    rows = with_numbers(csv_rows(file, reading, pass_over), begin)
    places = np.delete(np.arange(1, rows.num_rows + len(bad) + 1), np.array(list(bad), int) - 1)
    failed = [
        FailedRecord(
            begin + rows.num_rows + number,
            _BAD_ROW,
            f"it has {row.actual_columns} values, and there are {row.expected_columns} columns",
        )
        for number, row in enumerate(bad.values())
    ]
    return _Records(
        file=file,
        begin=begin,
        places=[*places.tolist(), *bad],
        tables=[rows],
        failed=failed,
        text=lambda place: bad[place].text.encode() if place in bad else None,
    )


def _json(file: FileInfo, begin: int, reading: Reading, *, fits: bool) -> _Records:
    """The lines of a file that are not blank, by their numbers from 1 on."""
    with opened_text(reading.storage, file.path) as source:
        lines = {place: line for place, line in enumerate(source.read().split(b"\n"), 1) if line.strip()}
    texts = list(lines.values())

    def read(start: int, stop: int) -> pa.Table:
        values = pa.array(texts[start:stop], pa.binary())
        if isinstance(values, pa.ChunkedArray):
            raise UnreadableError(None, "it is longer than 2 GiB")
        return numbered(
            lambda: rows_of_json(values, reading.wanted, reading.stored, fits=fits), begin + start, stop - start
        )

    tables, bad = read_apart(len(texts), read, _FAILURE)
    failed = [replace(record, number=begin + record.number) for record in bad]
    return _Records(file=file, begin=begin, places=list(lines), tables=tables, failed=failed, text=lines.get)


_READERS: Final[Mapping[str, _Read]] = {_JSON: _json, _CSV: _csv}


def _origins(uri: str, records: Sequence[_Records], numbers: Sequence[int]) -> list[Origin]:
    """Where records are. A file that is written again is another one, so its time belongs to their names."""
    begins = [part.begin for part in records]
    found = []
    for number in numbers:
        part = records[bisect.bisect_right(begins, number) - 1]
        path, place = f"{uri}/{part.file.path}", part.places[number - part.begin]
        position = None if place is None else str(place)
        payload = None if place is None else part.text(place)
        found.append(
            Origin(
                id=f"{path}@{part.file.modified_ms}" + ("" if position is None else f"|{position}"),
                source=path,
                position=position,
                payload=payload,
            )
        )
    return found
