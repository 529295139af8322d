"""Names of columns: what those of today are called in files of another version of the schema.

Columns are found by their ids: a column that was renamed has another name in older files, and a column of an older
file whose id is gone is not shown, even if a column of today has its name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from pyhudi.format.schema.avro_arrow import LIST_ELEMENT, MAP_VALUE, is_list
from pyhudi.format.schema.internal_schema import Column, InternalSchema, columns_inside, version_of_instant
from pyhudi.format.schema.meta_columns import META_COLUMNS

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of today in a file: its name there, None where it is not there; `inside` if columns inside differ."""

    name: str
    stored: str | None
    inside: StoredNames | None = None


@dataclass(frozen=True, slots=True)
class StoredNames:
    """Columns of one struct (a schema, or the type of a column) in files of another version of the schema.

    `columns` are those that differ. `gone`: columns of the file that do not exist any more.
    """

    columns: tuple[StoredColumn, ...] = ()
    gone: frozenset[str] = frozenset()

    @property
    def is_flat(self) -> bool:
        """Whether only whole columns differ, and no columns inside of others."""
        return all(column.inside is None for column in self.columns)

    def stored(self, name: str) -> str | None:
        """The name of a column of today in the file; None if it is not there."""
        return next((column.stored for column in self.columns if column.name == name), name)

    def read_names(self, names: Sequence[str]) -> list[str]:
        """The columns of the file that have these columns of today."""
        return [stored for name in names if (stored := self.stored(name)) is not None]

    def of_today(self, rows: Rows) -> Rows:
        """Rows of the file, with the columns of today that they have, under today's names.

        Works on whole columns, and shares their memory.
        """
        renamed = {column.stored: column for column in self.columns if column.stored is not None}
        taken = {column.name for column in self.columns} - renamed.keys()
        fields, columns = [], []
        for field, values in zip(rows.schema, rows.columns, strict=True):
            if field.name in renamed:
                column = renamed[field.name]
                columns.append(values if column.inside is None else _chunkwise(values, column.inside))
                fields.append(pa.field(column.name, columns[-1].type, field.nullable))
            elif field.name not in self.gone and field.name not in taken:
                columns.append(values)
                fields.append(field)
        if not columns:
            empty = pa.RecordBatch.from_struct_array(pa.repeat(pa.scalar({}, pa.struct([])), rows.num_rows))
            return empty if isinstance(rows, pa.RecordBatch) else pa.Table.from_batches([empty])
        return type(rows).from_arrays(columns, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True)
class NamesByWrite:
    """What the columns of today are called in the files of each write.

    `steps`: by the first version for which it holds, in order. `writes`: those whose own metadata say it otherwise.
    """

    steps: tuple[tuple[int, StoredNames | None], ...]
    writes: Mapping[str, StoredNames | None]

    def of(self, instant_time: str) -> StoredNames | None:
        """The names in files of this write; None if they are today's."""
        if instant_time in self.writes:
            return self.writes[instant_time]
        number = version_of_instant(instant_time)
        return next((names for start, names in reversed(self.steps) if start <= number), self.steps[0][1])


def names_by_write(
    versions: Sequence[InternalSchema], of_writes: Mapping[str, InternalSchema], today: InternalSchema
) -> NamesByWrite | None:
    """The names in the files of each write; None if they are today's in all of them.

    `versions`: of the table, oldest first. `of_writes`: those that writes say of themselves.
    """
    steps = [(version.version, stored_names(version, today)) for version in versions] or [(0, None)]
    by_steps = NamesByWrite(tuple(steps), {})
    own = {write: stored_names(schema, today) for write, schema in of_writes.items()}
    others = {write: names for write, names in own.items() if names != by_steps.of(write)}
    if not others and all(names is None for _, names in steps):
        return None
    return NamesByWrite(tuple(steps), others)


@functools.lru_cache(maxsize=512)
def stored_names(written: InternalSchema, today: InternalSchema) -> StoredNames | None:
    """What the columns of today are called in a file of the version `written`; None if nothing differs."""
    return _names(written.columns, today.columns)


def _names(written: Sequence[Column], today: Sequence[Column]) -> StoredNames | None:
    written = [column for column in written if column.name not in META_COLUMNS]
    today = [column for column in today if column.name not in META_COLUMNS]
    by_id, names = {column.id: column for column in written}, {column.name for column in written}
    columns: list[StoredColumn] = []
    for column in today:
        stored = by_id.get(column.id)
        if stored is None:
            # Without an entry the file's column of this name, another one, would be taken for it.
            if column.name in names:
                columns.append(StoredColumn(column.name, None))
            continue
        inside = None
        if type(stored.kind) is type(column.kind) and columns_inside(column.kind):
            inside = _names(columns_inside(stored.kind), columns_inside(column.kind))
        if stored.name != column.name or inside is not None:
            columns.append(StoredColumn(column.name, stored.name, inside))
    present = {column.id for column in today}
    gone = frozenset(column.name for column in written if column.id not in present)
    return StoredNames(tuple(columns), gone) if columns or gone else None


def _chunkwise(values: pa.Array | pa.ChunkedArray, names: StoredNames) -> pa.Array | pa.ChunkedArray:
    if not isinstance(values, pa.ChunkedArray):
        return _renamed_inside(values, names)
    if not values.num_chunks:
        kind = _renamed_inside(pa.nulls(0, values.type), names).type
        return pa.chunked_array([], kind)
    return pa.chunked_array([_renamed_inside(chunk, names) for chunk in values.chunks])


def _renamed_inside(array: pa.Array, names: StoredNames) -> pa.Array:
    """A struct, list or map with today's names for the columns inside."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _renamed_struct(array, names)
    if is_list(kind):
        inside = _inside(names, LIST_ELEMENT)
        array = array if pa.types.is_list(kind) else array.cast(pa.list_(kind.value_field))
        values = _renamed_inside(array.values, inside)
        field = array.type.value_field.with_type(values.type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=pa.list_(field))
    if pa.types.is_map(kind):
        items = _renamed_inside(array.items, _inside(names, MAP_VALUE))
        renamed = pa.map_(kind.key_field, kind.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(_offsets(array), array.keys, items, type=renamed)
    return array


def _inside(names: StoredNames, part: str) -> StoredNames:
    found = next((column.inside for column in names.columns if column.name == part), None)
    return found or StoredNames()


def _offsets(array: pa.ListArray | pa.MapArray) -> pa.Array:
    """The offsets of a list, null where the list is."""
    is_null = array.is_null()
    if not array.null_count:
        return array.offsets
    mask = pa.concat_arrays([is_null, pa.array([False])])
    return pa.Array.from_pandas(array.offsets.to_numpy(), mask=mask.to_numpy(zero_copy_only=False), type=pa.int32())


def _renamed_struct(array: pa.StructArray, names: StoredNames) -> pa.Array:
    flat = [array.field(number) for number in range(array.type.num_fields)]
    rows = pa.RecordBatch.from_arrays(flat, schema=pa.schema([field.with_nullable(True) for field in array.type]))
    renamed = names.of_today(rows)
    fields = list(renamed.schema)
    mask = array.is_null() if array.null_count else None
    if not fields:
        # No column of today is in it; what matters is which structs are null.
        columns = [pa.nulls(len(array), pa.null())]
        return pa.StructArray.from_arrays(columns, fields=[pa.field("", pa.null())], mask=mask)
    return pa.StructArray.from_arrays(renamed.columns, fields=fields, mask=mask)
