"""Parquet blocks of logs as files that Spark reads itself.

A log is not a Parquet file, but a Parquet block in it is a byte range with the content of one. Hadoop, through which
Spark reads files, has a file system for byte ranges of other files: Hadoop archives (`har:`). An index file lists the
byte range of each file. So a small index for a log gives each of its blocks a path that Spark can open, without
copying data.

The index must be on the same store as the log, but a read must not write to the table. Therefore this works only for
tables on the local disk, in sessions that run on this machine: the indexes are in a temporary folder of this process.
They have some hundred bytes per log. They are removed when the process ends, because DataFrames may be read until then.
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
"""Hadoop options for a read of archived blocks. By default Hadoop caches the indexes of ten archives, and for each
archive that is not cached it starts a process to look up the file's owner. A larger cache avoids this."""

_ON_DISK = "file:"
_ARCHIVES = "har://file-:"
"""Prefix of the URIs of archives on the local disk, independent of `fs.defaultFS`."""
_VERSION = 3
_ROOT_PROPERTIES = quote_plus("0 493 - -")
_FILE_PROPERTIES = quote_plus("0 420 - -")
"""Modification time, permissions, owner and group. Hadoop requires all four, but uses only the first."""
_LOG, _INDEX, _MASTER_INDEX = _FILES = ("log", "_index", "_masterindex")

_making = threading.Lock()


def can_archive(spark: SparkSession, uri: str) -> bool:
    """Whether the session runs on this machine and the table is on the local disk."""
    return uri.startswith(_ON_DISK) and runs_here(spark)


def archived(uri: str, blocks: Mapping[BlockPlace, LogBlock]) -> dict[BlockPlace, str]:
    """The paths by which Spark opens the blocks of a table's logs. Cost: two small files and a link per new log."""
    root = Path(uri.removeprefix(_ON_DISK))
    paths: dict[BlockPlace, str] = {}
    for path, places in groupby(blocks, key=lambda place: place.path):
        of_log = {_name(place): place for place in places}
        folder = _archive(root / path, {name: blocks[place] for name, place in of_log.items()})
        paths |= {place: f"{_ARCHIVES}{folder}/{name}" for name, place in of_log.items()}
    return paths


def _name(place: BlockPlace) -> str:
    """A file name that is unique in the table. It has no leading dot, because Spark ignores hidden files."""
    return f"block-{place.path.rpartition('/')[2].removeprefix('.')}-{place.offset}"


def _archive(log: Path, blocks: Mapping[str, LogBlock]) -> Path:
    index = _index((name, block.content_offset, block.content_size) for name, block in blocks.items())
    identity = hashlib.sha256(f"{log}\n{index}".encode()).hexdigest()
    folder = Path(_folder().name) / f"{identity}.har"
    with _making:
        # Some systems remove files from the temporary folder that were not used for some days.
        if not all((folder / name).exists() for name in _FILES):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / _LOG).symlink_to(log)  # paths in an index cannot have spaces
            (folder / _INDEX).write_text(index)
            (folder / _MASTER_INDEX).write_text(f"{_VERSION}\n0 0 0 {len(index)} \n")
    return folder


def _index(stretches: Iterable[tuple[str, int, int]]) -> str:
    """The text of an archive's index: the folder with its file names, then the offset and length of each file."""
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
