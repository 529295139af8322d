"""Names of data files: base files, log files and CDC log files.

    base file   <file id>_<write token>_<instant>.parquet
    log file    .<file id>_<instant>.log.<version>_<write token>[.cdc]

Only its name tells which write created a base file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyhudi.format.timeline.instant import InstantTime

_BASE_FILE: Final = re.compile(
    r"(?P<file_id>[^._/][^_/]*)_(?P<token>[0-9]+-[0-9]+-[0-9]+)_(?P<instant>[0-9]+)"
    r"(?P<extension>\.(?:parquet|orc|hfile|lance))"
)
_LOG_FILE: Final = re.compile(
    r"\.(?P<file_id>[^._/][^_/]*)_(?P<instant>[0-9]+)\.log\.(?P<version>[0-9]{1,9})"
    r"(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+)(?P<cdc>\.cdc)?)?"
)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parsed name of a base file; `str` returns the name.

    `instant_time` is the requested time of the write that made the file, `write_token` the task attempt
    (`<partition>-<stage>-<attempt>`), `extension` starts with its dot.
    """

    file_id: str
    write_token: str
    instant_time: str
    extension: str = ".parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant_time}{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """The parsed name of a log file; `str` returns the name.

    `instant_time` is the requested time of the delta commit that wrote the file; in table version 6 it is that of the
    base file of the slice. `version` counts from 1. Very old writers omit the `write_token`.
    """

    file_id: str
    instant_time: str
    version: int
    write_token: str | None
    is_cdc: bool = False

    def __str__(self) -> str:
        token = "" if self.write_token is None else f"_{self.write_token}"
        return f".{self.file_id}_{self.instant_time}.log.{self.version}{token}{'.cdc' if self.is_cdc else ''}"


def is_change_log(name: str) -> bool:
    """Whether a file with this name is a change data log."""
    parsed = parse_data_file(name)
    return isinstance(parsed, LogFileName) and parsed.is_cdc


def has_rows(name: str) -> bool:
    """Whether a file with this name has rows of a table: a base file or a log, but no change data log."""
    parsed = parse_data_file(name)
    return parsed is not None and not (isinstance(parsed, LogFileName) and parsed.is_cdc)


def parse_data_file(name: str) -> BaseFileName | LogFileName | None:
    """Parse a file name without folders; None if it is not that of a data file."""
    if match := _BASE_FILE.fullmatch(name):
        return BaseFileName(match["file_id"], match["token"], InstantTime(match["instant"]), match["extension"])
    if match := _LOG_FILE.fullmatch(name):
        return LogFileName(
            match["file_id"],
            InstantTime(match["instant"]),
            int(match["version"]),
            match["token"],
            match["cdc"] is not None,
        )
    return None


def instant_in_name(path: str) -> str:
    """The instant in the name of a data file, "" if it is none. In table version 6 a log has that of its slice."""
    name = parse_data_file(path.rpartition("/")[2])
    return "" if name is None else name.instant_time


def file_id(uuid: str, number: int) -> str:
    """The id of a new file group: a UUID of 36 characters, and the number of the group among those with this UUID."""
    return f"{uuid}-{number}"
