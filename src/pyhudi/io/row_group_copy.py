"""Joining base files by copying their row groups as they are, without decoding them.

The only column that is written anew is the one with the name of the file, which is the same in all rows. Files can be
joined if their schemas, their writers and what their footers say beside Hudi's own values are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterType,
    parse_bloom_filter,
    widest_range,
)
from pyhudi.format.bloom_union import BloomUnion
from pyhudi.format.parquet.footer import MAGIC, TAIL, Chunk, Footer, footer_size, parse_footer
from pyhudi.format.schema.meta_columns import FILE_NAME
from pyhudi.io.key_footer import BloomSettings
from pyhudi.storage.protocol import Storage

_COPY_BYTES: Final = 8 * 1024 * 1024
_KEY_VALUES: Final = frozenset({BLOOM_FILTER_KEY, BLOOM_FILTER_KIND_KEY, MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY})


class NotAlikeError(Exception):
    """The files cannot be joined without decoding them; the message says why."""


class FileJoin:
    """Base files whose row groups one file can have."""

    def __init__(self, storage: Storage, paths: Sequence[str], bloom: BloomSettings | None) -> None:
        """Look at the footers. `bloom`: of the filter that the file is to have; None: of none.

        Cost: two ranged reads per file.

        Raises:
            NotAlikeError: the files cannot be joined without decoding them.
            CorruptDataError: the footer of a file does not parse; names it.
        """
        self._storage, self._paths = storage, tuple(paths)
        self._kind: bytes | None = None
        self._others: dict[str, str] = {}
        keys = _Keys(bloom)
        sizes: list[int] = []
        for path in self._paths:
            with storage.open_input(path) as source:
                footer = _read_footer(source, path)
            others = {key: value for key, value in footer.values.items() if key not in _KEY_VALUES}
            if self._kind is None:
                self._kind, self._others = footer.kind, others
                if not footer.is_nullable_text(FILE_NAME):
                    raise NotAlikeError(f"{path} has no column {FILE_NAME} of nullable text")
            if footer.kind != self._kind:
                raise NotAlikeError(f"the schema or the writer of {path} is not that of {self._paths[0]}")
            if others != self._others:
                raise NotAlikeError(f"the footer of {path} says other things than that of {self._paths[0]}")
            keys.add(footer, path)
            sizes += [sum(chunk.size for chunk in group.chunks) for group in footer.row_groups]
        self.row_group_bytes: Final = sum(sizes) // max(1, len(sizes))
        """The mean size of a row group, compressed."""
        self._values = {**self._others, **keys.values()}

    @property
    def values(self) -> dict[str, str]:
        """The key-value pairs of the joined footer."""
        return self._values

    def write(self, sink: IO[bytes], file_name: str, codec: str) -> int:
        """Write a Parquet file with all row groups, in order; the sink stays open. Returns the number of rows.

        `file_name`: the value of `_hoodie_file_name` in all rows. `codec`: of that column. Memory: `_COPY_BYTES`, and
        the footers. Cost: one read per `_COPY_BYTES`, and at least two per row group.
        """
        sink.write(MAGIC)
        encoded: list[bytes] = []
        rows, at, footer = 0, len(MAGIC), None
        for path in self._paths:
            with self._storage.open_input(path) as source:
                footer = _read_footer(source, path)
                for group in footer.row_groups:
                    chunks: list[Chunk] = []
                    for run in _runs(group.chunks):
                        if run[0].column == (FILE_NAME,):
                            chunk, pages = _constant_chunk(file_name, group.rows, codec)
                            sink.write(pages)
                            chunks.append(chunk.moved_to(at))
                            at += chunk.size
                            continue
                        _copy(source, sink, run[0].start, run[-1].end, path)
                        chunks += [chunk.moved_to(at + chunk.start - run[0].start) for chunk in run]
                        at += run[-1].end - run[0].start
                    encoded.append(group.encoded(chunks, len(encoded)))
                rows += footer.rows
        assert footer is not None
        sink.write(footer.joined(encoded, rows, self._values))
        return rows


class _Keys:
    """What the footers say of record keys, joined."""

    def __init__(self, settings: BloomSettings | None) -> None:
        self._settings = settings
        self._union: BloomUnion | None = None
        self._ranges: list[tuple[str, str]] = []

    def add(self, footer: Footer, path: str) -> None:
        if self._settings is None:
            return
        values = footer.values
        text, low, high = (values.get(key) for key in (BLOOM_FILTER_KEY, MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY))
        kind = BloomFilterType.from_footer(values.get(BLOOM_FILTER_KIND_KEY), path=path)
        if text is None or low is None or high is None or kind is not self._settings.kind:
            raise NotAlikeError(f"{path} has no bloom filter of the kind that is to be written")
        bloom = parse_bloom_filter(text, kind, path=path)
        self._ranges = [widest_range([*self._ranges, (low, high)])]
        if self._union is None:
            self._union = BloomUnion(bloom, max_entries=self._settings.max_entries)
        elif self._union.fits(bloom):
            self._union.add(bloom)
        else:
            raise NotAlikeError(f"the bloom filter of {path} has another size than those before")

    def values(self) -> dict[str, str]:
        if self._union is None or self._settings is None:
            return {}
        ((low, high),) = self._ranges
        return {
            BLOOM_FILTER_KEY: self._union.joined().to_text(),
            BLOOM_FILTER_KIND_KEY: self._settings.kind.value,
            MIN_RECORD_KEY_KEY: low,
            MAX_RECORD_KEY_KEY: high,
        }


def _read_footer(source: Any, path: str) -> Footer:
    size = source.seek(0, 2)
    source.seek(max(0, size - TAIL.size))
    length = footer_size(source.read(TAIL.size), size, path=path)
    source.seek(size - TAIL.size - length)
    try:
        return parse_footer(source.read(length), size, path=path)
    except UnsupportedFeatureError as error:
        raise NotAlikeError(str(error)) from error


def _runs(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that follow each other in the file, and the one with the file name on its own."""
    run: list[Chunk] = []
    for chunk in chunks:
        is_name = chunk.column == (FILE_NAME,)
        if run and (is_name or chunk.start != run[-1].end):
            yield run
            run = []
        if is_name:
            yield [chunk]
        else:
            run.append(chunk)
    if run:
        yield run


def _copy(source: Any, sink: IO[bytes], start: int, end: int, path: str) -> None:
    source.seek(start)
    while start < end:
        data = source.read(min(_COPY_BYTES, end - start))
        if not data:
            raise OSError(f"{path} has become shorter while it was copied")
        sink.write(data)
        start += len(data)


@lru_cache(maxsize=16)
def _constant_chunk(text: str, rows: int, codec: str) -> tuple[Chunk, bytes]:
    """The column with the file name: one value in a dictionary. Pages take a few bytes per million rows."""
    sink = pa.BufferOutputStream()
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([text]))
    with pq.ParquetWriter(
        sink,
        pa.schema([(FILE_NAME, values.type)]),
        version="1.0",
        compression=codec,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(pa.table({FILE_NAME: values}), row_group_size=max(1, rows))
    data = sink.getvalue().to_pybytes()
    length = footer_size(data[-TAIL.size :], len(data), path=FILE_NAME)
    footer = parse_footer(data[-TAIL.size - length : -TAIL.size], len(data), path=FILE_NAME)
    (chunk,) = footer.row_groups[0].chunks
    return chunk, data[chunk.start : chunk.end]
