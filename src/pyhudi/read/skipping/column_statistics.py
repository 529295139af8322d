"""Skipping of files by the indexes of the metadata table: no footer of them is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from pyhudi.errors import CorruptDataError, HudiError, NotFoundError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.metadata_table.bounds import ColumnBounds, partitions_may_be_wrong, valid_bounds
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.lookup import statistics_of_files, statistics_of_partitions
from pyhudi.read.conditions import Condition, columns_of
from pyhudi.read.folder_constants import constants_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.metadata_read import MetadataOfRead, note_if_invalid, saying_undone, unreadable
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS
from pyhudi.table.state import TableState

FILES_MIN: Final = 8
"""The lowest number of file slices for which statistics are looked up."""

Statistics = Callable[[Sequence[str], Sequence[str]], Mapping[str, pa.StructArray]]
"""Payloads of `HoodieMetadataColumnStats` by column, for columns and partition paths; none for columns without."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class IndexUse:
    """What an index of the metadata table did for a scan.

    Attributes:
        index: `partition_stats`, `column_stats` or another partition of the metadata table; or `bucket_index`.
        file_slices: how many file slices it left out.
        columns: the columns of the condition that it knows.
        note: why it left out none, or not more; None where there is nothing to say.
    """

    index: str
    file_slices: int = 0
    columns: tuple[str, ...] = ()
    note: str | None = None


def skip_by_indexes(
    table: TableState, plan: ScanPlan, condition: Condition, metadata: MetadataOfRead, *, is_newest: bool
) -> tuple[ScanPlan, tuple[IndexUse, ...]]:
    """The plan without the file slices that indexes leave out, and what each of them did.

    `plan`: without the partitions that their paths rule out. `is_newest`: it is of the newest state. A metadata table
    that is stale or damaged leaves nothing out. Cost: for more than `FILES_MIN` slices without logs, or with
    them, that of `metadata`, a read of the definitions of indexes, and the lookups.
    """
    if COLUMN_STATS not in table.config.metadata_partitions:
        return plan, (IndexUse(COLUMN_STATS, note="the table has no column statistics"),)
    if len(plan.slices) < FILES_MIN:
        note = f"the footers of fewer than {FILES_MIN} files are read sooner than statistics"
        return plan, (IndexUse(COLUMN_STATS, note=note),)
    left: ScanPlan = plan
    uses: tuple[IndexUse, ...] = ()
    try:
        for step, use in _steps(table, plan, condition, metadata, is_newest=is_newest):
            left, uses = step, (*uses, use)
    except (CorruptDataError, NotFoundError, SchemaMismatchError, UnsupportedFeatureError) as error:
        broken = _asked_last(error)
        return left, (*uses, IndexUse(COLUMN_STATS, note=unreadable(metadata, broken, error)))
    return left, uses


def _asked_last(error: HudiError) -> str:
    """Of the two partitions that statistics are in, the one with the damage."""
    folder = partition_folder(PARTITION_STATS)
    return PARTITION_STATS if str(error.context.get("path", "")).startswith(folder) else COLUMN_STATS


def _steps(
    table: TableState, plan: ScanPlan, condition: Condition, metadata: MetadataOfRead, *, is_newest: bool
) -> Iterator[tuple[ScanPlan, IndexUse]]:
    """The plan after each index, and what the index did."""
    if (note := note_if_invalid(metadata)) is not None:
        yield plan, IndexUse(COLUMN_STATS, note=note)
        return
    state = metadata.state
    definition = metadata.definitions.get(COLUMN_STATS)
    indexed = plan.schema.names if definition is None else definition.source_columns
    # Bounds of a partition, whoever wrote them, know nothing of the columns that skeleton files have elsewhere.
    has_skeletons = any(file_slice.files.source is not None for file_slice in plan.slices)
    has_bounds = PARTITION_STATS in table.config.metadata_partitions
    if has_bounds and (note := saying_undone(metadata, PARTITION_STATS)) is not None:
        yield plan, IndexUse(PARTITION_STATS, note=note)
    elif is_newest and has_bounds and not has_skeletons and metadata.is_ahead is None:
        plan, use = skip_by_partition_stats(plan, condition, partial(statistics_of_partitions, state), indexed)
        yield plan, use
    yield skip_by_column_stats(plan, condition, partial(statistics_of_files, state), indexed)


