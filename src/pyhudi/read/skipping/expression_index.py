"""Skipping of file slices by expression indexes: what they know of an expression in each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, NotFoundError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.metadata_table.bounds import ColumnBounds, valid_bounds
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.metadata_table.lookup import statistics_of_files
from pyhudi.metadata_table.partitions.bloom_filters import FilterReader
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.bloom_filters import base_paths, without_keys
from pyhudi.read.skipping.column_statistics import IndexUse, files_of, places_of
from pyhudi.read.skipping.expressions import (
    IndexedExpression,
    are_texts_of_four_digit_years,
    has_expression_indexes,
    indexes_over_expressions,
)
from pyhudi.read.skipping.fixed_values import alternatives_of_predicate, fixed_values
from pyhudi.read.skipping.metadata_read import MetadataOfRead, note_if_invalid, unreadable
from pyhudi.read.skipping.predicates import Predicate, columns_of_predicate, may_match

FILES_MIN: Final = 2
_AT_ONCE: Final = 100
"""So many filters are in memory at a time."""
_VALUES_MAX: Final = 1000
"""Filters are not asked of more values."""


@dataclass(frozen=True, slots=True)
class ByExpression:
    """What expression indexes left of a plan.

    Attributes:
        plan: the plan without the file slices that they leave out.
        uses: what each of them did.
        ranges: the ranges of expressions in the slices of `plan`, by the names that they have in predicates.
    """

    plan: ScanPlan
    uses: tuple[IndexUse, ...] = ()
    ranges: Mapping[str, ColumnBounds] = field(default_factory=dict)

    def within(self, plan: ScanPlan, uses: tuple[IndexUse, ...]) -> ByExpression:
        """The same of a plan with some of the slices."""
        left = {id(file_slice) for file_slice in plan.slices}
        kept = np.array(
            [number for number, file_slice in enumerate(self.plan.slices) if id(file_slice) in left], np.intp
        )
        return ByExpression(plan, uses, {name: ranges.take(kept) for name, ranges in self.ranges.items()})


def skip_by_expressions(metadata: MetadataOfRead, plan: ScanPlan, predicate: Predicate) -> ByExpression:
    """The plan without the file slices in which no row can meet a predicate on expressions, by their indexes.

    `predicate`: of `certain`, with the names of `indexed_expressions` as columns; others are not regarded. Cost:
    nothing where it has none of them; else that of `metadata`, and for each index a listing, its logs, and index and
    wanted blocks of its base files; filters are 430 KB per file.
    """
    asked = columns_of_predicate(predicate)
    found = ByExpression(plan)
    if len(plan.slices) < FILES_MIN or not has_expression_indexes(metadata.table):
        return found
    wanted = [
        (index, expression)
        for index, expression in indexes_over_expressions(metadata.table, metadata.definitions, plan.schema)
        # Of a partition column reads show the value of the folder, and the index knows that of the record.
        if expression.name in asked and expression.column not in plan.folder_columns
    ]
    for index, expression in wanted:
        try:
            if (note := note_if_invalid(metadata)) is not None:
                use = IndexUse(index.name, columns=(expression.label,), note=note)
                return replace(found, uses=(*found.uses, use))
            skip = _by_filters if index.kind == "bloom_filters" else _by_statistics
            found = skip(metadata, found, predicate, index, expression)
        except (CorruptDataError, NotFoundError, SchemaMismatchError, UnsupportedFeatureError) as error:
            note = unreadable(metadata, index.name, error)
            found = replace(found, uses=(*found.uses, IndexUse(index.name, columns=(expression.label,), note=note)))
    return found


def _by_statistics(
    metadata: MetadataOfRead,
    found: ByExpression,
    predicate: Predicate,
    index: IndexDefinition,
    expression: IndexedExpression,
) -> ByExpression:
    plan, column = found.plan, expression.column
    is_known = [_is_asked(plan, file_slice) for file_slice in plan.slices]
    files, groups = files_of(plan.slices)
    paths = sorted({file_slice.partition_path for file_slice in plan.slices})
    records = statistics_of_files(metadata.state, [column], paths, partition=index.name)[column]
    places = places_of(records, files)
    bounds = valid_bounds(records, expression.kind).take(places).united(groups, len(plan.slices))
    known = _in_order(bounds, expression).where(np.array(is_known, np.bool_))
    other = found.ranges.get(expression.name)
    all_ranges = {**found.ranges, expression.name: known if other is None else known.tighter(other)}
    kept = np.flatnonzero(may_match(predicate, all_ranges, len(plan.slices)))
    slices = tuple(plan.slices[number] for number in kept)
    missing = int(np.count_nonzero(places < 0))
    note = f"{missing} of {len(files)} files have no statistics" if missing else _note(is_known)
    use = IndexUse(index.name, len(plan.slices) - len(slices), (expression.label,), note)
    left = {name: ranges.take(kept) for name, ranges in all_ranges.items()}
    return ByExpression(replace(plan, slices=slices), (*found.uses, use), left)


def _is_asked(plan: ScanPlan, scan_slice: ScanSlice) -> bool:
    """Whether its files know all values of its rows: under the names of today, and of no merger of the user's own."""
    return not scan_slice.files.has_other_names and (
        plan.merging.rules.with_base.merger is None or not scan_slice.files.logs
    )


