"""Values of partition columns that the folders of files tell exactly: an engine need not read them from the files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyhudi.read.folder_constants import Value, certain_value
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.file_bounds import FooterRanges

FOOTERS_OF_NULLS_MAX = 16
"""The largest number of files in the folder of nulls and empty texts whose footers are read to tell them apart."""


def values_of_folders(plan: ScanPlan, slices: Sequence[ScanSlice]) -> dict[str, tuple[Value, ...]]:
    """The values of partition columns in the rows of each slice, for the columns whose every value is certain.

    A value is certain if its folder has exactly its text, and no other value of the column has that text. Cost: no
    request; for a folder of nulls in a column of text, the footers of its files (`FOOTERS_OF_NULLS_MAX`).
    """
    if not slices or len({name.lower() for name in plan.schema.names}) < len(plan.schema.names):
        return {}
    texts_of_slices = [dict(file_slice.partition_values) for file_slice in slices]
    found: dict[str, tuple[Value, ...]] = {}
    for name in dict.fromkeys([*plan.path_columns, *plan.folder_columns]):
        kind = plan.schema.field(name).type
        if not all(name in texts for texts in texts_of_slices):
            continue
        texts = [of_slice[name] for of_slice in texts_of_slices]
        values = {text: certain_value(text, kind) for text in {*texts} if text is not None}
        if any(value is None for value in values.values()):
            continue
        nulls = [one for one, text in zip(slices, texts, strict=True) if text is None]
        if nulls and name not in plan.path_columns and pa.types.is_string(kind):
            told = _told_by_footers(plan, nulls, name)
            if told is None:
                continue
            of_nulls = iter(told)
            found[name] = tuple(next(of_nulls) if text is None else values[text] for text in texts)
        else:
            found[name] = tuple(None if text is None else values[text] for text in texts)
    return found


def _told_by_footers(plan: ScanPlan, slices: Sequence[ScanSlice], name: str) -> list[str | None] | None:
    """Whether the rows of each file have null or the empty text, which have one folder; None if that is not known."""
    if len(slices) > FOOTERS_OF_NULLS_MAX:
        return None
    schema = pa.schema([plan.schema.field(name)])
    ranges = FooterRanges(plan.storage, schema).of(slices, [name]).get(name)
    if ranges is None:
        return None
    told: list[str | None] = []
    for number in range(len(slices)):
        low, high = ranges.low[number].as_py(), ranges.high[number].as_py()
        if not ranges.may_have_values[number]:
            told.append(None)
        elif not ranges.may_be_null[number] and low == high == "":
            told.append("")
        else:
            return None
    return told
