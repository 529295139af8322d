"""Reading a scan into Arrow, without a JVM: projection, filters, pruning of partitions, files and row groups.

INT96, in which older writers store instants, has no zone and a range of its own, so it is read as microseconds.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from pyhudi.errors import ConfigError, CorruptDataError
from pyhudi.format.keys.partition_paths import typed_value
from pyhudi.format.schema.avro_arrow import is_list
from pyhudi.format.schema.meta_columns import COMMIT_TIME
from pyhudi.io.base_file import (
    check_columns_are_plain,
    opened_base_file,
    read_footer,
    row_group_ends,
    tail_of_plain,
)
from pyhudi.io.parquet_batches import FEW_ROWS, RowGroup, repeated_texts, row_groups_of, rows_at_once, wide_dictionaries
from pyhudi.io.slices.base_rows import DIVIDED_FROM_BYTES, ROWS_PER_PART, row_ranges
from pyhudi.read.conditions import Condition, Where, columns_of, condition_of
from pyhudi.read.folder_constants import constants_of
from pyhudi.read.prefetch import in_order, pieces_at_once
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.single_values import FILE_NUMBER, SingleValues, decoded_columns, single_values, with_single_values
from pyhudi.read.slices import missing_files_named, read_slice
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.telemetry.tracing import span

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BATCH_ROWS = 131_072
_BATCH_READAHEAD, _FILE_READAHEAD = 16, 4
"""The defaults of Arrow. For wide rows batches are smaller, and nothing is read ahead."""
FOOTERS_AT_ONCE = 8
FILES_AT_ONCE = 64
"""Files open at a time: bounds handles and memory, and keeps all cores busy."""
LOG_BYTES_AT_ONCE = 128 * 1024 * 1024
"""The size of all logs that are merged at the same time; decoded they take about what one slice may keep in memory."""
SLICE_BYTES_ALONE = 256 * 1024 * 1024
"""A slice of more bytes may have rows of many megabytes, so that it is read alone."""


def read_table(storage: Storage, plan: ScanPlan, columns: Sequence[str] | None, where: Where) -> pa.Table:
    """All rows of a scan as one table, in the order of its files."""
    names = checked_columns(plan, columns)
    schema = pa.schema([plan.schema.field(name) for name in names])
    with span("read file slices", slices=len(plan.slices)):
        return pa.Table.from_batches(read_batches(storage, plan, columns, where), schema)


def read_batches(
    storage: Storage, plan: ScanPlan, columns: Sequence[str] | None, where: Where
) -> Iterator[pa.RecordBatch]:
    """The rows of a scan, batch by batch.

    Cost: one footer per file whose partition can match, then the wanted columns of the row groups whose statistics can.
    Raises `ConfigError` for an unknown column or a condition that does not fit the types of the columns,
    `CorruptDataError` naming a damaged file, and `HistoryNotRetainedError` naming one that was deleted meanwhile.
    """
    names = checked_columns(plan, columns)
    condition = scan_condition(plan, where)
    plan = in_matching_partitions(plan, condition)
    plain = plan.plain
    for start in range(0, len(plain), FILES_AT_ONCE):
        yield from _read_files(storage, plan, plain[start : start + FILES_AT_ONCE], names, where)
    if plan.merged:
        yield from _read_whole(storage, plan, plan.merged, names, where)


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """A base file that is open, its footer read."""

    source: Any
    fragment: ds.ParquetFileFragment
    footer: pq.FileMetaData
    row_groups: Sequence[RowGroup]


def _read_files(
    storage: Storage,
    plan: ScanPlan,
    slices: Sequence[ScanSlice],
    names: list[str],
    where: Where,
) -> Iterator[pa.RecordBatch]:
    """The rows of slices without logs. Those that the scanner of Arrow cannot read as we want come last."""
    condition = scan_condition(plan, where)
    needed = _with_columns_of(condition, names, plan.schema)
    paths = [scan_slice.files.base for scan_slice in slices if scan_slice.files.base is not None]
    with missing_files_named(storage), ExitStack() as stack:
        sources = [stack.enter_context(storage.open_input(path)) for path in paths]
        form = _format()
        fragments = [
            form.make_fragment(source, partition_expression=equalities_of_folder(plan, scan_slice))
            for source, scan_slice in zip(sources, slices, strict=True)
        ]
        try:
            with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
                footers = list(pool.map(_footer, fragments, sources, paths))
            described = [row_groups_of(footer, needed) for footer in footers]
            files = list(map(_OpenedFile, sources, fragments, footers, described))
            # The scanner would make other texts of numbers, and refuse some casts.
            apart = [
                bool(wide_dictionaries(file.row_groups, BATCH_ROWS))
                or has_other_types(file.fragment.physical_schema, plan.schema, needed)
                for file in files
            ]
            rows = min((rows_at_once(row_groups, BATCH_ROWS) for row_groups in described), default=BATCH_ROWS)
            scanned = [file for file, is_apart in zip(files, apart, strict=True) if not is_apart]
            yield from _scanned(scanned, plan, names, condition, rows)
        except (pa.ArrowException, OSError) as error:
            raise _located(storage, paths, error) from error
    yield from _read_whole(
        storage,
        plan,
        [scan_slice for scan_slice, is_apart in zip(slices, apart, strict=True) if is_apart],
        names,
        where,
    )


def _scanned(
    files: Sequence[_OpenedFile], plan: ScanPlan, names: list[str], condition: Condition | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows that Arrow finds in the files, in batches of at most `batch_rows`."""
    import pyarrow.dataset as ds

    prunes = None if condition is None else condition.prunes
    late = None if condition is None or condition.is_tested_by_pruning else condition
    wanted = _with_columns_of(late, names, plan.schema)
    fragments, columns, single = [file.fragment for file in files], wanted, list[SingleValues]()
    # Few rows are decoded in less time than it takes to look for a better way.
    if sum(file.footer.num_rows for file in files) > FEW_ROWS * len(files):
        single = [single_values(file.footer) for file in files]
        decoded = decoded_columns(wanted, single)
        # Of a column that it reads as dictionaries, Arrow does not compare statistics.
        compared = () if prunes is None else columns_of(prunes, plan.schema)
        filled_in = frozenset(decoded).difference(compared)
        fragments = [_filled_in(file, filled_in, number) for number, file in enumerate(files)]
        columns = [*decoded, FILE_NUMBER]
    is_narrow = batch_rows == BATCH_ROWS
    numbered = plan.schema.append(pa.field(FILE_NUMBER, pa.int64()))
    batches = ds.FileSystemDataset(fragments, numbered, _format()).to_batches(
        columns=columns,
        filter=prunes,
        batch_size=batch_rows,
        batch_readahead=_BATCH_READAHEAD if is_narrow else 1,
        fragment_readahead=_FILE_READAHEAD if is_narrow else 1,
    )
    schema = pa.schema([plan.schema.field(name) for name in wanted])
    for batch in with_single_values(batches, single, schema) if single else batches:
        for kept in _matching(batch, late, names).to_batches():
            if kept.num_rows:
                yield kept


