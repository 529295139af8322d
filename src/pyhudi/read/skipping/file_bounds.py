"""Ranges of the columns of a scan's files: from their partition paths, and from the footers of base files.

Between the two, the indexes of the metadata table are asked.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import CorruptDataError, HudiError, NotFoundError
from pyhudi.format.keys.partition_paths import typed_value
from pyhudi.format.metadata_table.bounds import ColumnBounds
from pyhudi.io.column_statistics import FooterBounds, read_bounds
from pyhudi.read.conditions import Condition
from pyhudi.read.scan import ScanPlan, ScanSlice, moment_of
from pyhudi.read.skipping.all_indexes import Asked, skip_by_all_indexes
from pyhudi.read.skipping.expressions import IndexedExpression
from pyhudi.read.skipping.fixed_values import alternatives_of_predicate
from pyhudi.read.skipping.metadata_read import MetadataOfRead
from pyhudi.read.skipping.predicates import (
    Mask,
    Predicate,
    columns_of_predicate,
    expression_of_predicate,
    may_match,
)
from pyhudi.read.stored_types import FileIdentity, identity_of_base
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.index_definitions import COLUMN_STATS
from pyhudi.table.state import load_table

_log = logging.getLogger(__name__)
FOOTERS_MAX = 2000
"""The largest number of files whose footers are read to leave files out. Reading more of them where the rows are read,
by all executors, is faster than by the driver."""
FOOTERS_ON_DISK_MAX = 20_000
"""The same for a table on the local disk, where a footer takes a fraction of a millisecond."""
_FOOTERS_AT_ONCE = 32
_SAME_IN_ALL_CALENDARS = dt.datetime(1900, 1, 2)  # noqa: DTZ001
"""Spark moves older dates and times of files that old versions of it wrote, to a calendar of today."""
_KEPT_COLUMNS_MAX = 200_000
"""The largest number of bounds of a column of a file that this process keeps, at some hundred bytes each."""


Numbers: TypeAlias = npt.NDArray[np.intp]
"""Numbers of slices."""


@dataclass(frozen=True, slots=True)
class FilePruner:
    """Leaves out files of a scan in which no row can meet a predicate.

    Attributes:
        slices: slices without logs.
        schema: the columns of the scan and their types.
        source: the ranges of columns within files.
        plan: the scan, to ask the indexes of the metadata table first; None not to ask them.
    """

    slices: tuple[ScanSlice, ...]
    schema: pa.Schema
    source: FooterRanges
    plan: ScanPlan | None = None

    def matching(self, predicate: Predicate, constants: Mapping[str, pa.Array] | None = None) -> list[int]:
        """The numbers of the slices that can have rows for which the predicate holds.

        `constants`: further columns, with their one value in each slice. Cost: no request for the slices that partition
        paths and constants rule out; for the others that of `source`.
        """
        constants = constants or {}
        expressions = {expression.name for expression in self.expressions}
        columns = columns_of_predicate(predicate)
        by_path = ranges_of_paths(self.slices, self.schema, columns)
        by_path |= {name: _of_one_value(values) for name, values in constants.items() if name in columns}
        left = np.flatnonzero(may_match(predicate, by_path, len(self.slices)))
        in_files = columns - by_path.keys() - constants.keys() - expressions
        of_expressions: Mapping[str, ColumnBounds] = {}
        if self.plan is not None and (in_files or columns & expressions) and len(left):
            left, decided, of_expressions = self._left_by_indexes(self.plan, left, predicate)
            in_files -= decided
        if not in_files or not len(left):
            return list(map(int, left))
        known = {name: ranges.take(left) for name, ranges in by_path.items()} | dict(of_expressions)
        known |= self.source.of([self.slices[number] for number in left], in_files)
        return list(map(int, left[may_match(predicate, known, len(left))]))

    @property
    def expressions(self) -> tuple[IndexedExpression, ...]:
        """The expressions that indexes know, further columns of predicates."""
        return () if self.plan is None else self.plan.expressions

    def _left_by_indexes(
        self, plan: ScanPlan, left: Numbers, predicate: Predicate
    ) -> tuple[Numbers, frozenset[str], Mapping[str, ColumnBounds]]:
        """What indexes leave of these slices, the columns that they know in all of them, and ranges of expressions.

        Of the table as it is now: what an index says of a file stays true, and of files that are gone it says nothing.
        Indexes of the newest state are asked as long as the plan is of it.
        """
        condition = expression_of_predicate(predicate, self.schema.names)
        plan = replace(plan, slices=tuple(self.slices[number] for number in left))
        try:
            table = load_table(open_spec(plan.storage))
        except HudiError:
            return left, frozenset(), {}
        is_newest = plan.moment == moment_of(table.timeline) and not plan.leaves_out_logs
        asked = Asked(Condition(condition, condition), alternatives_of_predicate(predicate), predicate)
        found = skip_by_all_indexes(MetadataOfRead(table), plan, asked, is_newest=is_newest)
        for use in found.uses:
            _log.info("%s: %s", plan.uri, use)
        decided = frozenset(
            name for use in found.uses if use.index == COLUMN_STATS and use.note is None for name in use.columns
        )
        is_kept = {id(file_slice) for file_slice in found.plan.slices}
        return left[[id(file_slice) in is_kept for file_slice in plan.slices]], decided, found.ranges


def ranges_of_paths(
    slices: Sequence[ScanSlice], schema: pa.Schema, columns: Collection[str]
) -> dict[str, ColumnBounds]:
    """The ranges of those columns whose values are in partition paths: one value for all rows of a file.

    The folder of nulls says nothing: it has empty texts, too.
    """
    names = [name for name, _ in slices[0].partition_values if name in columns] if slices else []
    found = {}
    for name in names:
        kind = schema.field(name).type
        texts = [dict(file_slice.partition_values).get(name) for file_slice in slices]
        typed = {text: None if text is None else typed_value(text, kind) for text in set(texts)}
        values = pa.array([None if (value := typed[text]) is None else value.as_py() for text in texts], kind)
        if values.null_count < len(values):
            found[name] = _of_one_value(values)
    return found


def _of_one_value(values: pa.Array) -> ColumnBounds:
    """The ranges of files that have one value each, which is unknown where it is null."""
    unknown: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return ColumnBounds.of(values, values, ~unknown)


@dataclass(frozen=True, slots=True)
class FooterRanges:
    """The ranges in the footers of base files.

    This process keeps what it read by path, size and time of modification: base files never change, but plain files of
    others may. A file whose footer cannot be read is not left out, so that reading its rows says what is wrong with it.

    Attributes:
        storage: the table's store.
        schema: the columns whose bounds are looked up, and their types.
    """

    storage: StorageSpec
    schema: pa.Schema

    def of(self, slices: Sequence[ScanSlice], columns: Collection[str]) -> Mapping[str, ColumnBounds]:
        """The ranges of these columns in the base files of these slices, in their order; columns may be missing.

        Cost: a footer per file, none of too many files (`FOOTERS_MAX`).
        """
        names = [name for name in self.schema.names if name in columns]
        if not names or len(slices) > (FOOTERS_ON_DISK_MAX if self.storage.uri.startswith("file:") else FOOTERS_MAX):
            return {}
        storage = open_spec(self.storage)
        with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(slices))) as pool:
            bounds = list(pool.map(lambda scan_slice: _bounds_of(storage, scan_slice, names), slices))
        return {
            name: _ranges([of_file.get(name) for of_file in bounds], self.schema.field(name).type) for name in names
        }


_kept: OrderedDict[tuple[FileIdentity, str], FooterBounds | None] = OrderedDict()
"""By file and column; None where the file has no bounds of it."""
_keeping = threading.Lock()


def _bounds_of(storage: Storage, scan_slice: ScanSlice, names: Sequence[str]) -> Mapping[str, FooterBounds | None]:
    path = scan_slice.files.base
    if path is None:
        return {}
    identity = identity_of_base(storage, scan_slice)
    if identity is not None:
        with _keeping:
            known = {name: _kept[identity, name] for name in names if (identity, name) in _kept}
        if len(known) == len(names):
            return known
    try:
        found = read_bounds(storage, path, names)
    except (CorruptDataError, NotFoundError):
        return {}
    if identity is not None:
        with _keeping:
            _kept.update({(identity, name): found.get(name) for name in names})
            while len(_kept) > _KEPT_COLUMNS_MAX:
                _kept.popitem(last=False)
    return found


def _ranges(bounds: Sequence[FooterBounds | None], kind: pa.DataType) -> ColumnBounds:
    ends = [(None, None) if bound is None else _typed(bound, kind) for bound in bounds]
    return ColumnBounds.of(
        pa.array([low for low, _ in ends], kind),
        pa.array([high for _, high in ends], kind),
        no_nulls=np.array([bound is not None and bound.nulls == 0 for bound in bounds], np.bool_),
        only_nulls=np.array([bound is not None and bound.has_only_nulls for bound in bounds], np.bool_),
    )


def _typed(bounds: FooterBounds, kind: pa.DataType) -> tuple[Any, Any]:
    """The bounds as values of the column's type; none where the file has the column in a type that does not fit."""
    ends = (bounds.low, bounds.high)
    if not all(_fits(end, kind) for end in ends):
        return None, None
    try:
        return tuple(pa.array(ends, kind))
    except (pa.ArrowException, OverflowError):
        return None, None


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a bound is a value of this type for all readers."""
    if isinstance(value, dt.datetime):
        return bool(pa.types.is_timestamp(kind)) and _fits_time(value, kind)
    if isinstance(value, dt.date):
        return bool(pa.types.is_date(kind)) and value >= _SAME_IN_ALL_CALENDARS.date()
    is_kind = _KIND_OF.get(type(value))
    return is_kind is not None and bool(is_kind(kind))


def _fits_time(value: dt.datetime, kind: pa.DataType) -> bool:
    return (
        (kind.tz is None) == (value.tzinfo is None)
        and (kind.unit in ("us", "ns") or (kind.unit == "ms" and value.microsecond % 1000 == 0))
        and value.replace(tzinfo=None) >= _SAME_IN_ALL_CALENDARS
    )


_KIND_OF: dict[type, Callable[[pa.DataType], object]] = {
    bool: pa.types.is_boolean,
    int: pa.types.is_integer,
    float: pa.types.is_floating,
    str: pa.types.is_string,
    Decimal: pa.types.is_decimal,
}