def _note(is_known: Sequence[bool]) -> str | None:
    return None if all(is_known) else "columns of some files have other names today, or a merger of the user's own"


def _in_order(bounds: ColumnBounds, expression: IndexedExpression) -> ColumnBounds:
    """The bounds without those of texts of times that have another order than their times."""
    if not expression.is_of_a_clock or not pa.types.is_string(expression.kind):
        return bounds
    ordered = are_texts_of_four_digit_years(bounds.low, bounds.high)
    low, high = (pc.if_else(ordered, end, pa.scalar(None, end.type)) for end in (bounds.low, bounds.high))
    return replace(bounds, low=low, high=high)


def _by_filters(
    metadata: MetadataOfRead,
    found: ByExpression,
    predicate: Predicate,
    index: IndexDefinition,
    expression: IndexedExpression,
) -> ByExpression:
    """Slices with logs stay: a filter is over the rows of a base file."""
    plan = found.plan
    values = _fixed_texts(predicate, expression)
    label = (expression.label,)
    if values is None:
        note = "filters are asked of values that the condition fixes exactly"
        return replace(found, uses=(*found.uses, IndexUse(index.name, columns=label, note=note)))
    candidates = [
        file_slice
        for file_slice in plan.slices
        if file_slice.files.base and not file_slice.files.logs and _is_asked(plan, file_slice)
    ]
    reader = FilterReader(metadata.state.slices(index.name))
    left_out: set[str] = set()
    for start in range(0, len(candidates), _AT_ONCE):
        paths = base_paths(candidates[start : start + _AT_ONCE])
        left_out |= without_keys(reader.find(metadata.table.storage, paths), values)
    kept = [
        at
        for at, file_slice in enumerate(plan.slices)
        if file_slice.files.logs or file_slice.files.base not in left_out
    ]
    slices = tuple(plan.slices[number] for number in kept)
    why = None if len(candidates) == len(plan.slices) else "filters do not know what is in logs"
    use = IndexUse(index.name, len(plan.slices) - len(slices), label, why)
    numbers = np.array(kept, np.intp)
    ranges = {name: known.take(numbers) for name, known in found.ranges.items()}
    return ByExpression(replace(plan, slices=slices), (*found.uses, use), ranges)


def _fixed_texts(predicate: Predicate, expression: IndexedExpression) -> pa.StringArray | None:
    """The values to which a predicate fixes an expression, as they are in filters; None where they are not known so."""
    kind = expression.kind
    if expression.is_of_a_clock or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return None
    each = [fixed_values(alternative, expression.name) for alternative in alternatives_of_predicate(predicate)]
    if any(values is None for values in each):
        return None
    texts = sorted({str(value) for values in each for value in values or ()})
    return pa.array(texts, pa.string()) if len(texts) <= _VALUES_MAX and "" not in texts else None
