"""Partition paths: conversion between the text of values and folder names.

    path    := "" | segment ("/" segment)*      relative to the table, a segment per partition field
    segment := [field "="] value                the field only in hive style

Null and the empty string become `__HIVE_DEFAULT_PARTITION__`. Characters are escaped only with URL encoding; without
it, a `/` in a value makes a subfolder, as in JVM Hudi. Values come from users, so every path is checked before anything
is written: it must stay inside the table, avoid reserved folders, and be a legal file name on all systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsafePathError
from pyhudi.format.safe_paths import METADATA_FOLDER, is_metadata_folder, path_problem

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
SEGMENT_BYTES_MAX: Final = 255
"""The limit of a file name in common local file systems, in bytes of UTF-8."""

_CONTROL: Final = "".join(map(chr, range(0x20))) + "\x7f"
_ESCAPES: Final = {ord(char): f"%{ord(char):02X}" for char in _CONTROL + "\"#%'*/:=?[\\]^{"}
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_ESCAPES_IN_A_ROW = re.compile("(?:%[0-9A-Fa-f]{2})+")

_UNCOMMON: Final = f"/:\\\\{re.escape(_CONTROL)}\ud800-\udfff"
_PLAINLY_SAFE = re.compile(f"[^.{_UNCOMMON}\x80-\U0010ffff][^{_UNCOMMON}]{{0,62}}")
"""One folder name that is certainly safe: the common case, of at most 4 bytes per character."""


def escape_value(value: str) -> str:
    """A value with the special characters of Hive, and NUL, as `%XX`.

    Spaces, `<>|&},+`, `.`, `..` and all non-ASCII characters are not escaped.
    """
    return value.translate(_ESCAPES)


def unescape_value(text: str) -> str:
    """The inverse of `escape_value`; a `%` that does not begin an escape stays unchanged.

    Each escape is one UTF-16 code unit, as in Hive, so `%E2%82%AC` is three characters.
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def unescape_folder(text: str) -> str:
    """The text that the name of a folder of another program means, which wrote it with escapes.

    pyarrow, pandas and polars escape bytes of UTF-8, Hive and Spark some ASCII characters alone. So escapes that are
    UTF-8 beyond ASCII are such; others are as `unescape_value` takes them.
    """
    return _ESCAPES_IN_A_ROW.sub(_unescaped_bytes, text)


def _unescaped_bytes(found: re.Match[str]) -> str:
    raw = bytes.fromhex(found[0].replace("%", ""))
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return unescape_value(found[0])


def format_segment(
    field: str, value: str | None, *, hive_style: bool, url_encode: bool, slash_dates: bool = False
) -> str:
    """The part of a partition path for one field, unchecked.

    `slash_dates` makes one folder per part of `2024-01-02`.
    """
    text = value or NULL_PARTITION
    if url_encode:
        text = escape_value(text)
    if slash_dates:
        text = text.replace("-", "/")
    return f"{field}={text}" if hive_style else text


def checked_segments(
    field: str,
    values: Iterable[str | None],
    *,
    is_first: bool,
    hive_style: bool,
    url_encode: bool,
    slash_dates: bool = False,
) -> list[str]:
    """`format_segment` of each distinct value of a column, checked. `is_first`: it is the first segment of the path.

    Raises:
        UnsafePathError: a segment is unsafe; names the column, the value, and the option that makes it safe, if any.
    """
    segments = []
    for value in values:
        segment = format_segment(field, value, hive_style=hive_style, url_encode=url_encode, slash_dates=slash_dates)
        problem = _problem_of(segment, is_first=is_first)
        if problem is not None:
            fix = _fix_for(field, value, is_first=is_first, hive_style=hive_style)
            raise UnsafePathError(
                f"a value of partition column {field!r} {problem}; {fix}",
                column=field,
                value=value,
                segment=segment,
            )
        segments.append(segment)
    return segments


def partition_depth(path: str) -> int:
    """The number of folders from the table to a partition, as in its metadata file."""
    return path.count("/") + 1 if path else 0


