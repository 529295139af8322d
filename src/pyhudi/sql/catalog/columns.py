"""Columns of tables in statements: from their text to types, and back."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.spark.capabilities import columns_of_text
from pyhudi.sql.text.quoting import quoted_name, quoted_text
from pyhudi.sql.text.tokens import Cursor, Slice

_NOT_STORED = ("DEFAULT", "GENERATED", "CHECK", "CONSTRAINT", "PRIMARY", "UNIQUE", "REFERENCES")
_COMMENT = "comment"


def columns_of(cursor: Cursor) -> Slice:
    """Take `(name type, …)`, and give the text between the parentheses.

    Raises:
        SqlStatementError: a column has a default or a constraint, which a Hudi table cannot have.
    """
    inner = cursor.parenthesised()
    start = inner.place
    for column in inner.listed():
        column.until(*_NOT_STORED)
        if not column.is_at_end:
            place = column.place
            column.fail(f"a column of a Hudi table cannot have {column.one_of(*_NOT_STORED)}", at=place)
    return Slice(cursor.text[start : cursor.tokens[cursor.position - 1].start].strip(), start)


def parsed(columns: Slice | str) -> StructType:
    """The columns of a text, by Spark's parser. CHAR and VARCHAR are texts, as JVM Hudi stores them."""
    return StructType([_plain(field) for field in columns_of_text(str(columns)).fields])


def _plain(field: StructField) -> StructField:
    kind = field.dataType
    if isinstance(kind, spark_types.CharType | spark_types.VarcharType):
        kind = spark_types.StringType()
    return StructField(field.name, kind, field.nullable, field.metadata)


def nullable(schema: StructType) -> StructType:
    """The columns, and those inside of them, with nulls allowed; `StructType.toNullable` of newer Sparks."""
    return StructType(
        [StructField(field.name, _nullable(field.dataType), True, field.metadata) for field in schema.fields]
    )


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, spark_types.MapType):
        return spark_types.MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind


def ddl_of(schema: StructType) -> str:
    """The columns as `CREATE TABLE` has them, with their comments."""
    return ", ".join(ddl_lines(schema))


def ddl_lines(schema: StructType) -> list[str]:
    """Each column as `CREATE TABLE` has it."""
    return [_column(field, " ") for field in schema.fields]


def _column(field: StructField, sign: str) -> str:
    required = "" if field.nullable else " NOT NULL"
    comment = field.metadata.get(_COMMENT)
    remark = "" if comment is None else f" COMMENT {quoted_text(comment)}"
    return f"{quoted_name(field.name)}{sign}{_type(field.dataType)}{required}{remark}"


def _type(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(_column(field, ': ') for field in kind.fields)}>"
    if isinstance(kind, spark_types.ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, spark_types.MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return str(kind.simpleString())


def with_meta_columns(schema: StructType) -> StructType:
    """The columns as catalogs list them: the `_hoodie_*` ones first."""
    own = [field for field in schema.fields if field.name not in META_COLUMNS]
    meta = [StructField(name, spark_types.StringType()) for name in META_COLUMNS]
    return StructType([*meta, *own])


def with_last(schema: StructType, names: Sequence[str]) -> StructType:
    """The columns with those of these names at the end, in this order, as JVM Hudi arranges partition columns."""
    by_name = {field.name: field for field in schema.fields}
    return StructType([field for field in schema.fields if field.name not in names] + [by_name[name] for name in names])


def own_name(schema: StructType, name: str, what: str) -> str:
    """The name of a column as the table spells it, given in any case.

    Raises:
        SchemaMismatchError: there is no such column, or several.
    """
    found = [field.name for field in schema.fields if field.name.lower() == name.lower()]
    exact = [column for column in found if column == name]
    if len(found) != 1 and not exact:
        raise SchemaMismatchError(
            f"{what} {name!r} is {'several columns' if found else 'no column'} of the table",
            column=name,
            columns=schema.names,
        )
    return str((exact or found)[0])
