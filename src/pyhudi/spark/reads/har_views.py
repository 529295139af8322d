"""Parquet blocks of logs as files that Spark reads by itself.

A log is no Parquet file, but a block in it is one: a stretch of the log. Spark reads files through Hadoop, which has a
file system of files that are stretches of others, its archives (`har:`): an index says where each begins. So two lines
of text about a log give each of its blocks a path that Spark can open. Nothing is copied.

An index has to be on the same store as the log, and a read writes nothing to a table. So this is for tables on the disk
of this machine, in sessions that run on it; there the indexes are in a temporary folder of this process. They are some
hundred bytes for each log that was read, and go when the process ends, as frames may be read until then.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from urllib.parse import quote_plus

from pyspark.sql import SparkSession

from pyhudi.format.log.blocks import LogBlock
from pyhudi.io.log.records import BlockPlace
from pyhudi.spark.settings import runs_here

OPTIONS: Mapping[str, str] = {"fs.har.metadatacache.entries": "10000"}
"""For a read of archived blocks. Hadoop keeps the indexes of ten archives by default, and starts a process for each log
that it meets anew: to learn its owner, which nobody asked for."""

_ON_DISK = "file:"
_ARCHIVES = "har://file-:"
"""Hadoop's name of the archives on the local disk, whatever `fs.defaultFS` is."""
_VERSION = 3
_ROOT_PROPERTIES = quote_plus("0 493 - -")
_FILE_PROPERTIES = quote_plus("0 420 - -")
"""Time of change, permissions, owner and group: Hadoop wants them to be there, and looks at the first."""
_LOG, _INDEX, _MASTER_INDEX = _FILES = ("log", "_index", "_masterindex")

_making = threading.Lock()


def can_archive(spark: SparkSession, uri: str) -> bool:
    """Whether the session runs on this machine, and the table is on its disk."""
    return uri.startswith(_ON_DISK) and runs_here(spark)


def archived(uri: str, blocks: Mapping[BlockPlace, LogBlock]) -> dict[BlockPlace, str]:
    """What Spark calls the blocks of a table's logs. Cost: two small files and a link per log that is new."""
    root = Path(uri.removeprefix(_ON_DISK))
    paths: dict[BlockPlace, str] = {}
    for path, places in groupby(blocks, key=lambda place: place.path):
        of_log = {_name(place): place for place in places}
        folder = _archive(root / path, {name: blocks[place] for name, place in of_log.items()})
        paths |= {place: f"{_ARCHIVES}{folder}/{name}" for name, place in of_log.items()}
    return paths


def _name(place: BlockPlace) -> str:
    """One of its own in the whole table. The dot of a log's name would hide the file from Spark."""
    return f"block-{place.path.rpartition('/')[2].removeprefix('.')}-{place.offset}"


def _archive(log: Path, blocks: Mapping[str, LogBlock]) -> Path:
    index = _index((name, block.content_offset, block.content_size) for name, block in blocks.items())
    identity = hashlib.sha256(f"{log}\n{index}".encode()).hexdigest()
    folder = Path(_folder().name) / f"{identity}.har"
    with _making:
        # Some systems remove from their temporary folder what nobody touched for some days.
        if not all((folder / name).exists() for name in _FILES):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / _LOG).symlink_to(log)  # paths in an index cannot have spaces
            (folder / _INDEX).write_text(index)
            (folder / _MASTER_INDEX).write_text(f"{_VERSION}\n0 0 0 {len(index)} \n")
    return folder


def _index(stretches: Iterable[tuple[str, int, int]]) -> str:
    """The text of an archive's index: its folder with the names, then for each file where it begins, and its length."""
    files = [(quote_plus(name), start, length) for name, start, length in stretches]
    names = " ".join(name for name, _, _ in files)
    lines = [f"{quote_plus('/')} dir {_ROOT_PROPERTIES} 0 0 {names} "]
    lines += [
        f"{quote_plus('/')}{name} file {_LOG} {start} {length} {_FILE_PROPERTIES} " for name, start, length in files
    ]
    return "".join(f"{line}\n" for line in lines)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pyhudi-logs-", ignore_cleanup_errors=True)
