"""Skipping of file slices by the record index, for conditions that fix the record key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError, CorruptDataError, NotFoundError, RecordKeyError, UnsupportedFeatureError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.keys.generator import KeyGenerator, key_generator_from_table
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.schema.meta_columns import RECORD_KEY, with_meta_columns
from pyhudi.metadata_table.partitions.maintained import is_by_partition
from pyhudi.metadata_table.record_locations import location_reader
from pyhudi.metadata_table.state import MetadataState
from pyhudi.read.conditions import Where
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.column_statistics import IndexUse
from pyhudi.read.skipping.comparisons import Alternatives
from pyhudi.read.skipping.fixed_values import alternatives_of_where, fixed_values
from pyhudi.read.skipping.metadata_read import MetadataOfRead, ahead, note_if_invalid, saying_undone, unreadable
from pyhudi.table.metadata_partitions import RECORD_INDEX
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

KEYS_MAX: Final = 100_000
"""Conditions with more keys are left to statistics."""


def skip_by_record_index(
    table: TableState, plan: ScanPlan, asked: Alternatives | None, metadata: MetadataOfRead
) -> tuple[ScanPlan, IndexUse | None]:
    """The plan with only the file slices that hold the keys of a condition, and what the index did.

    `plan`: of the newest state. Nothing is left out where the condition does not fix the record key, or the table has
    no record index; then nothing is said of it. A key that is in several file groups, as duplicates are, is found in
    one of them, as in JVM Hudi. Cost: that of `metadata`; of the index the logs, and the blocks that may hold the
    keys, of the file groups that do.
    """
    if RECORD_INDEX not in table.config.metadata_partitions:
        return plan, None
    keys = fixed_keys(table, plan.schema, asked)
    if keys is None:
        return plan, None
    columns = key_columns(table)
    try:
        note = note_if_invalid(metadata) or ahead(metadata) or saying_undone(metadata, RECORD_INDEX)
        if note is not None:
            return plan, IndexUse(RECORD_INDEX, columns=columns, note=note)
        state = metadata.state
        found = groups_of_keys(state, keys, {file_slice.partition_path for file_slice in plan.slices})
    except (CorruptDataError, NotFoundError, UnsupportedFeatureError) as error:
        return plan, IndexUse(RECORD_INDEX, columns=columns, note=unreadable(metadata, RECORD_INDEX, error))
    kept = tuple(
        file_slice for file_slice in plan.slices if (file_slice.partition_path, file_id_of(file_slice)) in found
    )
    return replace(plan, slices=kept), IndexUse(RECORD_INDEX, len(plan.slices) - len(kept), columns)


def groups_of_where(table: TableState, where: Where) -> set[tuple[str, str]] | None:
    """Partition path and file id of the file groups that hold the keys of a condition, before any file is listed.

    None where the condition does not fix the record key, or no record index of all keys tells it. Cost: that of
    `MetadataOfRead`, and the lookups.
    """
    schema = load_table_schema(table) if RECORD_INDEX in table.config.metadata_partitions else None
    if schema is None or is_by_partition(table):
        return None
    columns = with_meta_columns(schema.arrow)
    keys = fixed_keys(table, columns, alternatives_of_where(where, columns))
    metadata = MetadataOfRead(table)
    try:
        if keys is None or metadata.problem is not None or metadata.is_ahead is not None:
            return None
        if RECORD_INDEX in metadata.undone:
            return None
        return groups_of_keys(metadata.state, keys, ())
    except (CorruptDataError, NotFoundError, UnsupportedFeatureError):
        return None


def groups_of_keys(state: MetadataState, keys: pa.Array, partition_paths: Iterable[str]) -> set[tuple[str, str]]:
    """Partition path and file id of the file groups that hold these keys, by the record index, which the table has.

    `partition_paths`: where they may be. An index by partition is asked for each of them.
    """
    reader = location_reader(state)
    found: set[tuple[str, str]] = set()
    for path in sorted(partition_paths) if reader.is_by_partition else ("",):
        numbers = reader.groups_of(path, keys)
        for group in np.unique(numbers[numbers >= 0]).tolist():
            found.update(reader.find(state.storage, group, keys.filter(pa.array(numbers == group))).groups)
    return found


def where_of_keys(table: TableState, keys: Iterable[Any]) -> list[list[tuple[str, str, Any]]]:
    """The condition that rows have one of these record keys.

    `keys`: values of the key column, or, where several columns make the key, a tuple of their values for each row.
    Raises `ConfigError` for keys of another form, and for a table that generates its keys.
    """
    fields = key_columns(table)
    if not fields:
        raise ConfigError("the table generates its record keys, so rows cannot be looked up by key")
    if isinstance(keys, str | bytes | dict) or not isinstance(keys, Iterable):
        raise ConfigError("keys must be a list of keys, not one key", given=repr(keys))
    wanted = list(keys)
    if len(fields) == 1:
        return [[(fields[0], "in", wanted)]]
    if not all(isinstance(key, tuple) and len(key) == len(fields) for key in wanted):
        raise ConfigError(
            f"the record key has {len(fields)} columns, so each key must be a tuple of their values", columns=fields
        )
    alternatives = [[(name, "==", value) for name, value in zip(fields, key, strict=True)] for key in wanted]
    return alternatives or [[(fields[0], "in", [])]]


def key_columns(table: TableState) -> tuple[str, ...]:
    """The columns that make the record key."""
    return _keys_of(table).record_key_fields


def fixed_keys(table: TableState, schema: pa.Schema, asked: Alternatives | None) -> pa.StringArray | None:
    """The record keys that rows must have to fulfil a condition; None where it leaves them open."""
    if asked is None:
        return None
    keys = _keys_of(table)
    fields = keys.record_key_fields
    if (
        keys.has_auto_keys
        or _may_have_other_form(table, keys)
        or not all(_has_one_text(schema, name) for name in fields)
    ):
        return None
    found: list[pa.Array] = []
    for alternative in asked:
        values = [fixed_values(alternative, name) for name in fields]
        named = fixed_values(alternative, RECORD_KEY)
        if named is not None:
            found.append(pa.array(named, pa.string()))
        elif (
            any(possible is None for possible in values)
            or math.prod(len(possible or ()) for possible in values) > KEYS_MAX
        ):
            return None
        else:
            fitting = [
                _fitting(possible or (), schema.field(name).type) for name, possible in zip(fields, values, strict=True)
            ]
            found.append(_record_keys(keys, schema, fitting))
    texts = pc.unique(pa.concat_arrays(found))
    return texts if len(texts) <= KEYS_MAX else None


def _fitting(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    """The values that a column of this type can hold: no row has another one."""
    try:
        pa.array(values, kind)
    except pa.ArrowInvalid:
        half = len(values) // 2
        return [*_fitting(values[:half], kind), *_fitting(values[half:], kind)] if half else ()
    return values


def _record_keys(keys: KeyGenerator, schema: pa.Schema, values: Sequence[Sequence[Any]]) -> pa.Array:
    names = list(keys.record_key_fields)
    rows = list(itertools.product(*values))
    columns = [pa.array([row[at] for row in rows], schema.field(name).type) for at, name in enumerate(names)]
    return _of_possible(keys, pa.RecordBatch.from_arrays(columns, names=names))


def _of_possible(keys: KeyGenerator, rows: pa.RecordBatch) -> pa.Array:
    """The record keys of the rows that can have one: no stored key is empty."""
    if not rows.num_rows:
        return pa.array([], pa.string())
    try:
        return keys.record_keys(rows)
    except RecordKeyError:
        half = rows.num_rows // 2
        parts = (rows.slice(0, half), rows.slice(half)) if half else ()
        return pa.concat_arrays([pa.array([], pa.string()), *(_of_possible(keys, part) for part in parts)])


def _keys_of(table: TableState) -> KeyGenerator:
    return key_generator_from_table(table.config.values, table.config.version, {})


def _may_have_other_form(table: TableState, keys: KeyGenerator) -> bool:
    """Whether the text of keys cannot be told from values: no property shows whether it has the field's name."""
    is_open = keys.kind is KeyGeneratorType.COMPLEX and len(keys.record_key_fields) == 1
    return is_open and not table.version.has_several_ordering_fields


def _has_one_text(schema: pa.Schema, name: str) -> bool:
    """Whether equal values of a column have the same text in keys: zeros have signs, and timestamps several forms."""
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return any(fits(kind) for fits in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date))


def file_id_of(scan_slice: ScanSlice) -> str | None:
    """The id of the file group of a slice, by the name of one of its files."""
    names: Iterator[str] = iter(
        (*((scan_slice.files.base,) if scan_slice.files.base is not None else ()), *scan_slice.files.logs)
    )
    name = parse_data_file(next(names).rpartition("/")[2])
    return None if name is None else name.file_id