def partition_values(path: str, fields: Sequence[str], *, hive_style: bool, url_encoded: bool) -> dict[str, str | None]:
    """The text of each partition field in a path, None for the null partition.

    A value may span several folders. This is unambiguous for a single field, and in hive style, where the name of the
    next field ends the value.

    Raises:
        CorruptDataError: the path does not match the fields, or is ambiguous.
    """
    texts = _hive_texts(path, fields) if hive_style else _plain_texts(path, fields)
    if texts is None:
        raise CorruptDataError(
            "the partition path does not match the partition fields", path=path, fields=tuple(fields)
        )
    return {field: _value_of(text, url_encoded=url_encoded) for field, text in zip(fields, texts, strict=True)}


def path_columns(path: str) -> tuple[tuple[str, str | None], ...]:
    """Columns and their texts in a path of folders of another program (`unescape_folder`); None for null.

    Folders without a `=` are passed over.
    """
    pairs = [segment.partition("=") for segment in path.split("/") if "=" in segment]
    return tuple(
        (unescape_folder(name), None if text == NULL_PARTITION else unescape_folder(text)) for name, _, text in pairs
    )


def typed_value(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """Convert the text of a partition value to a column's type; None for types whose text in a path differs."""
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return None
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return None


def _value_of(text: str, *, url_encoded: bool) -> str | None:
    if text == NULL_PARTITION:
        return None
    return unescape_value(text) if url_encoded else text


def _plain_texts(path: str, fields: Sequence[str]) -> list[str] | None:
    if not fields:
        return None if path else []
    texts = [path] if len(fields) == 1 else path.split("/")
    return texts if len(texts) == len(fields) and all(texts) else None


def _hive_texts(path: str, fields: Sequence[str]) -> list[str] | None:
    if not fields:
        return None if path else []
    texts: list[list[str]] = []
    for segment in path.split("/"):
        prefix = f"{fields[len(texts)]}=" if len(texts) < len(fields) else None
        if prefix is not None and segment.startswith(prefix):
            texts.append([segment.removeprefix(prefix)])
        elif texts:
            texts[-1].append(segment)
        else:
            return None
    return ["/".join(parts) for parts in texts] if len(texts) == len(fields) else None


def _problem_of(path: str, *, is_first: bool) -> str | None:
    """Explain why a path of one or more segments must not be written, or return None. Completes "a value …"."""
    if _PLAINLY_SAFE.fullmatch(path):
        return None
    problem = path_problem(path)
    if problem is not None:
        return problem
    parts = path.split("/")
    first = parts[0] if is_first else ""
    checks = (
        # Hudi on the JVM passes over such folders, at any depth, when it lists partitions.
        (
            any(part.startswith(METADATA_FOLDER) or is_metadata_folder(part) for part in parts),
            f"names a reserved folder: its name starts with {METADATA_FOLDER!r}",
        ),
        # Hadoop takes what stands before a colon in the first name for a URI scheme.
        (":" in first, "has a ':' in the first folder name, which Hudi on the JVM cannot open"),
        (
            max(len(part.encode()) for part in parts) > SEGMENT_BYTES_MAX,
            f"makes a folder name longer than {SEGMENT_BYTES_MAX} bytes",
        ),
    )
    return next((problem for is_wrong, problem in checks if is_wrong), None)


def _fix_for(field: str, value: str | None, *, is_first: bool, hive_style: bool) -> str:
    encoded = format_segment(field, value, hive_style=hive_style, url_encode=True)
    if _problem_of(encoded, is_first=is_first) is None:
        return "create the table with hoodie.datasource.write.partitionpath.urlencode=true, or change the value"
    prefixed = format_segment(field, value, hive_style=True, url_encode=True)
    if _problem_of(prefixed, is_first=is_first) is None:
        return (
            "create the table with hoodie.datasource.write.hive_style_partitioning=true and "
            "hoodie.datasource.write.partitionpath.urlencode=true, or change the value"
        )
    return "change the value, or partition by another column"
