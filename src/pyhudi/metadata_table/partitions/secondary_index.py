"""Partitions `secondary_index_*`: the record keys that have a value in a column.

The key of an entry is the value and the record key; its payload says nothing more. An update that changes the value
removes one entry and adds another. Version 1 of the index (table version 8) has no entries for rows without a value,
and dates as text; version 2 has days.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.value_text import value_text
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.keys import file_group_of, secondary_keys, secondary_prefixes
from pyhudi.format.metadata_table.schema import SECONDARY_INDEX_COLUMN, RecordType, payload_type
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.metadata_table.entries import (
    REMOVED,
    Payloads,
    key_entries,
    records_on_driver,
    write_changes,
)
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget
from pyhudi.metadata_table.partitions.protocol import LargePartition, Source
from pyhudi.metadata_table.partitions.record_index import GroupSizing, groups_for_table
from pyhudi.metadata_table.record_changes import RowSettings, row_settings
from pyhudi.metadata_table.slice_changes import SliceChange, current_slices, slice_changes

_KEEPS_VALUES: Final = frozenset({WriteOperation.COMPACT, WriteOperation.LOG_COMPACT, WriteOperation.CLUSTER})
_PREFIX: Final = r"(?s)^(?P<prefix>(?:[^\\$]|\\.)*\$)"


@dataclass(frozen=True, slots=True)
class SecondaryMaker:
    """Makes the entries of a secondary index. `hashes_values`: version 2, whose entries are placed by their value."""

    column: str
    groups: int
    hashes_values: bool

    def entries(
        self, change: SliceChange, rows: pa.RecordBatch, *, is_added: bool
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """See `EntryMaker.entries`."""
        del change
        values, record_keys = indexed_text(rows.column(self.column), self.hashes_values), rows.column(RECORD_KEY)
        if not self.hashes_values:
            has_value = values.is_valid()
            values, record_keys = values.filter(has_value), record_keys.filter(has_value)
        keys = entry_keys(values, record_keys, self.hashes_values)
        placing = secondary_prefixes(values) if self.hashes_values else keys
        return key_entries(keys, 0 if is_added else REMOVED), file_group_of(placing, self.groups)


@dataclass(frozen=True, kw_only=True)
class SecondaryIndexPartition(LargePartition):
    """See `MetadataPartition`. `column` is indexed; `hashes_values`: see `SecondaryMaker`."""

    payload: str = SECONDARY_INDEX_COLUMN
    column: str
    hashes_values: bool
    sizing: GroupSizing = field(default_factory=GroupSizing)

    def new_file_groups(self, source: Source) -> int:
        """See `MetadataPartition.new_file_groups`: as many as a record index gets."""
        return groups_for_table(source, self.sizing)

    def hashed(self, keys: pa.Array) -> pa.Array:
        """See `MetadataPartition.hashed`: the value, in version 1 the whole key."""
        return pc.extract_regex(keys, _PREFIX).field("prefix") if self.hashes_values else keys

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: key and column of every file slice."""
        yield from self._records(tuple(current_slices(source)), source, row_settings(source, (self.column,)))

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`. Cost: key and column of the slices that changed, before and after."""
        yield from self._records(_changes(change, source), source, self._settings(change, source))

    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_ahead`. Cost: as `records_of`, and an exchange."""
        return self._write(_changes(change, source), source, groups, self._settings(change, source), is_base=False)

    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_initial`."""
        settings = row_settings(source, (self.column,))
        return self._write(tuple(current_slices(source)), source, groups, settings, is_base=True)

    def _settings(self, change: Change, source: Source) -> RowSettings:
        settings = row_settings(source, (self.column,), change)
        if not settings.merges:
            raise UnsupportedFeatureError(
                "the values of rows are not known before a merger of your own has merged them, so this table cannot be "
                "written with a secondary index: drop the index",
                index=self.name,
            )
        return settings

    def _records(
        self, changes: Sequence[SliceChange], source: Source, settings: RowSettings
    ) -> Iterator[pa.RecordBatch]:
        maker = SecondaryMaker(self.column, 1, self.hashes_values)
        return records_on_driver(source.storage, changes, settings, maker, _payloads(source))

    def _write(
        self,
        changes: Sequence[SliceChange],
        source: Source,
        groups: GroupTarget,
        settings: RowSettings,
        *,
        is_base: bool,
    ) -> tuple[WriteStat, ...]:
        maker = SecondaryMaker(self.column, len(groups.file_ids), self.hashes_values)
        return write_changes(source, groups, changes, settings, maker, _payloads(source), is_base=is_base)


def can_be_indexed(kind: pa.DataType) -> bool:
    """Whether a column of this type can have a secondary index here: text, whole numbers, dates and instants.

    JVM Hudi also takes floating-point numbers, whose text depends on its Java.
    """
    kinds = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp)
    return any(fits(kind) for fits in kinds)


def indexed_text(values: pa.Array, hashes_values: bool) -> pa.StringArray:
    """The text of values in an index. `hashes_values`: of version 2.

    Raises `UnsupportedFeatureError` for other types than `can_be_indexed` allows.
    """
    if not can_be_indexed(values.type):
        raise UnsupportedFeatureError(
            f"a secondary index over a column of type {values.type} cannot be kept: drop it", type=str(values.type)
        )
    if pa.types.is_date(values.type) and hashes_values:
        return values.cast(pa.int32()).cast(pa.string())
    return value_text(values)


def entry_keys(values: pa.Array, record_keys: pa.Array, hashes_values: bool) -> pa.StringArray:
    """Keys of entries. Version 1 does not escape the character of code 0."""
    keys = secondary_keys(values, record_keys)
    return keys if hashes_values else pc.replace_substring(keys, "\\\0", "\0")


def value_prefixes(texts: pa.Array, hashes_values: bool) -> pa.StringArray:
    """What the keys of the entries of values begin with."""
    prefixes = secondary_prefixes(texts)
    return prefixes if hashes_values else pc.replace_substring(prefixes, "\\\0", "\0")


def _changes(change: Change, source: Source) -> tuple[SliceChange, ...]:
    """The file groups whose rows may have changed."""
    if change.metadata is None or change.operation in _KEEPS_VALUES:
        return ()
    return slice_changes(change, source)


def _payloads(source: Source) -> Payloads:
    kind = payload_type(source.table.version, SECONDARY_INDEX_COLUMN)
    return Payloads(RecordType.SECONDARY_INDEX, pa.array([{"isDeleted": False}], kind))
