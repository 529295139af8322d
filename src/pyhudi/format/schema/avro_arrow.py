"""Conversion between the Avro JSON of table schemas and Arrow schemas.

Hudi stores a table's schema as Avro JSON in commits (`extraMetadata.schema`), in Parquet footers and in log blocks. The
JSON written here equals that of Hudi 1.2.0 for the same Spark schema (`tests/unit/format/schema/golden_avro.json`).

Arrow has more types than Avro, and Spark has fewer than both. `normalise` maps the schema of any rows to the
*canonical* types, which Spark DataFrames have:

    Arrow                                          canonical                   Avro
    bool, float32, float64                         the same                    boolean, float, double
    int8, int16, uint8, uint16, int32              int32                       int
    uint32, int64                                  int64                       long
    float16                                        float32                     float
    string, large_string, string_view              string                      string
    binary, large_, fixed_size_, binary_view       binary                      bytes
    date32, date64                                 date32                      int, date
    timestamp with any zone, any unit              timestamp[us, UTC]          long, timestamp-micros
    timestamp without zone, any unit               timestamp[us]               long, local-timestamp-micros
    decimal of any width, up to 38 digits          decimal128                  fixed, decimal
    every kind of list                             list<element>               array
    map with string keys                           map<string, value>          map
    struct                                         struct                      record
    dictionary, extension                          their values'               their values'

`pyhudi.format.schema.evolution.align` converts the values and refuses those that do not fit, such as nanoseconds that
are not whole microseconds. Tables of other writers have a few more types (timestamps in milliseconds, times of day,
fixed bytes), which are read and written unchanged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.schema.meta_columns import META_COLUMNS, without_meta_columns

SCHEMA_TEXT_MAX: Final = 16 << 20
"""The length limit of Avro JSON."""
SCHEMA_DEPTH_MAX: Final = 64
"""The nesting limit of types."""
SCHEMA_NODES_MAX: Final = 100_000
"""The limit of types in a schema, counting each use of a named type, because each costs work in every block."""
REPEATED_NODES_FREE: Final = 10_000
"""The limit of types that come from further uses of named types, unless the schema's text is longer: a short text that
names records of records doubles them on each level, and every block costs work for each of them."""
COLUMNS_MAX: Final = SCHEMA_NODES_MAX - 100
"""The limit of types in a new schema, so that it can be read with meta columns and the record around them."""
FIXED_BYTES_MAX: Final = 1024
"""The size limit of a fixed type: in Arrow, a null takes as much memory as a value."""

DECIMAL_DIGITS_MAX: Final = 38

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair, which JSON can express, but which is not a character."""

LIST_ELEMENT: Final = "element"
MAP_KEY: Final = "key"
MAP_VALUE: Final = "value"

ColumnPath = tuple[str, ...]
"""The position of a type: column, nested column, `element` of a list, `value` of a map."""

_CANONICAL: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.null(): pa.null(),
    pa.bool_(): pa.bool_(),
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.int32(): pa.int32(),
    pa.int64(): pa.int64(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.float32(): pa.float32(),
    pa.float64(): pa.float64(),
    pa.string(): pa.string(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date32(): pa.date32(),
    pa.date64(): pa.date32(),
}

_AVRO_PRIMITIVES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}
_ARROW_PRIMITIVES: Final = {avro: arrow for arrow, avro in _AVRO_PRIMITIVES.items()} | {"null": pa.null()}

_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_AVRO_LOGICAL: Final = {arrow: avro for avro, arrow in _LOGICAL.items()}


def column_text(path: ColumnPath) -> str:
    """The path of a column for error messages: `orders.element.price`."""
    return ".".join(path)


def normalise(schema: pa.Schema) -> pa.Schema:
    """The canonical schema of incoming rows with `schema`, by the table of this module.

    Nullability and order are kept, metadata is dropped. A column of type null is kept: only a table's schema can give
    it a type.

    Raises:
        SchemaMismatchError: a column name is illegal in Avro, two names differ at most in letter case, or a type is
            not supported in Hudi tables.
    """
    return pa.schema(_canonical_fields(schema, ()))


