"""Which rows are out of use, kept where a task found it for the next read of the same slices.

A session asks a table more than one question, and what is out of use depends on the files of a slice alone. So an
executor keeps the answer in the folder that Spark gives it and removes with it: one small file for each file group, a
new answer in place of the one before. An answer counts as long as its files are the same by size and time of change.
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
    storage: Storage, plan: ScanPlan, one: ScanSlice, find: partial[Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """What `find` says is out of use of a slice, in batches of `OUT_OF_USE_SCHEMA`; found once, if it can be kept.

    The keywords of `find` say which numbers the answer has for the slice's files; their `repr` tells two answers apart.
    Cost: a look at each file, beside that of `find` if it is asked.
    """
    question = _question(storage, plan.merging, one, find.keywords)
    if question is None:
        yield from find()
        return
    path = Path(SparkFiles.getRootDirectory()) / _FOLDER / _name(plan, one)
    answer = _read(path, question)
    if answer is None:
        answer = pa.Table.from_batches(find(), OUT_OF_USE_SCHEMA)
        _write(path, question, answer)
    yield from answer.to_batches()


def _name(plan: ScanPlan, one: ScanSlice) -> str:
    """The name of a file group among all tables."""
    folder, _, name = (one.files.base or one.files.logs[0]).rpartition("/")
    parsed = parse_data_file(name)
    return _digest(plan.uri, folder, name if parsed is None else parsed.file_id)


def _question(storage: Storage, settings: MergeSettings, one: ScanSlice, parts: Mapping[str, object]) -> str | None:
    """Everything that the answer depends on; None where a file is missing, which others will say."""
    paths = [*one.files.logs, *([] if one.files.base is None else [one.files.base])]
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
    # Whatever is wrong with what was kept, the answer can be found again.
    with suppress(OSError, pa.ArrowInvalid), pa.ipc.open_file(pa.memory_map(str(path))) as file:
        if (file.schema.metadata or {}).get(_QUESTION) == question.encode():
            return file.read_all().replace_schema_metadata()
    return None


def _write(path: Path, question: str, answer: pa.Table) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    # A full disk is for those to report who need it.
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        try:
            schema = answer.schema.with_metadata({_QUESTION: question.encode()})
            with pa.ipc.new_file(str(temporary), schema) as writer:
                writer.write_table(answer)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
