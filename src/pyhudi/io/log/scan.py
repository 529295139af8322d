"""Read a log file: its blocks without their contents, then the contents that are wanted.

Damage is found and reported, never skipped silently: bytes that are not a block are returned as a block of kind
CORRUPT, and the blocks after it are read. The caller decides whether a damaged file may be used. JVM Hudi omits this
check on object stores; pyhudi always makes it.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pyarrow as pa

from pyhudi.errors import CorruptDataError, StorageError
from pyhudi.format.log.blocks import MAGIC, BlockType, LogBlock, claimed_instant, corrupt_block, parse_block
from pyhudi.io.hfile import HFileReader
from pyhudi.storage.protocol import Storage

WINDOW_BYTES = 64 * 1024
"""Bytes per read around the ends of blocks: the end of one and, in most files, all headers of the next."""
WHOLE_FILE_BYTES_MAX = 1024 * 1024
"""Up to this size a file is read at once: its contents will be needed, and one request is cheaper than several."""
EFFORT_MAX = 16
"""How often the bytes of a log file may be read to find its blocks; an undamaged file takes less than twice."""
EFFORT_FREE_BYTES = 16 * 1024 * 1024
"""What may be read of any log file, however small."""
SEARCH_BYTES = 1024 * 1024
"""Read at a time where the next block of a damaged file is searched for."""
_MAGIC_PATTERN = re.compile(re.escape(MAGIC))  # searches a buffer where it lies

_log = logging.getLogger("pyhudi")


def open_log(storage: Storage, path: str, *, size: int | None = None) -> LogReader:
    """Open a log file to read it; use the result as a context manager.

    Args:
        storage: The table's store.
        path: The log file, relative to the table.
        size: Its length in bytes if the caller knows it: later appends are left out.

    Raises:
        CorruptDataError: the file is shorter than `size`.
        StorageError: it cannot be opened.
    """
    source = storage.open_input(path)
    try:
        return LogReader(source, path, size)
    except BaseException:
        source.close()
        raise


def scan_blocks(storage: Storage, path: str, *, size: int | None = None) -> Iterator[LogBlock]:
    """The blocks of a log file without contents; otherwise see `open_log` and `LogReader.blocks`."""
    with open_log(storage, path, size=size) as reader:
        yield from reader.blocks()


class LogReader:
    """One open log file. Not thread-safe.

    Cost: one request for a file of up to `WHOLE_FILE_BYTES_MAX`, contents included; else one for each block whose
    content does not fit into a window, plus one for each content.
    """

    def __init__(self, source: Any, path: str, size: int | None) -> None:
        """Take over `source`, what `Storage.open_input` gave. See `open_log`."""
        self._source, self._path, self._effort = source, path, 0
        self._windows: deque[tuple[int, pa.Buffer]] = deque(maxlen=2)  # around the start and the end of one block
        found = self._length()
        if size is not None and found < size:
            raise CorruptDataError("the log file is shorter than expected", path=path, size=found, expected=size)
        self.size = found if size is None else size

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; contents that were read stay valid."""
        self._windows.clear()
        self._source.close()

    def blocks(self) -> Iterator[LogBlock]:
        """Every block in the order of the file; together they cover it without a gap.

        Bytes that are not a block (by the rules of `parse_block`) are returned as CORRUPT up to the next magic, and
        logged as a warning. The next magic may be inside the content of the damaged block, so one damaged block may
        appear as several. A damaged magic also makes the block before it CORRUPT, as in JVM Hudi.

        Raises:
            CorruptDataError: so many blocks of a damaged file overlap that it would be read again and again.
            UnsupportedFeatureError: a whole block of an unknown format version, type or command.
            StorageError: the store failed.
        """
        offset = 0
        while offset < self.size:
            try:
                block = parse_block(self._read, offset, self.size, path=self._path)
            except CorruptDataError as damage:
                claimed = claimed_instant(self._read, offset, self.size)
                block = corrupt_block(offset, self._next_magic(offset), claimed)
                self._warn(block, damage.message)
            else:
                if block.kind is BlockType.CORRUPT:
                    self._warn(block, "its writer marked it as damaged")
            if self._effort > EFFORT_MAX * self.size + EFFORT_FREE_BYTES:
                raise CorruptDataError(
                    "the log file is damaged in too many places to be read", path=self._path, offset=offset
                )
            yield block
            offset = block.end

    def content(self, block: LogBlock) -> pa.Buffer:
        """A block's content. Needs no copy where the whole file was read at once.

        Raises:
            StorageError: the store failed.
        """
        kept = self._kept(block.content_offset, block.content_size)
        if kept is None:
            return self._fetch(block.content_offset, block.content_size)
        first, window = kept
        return window.slice(block.content_offset - first, block.content_size)

    def hfile(self, block: LogBlock) -> HFileReader:
        """The HFile that is the content of a block, read by ranges. It is closed with this log.

        Raises: as `pyhudi.io.hfile.open_hfile_of`.
        """
        return HFileReader(self._source, self._path, block.content_offset, block.content_size)

    def _warn(self, block: LogBlock, reason: str) -> None:
        _log.warning(
            "log file %s is damaged: %d bytes from offset %d on are not a block (%s)",
            self._path,
            block.size,
            block.offset,
            reason,
        )

    def _next_magic(self, offset: int) -> int:
        """Where the next block may begin after a bad one at `offset`; the end of the file if nowhere."""
        at = offset + 1  # not after a magic at `offset`, whose last byte may be the first of the next
        while at + len(MAGIC) <= self.size:
            first, window = self._window(at, len(MAGIC), SEARCH_BYTES)
            found = _MAGIC_PATTERN.search(memoryview(window), at - first)
            if found is not None:
                return first + found.start()
            at = first + window.size - len(MAGIC) + 1  # a magic may lie across the border
        return self.size

    def _read(self, start: int, length: int) -> memoryview:
        """A range near the start or the end of a block, fewer bytes at the end of the file."""
        length = max(0, min(length, self.size - start))
        self._effort += length
        first, window = self._window(start, length, WINDOW_BYTES)
        return memoryview(window)[start - first : start - first + length]

    def _window(self, start: int, length: int, length_wanted: int) -> tuple[int, pa.Buffer]:
        """A window, and where it begins, that has this range: one at hand, or a new one of the wanted length."""
        kept = self._kept(start, length)
        if kept is not None:
            return kept
        if self.size <= WHOLE_FILE_BYTES_MAX:
            first, last = 0, self.size
        else:
            first, last = start, min(start + max(length, length_wanted), self.size)
        self._effort += last - first
        self._windows.append((first, self._fetch(first, last - first)))
        return self._windows[-1]

    def _kept(self, start: int, length: int) -> tuple[int, pa.Buffer] | None:
        for first, window in self._windows:
            if first <= start and start + length <= first + window.size:
                return first, window
        return None

    def _fetch(self, start: int, length: int) -> pa.Buffer:
        try:
            self._source.seek(start)
            if isinstance(self._source, pa.NativeFile):
                data = self._source.read_buffer(length)
            else:
                data = pa.py_buffer(self._source.read(length))
        except OSError as error:
            raise self._failed(error, start) from error
        if data.size != length:
            raise StorageError("the log file changed while it was read", path=self._path, offset=start)
        return data

    def _length(self) -> int:
        try:
            self._source.seek(0, os.SEEK_END)
            return int(self._source.tell())
        except OSError as error:
            raise self._failed(error, 0) from error

    def _failed(self, error: OSError, offset: int) -> StorageError:
        return StorageError("the log file could not be read", path=self._path, offset=offset, cause=str(error))