def skip_by_column_stats(
    plan: ScanPlan, condition: Condition, statistics: Statistics, indexed: Sequence[str]
) -> tuple[ScanPlan, IndexUse]:
    """The plan without the file slices that have no row for the condition, and what to say of it.

    `indexed`: the columns that have statistics. Cost: that of `statistics`, for the partitions of the plan.
    """
    columns, note = deciding_columns(plan, condition, indexed)
    if condition.prunes is None or not columns or not plan.slices:
        return plan, IndexUse(COLUMN_STATS, note=note)
    if plan.merging.rules.with_base.merger is not None and any(file_slice.files.logs for file_slice in plan.slices):
        note = "a merger of the user's own may make any values of the rows in logs"
        candidates = tuple(file_slice for file_slice in plan.slices if not file_slice.files.logs)
    else:
        candidates = plan.slices
    if any(candidate.files.has_other_names for candidate in candidates):
        # Statistics are kept by name: a name of today may be that of another column there.
        note = note or "columns of some files have other names today"
        candidates = tuple(candidate for candidate in candidates if not candidate.files.has_other_names)
    files, groups = files_of(candidates)
    found = statistics(columns, sorted({candidate.partition_path for candidate in candidates}))
    known: dict[str, ColumnBounds] = {}
    missing = 0
    for name in columns:
        places = places_of(found[name], files) if name in found else np.full(len(files), -1)
        missing = max(missing, int(np.count_nonzero(places < 0)))
        if name in found:
            bounds = valid_bounds(found[name], plan.schema.field(name).type).take(places)
            known[name] = _with_folder_values(bounds.united(groups, len(candidates)), name, plan, candidates)
    if missing:
        note = f"{missing} of {len(files)} files have no statistics"
    kept = condition_may_hold(condition.prunes, plan.schema, known, len(candidates))
    dropped = {id(file_slice) for file_slice, is_kept in zip(candidates, kept, strict=True) if not is_kept}
    slices = tuple(file_slice for file_slice in plan.slices if id(file_slice) not in dropped)
    use = IndexUse(COLUMN_STATS, len(dropped), tuple(columns), note)
    return replace(plan, slices=slices), use


def skip_by_partition_stats(
    plan: ScanPlan, condition: Condition, statistics: Statistics, indexed: Sequence[str]
) -> tuple[ScanPlan, IndexUse]:
    """The plan without the partitions that have no row for the condition, and what to say of it.

    Only for a plan of the newest state: the bounds of partitions know nothing of previous files. Arguments as of
    `skip_by_column_stats`.
    """
    columns, note = deciding_columns(plan, condition, indexed)
    paths = sorted({file_slice.partition_path for file_slice in plan.slices})
    if condition.prunes is None or not columns or len(paths) < 2:
        return plan, IndexUse(PARTITION_STATS, note=note)
    if plan.merging.rules.with_base.merger is not None and any(file_slice.files.logs for file_slice in plan.slices):
        return plan, IndexUse(PARTITION_STATS, note="a merger of the user's own may make any values")
    if any(file_slice.files.has_other_names for file_slice in plan.slices):
        return plan, IndexUse(PARTITION_STATS, note="columns of some files have other names today")
    wrong = [name for name in columns if partitions_may_be_wrong(plan.schema.field(name).type)]
    if wrong:
        note = f"bounds of partitions may be false for the types of {', '.join(wrong)}: those of files decide"
        columns = [name for name in columns if name not in wrong]
    if not columns:
        return plan, IndexUse(PARTITION_STATS, note=note)
    found = statistics(columns, paths)
    named = [path or "." for path in paths]
    one_of = {file_slice.partition_path: file_slice for file_slice in plan.slices}
    known = {
        name: _with_folder_values(
            valid_bounds(found[name], plan.schema.field(name).type, of_partitions=True).take(
                places_of(found[name], named)
            ),
            name,
            plan,
            [one_of[path] for path in paths],
        )
        for name in columns
        if name in found
    }
    kept = condition_may_hold(condition.prunes, plan.schema, known, len(paths))
    left = {path for path, is_kept in zip(paths, kept, strict=True) if is_kept}
    slices = tuple(file_slice for file_slice in plan.slices if file_slice.partition_path in left)
    return replace(plan, slices=slices), IndexUse(PARTITION_STATS, len(plan.slices) - len(slices), tuple(columns), note)


