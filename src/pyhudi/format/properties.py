"""`java.util.Properties` text, and the checksum of a table's properties.

Reading follows all rules of Java's loader. Readers that do not undo escapes can read the written text, too, such
as hudi-rs: values escape only what they must, so `:` and `=` stay unescaped.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from pyhudi.errors import ConfigError, CorruptDataError

PROPERTIES_BYTES_MAX: Final = 16 * 1024 * 1024
"""The size limit of properties text; the largest contain a table's schema."""

TABLE_NAME_KEY: Final = "hoodie.table.name"
TABLE_TYPE_KEY: Final = "hoodie.table.type"
TABLE_VERSION_KEY: Final = "hoodie.table.version"
DATABASE_NAME_KEY: Final = "hoodie.database.name"
CHECKSUM_KEY: Final = "hoodie.table.checksum"

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_MAYBE_ESCAPED: Final = re.compile(r"""[^A-Za-z0-9_./,"{}\[\]-]""")
_WRITTEN: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_SPECIAL_IN_KEY: Final = " :=#!"


def parse_properties(data: bytes, *, path: str) -> dict[str, str]:
    """Parse properties text into unescaped keys and values. The last value of a repeated key wins.

    Raises:
        CorruptDataError: an escape is malformed or half a surrogate pair, or the text exceeds the size limit. All other
            bytes are legal, so the caller must check that required keys exist.
    """
    if len(data) > PROPERTIES_BYTES_MAX:
        raise CorruptDataError("the properties file is too large", path=path, size=len(data))
    values = {}
    for line in _logical_lines(data.decode("latin-1")):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        values[_unescape(key.group(), path)] = _unescape(line[separator.end() :], path)
    return values


def format_properties(values: Mapping[str, str], *, comment: str) -> bytes:
    """Properties text with the comment first and the keys sorted, so that equal values give equal bytes.

    Raises:
        ConfigError: a key or value contains half a surrogate pair.
    """
    lines = [f"#{_ascii(comment)}"]
    lines += [f"{_escape_key(key)}={_escape_value(values[key])}" for key in sorted(values)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def table_checksum(database: str, table: str) -> str:
    """The value of `hoodie.table.checksum`: the CRC-32 of `<database>.<table>`, where the database may be empty."""
    return str(zlib.crc32(f"{database}.{table}".encode()))


def check_table_properties(values: Mapping[str, str], path: str) -> None:
    """Check that the properties of a table are complete.

    Properties have no order, so a truncated file may lack any of them. JVM Hudi would guess a missing type or version;
    here it counts as damage.

    Raises:
        CorruptDataError: name, type or version is missing, or the checksum does not match the name.
    """
    missing = [key for key in (TABLE_NAME_KEY, TABLE_TYPE_KEY, TABLE_VERSION_KEY) if not values.get(key)]
    if missing:
        raise CorruptDataError("the table's properties are empty or truncated", path=path, missing=missing)
    stored = values.get(CHECKSUM_KEY)
    computed = table_checksum(values.get(DATABASE_NAME_KEY, ""), values[TABLE_NAME_KEY])
    if stored is not None and stored.strip() != computed:
        raise CorruptDataError(
            "the checksum of the table's properties does not match", path=path, stored=stored, computed=computed
        )


def _logical_lines(text: str) -> Iterator[str]:
    """The logical lines with a property: continuation lines joined, leading blanks removed."""
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        # Not by a regular expression, whose search would restart at each backslash and take quadratic time.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            continue
        yield "".join([*parts, line])
        parts = []
    if any(parts):
        yield "".join(parts)


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text
    try:
        unescaped = _ESCAPE.sub(_unescaped, text)
        # A character beyond 16 bits consists of two escapes.
        return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except ValueError as error:
        raise CorruptDataError("the properties hold a malformed escape", path=path, text=text[:80]) from error


def _unescaped(match: re.Match[str]) -> str:
    escaped = match.group(1)
    if escaped == "u":
        raise ValueError("four hexadecimal digits must follow")
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROLS.get(escaped, escaped)


def _escape_key(key: str) -> str:
    return _MAYBE_ESCAPED.sub(
        lambda char: f"\\{char.group()}" if char.group() in _SPECIAL_IN_KEY else _escape(char.group()), key
    )


def _escape_value(value: str) -> str:
    escaped = _MAYBE_ESCAPED.sub(lambda char: _escape(char.group()), value)
    return f"\\{escaped}" if value.startswith(" ") else escaped


def _escape(char: str) -> str:
    return _WRITTEN.get(char) or _ascii(char)


def _ascii(text: str) -> str:
    """The text with hexadecimal escapes for everything except printable ASCII."""
    if text.isascii() and text.isprintable():
        return text
    try:
        units = text.encode("utf-16-be")
    except UnicodeEncodeError as error:
        raise ConfigError("half a surrogate pair cannot be stored in properties", text=text[:80]) from error
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code <= 0x7E else f"\\u{code:04x}" for code in codes)
