"""Executor-local cache of superseded rows, per file slice, for later reads of the same slices.

The superseded rows of a slice depend only on its files and on the merge rules. So an executor stores them in the folder
that Spark creates for it and removes with it. There is one small file per file group; a new result replaces the older
one. A result is valid while the sizes and modification times of the slice's files are unchanged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles

from pyhudi.format.file_names import parse_data_file
from pyhudi.io.slices.mask import OUT_OF_USE_SCHEMA
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.protocol import Storage

_FOLDER = "pyhudi-out-of-use"
_QUESTION = b"question"


def kept(
    storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, find: partial[Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The superseded rows of a slice, in batches of `OUT_OF_USE_SCHEMA`: from the cache, else from `find`.

    The keywords of `find` are the numbers of the slice's files. Their `repr` is part of the cache's key. Cost: one
    `info` request per file, and on a miss the cost of `find`.
    """
    question = _question(storage, plan.merging, scan_slice, find.keywords)
    if question is None:
        yield from find()
        return
    path = Path(SparkFiles.getRootDirectory()) / _FOLDER / _name(plan, scan_slice)
    answer = _read(path, question)
    if answer is None:
        answer = pa.Table.from_batches(find(), OUT_OF_USE_SCHEMA)
        _write(path, question, answer)
    yield from answer.to_batches()


def _name(plan: ScanPlan, scan_slice: ScanSlice) -> str:
    """A name of the slice's file group that is unique among all tables."""
    folder, _, name = (scan_slice.files.base or scan_slice.files.logs[0]).rpartition("/")
    parsed = parse_data_file(name)
    return _digest(plan.uri, folder, name if parsed is None else parsed.file_id)


def _question(
    storage: Storage, settings: MergeSettings, scan_slice: ScanSlice, parts: Mapping[str, object]
) -> str | None:
    """A digest of everything on which the result depends; None if a file is missing, which `find` will report."""
    paths = [*scan_slice.files.logs, *([] if scan_slice.files.base is None else [scan_slice.files.base])]
    infos = [storage.info(path) for path in paths]
    if None in infos:
        return None
    files = [(info.path, info.size, info.modified_ms) for info in infos if info is not None]
    blocks = settings.blocks
    counted = (blocks.until, sorted(blocks.committed or ()), blocks.committed is None, blocks.archived_before)
    return _digest(files, parts, str(settings.schema), settings.rules, counted)


def _digest(*items: object) -> str:
    return hashlib.sha256(repr(items).encode()).hexdigest()


def _read(path: Path, question: str) -> pa.Table | None:
    # An unreadable cache file is a miss: `find` can compute the result again.
    with suppress(OSError, pa.ArrowInvalid), pa.ipc.open_file(pa.memory_map(str(path))) as file:
        if (file.schema.metadata or {}).get(_QUESTION) == question.encode():
            return file.read_all().replace_schema_metadata()
    return None


def _write(path: Path, question: str, answer: pa.Table) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    # A failure, for example a full disk, is ignored: the cache is not needed for a correct result.
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        try:
            schema = answer.schema.with_metadata({_QUESTION: question.encode()})
            with pa.ipc.new_file(str(temporary), schema) as writer:
                writer.write_table(answer)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
