"""Pieces of exchange files: how an engine brings exchange files from one machine to another.

A piece is an Arrow stream of some rows of one batch, and says which part of which file it is. What a process has
written of files, or was brought of them, waits in a file on local disk without a name, which ends with the process.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Final

import pyarrow as pa

from pyhudi.engine.spilled_rows import typed_errors_of_disk, unnamed_file
from pyhudi.errors import StagedRowsLostError
from pyhudi.format.pieces import in_pieces

BYTES_OF_PIECE: Final = 8 << 20
"""The size limit of a piece; a single row may be larger."""
_HEAD: Final = struct.Struct("<5I")
"""The numbers of a piece, and the length of the file's path, which comes next."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a batch of an exchange file that has so many `batches`, as an Arrow stream."""

    path: str
    batches: int
    batch: int
    piece: int
    pieces: int
    stream: bytes

    def encode(self) -> bytes:
        """The piece as bytes; see `decode`."""
        path = self.path.encode()
        return _HEAD.pack(self.batches, self.batch, self.piece, self.pieces, len(path)) + path + self.stream

    @classmethod
    def decode(cls, content: bytes) -> Piece:
        """The piece of these bytes."""
        batches, batch, piece, pieces, length = _HEAD.unpack_from(content)
        end = _HEAD.size + length
        return cls(content[_HEAD.size : end].decode(), batches, batch, piece, pieces, content[end:])


_Place = tuple[int, int]
"""Where a piece begins, and its bytes."""


def pieces_of_batch(path: str, batches: int, number: int, batch: pa.RecordBatch) -> Iterator[Piece]:
    """The pieces of a batch, by its number, of a file that has so many `batches`."""
    streams = list(_streams(batch))
    for piece, stream in enumerate(streams):
        yield Piece(path, batches, number, piece, len(streams), stream)


class FilePieces:
    """Exchange files in pieces, of this process alone. A context manager: inside of it `open_exchange` finds them.

    Memory: two numbers for each piece.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._content: IO[bytes] | None = None
        self._end = 0
        self._batches: dict[str, int] = {}
        self._places: defaultdict[str, dict[int, list[_Place | None]]] = defaultdict(dict)

    def __enter__(self) -> FilePieces:
        _here.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.remove(self)
        if self._content is not None:
            self._content.close()

    def __contains__(self, path: str) -> bool:
        return path in self._places

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take the exchange files that this thread writes in the block."""
        before = _takes.set(self)
        try:
            yield
        finally:
            _takes.reset(before)

    def begin(self, path: str) -> None:
        """Begin a file."""
        self._places[path] = {}
        self._batches[path] = 0

    def write(self, path: str, batch: pa.RecordBatch) -> None:
        """Append a batch to a file."""
        self._places[path][self._batches[path]] = [self._append(stream) for stream in _streams(batch)]
        self._batches[path] += 1

    def drop(self, path: str) -> None:
        """Forget a file."""
        self._places.pop(path, None)
        self._batches.pop(path, None)

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The files, and the bytes of each."""
        return tuple(
            (path, sum(place[1] for places in batches.values() for place in places if place is not None))
            for path, batches in self._places.items()
        )

    def add(self, piece: Piece) -> None:
        """Keep a piece that was brought."""
        places = self._places[piece.path].setdefault(piece.batch, [None] * piece.pieces)
        self._batches[piece.path] = piece.batches
        if places[piece.piece] is None:
            places[piece.piece] = self._append(piece.stream)

    def lacks(self, path: str, batch: int) -> bool:
        """Whether a batch is not here as a whole."""
        places = self._places[path].get(batch) if path in self._places else None
        return places is None or None in places

    def pieces(self) -> Iterator[Piece]:
        """All pieces that are here."""
        for path, batches in self._places.items():
            for batch, places in batches.items():
                for number, place in enumerate(places):
                    if place is not None:
                        yield Piece(path, self._batches[path], batch, number, len(places), self._read(place))

    def reader(self, path: str) -> PiecesReader:
        """A reader of a file."""
        return PiecesReader(self, path)

    def batches_of(self, path: str) -> int:
        """How many batches a file has, here and elsewhere."""
        return self._batches[path]

    def batch(self, path: str, number: int) -> pa.RecordBatch:
        """A batch of a file."""
        if self.lacks(path, number):
            raise lost_rows(path)
        read = (self._read(place) for place in self._places[path][number] if place is not None)
        batches = [pa.ipc.open_stream(stream).read_next_batch() for stream in read]
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def schema(self, path: str) -> pa.Schema:
        """The columns of a file."""
        for places in self._places[path].values():
            for place in places:
                if place is not None:
                    return pa.ipc.open_stream(self._read(place)).schema
        raise lost_rows(path)

    def _append(self, stream: bytes) -> _Place:
        with typed_errors_of_disk(self._folder):
            if self._content is None:
                self._content = unnamed_file(self._folder)
            rest = memoryview(stream)
            while rest:
                rest = rest[self._content.write(rest) :]
        place = (self._end, len(stream))
        self._end += len(stream)
        return place

    def _read(self, place: _Place) -> bytes:
        assert self._content is not None
        start, length = place
        with typed_errors_of_disk(self._folder):
            return _read_at(self._content.fileno(), start, length)


class PiecesReader:
    """Reads an exchange file of which pieces are here, as a reader of Arrow reads one as a whole."""

    def __init__(self, pieces: FilePieces, path: str) -> None:
        self._pieces = pieces
        self._path = path

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._pieces.schema(self._path)

    @property
    def num_record_batches(self) -> int:
        """The number of batches."""
        return self._pieces.batches_of(self._path)

    def get_batch(self, number: int) -> pa.RecordBatch:
        """A batch by its number. Raises `StagedRowsLostError` where not all of it is here."""
        return self._pieces.batch(self._path, number)


_here: Final[list[FilePieces]] = []
_takes: ContextVar[FilePieces | None] = ContextVar("takes_files", default=None)


def pieces_of(path: str) -> FilePieces | None:
    """Those of this process that have pieces of a file."""
    return next((pieces for pieces in _here if path in pieces), None)


def taken_by() -> FilePieces | None:
    """What takes the exchange files that this thread writes; None: they are files of this machine."""
    return _takes.get()


def lost_rows(path: str) -> StagedRowsLostError:
    """The error of a reader that misses a file, or a part of it."""
    return StagedRowsLostError(
        "rows on their way between two steps of this write are lost, and other rows may come of its input when it is "
        "evaluated again; nothing of the write is visible; run it again",
        file=path,
    )


def _streams(batch: pa.RecordBatch) -> Iterator[bytes]:
    """The rows of a batch in streams; one without rows of a batch without any."""
    for rows in in_pieces(batch, BYTES_OF_PIECE) if batch.num_rows else [batch]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        yield sink.getvalue().to_pybytes()


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    """Reads without a position in the file, so that several threads may read at the same time."""
    parts = []
    while length:
        part = os.pread(descriptor, length, start)
        if not part:
            raise OSError("the file ends too early")
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