def _filled_in(file: _OpenedFile, names: frozenset[str], number: int) -> ds.ParquetFileFragment:
    """The file for a scan that tells its number, and that fills in texts which occur often from their dictionaries.

    To decode them takes longer. The scan reads the footer again.
    """
    known = file.fragment.partition_expression & (pc.field(FILE_NUMBER) == number)
    repeated = names.intersection(repeated_texts(file.row_groups))
    return _format(repeated).make_fragment(file.source, partition_expression=known)


@dataclass(frozen=True, slots=True)
class Skipped:
    """What statistics in footers spare a read: base files without any matching row group, and row groups read."""

    files: int = 0
    row_groups: int = 0
    row_groups_of: int = 0


def skipped_by_statistics(storage: Storage, plan: ScanPlan, where: Where) -> Skipped | None:
    """How much of the slices without logs a read skips; None for a read of all rows.

    Cost: one footer per base file without logs whose partition can match. Errors: as `read_batches`.
    """
    condition = scan_condition(plan, where)
    if condition is None:
        return None
    needed = columns_of(condition.whole, plan.schema)

    def groups(scan_slice: ScanSlice) -> tuple[int, int]:
        assert scan_slice.files.base is not None
        with missing_files_named(storage), storage.open_input(scan_slice.files.base) as source:
            try:
                fragment = _format().make_fragment(source, partition_expression=equalities_of_folder(plan, scan_slice))
                footer = _footer(fragment, source, scan_slice.files.base)
                if condition.prunes is None or wide_dictionaries(row_groups_of(footer, needed), BATCH_ROWS):
                    return footer.num_row_groups, footer.num_row_groups
                return fragment.subset(condition.prunes, plan.schema).num_row_groups, footer.num_row_groups
            except (pa.ArrowException, OSError) as error:
                raise _located(storage, [scan_slice.files.base], error) from error

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(groups, in_matching_partitions(plan, condition).plain))
    return Skipped(
        files=sum(read == 0 for read, _ in found),
        row_groups=sum(read for read, _ in found),
        row_groups_of=sum(of for _, of in found),
    )


