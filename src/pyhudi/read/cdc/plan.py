"""A resolved read of change data: the value that the driver makes and workers read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.format.log.cdc import AFTER, BEFORE, INSTANT, OPERATION
from pyhudi.format.schema.stored_names import StoredNames
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.protocol import StorageSpec

CHANGES_SCHEMA = pa.schema(
    [(OPERATION, pa.string()), (INSTANT, pa.string()), (BEFORE, pa.string()), (AFTER, pa.string())]
)
"""The columns of change data in Hudi's form: i, u or d; the instant of the write; the rows as JSON."""


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Changes to one file group, by one write or, if `steps` are given, by several that appended to one slice.

    `before` and `after`: the slice before and after the write; None where it has no rows, or is not needed. With
    `steps`, `after` is the slice after the last of them, and `positions` those of the writes of its logs.
    `logs`: change data logs and their sizes; `names_in_logs`: what the columns of today are called in them; None if
    they have today's names. `until`: the last write before this one; in table version 6 only blocks up to it count in
    `before`.
    """

    instant_time: str
    before: ScanSlice | None = None
    after: ScanSlice | None = None
    logs: tuple[tuple[str, int], ...] = ()
    steps: tuple[str, ...] = ()
    positions: Mapping[str, str] = field(default_factory=dict)
    names_in_logs: StoredNames | None = None
    until: str | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A resolved read of change data, in the order of the writes, as far as groups allow.

    `rows`: how rows of the table are read; its slices are those of the tasks. `images`: the columns of an image in the
    typed form; None: images are JSON. `writes`: the instants of the range, in the order of their positions.
    """

    rows: ScanPlan
    tasks: tuple[ChangeTask, ...]
    images: pa.Schema | None = None
    writes: tuple[str, ...] = ()

    @property
    def storage(self) -> StorageSpec:
        """The table's store."""
        return self.rows.storage

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        if self.images is None:
            return CHANGES_SCHEMA
        image = pa.struct([field.with_nullable(True) for field in self.images])
        return pa.schema(
            [*(CHANGES_SCHEMA.field(name) for name in (OPERATION, INSTANT)), (BEFORE, image), (AFTER, image)]
        )