def arrow_to_avro(schema: pa.Schema, *, table_name: str) -> str:
    """The Avro JSON of a table's schema as in commits: compact, without meta columns, in canonical types.

    Raises:
        SchemaMismatchError: as `normalise`, and for a column of type null, or too many columns.
    """
    name = _avro_name(table_name)
    fields = list(without_meta_columns(schema))
    _check_names(fields, ())
    record = _avro_record(fields, f"{name}_record", f"hoodie.{name}", ())
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    nodes = sum(_nodes_of(field.type) for field in fields)
    if nodes > COLUMNS_MAX or len(text) > SCHEMA_TEXT_MAX // 2:
        raise SchemaMismatchError(
            f"the table would have {nodes} columns, those inside of others among them, and a schema of {len(text)} "
            f"characters; tables of more than {COLUMNS_MAX}, or {SCHEMA_TEXT_MAX // 2} characters, are not read: leave "
            "columns out, or make a map of them",
            columns=nodes,
        )
    return text


def _nodes_of(data_type: pa.DataType) -> int:
    """The number of types in a type, including itself."""
    return 1 + sum(_nodes_of(data_type.field(index).type) for index in range(data_type.num_fields))


def avro_to_arrow(avro_json: str, *, source: str, with_unions: bool = False) -> pa.Schema:
    """The Arrow schema of an Avro record schema, including meta columns if there are any.

    Enums become strings, decimals decimal128, and unknown logical types their base types. Docs, aliases and default
    values are dropped.

    Args:
        avro_json: The schema text.
        source: The file with the schema, for errors.
        with_unions: Take unions of several types: as structs with a nullable field for each of them, named like it, of
            which at most one is not null. The metadata table has them; the schemas of tables may not.

    Raises:
        CorruptDataError: the text is not JSON or not a record schema, or exceeds a limit.
        UnsupportedFeatureError: a type without an Arrow form: a union of several types, a recursive record,
            more than 38 digits, nanoseconds.
    """
    node = _load(avro_json, source)
    if not isinstance(node, dict) or node.get("type") != "record":
        raise CorruptDataError("the Avro schema is not one of a record", path=source)
    return pa.schema(
        list(_AvroReader(source, with_unions, max(REPEATED_NODES_FREE, len(avro_json))).type_of(node, "", ()))
    )


def avro_of_columns(avro_json: str, columns: Collection[str]) -> str:
    """The schema with these columns of a record schema only, in its order."""
    record = _load(avro_json, None)
    fields = [field for field in record["fields"] if field["name"] in columns]
    return json.dumps({**record, "fields": fields}, ensure_ascii=False, separators=(",", ":"))


def avro_with_meta_columns(avro_json: str) -> str:
    """The schema with the five meta columns in front, as the footer key `parquet.avro.schema` holds it.

    Everything else stays as it is, also what `avro_to_arrow` does not keep.

    Raises:
        CorruptDataError: not the JSON of a record schema.
    """
    record = _load(avro_json, None)
    if not isinstance(record, dict) or not isinstance(record.get("fields"), list):
        raise CorruptDataError("the Avro schema is not one of a record")
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
    own = [field for field in record["fields"] if field.get("name") not in META_COLUMNS]
    return json.dumps(record | {"fields": meta + own}, ensure_ascii=False, separators=(",", ":"))


# --- Arrow to canonical Arrow -----------------------------------------------------------------------------


