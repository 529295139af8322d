"""What a chaos run is made of: the kinds of tables, their rows, and what every process of it is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("area", pa.string()),
        # The call that wrote this version of the row, and how many rows it wrote.
        ("call", pa.string()),
        ("rows", pa.int64()),
        # What was appended to this key so far, by call; null in rows that are written once.
        ("list", pa.string()),
    ]
)
LIST_AREAS, ONCE_AREAS = ("list-0", "list-1", "list-2"), ("once-0", "once-1", "once-2", "once-3")
LISTS_AT_ONCE, LIST_LENGTH = 9, 20
"""So many keys are appended to at any time; one that has got long gives way to a new one."""
ONCE_ROWS = 8
CALL_METADATA = "_chaos_call"
"""Where a commit's extra metadata say which call it is of: options that begin with an underscore get there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type and version of table."""

    table_type: str
    version: int

    @classmethod
    def parse(cls, text: str) -> Kind:
        """`cow9`, `mor6`: as on the command line."""
        return cls(text[:3], int(text[3:]))

    def __str__(self) -> str:
        return f"{self.table_type}{self.version}"

    @property
    def has_completion_times(self) -> bool:
        return self.version >= 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every process of a run knows. `options` reach the store and may hold credentials."""

    path: str
    kind: Kind
    folder: Path
    seed: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def hudi_options(self) -> dict[str, str]:
        return {
            **self.options,
            "hoodie.index.bloom.num_entries": "500",
            # Small files, so that there are many file groups, and new rows often join one that others change.
            "hoodie.parquet.small.file.limit": "30000",
            "hoodie.compact.inline": "false",
        }

    def open(self) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(self.path, hudi_options=self.hudi_options)

    def create(self) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.create(
            self.path,
            schema=SCHEMA,
            record_key="id",
            partition_by="area",
            table_type=self.kind.table_type,
            table_version=self.kind.version,
            hudi_options=self.hudi_options,
        )

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Setting:
        values = json.loads(text)
        return cls(**{**values, "kind": Kind(**values["kind"]), "folder": Path(values["folder"])})


def split_list(text: str | None) -> tuple[str, ...]:
    """The values of a row's list."""
    return tuple(text.split(",")) if text else ()


def joined_list(values: tuple[str, ...]) -> str:
    """The other way round."""
    return ",".join(values)


def rows_of(call: str, lists: Mapping[tuple[str, str], tuple[str, ...] | None]) -> pa.Table:
    """The rows that a call writes: by key and area, the list or None."""
    columns = {
        "id": [key for key, _ in lists],
        "area": [area for _, area in lists],
        "call": [call] * len(lists),
        "rows": [len(lists)] * len(lists),
        "list": [None if values is None else joined_list(values) for values in lists.values()],
    }
    return pa.table(columns, schema=SCHEMA)
