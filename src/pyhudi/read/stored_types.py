"""Columns of base files that another engine cannot read under today's names and types.

The types of a table only become wider from write to write, and all base files of one write have the same. So footers
are looked up as in a binary search: where the oldest and the newest file are alike, so are those between them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from pyhudi.environment import SYSTEM
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.schema.avro_arrow import is_list
from pyhudi.format.schema.evolution import is_reread_as
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.format.schema.stored_names import StoredNames
from pyhudi.io.base_file import read_footer
from pyhudi.read.scan import ScanSlice
from pyhudi.read.slices import missing_files_named
from pyhudi.storage.protocol import Storage

Conversions: TypeAlias = frozenset[tuple[pa.DataType, pa.DataType]]
"""(file, table): the types of numbers that a reader of Parquet converts by itself."""
WIDER_NUMBERS: Final[Conversions] = frozenset(
    {(pa.int32(), pa.int64()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64())}
)
"""What most engines convert."""
_FILES_MAX: Final = 10_000
"""Of how many files this process keeps the columns."""
FileIdentity: TypeAlias = tuple[str, str, int, int]
"""Store, path, size and time of modification."""
_SETTLED_AFTER_MS: Final = 3_000
"""Stores tell times of modification in milliseconds or seconds: a younger file may change, and keep its time."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Columns of a scan that a base file has otherwise: under other `names`, in other `types` (by name of today).

    `missing`: those that it does not have. `readable`: those in other types that any reader converts. `inside`: whether
    columns inside of others have types that not all readers convert, or any column values that may not be of its type.
    """

    names: StoredNames | None = None
    types: tuple[tuple[str, pa.DataType], ...] = ()
    missing: frozenset[str] = frozenset()
    readable: frozenset[tuple[str, pa.DataType]] = frozenset()
    inside: bool = False

    @property
    def is_today(self) -> bool:
        """Whether the reader gets the columns of today from it."""
        return self.names is None and not self.types and not self.inside

    @property
    def is_flat(self) -> bool:
        """Whether only whole columns differ."""
        return not self.inside and (self.names is None or self.names.is_flat)

    def schema(self, today: pa.Schema) -> pa.Schema:
        """The columns to read of it, under its names and in its types."""
        types = dict(self.types)
        stored = [(self.stored(field.name), types.get(field.name, field.type)) for field in today]
        return pa.schema([pa.field(name, kind) for name, kind in stored if name is not None])

    def stored(self, name: str) -> str | None:
        """The name of a column of today in it; None if it is not there."""
        return name if self.names is None else self.names.stored(name)


def stored_columns(
    storage: Storage, slices: Iterable[ScanSlice], schema: pa.Schema, converted: Conversions = WIDER_NUMBERS
) -> dict[ScanSlice, StoredColumns]:
    """How the base files of those slices that have one have the columns of a scan, for a reader that converts some.

    Cost: a footer or two for a table whose columns never changed; otherwise some more for each change. This process
    keeps them.
    """
    groups: dict[StoredNames | None, list[ScanSlice]] = defaultdict(list)
    for file_slice in slices:
        if file_slice.files.base is not None:
            groups[file_slice.files.names_in_base].append(file_slice)
    found: dict[ScanSlice, StoredColumns] = {}
    for names, group in groups.items():
        found |= _of_group(storage, group, names, schema, converted)
    return found


def _of_group(
    storage: Storage,
    group: Sequence[ScanSlice],
    names: StoredNames | None,
    schema: pa.Schema,
    converted: Conversions,
) -> dict[ScanSlice, StoredColumns]:
    """For files of the same names."""
    by_write: dict[str, list[ScanSlice]] = defaultdict(list)
    for file_slice in group:
        name = parse_data_file((file_slice.files.base or "").rpartition("/")[2])
        by_write["" if name is None else name.instant_time].append(file_slice)
    writes = sorted(by_write)
    known: dict[str, StoredColumns] = {}

    def look(at: int) -> StoredColumns:
        write = writes[at]
        if write not in known:
            with missing_files_named(storage):
                known[write] = _compared(_columns_of(storage, by_write[write][0]), names, schema, converted)
        return known[write]

    spans = [(0, len(writes) - 1)]
    while spans:
        first, last = spans.pop()
        if _is_settled(look(first)) or look(first) == look(last):
            known |= {write: look(first) for write in writes[first : last + 1]}
        elif last - first > 1:
            middle = (first + last) // 2
            spans += [(first, middle), (middle, last)]
    return {file_slice: known[write] for write, slices in by_write.items() for file_slice in slices}


def _is_settled(columns: StoredColumns) -> bool:
    """Whether all later files have the columns of today, as this one has."""
    return not (columns.types or columns.missing or columns.readable or columns.inside)


_kept: OrderedDict[FileIdentity, pa.Schema] = OrderedDict()
_keeping = threading.Lock()


def _columns_of(storage: Storage, scan_slice: ScanSlice) -> pa.Schema:
    assert scan_slice.files.base is not None
    identity = identity_of_base(storage, scan_slice)
    with _keeping:
        if identity is not None and identity in _kept:
            return _kept[identity]
    schema = read_footer(storage, scan_slice.files.base).schema
    if identity is None:
        return schema
    with _keeping:
        _kept[identity] = schema
        while len(_kept) > _FILES_MAX:
            _kept.popitem(last=False)
    return schema


def _compared(stored: pa.Schema, names: StoredNames | None, schema: pa.Schema, converted: Conversions) -> StoredColumns:
    present: Mapping[str, pa.DataType] = {field.name: field.type for field in stored}
    types: list[tuple[str, pa.DataType]] = []
    missing: set[str] = set()
    readable: set[tuple[str, pa.DataType]] = set()
    inside = False
    for field in schema:
        name = field.name if names is None else names.stored(field.name)
        if field.name in META_COLUMNS:
            continue
        if name is None or name not in present:
            missing.add(field.name)
        elif not _is_read(present[name], field.type, converted):
            if pa.types.is_nested(field.type) or is_reread_as(present[name], field.type):
                inside = True
            else:
                types.append((field.name, present[name]))
        elif present[name] != field.type:
            readable.add((field.name, present[name]))
    return StoredColumns(names, tuple(types), frozenset(missing), frozenset(readable), inside)


def _is_read(stored: pa.DataType, wanted: pa.DataType, converted: Conversions) -> bool:
    """Whether the engine's reader of Parquet reads one type as the other, or refuses it in its own words."""
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        present = {field.name: field.type for field in stored}
        return all(_is_read(present.get(field.name, field.type), field.type, converted) for field in wanted)
    for is_kind in (is_list, pa.types.is_map):
        if is_kind(stored) and is_kind(wanted):
            return _is_read(_value_of(stored), _value_of(wanted), converted)
    return _leaf_is_read(stored, wanted, converted)


