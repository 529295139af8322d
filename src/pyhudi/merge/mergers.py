"""Built-in mergers, and the table properties that name a table's merger.

`RecordCount` counts the rows of a key, for example the page views of a visitor. `Stitching` builds wide rows from
several streams that each fill some columns. `docs/mergers.md` shows both, and how to write a custom merger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_merging import MERGER_KEY, MERGER_OPTIONS_KEY
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.merge.pairs import Column, Mask, as_mask, choose, incoming_wins
from pyhudi.merge.rules import Merger

COUNT_COLUMN: Final = "hoodie_record_count"


@dataclass(frozen=True, slots=True)
class RecordCount:
    """Counts the rows that were written for each key.

    The source leaves the count column null, which counts as 1 and is stored as 1. The count of a merged row is the sum
    of both counts. All other columns come from the version with the larger ordering values, or from the newer version
    if these are equal or there are none.

    Attributes:
        count_column: An integer column, wide enough for the sums.
        ordering_fields: The columns that order the versions. Empty: the ordering fields of the table, if it has any.
    """

    name: ClassVar[str] = "record_count"
    count_column: str = COUNT_COLUMN
    ordering_fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ordering_fields", tuple(self.ordering_fields))
        _check_names((self.count_column, *self.ordering_fields))

    @classmethod
    def parse(cls, text: str) -> RecordCount:
        """Parse text such as `hoodie_record_count:ts`. Omitted parts have their defaults.

        Raises:
            ConfigError: a column name is illegal.
        """
        count_column, _, fields = text.partition(":")
        return cls(count_column.strip() or COUNT_COLUMN, _names(fields))

    @property
    def text(self) -> str:
        """The text that `parse` reads back."""
        return f"{self.count_column}:{','.join(self.ordering_fields)}"

    def ordered_by(self, fields: Sequence[str]) -> RecordCount:
        """The merger for a table with these ordering fields."""
        return self if self.ordering_fields else replace(self, ordering_fields=tuple(fields))

    def first(self, rows: pa.Table) -> pa.Table:
        """The rows with null counts replaced by 1, so that queries can sum the column.

        Raises:
            SchemaMismatchError: the count column is missing or not an integer, or an ordering field is missing.
        """
        at = self._count_at(rows)
        return rows.set_column(at, rows.schema.field(at), rows.column(at).fill_null(1))

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """The merged rows; see the class.

        Raises:
            SchemaMismatchError: the count column is missing or not an integer, or an ordering field is missing.
            InvalidRequestError: a sum does not fit the count column's type.
        """
        at = self._count_at(newer)
        newer_wins = _newer_wins(older, newer, self.ordering_fields)
        merged = pa.Table.from_arrays(
            [choose(newer_wins, new, old) for new, old in zip(newer.columns, older.columns, strict=True)],
            schema=newer.schema,
        )
        try:
            counts = pc.add_checked(older.column(at).fill_null(1), newer.column(at).fill_null(1))
        except pa.ArrowInvalid as cause:
            raise InvalidRequestError(
                "a record count does not fit its column; use the type bigint",
                column=self.count_column,
                type=str(newer.schema.field(at).type),
            ) from cause
        return merged.set_column(at, newer.schema.field(at), counts)

    def _count_at(self, rows: pa.Table) -> int:
        """The index of the count column."""
        _require(rows, (self.count_column, *self.ordering_fields), self.name)
        at: int = rows.schema.get_field_index(self.count_column)
        kind = rows.schema.field(at).type
        if not pa.types.is_integer(kind):
            raise SchemaMismatchError(
                "the column that counts records must hold integers", column=self.count_column, type=str(kind)
            )
        return at


@dataclass(frozen=True, slots=True)
class Stitching:
    """Builds one wide row from several sources that each fill their own columns, in any order and with any delay.

    Every source has an ordering column; a row in which it is not null belongs to that source. The columns of a source
    come from the version with the larger ordering value, or from the newer version if the values are equal. A null that
    the source wrote is a value. Columns without a source come from the newer version, unless null. Except for those
    columns and for equal ordering values, the result does not depend on the order of the versions. The table has either
    all columns of a source, or none, as long as the source has not written.

    Attributes:
        sources: The columns of each source, by the source's ordering column.
    """

    name: ClassVar[str] = "stitching"
    sources: Mapping[str, Sequence[str]] = field(hash=False)

    def __post_init__(self) -> None:
        sources = {ordering: tuple(columns) for ordering, columns in self.sources.items()}
        object.__setattr__(self, "sources", sources)
        if not sources:
            raise ConfigError("stitching needs at least one source, for example '_ts1:name,price;_ts2:stock'")
        columns = [name for ordering, columns in sources.items() for name in (ordering, *columns)]
        _check_names(columns)
        twice = [name for name, times in Counter(columns).items() if times > 1]
        if twice:
            raise ConfigError("each column must belong to one source, and be named once", columns=twice)

    @classmethod
    def parse(cls, text: str) -> Stitching:
        """Parse text such as `_ts1:name,price;_ts2:stock`.

        Raises:
            ConfigError: the text has another form, or names a column twice.
        """
        sources: dict[str, tuple[str, ...]] = {}
        for part in filter(None, (part.strip() for part in text.split(";"))):
            ordering, colon, columns = part.partition(":")
            if not colon:
                raise ConfigError("a source must have the form ordering_column:column,column", source=part)
            if ordering.strip() in sources:
                raise ConfigError("two sources have the same ordering column", column=ordering.strip())
            sources[ordering.strip()] = _names(columns)
        return cls(sources)

    @property
    def text(self) -> str:
        """The text that `parse` reads back."""
        return ";".join(f"{ordering}:{','.join(columns)}" for ordering, columns in self.sources.items())

    def first(self, rows: pa.Table) -> pa.Table:
        """The rows, unchanged.

        Raises:
            SchemaMismatchError: the rows have only some columns of a source, or no columns of any source.
        """
        self._sources_in(rows)
        return rows

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """The merged rows; see the class.

        Raises:
            SchemaMismatchError: a column of a source is missing, or the type of an ordering column has no order.
        """
        takes_newer = dict(self._from_newer(older, newer))
        columns: list[Column] = []
        for name, new, old in zip(newer.schema.names, newer.columns, older.columns, strict=True):
            is_newer = takes_newer[name] if name in takes_newer else as_mask(new.is_valid())
            columns.append(choose(is_newer, new, old))
        return pa.Table.from_arrays(columns, schema=newer.schema)

    def _sources_in(self, rows: pa.Table) -> dict[str, Sequence[str]]:
        """The sources whose columns are in the rows."""
        names = set(rows.schema.names)
        found = {
            ordering: columns
            for ordering, columns in self.sources.items()
            if not names.isdisjoint((ordering, *columns))
        }
        # A source without columns has not written yet, but at least one source must have.
        _require(rows, [name for pair in (found or self.sources).items() for name in (pair[0], *pair[1])], self.name)
        return found

    def _from_newer(self, older: pa.Table, newer: pa.Table) -> Iterator[tuple[str, Mask]]:
        """For each column of a source, a mask of the rows that take it from the newer version."""
        for ordering, columns in self._sources_in(newer).items():
            wins = _newer_wins(older, newer, [ordering])
            # Rows without an ordering value belong to no source: they merge like columns without a source.
            is_unordered = as_mask(older.column(ordering).is_null()) & as_mask(newer.column(ordering).is_null())
            yield ordering, wins
            for name in columns:
                valid = as_mask(newer.column(name).is_valid())
                yield name, np.where(is_unordered, valid, wins)


_BUILT_IN: Final[Mapping[str, type[RecordCount] | type[Stitching]]] = {
    RecordCount.name: RecordCount,
    Stitching.name: Stitching,
}


def merger_to_properties(merger: Merger) -> dict[str, str]:
    """The table properties that name a merger."""
    named = {MERGER_KEY: merger.name}
    if isinstance(merger, (RecordCount, Stitching)):
        named[MERGER_OPTIONS_KEY] = merger.text
    elif merger.name in _BUILT_IN:
        raise ConfigError(
            "the merger has the name of a built-in merger of pyhudi; give it another name", merger=merger.name
        )
    return named


def merger_from_properties(properties: Mapping[str, str], given: Sequence[Merger]) -> Merger:
    """The merger that a table's properties name: a built-in merger, or one of the mergers in `given`.

    Raises:
        UnsupportedFeatureError: the properties name no merger, or one that is neither built in nor given.
        ConfigError: the options of a built-in merger are malformed, or differ from those of a given merger of its name.
    """
    name = properties.get(MERGER_KEY)
    if name is None:
        raise UnsupportedFeatureError(
            "the table merges by a Java class and names no merger of pyhudi; read and write it with JVM Hudi",
            payload=properties.get("hoodie.compaction.payload.class"),
            strategy=properties.get("hoodie.record.merge.strategy.id"),
        )
    same_name = [merger for merger in given if merger.name == name]
    if name in _BUILT_IN:
        built_in = _BUILT_IN[name].parse(properties.get(MERGER_OPTIONS_KEY, ""))
        if any(merger != built_in for merger in same_name):
            raise ConfigError(
                "the table has this merger with other options",
                merger=name,
                table=built_in.text,
            )
        return built_in
    if not same_name:
        raise UnsupportedFeatureError(
            "the table needs a custom merger: open it with HudiTable.for_path(path, merger=…), or set"
            " hoodie.write.record.merge.custom.implementation.classes to its class, as package.module:Class",
            merger=name,
            given=[merger.name for merger in given],
        )
    return same_name[0]


def _newer_wins(older: pa.Table, newer: pa.Table, fields: Sequence[str]) -> Mask:
    sides = [[rows.column(name) for name in fields] for rows in (newer, older)]
    return incoming_wins(sides[0], sides[1], newer.num_rows)


def _require(rows: pa.Table, names: Sequence[str], merger: str) -> None:
    missing = [name for name in names if name not in rows.schema.names]
    if missing:
        raise SchemaMismatchError(
            f"the merger {merger!r} needs columns that neither the table nor the rows have: add them to the rows, null"
            " where the value is unknown",
            missing=missing,
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _check_names(names: Sequence[str]) -> None:
    wrong = [name for name in names if not name or name != name.strip() or set(name) & set(":;,")]
    if wrong:
        raise ConfigError(
            "a column name is empty, or contains a blank at its ends or one of the characters : ; ,", names=wrong
        )
