"""Markers, which record the data files that a running write has begun.

    DIRECT                  .hoodie/.temp/<instant>/<partition path>/<data file>.marker.<kind>, an empty file each
    TIMELINE_SERVER_BASED   .hoodie/.temp/<instant>/MARKERS.type, and MARKERS<n> with one marker per line

A rollback deletes the files that markers name, so they are checked: the path must be inside the table, outside of its
metadata folder, and end in the name of a data file.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.safe_paths import data_path_problem

MARKERS_ROOT: Final = ".hoodie/.temp"
MARKERS_TYPE_FILE: Final = "MARKERS.type"

MARKERS_BYTES_MAX: Final = 256 * 1024 * 1024
"""The size limit of a MARKERS file: a million markers."""

_MARKERS_FILE: Final = re.compile(r"MARKERS[0-9]+")


class MarkerKind(enum.Enum):
    """The operation on a data file. In table versions 8 and 9, log files are created, never appended to."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class MarkersType(enum.Enum):
    """How a write stores its markers. The value is the content of `MARKERS.type`, which DIRECT does not have."""

    DIRECT = "DIRECT"
    TIMELINE_SERVER_BASED = "TIMELINE_SERVER_BASED"


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker: the data file, relative to the table, and the operation. `str` returns its line in a MARKERS file."""

    data_path: str
    kind: MarkerKind

    def __str__(self) -> str:
        return f"{self.data_path}.marker.{self.kind.value}"


_SUFFIXES: Final = {f".marker.{kind.value}": kind for kind in MarkerKind}


def marker_folder(instant_time: str) -> str:
    """The folder of the markers of a write, relative to the table."""
    return f"{MARKERS_ROOT}/{instant_time}"


def marker_path(instant_time: str, marker: Marker) -> str:
    """The path of the DIRECT marker of a data file, relative to the table."""
    return f"{marker_folder(instant_time)}/{marker}"


def parse_marker_path(path: str, instant_time: str) -> str | None:
    """The data file of a DIRECT marker of this write; both paths are relative to the table.

    None for any other file in the marker folder, and for a marker that does not name a data file.
    """
    folder = f"{marker_folder(instant_time)}/"
    marker = _parse_marker(path[len(folder) :]) if path.startswith(folder) else None
    return None if marker is None else marker.data_path


def markers_file_name(number: int) -> str:
    """The name of a `MARKERS<n>` file. The numbers need not be consecutive."""
    return f"MARKERS{number}"


def is_markers_file(name: str) -> bool:
    """Whether this is the name of a `MARKERS<n>` file."""
    return _MARKERS_FILE.fullmatch(name) is not None


def encode_markers_file(markers: Iterable[Marker]) -> bytes:
    """The content of a `MARKERS<n>` file: one marker per line."""
    return "".join(f"{marker}\n" for marker in markers).encode()


def parse_markers_file(data: bytes, *, path: str) -> tuple[Marker, ...]:
    """Decode a `MARKERS<n>` file.

    A writer begins a data file only after the whole line is stored. So an incomplete last line belongs to a data file
    that was never begun, and is ignored.

    Raises:
        CorruptDataError: a complete line does not name a data file, or the file exceeds the size limit.
    """
    if len(data) > MARKERS_BYTES_MAX:
        raise CorruptDataError("the markers file is too large", path=path, size=len(data))
    try:
        *lines, _ = data[: data.rfind(b"\n") + 1].decode().split("\n")
    except UnicodeDecodeError as error:
        raise CorruptDataError("the markers are not text", path=path, offset=error.start) from error
    markers = []
    for number, line in enumerate(lines, start=1):
        marker = _parse_marker(line)
        if marker is None:
            raise CorruptDataError("the marker names no data file of the table", path=path, line=number)
        markers.append(marker)
    return tuple(markers)


def _parse_marker(text: str) -> Marker | None:
    data_path, dot, kind_word = text.rpartition(".marker.")
    kind = _SUFFIXES.get(f"{dot}{kind_word}")
    if kind is None:
        return None
    if parse_data_file(data_path.rpartition("/")[2]) is None or data_path_problem(data_path) is not None:
        return None
    return Marker(data_path, kind)
