"""Findings of rows: in the wrong partition, under a key twice, and not as meta columns and footers say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.doctor.finding import Finding, Severity, restore_before
from pyhudi.errors import CorruptDataError, HudiError, NotFoundError
from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterType,
    parse_bloom_filter,
)
from pyhudi.format.schema.meta_columns import FILE_NAME, PARTITION_PATH, RECORD_KEY
from pyhudi.io.base_file import opened_base_file
from pyhudi.table.file_slice import BaseFile, FileSlice
from pyhudi.table.state import TableState

KEYS_MAX = 20_000_000
"""So many keys are compared with each other at most: some 2 GB of memory."""
_NAMED_MAX = 3


def row_findings(table: TableState, slices: Sequence[FileSlice]) -> Iterator[Finding]:
    """What is wrong with the rows of base files, one after the other. Cost: they are read as a whole."""
    for file_slice in slices:
        if file_slice.base is not None and file_slice.base.path.endswith(".parquet"):
            yield from _base_file(table, file_slice.partition_path, file_slice.base)


def _base_file(table: TableState, partition_path: str, base: BaseFile) -> Iterator[Finding]:
    try:
        with opened_base_file(table.storage, base.path) as (_, file):
            footer = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
            names = [name for name in (RECORD_KEY, PARTITION_PATH, FILE_NAME) if name in file.schema_arrow.names]
            rows = file.read(columns=names)
            for _ in file.iter_batches():  # decoding checks the pages of all columns
                pass
    except NotFoundError:
        return  # deleted since it was listed, or a missing file, which has its own finding
    except (CorruptDataError, pa.ArrowException, OSError) as error:
        yield _error("file cannot be read", base.path, str(error), command=restore_before(table, base.instant_time))
        return
    if PARTITION_PATH in names:
        yield from _other(rows.column(PARTITION_PATH), partition_path, "row in the wrong partition", base.path)
    if FILE_NAME in names:
        yield from _other(rows.column(FILE_NAME), str(base.name), "meta column names another file", base.path)
    if RECORD_KEY in names:
        yield from _keys(rows.column(RECORD_KEY).drop_null(), footer, base.path)


def _other(column: pa.ChunkedArray, expected: str, problem: str, path: str) -> Iterator[Finding]:
    others = column.filter(pc.not_equal(column, expected))
    if len(others):
        seen = pc.unique(others).slice(0, _NAMED_MAX).to_pylist()
        yield _error(problem, path, f"{len(others):,} of {len(column):,} rows say {', '.join(map(repr, seen))}")


def _keys(keys: pa.ChunkedArray, footer: dict[str, str], path: str) -> Iterator[Finding]:
    if not len(keys):
        return
    bounds = pc.min_max(keys).as_py()
    low, high = footer.get(MIN_RECORD_KEY_KEY), footer.get(MAX_RECORD_KEY_KEY)
    if (low is not None and bounds["min"] < low) or (high is not None and bounds["max"] > high):
        detail = f"keys from {bounds['min']!r} to {bounds['max']!r}, and the footer says {low!r} to {high!r}"
        yield _error("footer lacks keys", path, f"{detail}: updates of these keys may be inserted again")
    text = footer.get(BLOOM_FILTER_KEY)
    if text is None:
        return
    try:
        kind = BloomFilterType.from_footer(footer.get(BLOOM_FILTER_KIND_KEY), path=path)
        known = pa.array(parse_bloom_filter(text, kind, path=path).might_contain(keys.combine_chunks()))
    except HudiError as error:
        yield _error("bloom filter is damaged", path, error.message)
        return
    lacking = keys.filter(pc.invert(known))
    if len(lacking):
        named = ", ".join(map(repr, lacking.slice(0, _NAMED_MAX).to_pylist()))
        yield _error(
            "footer lacks keys", path, f"the bloom filter does not know {len(lacking):,} keys, such as {named}"
        )


def repeated_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[Finding]:
    """Keys that several rows of a partition have. `batches`: of record keys and partition paths, merged with logs."""
    taken, count, schema = [], 0, pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string())])
    for batch in batches:
        if count + batch.num_rows > KEYS_MAX:
            break
        taken.append(batch.cast(schema))
        count += batch.num_rows
    counted = pa.Table.from_batches(taken, schema).group_by([PARTITION_PATH, RECORD_KEY]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if not repeated.num_rows:
        return
    paths = repeated.column(PARTITION_PATH)
    for path in pc.unique(paths).to_pylist():
        of_path = repeated.filter(pc.equal(paths, path))
        named = ", ".join(map(repr, of_path.column(RECORD_KEY).slice(0, _NAMED_MAX).to_pylist()))
        yield Finding(
            severity=Severity.WARNING,
            problem="key is there twice",
            path=path,
            detail=f"{of_path.num_rows:,} keys have several rows, such as {named}; as inserts may mean it, or as "
            "writers that did not know of each other leave it",
        )


def _error(problem: str, path: str, detail: str, *, command: str | None = None) -> Finding:
    return Finding(severity=Severity.ERROR, problem=problem, path=path, detail=detail, command=command)