def _value_of(kind: pa.DataType) -> pa.DataType:
    return kind.item_type if pa.types.is_map(kind) else kind.value_type


def _leaf_is_read(stored: pa.DataType, wanted: pa.DataType, converted: Conversions) -> bool:
    if is_reread_as(stored, wanted):
        return False
    if pa.types.is_decimal(wanted):
        same_scale = pa.types.is_decimal(stored) and stored.scale == wanted.scale
        return same_scale or not (pa.types.is_decimal(stored) or pa.types.is_integer(stored))
    numbers = (pa.types.is_integer, pa.types.is_floating)
    is_number = any(kind(stored) for kind in numbers)
    if any(kind(wanted) for kind in numbers):
        return not is_number or stored == wanted or (stored, wanted) in converted
    is_text = is_number or pa.types.is_decimal(stored) or pa.types.is_date(stored)
    return not (pa.types.is_string(wanted) and is_text)


def identity_of_base(storage: Storage, scan_slice: ScanSlice) -> FileIdentity | None:
    """What no other content of the slice's base file shares; None where nothing may be remembered of it.

    The name of a file of Hudi's is never given again. A plain file may be written anew at its path, with its size.
    """
    path = scan_slice.files.base
    assert path is not None
    is_young = SYSTEM.clock.now_ms() - scan_slice.modified_ms < _SETTLED_AFTER_MS
    if is_young and parse_data_file(path.rpartition("/")[2]) is None:
        return None
    return storage.uri, path, scan_slice.size, scan_slice.modified_ms
