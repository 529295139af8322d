"""Conditions and keys as text of a command line, with the values that the columns have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyhudi.commands.arguments import argument, names_of
from pyhudi.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi import HudiTable

_CONDITION = re.compile(r"\s*(\S+?)\s*(==|!=|<>|<=|>=|=|<|>|\bnot in\b|\bin\b)\s*(.*?)\s*", re.DOTALL)
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_ITEM: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^,'\"])+")
_JOINED: Final = re.compile(r"\s(and|or)\s", re.IGNORECASE)
_NULL: Final = re.compile(r"\bnull\b", re.IGNORECASE)
_OPERATORS = {"=": "==", "<>": "!="}


COLUMNS: Final = argument("--columns", type=names_of, metavar="NAMES", help="only these columns, separated by commas")
WHERE: Final = argument(
    "--where",
    action="append",
    default=[],
    metavar="CONDITION",
    help="only rows with e.g. 'fare > 10', 'city in oslo,rome'; all hold of several",
)
AS_OF: Final = argument(
    "--as-of",
    metavar="TIME",
    help="as the rows were: an instant, a savepoint, or a time in the table's zone, or with its offset (…+01:00)",
)


def conditions_of(texts: list[str], schema: pa.Schema) -> list[tuple[str, str, Any]] | None:
    """The condition that several texts make together; None for none. Raises `ConfigError` for one that is no condition.

    `schema`: the columns of the table, whose types the values get.
    """
    return [_condition(text, schema) for text in texts] or None


def _condition(text: str, schema: pa.Schema) -> tuple[str, str, Any]:
    found = _CONDITION.fullmatch(text)
    if found is None or _NULL.fullmatch(found[3]):
        nulls = "; no value compares with null: ask for nulls by pyhudi query" if _NULL.search(text) else ""
        raise ConfigError(f"a condition is a column, an operator and a value, such as 'fare > 10'{nulls}", given=text)
    name, operator, value = found.groups()
    _check_value(value, text)
    operator = _OPERATORS.get(operator, operator)
    if operator in {"in", "not in"}:
        return name, operator, [value_of(name, item.strip(), schema) for item in _ITEM.findall(value.strip("()"))]
    return name, operator, value_of(name, value, schema)


def _check_value(value: str, text: str) -> None:
    """Raise `ConfigError` for what would be a second condition, or for quotes that do not enclose a value."""
    bare = _QUOTED.sub("", value)
    joined = _JOINED.search(f"{bare} ")
    if joined is not None:
        hint = (
            "repeat --where, as all of several hold"
            if joined[1].lower() == "and"
            else "use 'in' for values of one column, or pyhudi query for other SQL"
        )
        raise ConfigError(f"--where takes one condition: {hint}; quote a value with this word", given=text)
    if "'" in bare or '"' in bare:
        raise ConfigError("a quote is not closed: enclose a value in the other kind of quotes", given=text)


def value_of(name: str, text: str, schema: pa.Schema) -> Any:
    """The value of a column that a text stands for. Raises `ConfigError` for one that the column cannot have."""
    import pyarrow as pa  # noqa: PLC0415 - help does without

    if name not in schema.names:
        raise ConfigError("the table has no column with this name", column=name, columns=schema.names)
    kind = schema.field(name).type
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    try:
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        offset = "; say its offset, such as 2026-01-31T10:00:00Z" if pa.types.is_timestamp(kind) and kind.tz else ""
        raise ConfigError(f"{text!r} is no value of a column of type {kind}{offset}", column=name) from error


def keys_of(texts: list[str], table: HudiTable) -> list[Any]:
    """Record keys as `lookup` takes them; a key of several columns is written as Hudi does: `city:oslo,id:7`."""
    fields, schema = key_columns(table), table.schema
    if len(fields) == 1:
        begin = f"{fields[0]}:"
        return [value_of(fields[0], text.removeprefix(begin), schema) for text in texts]
    return [tuple(_parts(text, fields, schema)) for text in texts]


def key_columns(table: HudiTable) -> tuple[str, ...]:
    """The columns that make the record key, in their order."""
    columns = table.inspect.columns().to_pylist()
    return tuple(name for _, name in sorted((row["key"], row["column"]) for row in columns if row["key"] is not None))


def _parts(text: str, fields: tuple[str, ...], schema: pa.Schema) -> list[Any]:
    """The values of the columns of one key; they may have commas and colons, but not look like the next column."""
    pattern = ",".join(rf"{re.escape(name)}:(.*)" for name in fields)
    found = re.fullmatch(pattern, text, re.DOTALL)
    if found is None:
        form = ",".join(f"{name}:VALUE" for name in fields)
        raise ConfigError(f"the record key has {len(fields)} columns: write {form}", given=text)
    return [value_of(name, value, schema) for name, value in zip(fields, found.groups(), strict=True)]