def has_other_types(stored: pa.Schema, schema: pa.Schema, names: Sequence[str]) -> bool:
    """Whether a file has columns, at some depth, that are text, decimals, floats or dates now, and were not."""
    places = {name: stored.get_field_index(name) for name in names}
    return any(_is_other(stored.field(at).type, schema.field(name).type) for name, at in places.items() if at >= 0)


def _is_other(stored: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if stored == kind:
        return False
    if pa.types.is_struct(stored) and pa.types.is_struct(kind):
        present = {field.name: field.type for field in stored}
        return any(_is_other(present[field.name], field.type) for field in kind if field.name in present)
    if is_list(stored) and is_list(kind):
        return _is_other(stored.value_type, kind.value_type)
    if pa.types.is_map(stored) and pa.types.is_map(kind):
        return _is_other(stored.item_type, kind.item_type)
    if pa.types.is_string(kind):
        return not bool(pa.types.is_binary(stored))
    # A number with more digits than the float has is rounded, which the scanner refuses.
    is_rounded = pa.types.is_floating(kind) and pa.types.is_integer(stored)
    return bool(is_rounded or pa.types.is_decimal(kind) or pa.types.is_date(kind))


def _format(dictionaries: Iterable[str] = ()) -> ds.ParquetFileFormat:
    """How Arrow reads base files. `dictionaries`: columns that it reads as such, and then fills in."""
    import pyarrow.dataset as ds

    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(
        coerce_int96_timestamp_unit="us", dictionary_columns=dictionaries, default_fragment_scan_options=checked
    )


def _footer(fragment: ds.ParquetFileFragment, source: Any, path: str) -> pq.FileMetaData:
    """The file's footer, which the fragment then keeps. Raises `UnsupportedFeatureError` for an encrypted file."""
    tail = tail_of_plain(source, path)
    check_columns_are_plain(source, tail, fragment.metadata, path)
    return fragment.metadata


def _read_whole(
    storage: Storage,
    plan: ScanPlan,
    slices: Sequence[ScanSlice],
    names: list[str],
    where: Where,
) -> Iterator[pa.RecordBatch]:
    """The rows of slices with logs, with wide rows or of a bootstrap, one after the other.

    A condition is applied to merged rows, not to older versions. Of a range of time, `read_slice` has these rows alone.
    """
    condition = condition_of(where, plan.schema)
    # Arrow loses the number of rows that have no columns.
    needed = _with_columns_of(condition, names, plan.schema) or plan.schema.names[:1]
    schema = pa.schema([plan.schema.field(name) for name in names])

    def read(scan_slice: ScanSlice, part: range | None) -> Iterator[pa.RecordBatch]:
        for batch in read_slice(storage, plan, scan_slice, needed, part):
            rows = _matching(batch, condition, names)
            for kept in (rows.cast(schema) if names else rows).to_batches():
                if kept.num_rows:
                    yield kept
                del kept
            del batch, rows

    yield from in_order(
        (functools.partial(read, scan_slice, part), _is_alone(scan_slice))
        for scan_slice in slices
        for part in parts_of(storage, plan, scan_slice, needed, condition)
    )


def _is_alone(scan_slice: ScanSlice) -> bool:
    """Whether no other slice is read at the same time, as this one may take much memory by itself.

    That of a slice with logs is what its logs take when they are decoded, several times their size. Without logs and
    without a source it has wide rows, or columns of other types.
    """
    if not scan_slice.files.logs:
        return scan_slice.files.source is None
    logs_max = LOG_BYTES_AT_ONCE // pieces_at_once()
    return not 0 < scan_slice.log_size <= logs_max or scan_slice.size > SLICE_BYTES_ALONE


def _with_columns_of(condition: Condition | None, names: list[str], schema: pa.Schema) -> list[str]:
    """The requested columns, and those of the condition."""
    return names if condition is None else list(dict.fromkeys([*names, *columns_of(condition.whole, schema)]))


def _matching(batch: pa.RecordBatch, condition: Condition | None, names: list[str]) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    return (rows if condition is None else rows.filter(condition.whole)).select(names)


def _located(storage: Storage, paths: Sequence[str], error: Exception) -> CorruptDataError:
    """The error again, naming the file that does not open."""
    for path in paths:
        try:
            with storage.open_input(path) as source:
                pq.ParquetFile(source, coerce_int96_timestamp_unit="us", page_checksum_verification=True).read()
        except (pa.ArrowException, OSError) as cause:
            return CorruptDataError("this base file is damaged", path=path, cause=str(cause))
    return CorruptDataError("a base file could not be read under the table's schema", cause=str(error))


def checked_columns(plan: ScanPlan, columns: Sequence[str] | None) -> list[str]:
    """The names of the columns of a read: all if none are given. `ConfigError` for one unknown, or given twice."""
    return checked_names(plan.schema.names, columns)


def checked_names(known: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The names of the columns of a result. See `checked_columns`."""
    names = list(known) if columns is None else list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError("columns must be a list of names", given=repr(columns))
    if unknown := sorted(set(names).difference(known), key=names.index):
        raise ConfigError("the table has no such column", unknown=unknown, columns=known)
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError("a column is requested twice", columns=repeated)
    return names


def scan_condition(plan: ScanPlan, where: Where) -> Condition | None:
    """The condition of a scan, that of its range of time included."""
    condition = condition_of(where, plan.schema)
    if plan.commit_times is None:
        return condition
    in_range = pc.field(COMMIT_TIME).isin(pa.array(sorted(plan.commit_times), pa.string()))
    return Condition(in_range, in_range) if condition is None else condition.also(in_range)


def prune_partitions(plan: ScanPlan, where: Where) -> ScanPlan:
    """The scan without the files whose partition path rules the condition out. Cost: no request."""
    return in_matching_partitions(plan, condition_of(where, plan.schema))


def in_matching_partitions(plan: ScanPlan, condition: Condition | None) -> ScanPlan:
    """`prune_partitions` by a condition that fits the table's schema."""
    if condition is None or not any(scan_slice.partition_values for scan_slice in plan.slices):
        return plan
    import pyarrow.dataset as ds

    parquet, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
    # Nothing is opened here: the fragments carry the number of a file in the place of its path.
    numbered = [
        parquet.make_fragment(str(number), nowhere, _guarantee(plan.schema, scan_slice.partition_values))
        for number, scan_slice in enumerate(plan.slices)
    ]
    dataset = ds.FileSystemDataset(numbered, plan.schema, parquet, nowhere)
    kept = tuple(plan.slices[int(fragment.path)] for fragment in dataset.get_fragments(condition.whole))
    return replace(plan, slices=kept)


def equalities_of_folder(plan: ScanPlan, scan_slice: ScanSlice) -> pc.Expression | None:
    """The values that its folder tells of all rows of a slice. Arrow takes them for those of the file."""
    equalities = [pc.field(name) == value for name, value in constants_of(plan, scan_slice).items() if value.is_valid]
    return functools.reduce(operator.and_, equalities) if equalities else None


def _guarantee(schema: pa.Schema, values: Sequence[tuple[str, str | None]]) -> pc.Expression | None:
    """The values of a partition path that hold for all rows in a file, if their text has the column's type."""
    guarantee: pc.Expression | None = None
    for name, text in values:
        value = None if text is None or name not in schema.names else typed_value(text, schema.field(name).type)
        if value is not None:
            holds = pc.field(name) == value
            guarantee = holds if guarantee is None else guarantee & holds
    return guarantee


def count_rows(storage: Storage, plan: ScanPlan, where: Where) -> int:
    """The number of rows of a scan, in bounded memory.

    Cost: without a condition, one footer per base file that has no logs. Slices with logs, and all slices where rows
    must be read (a condition, or a range of time), are read with one column besides those that this needs.
    """
    if not plan.schema.names:
        return 0
    if where is not None or plan.commit_times is not None:
        return _counted(storage, plan, where)
    files = [
        scan_slice.files.base
        for scan_slice in plan.slices
        if scan_slice.files.base is not None and not scan_slice.files.logs
    ]
    with missing_files_named(storage), ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        in_files = sum(pool.map(lambda path: read_footer(storage, path).rows, files))
    with_logs = replace(plan, slices=tuple(scan_slice for scan_slice in plan.slices if scan_slice.files.logs))
    return in_files + _counted(storage, with_logs, None)


def _counted(storage: Storage, plan: ScanPlan, where: Where) -> int:
    names = plan.schema.names
    narrow = COMMIT_TIME if COMMIT_TIME in names else names[0]
    return sum(batch.num_rows for batch in read_batches(storage, plan, [narrow], where))


def parts_of(
    storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, columns: Sequence[str], condition: Condition | None
) -> Sequence[range | None]:
    """The rows of each part of a slice; None for all rows.

    Parts whose row groups in the source cannot match the condition are left out. Cost: none for a small slice; else the
    footers of skeleton and source.
    """
    source = scan_slice.files.source
    if source is None or scan_slice.files.logs or source.size < DIVIDED_FROM_BYTES:
        return (None,)
    parts = row_ranges(storage, scan_slice.files, columns, ROWS_PER_PART)
    return _matching_rows_of_parts(plan, scan_slice, parts, condition) if parts else (None,)


def _matching_rows_of_parts(
    plan: ScanPlan, scan_slice: ScanSlice, parts: Sequence[range], condition: Condition | None
) -> Sequence[range]:
    """The parts that statistics in the footer of the source do not rule out.

    Arrow passes over what a footer does not say, and statistics of writers that ordered texts or numbers in another
    way. A column that the source does not have, as it is of the skeleton or of the names of folders, may have any
    value. Statistics of columns with another type than that of the table, and of types whose order writers did not
    always agree about, are not asked.
    """
    import pyarrow.dataset as ds

    source = scan_slice.files.source
    assert source is not None
    assert scan_slice.files.base is not None
    if condition is None or condition.prunes is None or scan_slice.files.names_in_base is not None:
        return parts
    asked = columns_of(condition.prunes, plan.schema)
    storage = open_spec(source.storage)
    with opened_base_file(storage, source.path) as (file, parquet):
        stored = parquet.schema_arrow
        if any(name in stored.names and not _is_ordered(stored.field(name).type, plan, name) for name in asked):
            return parts
        fragment = ds.ParquetFileFormat().make_fragment(file)
        kept = {group.id for group in fragment.subset(condition.prunes, plan.schema).row_groups}
        ends = row_group_ends(parquet.metadata)
    begins = (0, *ends[:-1])
    return [rows for rows in parts if any(begins[number] < rows.stop and ends[number] > rows.start for number in kept)]


def _is_ordered(kind: pa.DataType, plan: ScanPlan, name: str) -> bool:
    """Whether the values of a column are compared by everyone as the table compares them. Of NaN see `Condition`."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_date,
        pa.types.is_boolean,
        pa.types.is_timestamp,
        pa.types.is_floating,
    )
    return bool(kind == plan.schema.field(name).type) and any(is_kind(kind) for is_kind in kinds)
