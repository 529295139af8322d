"""Reading the few rows that a condition on record keys finds: its columns first, the others as far as it found rows.

Arrow reads whole row groups. Here it decodes the other columns up to the last row that was found; those with a
dictionary as its numbers, which is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.format.schema.evolution import align
from pyhudi.io.base_file import opened_base_file
from pyhudi.io.parquet_batches import open_parquet, row_groups_of, rows_at_once, wide_dictionaries
from pyhudi.read.arrow import (
    BATCH_ROWS,
    checked_columns,
    equalities_of_folder,
    has_other_types,
    prune_partitions,
    read_batches,
    scan_condition,
)
from pyhudi.read.conditions import Condition, Where, columns_of
from pyhudi.read.folder_constants import constants_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.slices import missing_files_named
from pyhudi.storage.protocol import Storage

_PLACE: Final = "place in row group"


def read_few_rows(storage: Storage, plan: ScanPlan, columns: Sequence[str] | None, where: Where) -> pa.Table:
    """The rows of a scan that meet a condition which few rows of a file meet. Otherwise like `read_table`.

    Cost: of each file without logs the footer, the columns of the condition in the row groups whose statistics can
    match, and of those with rows the other wanted columns.
    """
    names = checked_columns(plan, columns)
    schema = pa.schema([plan.schema.field(name) for name in names])
    condition = scan_condition(plan, where)
    plan = prune_partitions(plan, where)
    found: list[pa.Table] = []
    others: list[ScanSlice] = []
    for file_slice in plan.plain if condition is not None else ():
        assert condition is not None
        rows = _rows_of_file(storage, plan, file_slice, schema, condition)
        if rows is None:
            others.append(file_slice)
        else:
            found += rows
    rest = replace(plan, slices=(*others, *(plan.slices if condition is None else plan.merged)))
    others_found = pa.Table.from_batches(read_batches(storage, rest, columns, where), schema)
    # Tables that are put together lose the number of rows that have no columns, which only the others have.
    return pa.concat_tables([*found, others_found]) if found else others_found


def _rows_of_file(
    storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, schema: pa.Schema, condition: Condition
) -> list[pa.Table] | None:
    """The rows of a base file; None for one that is read in another way, as wide or damaged ones are."""
    constants = constants_of(plan, scan_slice)
    asked = columns_of(condition.whole, plan.schema)
    needed = [name for name in dict.fromkeys([*schema.names, *asked]) if name not in constants]
    if not schema.names or {*asked} <= constants.keys():
        return None
    assert scan_slice.files.base is not None
    with missing_files_named(storage), opened_base_file(storage, scan_slice.files.base) as (source, parquet):
        stored, footer = parquet.schema_arrow, parquet.metadata
        is_plain = {*asked} - constants.keys() <= {*stored.names} and not has_other_types(stored, plan.schema, needed)
        described = row_groups_of(footer, needed)
        if not is_plain or wide_dictionaries(described, BATCH_ROWS):
            return None
        try:
            import pyarrow.dataset as ds

            fragment = ds.ParquetFileFormat().make_fragment(
                source, partition_expression=equalities_of_folder(plan, scan_slice)
            )
            groups = fragment if condition.prunes is None else fragment.subset(condition.prunes, plan.schema)
            reader = _Reader(source, parquet, constants, rows_at_once(described, BATCH_ROWS))
            rows = [reader.rows(group.id, asked, schema, plan.schema, condition) for group in groups.row_groups]
        except (pa.ArrowException, OSError):
            return None
    return [batches for batches in rows if batches is not None]


class _Reader:
    """Reads rows of one open file, at most `rows_max` at a time, with `constants` in the place of its columns."""

    def __init__(self, source: Any, parquet: Any, constants: Mapping[str, pa.Scalar], rows_max: int) -> None:
        self._source, self._parquet, self._constants, self._rows_max = source, parquet, constants, rows_max

    def rows(
        self, group: int, asked: Sequence[str], schema: pa.Schema, known: pa.Schema, condition: Condition
    ) -> pa.Table | None:
        """The rows of a row group that meet a condition on the columns `asked`, with `schema`; None if there is none.

        `known`: the types of all columns of the table.
        """
        in_file = [name for name in asked if name not in self._constants]
        keys = align(
            self._parquet.read_row_group(group, columns=in_file, use_threads=False),
            pa.schema([known.field(name).with_nullable(True) for name in in_file]),
        )
        for name, value in self._constants.items():
            keys = keys.append_column(name, pa.repeat(value, keys.num_rows))
        keys = keys.append_column(_PLACE, pa.array(np.arange(keys.num_rows))).filter(condition.whole)
        if not keys.num_rows:
            return None
        places = keys.column(_PLACE).to_numpy()
        at_hand, stored = {*keys.schema.names}, {*self._parquet.schema_arrow.names}
        missing = [name for name in schema.names if name not in at_hand and name in stored]
        rows = keys.drop_columns([_PLACE])
        if missing:
            for column in (others := self._rows_at(group, missing, places)).schema:
                rows = rows.append_column(column, others.column(column.name))
        return align(rows, schema)

    def _rows_at(self, group: int, columns: Sequence[str], places: Any) -> pa.Table:
        """The rows of a row group at places that ascend."""
        footer = self._parquet.metadata
        chunks = [footer.row_group(group).column(number) for number in range(footer.num_columns)]
        encoded = [
            chunk.path_in_schema
            for chunk in chunks
            if chunk.path_in_schema in columns and any(name.endswith("_DICTIONARY") for name in chunk.encodings)
        ]
        parquet = open_parquet(self._source, metadata=footer, read_dictionary=encoded)
        count = min(int(places[-1]) + 1, self._rows_max)
        batches = parquet.iter_batches(batch_size=count, columns=list(columns), row_groups=[group], use_threads=False)
        found: list[pa.Table] = []
        begin = 0
        for batch in batches:
            within = places[(places >= begin) & (places < begin + batch.num_rows)] - begin
            found.append(_decoded(pa.Table.from_batches([batch.take(pa.array(within))])))
            begin += batch.num_rows
            if begin > places[-1]:
                break
        return pa.concat_tables(found)


def _decoded(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries, as those of one batch differ from the next."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(number).cast(field.type.value_type)
            rows = rows.set_column(number, field.name, column)
    return rows
