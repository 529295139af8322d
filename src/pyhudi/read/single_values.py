"""Meta columns that have one value in a whole base file, as the statistics in its footer say: they are not decoded.

The name of the file and the partition path are such columns, and the commit time where one write wrote all rows. Equal
bounds of a column chunk without nulls say so whatever the order of its values is, and whether or not they are cut off:
every value lies between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.schema.meta_columns import COMMIT_TIME, FILE_NAME, PARTITION_PATH
from pyhudi.io.parquet_batches import leaf_columns

FILE_NUMBER: Final = "file number"
"""The column that a scan by Arrow fills in with the number of a file. No column of a table has a blank in its name.

Arrow has such a column of its own, which counts the files that its filter leaves.
"""
_ASKED: Final = frozenset({COMMIT_TIME, PARTITION_PATH, FILE_NAME})

SingleValues: TypeAlias = Mapping[str, pa.Scalar]
"""The meta columns that have one value in all rows of a base file, and the values."""


def single_values(footer: pq.FileMetaData) -> SingleValues:
    """What a footer says. Looks at three column chunks of each row group."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found: dict[str, pa.Scalar] = {}
    for place, (name, _) in enumerate(leaf_columns(footer)):
        if name in _ASKED and groups:
            first = _single_value(groups[0].column(place))
            if first is not None and all(_single_value(group.column(place)) == first for group in groups[1:]):
                found[name] = pa.scalar(first, pa.string())
    return found


def decoded_columns(names: Iterable[str], files: Sequence[SingleValues]) -> list[str]:
    """The columns that are read from the files: those that do not have one value in each of them."""
    return [name for name in names if not all(name in file for file in files)]


def with_single_values(
    batches: Iterable[pa.RecordBatch], files: Sequence[SingleValues], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The batches of a scan with the columns of `schema`, of which `decoded_columns` were read, and `FILE_NUMBER`.

    Batches without rows are left out. Memory: batches of the same value share it.
    """
    last: dict[str, tuple[pa.Scalar, pa.Array]] = {}
    for batch in batches:
        if batch.num_rows:
            single = files[batch.column(FILE_NUMBER)[0].as_py()]
            missing = frozenset(schema.names).difference(batch.schema.names)
            for name in missing:
                last[name] = _repeated(single[name], batch.num_rows, last.get(name))
            yield _with_columns(batch, {name: last[name][1] for name in missing}, schema)


def _repeated(value: pa.Scalar, rows: int, last: tuple[pa.Scalar, pa.Array] | None) -> tuple[pa.Scalar, pa.Array]:
    """At least so often; the array that was made last, if it is of this value."""
    if last is not None and last[0] == value and len(last[1]) >= rows:
        return last
    return value, pa.repeat(value, rows)


def _with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    for name, column in columns.items():
        batch = batch.append_column(schema.field(name), column.slice(0, batch.num_rows))
    return batch.select(schema.names)


def _single_value(chunk: Any) -> str | None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    try:
        low, high = statistics.min, statistics.max
    except UnicodeDecodeError:  # the bounds of a damaged file, whose column is then decoded
        return None
    return low if isinstance(low, str) and low == high else None