def deciding_columns(plan: ScanPlan, condition: Condition, indexed: Sequence[str]) -> tuple[list[str], str | None]:
    """The columns of a condition whose statistics can decide it, and why there are no more."""
    if condition.prunes is None:
        return [], "statistics cannot decide this condition: NaN passes it"
    asked = columns_of(condition.prunes, plan.schema)
    usable = [name for name in asked if name in indexed and name not in plan.path_columns]
    others = [name for name in asked if name not in usable]
    return usable, f"it has no statistics of {', '.join(others)}" if others else None


def _with_folder_values(bounds: ColumnBounds, name: str, plan: ScanPlan, slices: Sequence[ScanSlice]) -> ColumnBounds:
    """The bounds of a column in slices, of a partition column those of the values that reads show."""
    if name not in plan.folder_columns:
        return bounds
    values = [constants_of(plan, file_slice).get(name) for file_slice in slices]
    has_value = np.array([value is not None for value in values], np.bool_)
    stored = pa.array([None if value is None else value.as_py() for value in values], plan.schema.field(name).type)
    return ColumnBounds(
        pc.if_else(pa.array(has_value), stored, bounds.low),
        pc.if_else(pa.array(has_value), stored, bounds.high),
        bounds.no_nulls | has_value,
        bounds.only_nulls & ~has_value,
        bounds.is_empty,
    )


def files_of(slices: Sequence[ScanSlice]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The names of the files of slices, and of each the number of its slice."""
    files: list[str] = []
    groups: list[int] = []
    for number, file_slice in enumerate(slices):
        paths = [*([] if file_slice.files.base is None else [file_slice.files.base]), *file_slice.files.logs]
        files += [path.rpartition("/")[2] for path in paths]
        groups += [number] * len(paths)
    return files, np.array(groups, dtype=np.int64)


def places_of(payloads: pa.StructArray, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Where the records of files are; -1 for those without one, and for a name that several records have."""
    stored = payloads.field("fileName")
    wanted = pa.array(names, pa.string())
    places: npt.NDArray[np.int64] = (
        pc.fill_null(pc.index_in(wanted, value_set=stored), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    for texts, hides in ((stored, wanted), (wanted, wanted)):
        counts = texts.value_counts()
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        places[pc.is_in(hides, value_set=repeated).to_numpy(zero_copy_only=False)] = -1
    return places


def condition_may_hold(
    condition: pc.Expression, schema: pa.Schema, known: Mapping[str, ColumnBounds], files: int
) -> Flags:
    """Whether each of some files may have rows that meet a condition. What is not known leaves no file out.

    Args:
        condition: no row with NaN in a column of `known` passes a comparison of it with that column
            (`Condition.prunable`).
        schema: the columns of the files.
        known: what is known of columns in the files, each as long as there are files.
        files: how many there are.

    Cost: about 20 µs per file and column.
    """
    import pyarrow.dataset as ds

    empty = np.zeros(files, np.bool_)
    for bounds in known.values():
        empty |= bounds.is_empty
    guarantees: list[pc.Expression | None] = [None] * files
    for name, bounds in known.items():
        for number, guarantee in enumerate(_guarantees(name, bounds)):
            previous = guarantees[number]
            if guarantee is not None:
                guarantees[number] = guarantee if previous is None else previous & guarantee
    # Nothing is opened here: the fragments carry the number of a file in the place of its path.
    parquet, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
    numbered = [parquet.make_fragment(str(number), nowhere, guarantee) for number, guarantee in enumerate(guarantees)]
    dataset = ds.FileSystemDataset(numbered, schema, parquet, nowhere)
    found = np.zeros(files, np.bool_)
    found[[int(fragment.path) for fragment in dataset.get_fragments(condition)]] = True
    return found & ~empty


def _guarantees(name: str, bounds: ColumnBounds) -> Iterator[pc.Expression | None]:
    """What holds for the column in all rows of each file, rows with NaN left aside."""
    field = pc.field(*name.split(".")) if "." in name else pc.field(name)
    missing = field.is_null()
    for low, high, no_nulls, only_nulls in zip(
        bounds.low, bounds.high, bounds.no_nulls, bounds.only_nulls, strict=True
    ):
        if only_nulls:
            yield missing
            continue
        parts = [
            *([field >= low] if low.is_valid else []),
            *([field <= high] if high.is_valid else []),
        ]
        if not parts:
            yield None
        else:
            yield reduce(and_, parts if no_nulls else [part | missing for part in parts])
