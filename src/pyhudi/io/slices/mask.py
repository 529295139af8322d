"""Superseded rows of a slice with logs: the rows of its base file, and the log records, that do not count.

An engine that reads base files by itself, with columns and row groups pruned, gets the merged slice from the rows of
the base file and the log records without the superseded ones. Only for rules that select one version of a record.

A row has two numbers: that of its part, which the caller gives, and its position in the part. In a base file it is the
row number, in logs the number of the version (`pyhudi.io.log.columns`). The mask of superseded rows is a list of
64-bit words, so it is small whether the logs change few rows of a slice or most of them:

    column `WORD`   number of the part * 2^25 + position // 64
    column `BITS`   bit `position % 64` is set if the row is superseded
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import StorageError
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.base_file import read_footer
from pyhudi.io.log.changes import LogChanges, merge_logs
from pyhudi.io.log.records import BlockPlace, LogVersions, read_log_versions
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, read_merged, stays_as_it_is
from pyhudi.storage.protocol import Storage

WORD: Final = "__word"
BITS: Final = "__bits"
PART: Final = "__part"
PLACE: Final = "__place"
WORD_ROWS: Final = 64
WORDS_PER_PART: Final = 2**25
PARTS_MAX: Final = 2**38
"""The numbers of parts are between minus this and this."""
KEY_BATCH_ROWS: Final = 1_000_000
OUT_OF_USE_SCHEMA: Final = pa.schema([(WORD, pa.int64()), (BITS, pa.int64())])
LOG_ROWS_SCHEMA: Final = pa.schema([(PART, pa.int64()), (PLACE, pa.int64())])


def rows_out_of_use(
    storage: Storage, files: SliceFiles, settings: MergeSettings, *, base_part: int, log_part: int
) -> Iterator[pa.RecordBatch]:
    """Which stored rows the logs replace or delete, and which live log records lose against stored rows.

    Companion of `log_rows`, which returns the live log records. Yields batches of `OUT_OF_USE_SCHEMA`; all-zero words
    are omitted. Cost: keys and ordering values, of the base file and of the logs. Errors: see `merge_slice`.
    """
    if files.base is None:
        return
    versions = _versions(storage, files, settings)
    if versions.column_sets:
        yield _words(base_part, np.ones(read_footer(storage, files.base).rows, dtype=bool))
        return
    met = _met(storage, files, settings, merge_logs(settings.rules, versions))
    yield _words(base_part, met.replaced)
    yield _words(log_part, _flags(met.lost, versions.rows.num_rows))


def stored_rows_out_of_use(
    storage: Storage,
    files: SliceFiles,
    settings: MergeSettings,
    *,
    base_part: int,
    block_parts: Mapping[BlockPlace, int],
) -> Iterator[pa.RecordBatch]:
    """Which stored rows the logs replace or delete, and which rows of the logs' data blocks do not count.

    For an engine that reads these blocks by itself; their parts are given, and the position of a row is that in its
    block. Otherwise like `rows_out_of_use`.

    Raises `StorageError` if the data blocks that count are no longer the given ones: in version 6, where logs grow, a
    write was rolled back meanwhile.
    """
    versions = _versions(storage, files, settings)
    changes = merge_logs(settings.rules, versions)
    unused = np.ones(versions.rows.num_rows, dtype=bool)
    unused[_live(changes)] = False
    if files.base is not None:
        met = _met(storage, files, settings, changes)
        unused[met.lost] = True
        yield _words(base_part, met.replaced)
    changed, first = [place for place in block_parts if place not in versions.rows_of], 0
    for place, rows in versions.rows_of.items():
        of_block = unused[first : first + rows]
        first += rows
        if place in block_parts:
            yield _words(block_parts[place], of_block)
        elif not of_block.all():
            changed.append(place)
    for place in changed:
        raise StorageError("the log changed while it was read: read it again", path=place.path, offset=place.offset)


def log_rows(
    storage: Storage, files: SliceFiles, settings: MergeSettings, *, log_part: int
) -> Iterator[pa.RecordBatch]:
    """The positions of the live records of the logs, including those that lose against stored rows.

    Batches of `LOG_ROWS_SCHEMA`. Cost: keys and ordering values of the logs.
    """
    versions = _versions(storage, files, settings)
    if versions.column_sets:
        rows = sum(batch.num_rows for batch in read_merged(storage, files, settings, [RECORD_KEY]))
        yield _places(log_part, np.arange(rows, dtype=np.int64))
    else:
        yield _places(log_part, _live(merge_logs(settings.rules, versions)))


@dataclass(frozen=True, slots=True)
class _Met:
    """The result of merging: flags of the superseded stored rows, and numbers of the versions that lost."""

    replaced: npt.NDArray[np.bool_]
    lost: npt.NDArray[np.int64]


def _met(storage: Storage, files: SliceFiles, settings: MergeSettings, changes: LogChanges) -> _Met:
    nothing = np.zeros(0, dtype=np.int64)
    replaced, lost, rows = [nothing], [nothing], 0
    schema = settings.needed_for([RECORD_KEY])
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    for batch in read_base_rows(storage, files, schema, batch_rows=KEY_BATCH_ROWS):
        stored = align(batch, nullable)
        at = pc.index_in(stored.column(RECORD_KEY), value_set=changes.keys)
        places = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        changed_by = at.drop_null().to_numpy().astype(np.int64)
        stays = stays_as_it_is(settings.rules, stored.take(pa.array(places)), changes.take(changed_by))
        replaced.append(rows + places[~stays])
        lost.append(changes.numbers[changed_by[stays]])
        rows += batch.num_rows
    return _Met(_flags(np.concatenate(replaced), rows), np.concatenate(lost))


def part_of_logs(number: int) -> int:
    """The number of the part that the logs of slice `number` are, and back. Parts of base files are positive."""
    return -1 - number


def _versions(storage: Storage, files: SliceFiles, settings: MergeSettings) -> LogVersions:
    schema, rules = settings.needed_for([RECORD_KEY]), settings.rules.in_logs
    return read_log_versions(
        storage,
        files.logs,
        schema,
        rules,
        blocks=files.judged_by(settings.blocks),
        spill=settings.spill,
        names=files.names,
    )


def _live(changes: LogChanges) -> npt.NDArray[np.int64]:
    return np.sort(changes.numbers[~changes.deleted.to_numpy(zero_copy_only=False)])


def _flags(numbers: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    flags = np.zeros(count, dtype=bool)
    flags[numbers] = True
    return flags


def _places(part: int, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    parts = np.full(len(places), part, dtype=np.int64)
    return pa.RecordBatch.from_arrays([pa.array(parts), pa.array(places)], schema=LOG_ROWS_SCHEMA)


def _words(part: int, flags: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    padded = np.zeros(-(-len(flags) // WORD_ROWS) * WORD_ROWS, dtype=bool)
    padded[: len(flags)] = flags
    words = np.packbits(padded, bitorder="little").view("<i8")
    places = np.flatnonzero(words)
    numbers = part * WORDS_PER_PART + places
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(words[places])], schema=OUT_OF_USE_SCHEMA)