def canonical_type(data_type: pa.DataType, path: ColumnPath) -> pa.DataType:  # noqa: PLR0911
    """The canonical type of the column at `path`.

    Raises:
        SchemaMismatchError: see `normalise`.
    """
    _check_depth(path)
    if data_type in _CANONICAL:
        return _CANONICAL[data_type]
    if isinstance(data_type, pa.BaseExtensionType):
        if data_type.extension_name == "pandas.period":
            # Its storage counts periods: a number that says nothing without the length of one.
            raise _no_type(data_type, path, "cast it to timestamps (series.dt.to_timestamp()) or to text")
        if data_type.extension_name == "arrow.bool8":
            return pa.bool_()
        return canonical_type(data_type.storage_type, path)
    if pa.types.is_dictionary(data_type):
        return canonical_type(data_type.value_type, path)
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", tz=None if data_type.tz is None else "UTC")
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_decimal(data_type):
        return _canonical_decimal(data_type, path)
    if is_list(data_type):
        return list_of(_canonical_child(data_type.value_field, LIST_ELEMENT, path))
    if pa.types.is_map(data_type):
        return _canonical_map(data_type, path)
    if pa.types.is_struct(data_type) and data_type.num_fields:
        return pa.struct(_canonical_fields(data_type, path))
    if data_type == pa.uint64():
        raise _no_type(data_type, path, "cast it to int64, or to decimal128(20, 0) if it exceeds 2^63 - 1")
    raise _no_type(data_type, path, "cast it to a type that Spark has, or leave it out")


def is_list(data_type: pa.DataType) -> bool:
    """Whether this is a list type of Arrow."""
    kinds = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
    return isinstance(data_type, kinds)


def list_of(element: pa.Field) -> pa.DataType:
    """The canonical list of this element; the name of its field goes into Parquet files."""
    return pa.list_(element.with_name(LIST_ELEMENT))


def _canonical_child(child: pa.Field, name: str, path: ColumnPath) -> pa.Field:
    return pa.field(name, canonical_type(child.type, (*path, name)), child.nullable)


def _canonical_fields(fields: Iterable[pa.Field], path: ColumnPath) -> list[pa.Field]:
    children = list(fields)
    _check_names(children, path)
    return [_canonical_child(child, child.name, path) for child in children]


def _canonical_map(data_type: pa.DataType, path: ColumnPath) -> pa.DataType:
    if canonical_type(data_type.key_type, (*path, MAP_KEY)) != pa.string():
        raise _no_type(data_type, path, "the keys of a map must be strings")
    return pa.map_(pa.string(), _canonical_child(data_type.item_field, MAP_VALUE, path))


def _canonical_decimal(data_type: pa.DataType, path: ColumnPath) -> pa.DataType:
    precision, scale = data_type.precision, data_type.scale
    if precision > DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise _no_type(data_type, path, f"decimals have up to {DECIMAL_DIGITS_MAX} digits, 0 <= scale <= digits")
    return pa.decimal128(precision, scale)


def _check_depth(path: ColumnPath) -> None:
    if len(path) > SCHEMA_DEPTH_MAX:
        raise SchemaMismatchError(f"columns nest deeper than {SCHEMA_DEPTH_MAX}", column=column_text(path))


def _check_names(fields: Iterable[pa.Field], path: ColumnPath) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        column = column_text((*path, field.name))
        if not _is_avro_name(field.name):
            raise SchemaMismatchError(
                f"a Hudi table cannot have a column named {field.name!r}: names have letters, digits and"
                " underscores and do not begin with a digit; rename the column before writing",
                column=column,
            )
        if not path and field.name.lower() in META_COLUMNS and field.name not in META_COLUMNS:
            raise SchemaMismatchError(
                f"letter case does not count in Spark, which cannot distinguish {field.name!r} from the meta column"
                f" {field.name.lower()!r}; rename or drop it before writing",
                column=column,
            )
        if field.name.lower() in seen:
            raise SchemaMismatchError(
                f"the columns {seen[field.name.lower()]!r} and {field.name!r} have the same name (letter case"
                " does not count in Spark); rename or drop one of them before writing",
                column=column,
            )
        seen[field.name.lower()] = field.name


