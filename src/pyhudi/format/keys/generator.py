"""Key generators, which make the record key and the partition path of a row.

Lookups compare these texts, so they must equal those that any other writer of the table makes of the same row. The
table's properties define how they are made (`key_generator_from_table`). Tests compare them with Hudi 1.2.0.

    one key field       the value                     k1
    several key fields  f1:v1,f2:v2                   __null__ for null, __empty__ for empty, but not in all fields
    COMPLEX, one field  id:k1, or k1                  by version and history: `sniff_single_field_prefix`
    no key field        <instant>_<partition>_<row>   `auto_record_keys`

`partition_paths` makes partition paths, `timestamps` the text of timestamp fields.

https://hudi.apache.org/docs/key_generation
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError, RecordKeyError, UnsupportedFeatureError
from pyhudi.format.keys.generator_types import (
    KeyGeneratorType,
    PartitionFieldKind,
    infer_key_generator,
    key_generator_type,
)
from pyhudi.format.keys.partition_paths import checked_segments
from pyhudi.format.keys.timestamps import (
    TIMEBASED_PREFIX,
    TimestampKeyOptions,
    member_of,
    timestamp_key_options,
    timestamp_texts,
)
from pyhudi.format.keys.value_text import distinct_values, value_text
from pyhudi.format.timeline.table_version import TableVersion

_Mask: TypeAlias = npt.NDArray[np.bool_]

NULL_PART: Final = "__null__"
EMPTY_PART: Final = "__empty__"
"""What a key of several fields has in place of a value that is null or empty."""

_TABLE_TYPE: Final = "hoodie.table.keygenerator.type"
_TABLE_CLASS: Final = "hoodie.table.keygenerator.class"
_TABLE_KEY_FIELDS: Final = "hoodie.table.recordkey.fields"
_TABLE_PARTITION_FIELDS: Final = "hoodie.table.partition.fields"
_WRITE_TYPE: Final = "hoodie.datasource.write.keygenerator.type"
_WRITE_CLASS: Final = "hoodie.datasource.write.keygenerator.class"
_WRITE_PARTITION_FIELDS: Final = "hoodie.datasource.write.partitionpath.field"
_HIVE_STYLE: Final = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODE: Final = "hoodie.datasource.write.partitionpath.urlencode"
_SLASH_DATES: Final = "hoodie.datasource.write.slash.separated.date.partitioning"
_BARE_COMPLEX_KEYS: Final = "hoodie.write.complex.keygen.new.encoding"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A column of the partition path; `name` may be a path into structs (`a.b`)."""

    name: str
    kind: PartitionFieldKind = PartitionFieldKind.SIMPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGenerator:
    """Makes record keys and partition paths of rows. Immutable, picklable.

    `single_field_prefix`: whether the keys of COMPLEX with one key field are `id:k1` or `k1`. `slash_dates`: write
    `2024-01-02` of a single partition field as `2024/01/02`.

    Raises:
        ConfigError: the fields contradict each other.
    """

    kind: KeyGeneratorType
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[PartitionField, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    timestamp: TimestampKeyOptions | None = None
    single_field_prefix: bool = False
    slash_dates: bool = False

    def __post_init__(self) -> None:
        if self.kind in {KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP}:
            _require_at_most_one(self.kind, "record key fields", self.record_key_fields)
            _require_at_most_one(self.kind, "partition fields", self.partition_field_names)
        if self.partition_fields and not self.kind.is_partitioned:
            raise ConfigError(
                f"the key generator {self.kind.value} takes no partition fields",
                fields=self.partition_field_names,
            )
        kinds = {field.kind for field in self.partition_fields}
        if self.kind is not KeyGeneratorType.CUSTOM and not kinds <= {_field_kind(self.kind)}:
            raise ConfigError(f"all partition fields of the key generator {self.kind.value} must have the same kind")
        if PartitionFieldKind.TIMESTAMP in kinds and self.timestamp is None:
            raise ConfigError(
                f"a timestamp partition field needs {TIMEBASED_PREFIX}timestamp.type and "
                f"{TIMEBASED_PREFIX}output.dateformat; a table with a CUSTOM key generator does not "
                "store them: give them with every write"
            )

    @property
    def partition_field_names(self) -> tuple[str, ...]:
        """The partition columns, in the order of the path."""
        return tuple(field.name for field in self.partition_fields)

    @property
    def has_auto_keys(self) -> bool:
        """Whether the table has no key fields, so that its keys are generated (`auto_record_keys`)."""
        return not self.record_key_fields

    @property
    def is_composite(self) -> bool:
        """Whether record keys contain the names of their fields."""
        is_prefixed = self.kind is KeyGeneratorType.COMPLEX and self.single_field_prefix
        return len(self.record_key_fields) > 1 or is_prefixed

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """The record key of each row; never null, never empty.

        Raises:
            RecordKeyError: a key field, or all of several key fields, is null or empty; names the columns, the number
                of such rows, and the first of them.
            ConfigError: a key column is missing, or its type has no text form.

        Cost: a few Arrow kernels; about 0.1 s for a million integers, much less for one string column.
        """
        if self.has_auto_keys:
            raise ConfigError("the table generates its record keys, so rows cannot be looked up by key")
        texts = self._key_texts(batch)
        _require_usable(_are_without_key(texts), self.record_key_fields)
        if not self.is_composite:
            return texts[0]
        parts: list[pa.Array | str] = []
        for position, (name, text) in enumerate(zip(self.record_key_fields, texts, strict=True)):
            parts += [f"{',' if position else ''}{name}:", _composite_part(text)]
        return pc.binary_join_element_wise(*parts, "")

    def rows_without_key(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows have no record key, so that `record_keys` refuses them.

        Raises `ConfigError` where a key column is missing, or its type has no text form. Cost: as `record_keys`.
        """
        return np.zeros(batch.num_rows, bool) if self.has_auto_keys else _are_without_key(self._key_texts(batch))

    def _key_texts(self, batch: pa.RecordBatch) -> list[pa.StringArray]:
        return [value_text(_column(batch, name, "record key")) for name in self.record_key_fields]

    def patterns_of_numbers(self, names: Sequence[str]) -> tuple[str, ...]:
        """Regular expressions that match each record key in which these key fields are whole numbers or null."""
        if not self.is_composite:
            return (r"^-?\d+$",) * len(names)
        return tuple(rf"(?:^|,){re.escape(name)}:(?:-?\d+|{NULL_PART})(?:,|$)" for name in names)

    def partition_paths(self, batch: pa.RecordBatch) -> pa.DictionaryArray:
        """The partition path of each row: int32 indices into the distinct paths; `""` without fields.

        Every entry of the dictionary is the path of some row.

        Raises:
            UnsafePathError: the path of a value is unsafe; names the column, the value and the option that helps.
            InvalidRequestError: a date text matches none of the input patterns.
            ConfigError: a partition column is missing, or its type has no text form.

        Cost: hashing each partition column once; only distinct values are converted, escaped and checked.
        """
        paths: pa.DictionaryArray | None = None
        for position, field in enumerate(self.partition_fields):
            column = _column(batch, field.name, "partition")
            texts = self._distinct_texts(field, column)
            segments = checked_segments(
                field.name,
                texts.dictionary.to_pylist(),
                is_first=position == 0,
                hive_style=self.hive_style,
                url_encode=self.url_encode,
                slash_dates=self.slash_dates and len(self.partition_fields) == 1,
            )
            level = _unified(texts.indices, segments)
            paths = level if paths is None else _joined(paths, level)
        if paths is None:
            indices = pa.array(np.zeros(batch.num_rows, np.int32))
            return pa.DictionaryArray.from_arrays(indices, pa.array([""] if batch.num_rows else [], pa.string()))
        return paths

    def _distinct_texts(self, field: PartitionField, column: pa.Array) -> pa.DictionaryArray:
        if field.kind is PartitionFieldKind.TIMESTAMP:
            assert self.timestamp is not None
            return timestamp_texts(column, field.name, self.timestamp)
        distinct = distinct_values(column)
        return pa.DictionaryArray.from_arrays(distinct.indices, value_text(distinct.dictionary))


def key_generator_from_table(
    properties: Mapping[str, str], version: TableVersion, options: Mapping[str, str]
) -> KeyGenerator:
    """The generator of a table, from its `hoodie.properties` and the options of a write.

    Two settings are only in the options: the kinds of CUSTOM partition fields below version 8, and
    `hoodie.keygen.timebased.*` of CUSTOM tables. Single-field COMPLEX keys contain the field name from version 9 on.
    Below, they do not, unless `hoodie.write.complex.keygen.new.encoding=false` is given. The table does not record
    this, so callers check a stored key first (`sniff_single_field_prefix`).

    Raises:
        ConfigError: an option is missing or illegal.
        UnsupportedFeatureError: the generator is not a built-in one of JVM Hudi.
    """
    key_fields = _names(properties.get(_TABLE_KEY_FIELDS))
    partition_texts = _names(properties.get(_TABLE_PARTITION_FIELDS))
    kind = _named_kind(properties, options) or infer_key_generator(key_fields, partition_texts)
    if kind is KeyGeneratorType.CUSTOM:
        partition_texts = _with_kinds(partition_texts, _names(options.get(_WRITE_PARTITION_FIELDS)))
    if not kind.is_partitioned:
        partition_texts = ()
    fields = tuple(_partition_field(text, _field_kind(kind)) for text in partition_texts)
    has_timestamp = any(field.kind is PartitionFieldKind.TIMESTAMP for field in fields)
    has_bare_keys = not version.names_single_key_field and _flag(options, _BARE_COMPLEX_KEYS, default=True)
    return KeyGenerator(
        kind=kind,
        record_key_fields=key_fields,
        partition_fields=fields,
        hive_style=_flag(properties, _HIVE_STYLE),
        url_encode=_flag(properties, _URL_ENCODE),
        timestamp=timestamp_key_options({**options, **properties}) if has_timestamp else None,
        single_field_prefix=not has_bare_keys,
        slash_dates=_flag(properties, _SLASH_DATES),
    )


def partition_field_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns of a table, without the kinds that CUSTOM adds."""
    return tuple(text.partition(":")[0] for text in _names(properties.get(_TABLE_PARTITION_FIELDS)))


def sniff_single_field_prefix(sample_key: str, field: str) -> bool:
    """Whether a stored key of a single-field COMPLEX table contains the field name (`id:k1`) or not (`k1`).

    A bare key that starts with the field name and a colon is ambiguous, so pass another key if there is one. Writing
    the wrong form would duplicate every record.
    """
    return sample_key.startswith(f"{field}:")


def auto_record_keys(instant: str, partition_id: int, start: int, count: int) -> pa.StringArray:
    """Keys for rows of a table without key fields: `<instant>_<partition>_<row>`, rows counted from `start`.

    They are unique, because an instant belongs to one write, and a partition id to one task of it.
    """
    rows = pa.array(np.arange(start, start + count, dtype=np.int64)).cast(pa.string())
    return pc.binary_join_element_wise(f"{instant}_{partition_id}_", rows, "")


def _column(batch: pa.RecordBatch, name: str, role: str) -> pa.Array:
    """A column by name, or a field of a struct column by its path `a.b`, which is null if the struct is."""
    count = len(batch.schema.get_all_field_indices(name))
    if count == 1:
        return batch.column(name)
    if count > 1:
        raise ConfigError(
            f"the {role} column {name!r} is in the input {count} times: rename or drop the others", column=name
        )
    top, *inner = name.split(".")
    if inner and len(batch.schema.get_all_field_indices(top)) == 1 and _has_path(batch.schema.field(top), inner):
        return pc.struct_field(batch.column(top), inner)
    close = difflib.get_close_matches(name, _paths(batch.schema), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(batch.schema.names)}"
    raise ConfigError(f"the input has no {role} column {name!r}; {hint}", column=name)


def _has_path(field: pa.Field, inner: Sequence[str]) -> bool:
    for name in inner:
        if not pa.types.is_struct(field.type) or field.type.get_field_index(name) < 0:
            return False
        field = field.type.field(name)
    return True


def _paths(fields: pa.Schema | pa.StructType, prefix: str = "") -> list[str]:
    found = []
    for field in fields:
        found.append(prefix + field.name)
        if pa.types.is_struct(field.type):
            found += _paths(field.type, f"{prefix}{field.name}.")
    return found


def _are_without_key(texts: Sequence[pa.StringArray]) -> _Mask:
    """Rows in which all key fields, given as texts, are null or empty."""
    mask: _Mask = np.logical_and.reduce([_is_null_or_empty(text) for text in texts])
    return mask


def _is_null_or_empty(text: pa.StringArray) -> _Mask:
    is_empty = pc.fill_null(pc.equal(pc.binary_length(text), 0), True)
    mask: _Mask = is_empty.to_numpy(zero_copy_only=False)
    return mask


def _require_usable(is_unusable: _Mask, fields: tuple[str, ...]) -> None:
    (rows,) = np.nonzero(is_unusable)
    if len(rows) == 0:
        return
    columns = ", ".join(fields)
    where = f"all of the record key columns {columns}" if len(fields) > 1 else f"the record key column {columns}"
    raise RecordKeyError(
        f"{len(rows)} row(s) are null or empty in {where}, the first is row {rows[0]} of its batch",
        columns=fields,
        rows=len(rows),
        first_row=int(rows[0]),
    )


def _composite_part(text: pa.StringArray) -> pa.StringArray:
    is_empty = pc.equal(pc.binary_length(text), 0)
    return pc.fill_null(pc.if_else(is_empty, EMPTY_PART, text), NULL_PART)


def _require_at_most_one(kind: KeyGeneratorType, what: str, names: tuple[str, ...]) -> None:
    if len(names) > 1:
        raise ConfigError(
            f"the key generator {kind.value} takes one of the {what}, not {len(names)}; use COMPLEX",
            fields=names,
        )


def _unified(indices: pa.Int32Array, texts: Sequence[str]) -> pa.DictionaryArray:
    """A dictionary array without repeated entries."""
    distinct = pa.array(texts, pa.string()).dictionary_encode()
    if len(distinct.dictionary) == len(texts):
        return pa.DictionaryArray.from_arrays(indices, distinct.dictionary)
    return pa.DictionaryArray.from_arrays(distinct.indices.take(indices), distinct.dictionary)


def _joined(paths: pa.DictionaryArray, level: pa.DictionaryArray) -> pa.DictionaryArray:
    """Append the next segment to each row's path, computed once per distinct pair."""
    width = max(len(level.dictionary), 1)
    codes = paths.indices.to_numpy().astype(np.int64) * width + level.indices.to_numpy()
    pairs = pa.array(codes).dictionary_encode()
    left, right = np.divmod(pairs.dictionary.to_numpy(), width)
    texts = pc.binary_join_element_wise(paths.dictionary.take(left), level.dictionary.take(right), "/")
    return _unified(pairs.indices, texts.to_pylist())


def _named_kind(properties: Mapping[str, str], options: Mapping[str, str]) -> KeyGeneratorType | None:
    """The kind that the table names, or else the write; None where neither does."""
    for source, type_key, class_key in (
        (properties, _TABLE_TYPE, _TABLE_CLASS),
        (options, _WRITE_TYPE, _WRITE_CLASS),
    ):
        name = source.get(type_key) or source.get(class_key)
        if name:
            kind = key_generator_type(name)
            if kind is KeyGeneratorType.USER_PROVIDED:
                raise UnsupportedFeatureError(
                    "only the built-in key generators of JVM Hudi are supported",
                    key_generator=source.get(class_key) or name,
                )
            return kind
    return None


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flag(source: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    text = source.get(key)
    if not text:
        return default
    if text.lower() not in {"true", "false"}:
        raise ConfigError(f"{key} must be true or false", value=text)
    return text.lower() == "true"


def _with_kinds(stored: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
    """CUSTOM fields with their kinds: from the table, or from the options if the table only has names."""
    if all(":" in text for text in stored):
        return stored
    if tuple(text.partition(":")[0] for text in written) == stored and all(":" in text for text in written):
        return written
    raise ConfigError(
        f"the table does not store the kinds of its partition fields; give {_WRITE_PARTITION_FIELDS} "
        "with them, for example 'city:SIMPLE,ts:TIMESTAMP'",
        fields=stored,
    )


def _field_kind(kind: KeyGeneratorType) -> PartitionFieldKind:
    """The kind of partition fields without an explicit kind."""
    return PartitionFieldKind.TIMESTAMP if kind is KeyGeneratorType.TIMESTAMP else PartitionFieldKind.SIMPLE


def _partition_field(text: str, default: PartitionFieldKind) -> PartitionField:
    name, separator, kind = text.partition(":")
    if not separator:
        return PartitionField(name, default)
    return PartitionField(name, member_of(PartitionFieldKind, kind.strip().upper(), _TABLE_PARTITION_FIELDS))
