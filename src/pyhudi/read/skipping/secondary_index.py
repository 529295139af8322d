"""Skipping of file slices by secondary indexes: the value of a column gives record keys, and they file groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, NotFoundError, UnsupportedFeatureError
from pyhudi.format.metadata_table.keys import file_group_of, split_secondary_keys
from pyhudi.format.metadata_table.schema import KEY, SECONDARY_INDEX_COLUMN
from pyhudi.metadata_table.complete_indexes import doubt
from pyhudi.metadata_table.lookup import Wanted, read_group
from pyhudi.metadata_table.partitions.maintained import secondary_index_of
from pyhudi.metadata_table.partitions.secondary_index import (
    SecondaryIndexPartition,
    can_be_indexed,
    indexed_text,
    value_prefixes,
)
from pyhudi.metadata_table.state import MetadataState
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.column_statistics import FILES_MIN, IndexUse
from pyhudi.read.skipping.comparisons import Alternatives
from pyhudi.read.skipping.fixed_values import fixed_values
from pyhudi.read.skipping.metadata_read import (
    MetadataOfRead,
    ahead,
    incomplete,
    note_if_invalid,
    saying_undone,
    unreadable,
)
from pyhudi.read.skipping.record_index import KEYS_MAX, file_id_of, groups_of_keys
from pyhudi.table.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.state import TableState


def skip_by_secondary_indexes(
    table: TableState, plan: ScanPlan, asked: Alternatives | None, metadata: MetadataOfRead
) -> tuple[ScanPlan, tuple[IndexUse, ...]]:
    """The plan with only the file slices that hold the values of a condition, and what each index did.

    `plan`: of the newest state, logs merged. Nothing is left out, and nothing said, where the condition does not fix a
    column that has such an index, or there are fewer than `FILES_MIN` slices. Cost: a read of the definitions, and
    that of `metadata`; of the secondary index the logs, and the blocks that have the values, of their file groups; of
    the record index those of the keys found. Memory: entries of the values, of one file group of the index.
    """
    present = table.config.metadata_partitions
    names = [name for name in present if name.startswith(SECONDARY_INDEX_PREFIX)]
    if not names or RECORD_INDEX not in present or asked is None:
        return plan, ()
    if len(plan.slices) < FILES_MIN:
        return plan, ()
    definitions = metadata.definitions
    indexes = [secondary_index_of(definitions[name]) for name in sorted(names) if name in definitions]
    # Of a partition column reads show the value of the folder, and the index knows that of the record.
    indexes = [index for index in indexes if index.column not in plan.folder_columns]
    fit = [(index, texts) for index in indexes if (texts := _texts_of(plan.schema, asked, index)) is not None]
    if not fit:
        return plan, ()
    uses: list[IndexUse] = []
    try:
        note = note_if_invalid(metadata) or ahead(metadata) or saying_undone(metadata, RECORD_INDEX)
        if note is not None:
            return plan, tuple(IndexUse(index.name, columns=(index.column,), note=note) for index, _ in fit)
        for index, texts in fit:
            why = doubt(table, definitions[index.name])
            note = saying_undone(metadata, index.name) if why is None else incomplete(metadata, index.name, why)
            if note is not None:
                uses.append(IndexUse(index.name, columns=(index.column,), note=note))
                continue
            plan, use = _skip(metadata.state, plan, index, texts)
            uses.append(use)
    except (CorruptDataError, NotFoundError, UnsupportedFeatureError) as error:
        name = fit[len(uses)][0].name
        uses.append(IndexUse(name, note=unreadable(metadata, name, error)))
    return plan, tuple(uses)


def _skip(
    state: MetadataState, plan: ScanPlan, index: SecondaryIndexPartition, texts: pa.Array
) -> tuple[ScanPlan, IndexUse]:
    keys = pa.array([], pa.string())
    for part in _record_keys(state, index, texts):
        keys = pa.concat_arrays([keys, part])
        if len(keys) > KEYS_MAX:
            note = f"more than {KEYS_MAX} rows have these values"
            return plan, IndexUse(index.name, columns=(index.column,), note=note)
    found = groups_of_keys(state, pc.unique(keys), {file_slice.partition_path for file_slice in plan.slices})
    kept = tuple(
        file_slice for file_slice in plan.slices if (file_slice.partition_path, file_id_of(file_slice)) in found
    )
    return replace(plan, slices=kept), IndexUse(index.name, len(plan.slices) - len(kept), (index.column,))


def _record_keys(state: MetadataState, index: SecondaryIndexPartition, texts: pa.Array) -> Iterator[pa.Array]:
    """The record keys of rows with these values, by file group of the index."""
    prefixes = value_prefixes(texts, index.hashes_values)
    groups = state.slices(index.name)
    # In version 1 the whole key says where an entry is, so it may be anywhere.
    numbers = file_group_of(prefixes, len(groups)) if index.hashes_values else None
    for number, group in enumerate(groups):
        part = prefixes if numbers is None else prefixes.filter(pa.array(np.equal(numbers, number)))
        if len(part):
            wanted = Wanted(prefixes=tuple(prefix.encode() for prefix in part.to_pylist()))
            found = read_group(state, group, SECONDARY_INDEX_COLUMN, wanted).column(KEY).combine_chunks()
            yield split_secondary_keys(found, path=index.name)[1]


def _texts_of(schema: pa.Schema, asked: Alternatives, index: SecondaryIndexPartition) -> pa.StringArray | None:
    """The texts of the values that a condition fixes a column to; None where it does not, or they do not fit."""
    if index.column not in schema.names or not can_be_indexed(kind := schema.field(index.column).type):
        return None
    values: list[Any] = []
    for alternative in asked:
        fixed = fixed_values(alternative, index.column)
        if fixed is None or len(values) + len(fixed) > KEYS_MAX:
            return None
        values += fixed
    try:
        return pc.unique(indexed_text(pa.array(values, kind), index.hashes_values))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # the comparison is not of values of the column
        return None