def _is_avro_name(name: str) -> bool:
    """Whether JVM Hudi's Avro library accepts the name: it allows all Unicode letters and digits."""
    kinds = ["L" if letter == "_" else unicodedata.category(letter) for letter in name]
    return bool(name) and kinds[0] != "Nd" and all(kind == "Nd" or kind[0] == "L" for kind in kinds)


def _no_type(data_type: pa.DataType, path: ColumnPath, fix: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {column_text(path)!r} has a type that a Hudi table cannot hold: {fix}",
        column=column_text(path),
        type=str(data_type),
    )


# --- Arrow to Avro ----------------------------------------------------------------------------------------


def _avro_name(table_name: str) -> str:
    """The table name made legal in Avro as in JVM Hudi: two underscores for each illegal character."""
    head, tail = table_name[:1], table_name[1:]
    return re.sub(r"[^A-Za-z_]", "__", head) + re.sub(r"[^A-Za-z0-9_]", "__", tail)


def _avro_record(fields: Iterable[pa.Field], name: str, namespace: str, path: ColumnPath) -> dict[str, Any]:
    children = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_avro_field(field, children, (*path, field.name)) for field in fields],
    }


def _avro_field(field: pa.Field, namespace: str, path: ColumnPath) -> dict[str, Any]:
    avro = _avro_nullable(field, field.name, namespace, path)
    return {"name": field.name, "type": avro} | ({"default": None} if field.nullable else {})


def _avro_nullable(field: pa.Field, name: str, namespace: str, path: ColumnPath) -> Any:
    avro = _avro_type(field.type, name, namespace, path)
    return ["null", avro] if field.nullable else avro


