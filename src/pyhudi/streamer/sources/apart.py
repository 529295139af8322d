"""Records that can be read, apart from those that cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from pyhudi.errors import InvalidRequestError

RECORD: Final = "_source_record"
"""The column of rows that says which record of the batch each comes from."""
T = TypeVar("T")


class UnreadableError(Exception):
    """A record that cannot be read. `row`: its number among those that were read with it; None if it is not known."""

    def __init__(self, row: int | None, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


class NoColumnsError(UnreadableError):
    """Records without a value in any field, so that nothing says which columns they have."""


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record of a batch that cannot become a row. `kind`: JVM Hudi's name for the reason. `reason`: in words."""

    number: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record comes from.

    `source`: the topic or the file. `position`: its place there; None for a whole file. `id`: what no other record of
    any source is called. `payload`: its bytes; None where a file has no text of it.
    """

    id: str
    source: str
    position: str | None
    payload: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """The rows of a batch, with the column `RECORD`; and of what cannot be read, why.

    `origins`: where the records with some numbers come from.
    """

    rows: pa.Table
    failed: tuple[FailedRecord, ...]
    origins: Callable[[Sequence[int]], list[Origin]] = field(repr=False)


def read_apart(count: int, read: Callable[[int, int], T], kind: str) -> tuple[list[T], tuple[FailedRecord, ...]]:
    """What `read` gives for ranges of `count` records, in order; and the records for which it raises `UnreadableError`.

    Ranges are halved until they can be read. So one such record among n costs log n readings of ever fewer records.
    """
    parts: list[T] = []
    failed: list[FailedRecord] = []
    left = [(0, count)] if count else []
    while left:
        start, stop = left.pop()
        try:
            parts.append(read(start, stop))
        except UnreadableError as error:
            if stop - start == 1:
                failed.append(FailedRecord(start, kind, error.reason))
                continue
            middle = (start + stop) // 2
            left += [(middle, stop), (start, middle)]
    return parts, tuple(failed)


def numbered(read: Callable[[], pa.Table], begin: int, count: int) -> pa.Table:
    """The rows of `count` records, as `with_numbers`. Where none has a value they have no other column."""
    try:
        return with_numbers(read(), begin)
    except NoColumnsError:
        return pa.table({RECORD: np.arange(begin, begin + count)})


def with_numbers(rows: pa.Table, begin: int) -> pa.Table:
    """Rows with the numbers of their records, from `begin` on.

    Raises `InvalidRequestError` if they have such a column.
    """
    if RECORD in rows.column_names:
        raise InvalidRequestError("with an error table no column may have this name", column=RECORD)
    return rows.append_column(RECORD, pa.array(np.arange(begin, begin + rows.num_rows)))