def _avro_type(data_type: pa.DataType, name: str, namespace: str, path: ColumnPath) -> Any:  # noqa: PLR0911
    """The Avro type of a column; `name` and `namespace` are what a named type inside it is called.

    Lists and maps hand their own name down, so the record in `a: list<struct>` is called `a`.
    """
    _check_depth(path)
    if data_type in _AVRO_PRIMITIVES:
        return _AVRO_PRIMITIVES[data_type]
    if data_type in _AVRO_LOGICAL:
        base, logical = _AVRO_LOGICAL[data_type]
        return {"type": base, "logicalType": logical}
    if pa.types.is_decimal128(data_type):
        _canonical_decimal(data_type, path)
        fixed = _avro_fixed(_decimal_bytes(data_type.precision), name, namespace)
        return fixed | {"logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}
    if pa.types.is_fixed_size_binary(data_type):
        return _avro_fixed(data_type.byte_width, name, namespace)
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return {"type": "array", "items": _avro_nullable(element, name, namespace, (*path, LIST_ELEMENT))}
    if pa.types.is_map(data_type) and data_type.key_type == pa.string():
        value = data_type.item_field
        return {"type": "map", "values": _avro_nullable(value, name, namespace, (*path, MAP_VALUE))}
    if pa.types.is_struct(data_type) and data_type.num_fields:
        _check_names(data_type, path)
        return _avro_record(data_type, name, namespace, path)
    if pa.types.is_null(data_type):
        raise _no_type(data_type, path, "it holds no value that would tell its type; cast it, or leave it out")
    return _avro_type(canonical_type(data_type, path), name, namespace, path)


def _avro_fixed(size: int, name: str, namespace: str) -> dict[str, Any]:
    return {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": size}


def _decimal_bytes(digits: int) -> int:
    """The fewest bytes of a signed number with this many decimal digits."""
    return int(10**digits - 1).bit_length() // 8 + 1


# --- Avro to Arrow ----------------------------------------------------------------------------------------


def is_null_type(node: Any) -> bool:
    """Whether a node of an Avro schema is the type that has no values, by its name or as an object."""
    return node == "null" or (isinstance(node, dict) and node.get("type") == "null")


def branch_name(node: Any) -> str:
    """The name of a union's branch: that of a named type without its namespace, or the kind of another type."""
    while isinstance(node, dict) and isinstance(node["type"], dict):
        node = node["type"]
    name = node.get("name", node["type"]) if isinstance(node, dict) else node
    return str(name).rpartition(".")[2]


def _field(name: str, data_type: pa.DataType, *, nullable: bool) -> pa.Field:
    """Arrow wants fields of the type without values to be nullable."""
    return pa.field(name, data_type, nullable=nullable or pa.types.is_null(data_type))


def _load(avro_json: str, source: str | None) -> Any:
    if len(avro_json) > SCHEMA_TEXT_MAX:
        raise CorruptDataError(
            f"the Avro schema is longer than {SCHEMA_TEXT_MAX} characters", path=source, size=len(avro_json)
        )
    try:
        return json.loads(avro_json)
    except (ValueError, RecursionError) as cause:
        raise CorruptDataError("the Avro schema is not JSON", path=source) from cause


class _AvroReader:
    """Reads one schema, with its named types, and counts types against the limit."""

    def __init__(self, source: str, with_unions: bool, repeats_max: int) -> None:
        self._source = source
        self._with_unions = with_unions
        self._named: dict[str, tuple[pa.DataType, int] | None] = {}  # type and its size; None while it is open
        self._nodes = 0
        self._repeats_left = repeats_max

    def type_of(self, node: Any, namespace: str, path: ColumnPath) -> pa.DataType:
        """The Arrow type of an Avro type that is not a union; `namespace` is that around it."""
        self._count(1, path)
        while isinstance(node, dict) and isinstance(node.get("type"), dict):
            node = node["type"]  # some writers wrap a type in {"type": ...} once more
        kind = node.get("type") if isinstance(node, dict) else node
        if isinstance(kind, list):
            raise self._unsupported("a union inside a type", path)
        if not isinstance(kind, str):
            raise self._corrupt("a type is neither a name, a union nor an object", path)
        if kind in _ARROW_PRIMITIVES:
            return self._primitive(kind, node, path)
        if not isinstance(node, dict):
            return self._named_type(kind, namespace, path)
        if kind == "array":
            return pa.list_(self._child(LIST_ELEMENT, node.get("items"), namespace, path))
        if kind == "map":
            return pa.map_(pa.string(), self._child(MAP_VALUE, node.get("values"), namespace, path))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(node, kind, namespace, path)
        return self._named_type(kind, namespace, path)

    def _child(self, name: str, node: Any, namespace: str, path: ColumnPath) -> pa.Field:
        """A record's field, a list's element or a map's value: the one place where a union may stand."""
        path = (*path, name)
        if not isinstance(node, list):
            return _field(name, self.type_of(node, namespace, path), nullable=False)
        if not node:
            raise self._corrupt("a union has no branches", path)
        branches = [branch for branch in node if not is_null_type(branch)]
        if len(branches) > 1:
            return _field(name, self._union(branches, namespace, path), nullable=len(branches) < len(node))
        data_type = self.type_of(branches[0], namespace, path) if branches else pa.null()
        return _field(name, data_type, nullable=len(branches) < len(node))

    def _union(self, branches: list[Any], namespace: str, path: ColumnPath) -> pa.DataType:
        """The struct of a union of several types, which has a field for each but null."""
        if not self._with_unions:
            raise self._unsupported("a union of several types", path)
        types = [self.type_of(branch, namespace, path) for branch in branches]
        names = [branch_name(branch) for branch in branches]
        if len({*names}) < len(names) or any(map(_HALF_PAIR.search, names)):
            raise self._corrupt("a union has a branch without a proper name, or two of one name", path)
        return pa.struct([pa.field(name, data_type) for name, data_type in zip(names, types, strict=True)])

    def _define(self, node: dict[str, Any], kind: str, namespace: str, path: ColumnPath) -> pa.DataType:
        name = self._full_name(node, namespace, path)
        if name in self._named:
            raise self._corrupt(f"the type {name!r} is defined twice", path)
        self._named[name] = None
        before = self._nodes
        if kind == "enum":
            data_type = pa.string()
        elif kind == "fixed":
            data_type = self._fixed(node, path)
        else:
            data_type = self._record(node, name.rpartition(".")[0], path)
        self._named[name] = (data_type, self._nodes - before)
        return data_type

    def _record(self, node: dict[str, Any], namespace: str, path: ColumnPath) -> pa.DataType:
        members = node.get("fields")
        if not isinstance(members, list):
            raise self._corrupt("a record has no fields", path)
        fields: dict[str, pa.Field] = {}
        for member in members:
            name = member.get("name") if isinstance(member, dict) else None
            if not isinstance(name, str) or not name or name in fields or _HALF_PAIR.search(name):
                raise self._corrupt("a record has a field without a proper name, or two of one name", path)
            fields[name] = self._child(name, member.get("type"), namespace, path)
        return pa.struct(list(fields.values()))

    def _fixed(self, node: dict[str, Any], path: ColumnPath) -> pa.DataType:
        size = node.get("size")
        if type(size) is not int or size <= 0:
            raise self._corrupt("a fixed type has no usable size", path)
        if size > FIXED_BYTES_MAX:
            raise self._unsupported(f"a fixed type of {size} bytes", path)
        if node.get("logicalType") != "decimal":
            return pa.binary(size)
        decimal = self._decimal(node, path)
        if _decimal_bytes(decimal.precision) > size:
            raise self._corrupt(f"a decimal of {decimal.precision} digits does not fit in {size} bytes", path)
        return decimal

    def _decimal(self, node: dict[str, Any], path: ColumnPath) -> pa.DataType:
        precision, scale = node.get("precision"), node.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision != 0:
            raise self._corrupt("a decimal has no usable precision and scale", path)
        if precision > DECIMAL_DIGITS_MAX:
            raise self._unsupported(f"a decimal of {precision} digits", path)
        return pa.decimal128(precision, scale)

    def _primitive(self, base: str, node: Any, path: ColumnPath) -> pa.DataType:
        logical = node.get("logicalType") if isinstance(node, dict) else None
        if base == "bytes" and logical == "decimal":
            return self._decimal(node, path)
        if logical in ("timestamp-nanos", "local-timestamp-nanos"):
            raise self._unsupported("a timestamp in nanoseconds", path)
        # By the Avro specification, readers ignore logical types that they do not know.
        return _LOGICAL.get((base, str(logical)), _ARROW_PRIMITIVES[base])

    def _named_type(self, name: str, namespace: str, path: ColumnPath) -> pa.DataType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        # Some writers omit the namespace if the name alone is unique.
        key = full if full in self._named else name
        if key not in self._named:
            raise self._corrupt(f"the type {name!r} is not defined", path)
        entry = self._named[key]
        if entry is None:
            raise self._unsupported("a record that contains itself", path)
        data_type, size = entry
        self._count(size, path)
        self._repeats_left -= size
        if self._repeats_left < 0:
            raise self._corrupt("it repeats named types more often than its length accounts for", path)
        return data_type

    def _full_name(self, node: dict[str, Any], namespace: str, path: ColumnPath) -> str:
        name, own = node.get("name"), node.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(own, str):
            raise self._corrupt("a named type has no name", path)
        return name if "." in name or not own else f"{own}.{name}"

    def _count(self, nodes: int, path: ColumnPath) -> None:
        self._nodes += nodes
        if self._nodes > SCHEMA_NODES_MAX:
            raise self._corrupt(f"the schema has more than {SCHEMA_NODES_MAX} types", path)
        if len(path) > SCHEMA_DEPTH_MAX:
            raise self._corrupt(f"the schema nests deeper than {SCHEMA_DEPTH_MAX}", path)

    def _corrupt(self, what: str, path: ColumnPath) -> CorruptDataError:
        return CorruptDataError(f"the Avro schema is damaged: {what}", path=self._source, column=column_text(path))

    def _unsupported(self, what: str, path: ColumnPath) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"the table's schema has {what}, which pyhudi cannot read",
            path=self._source,
            column=column_text(path),
        )
