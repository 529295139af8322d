"""Options of merging versions of records, in writes and reads: custom mergers, and memory limits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, integer, text

MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."
"""Prefix of the table properties that configure merging."""

MERGERS_KEY = "hoodie.write.record.merge.custom.implementation.classes"
MERGER_KEY = f"{MERGE_PROPERTY_PREFIX}pyhudi.merger"
MERGER_OPTIONS_KEY = f"{MERGER_KEY}.options"

BUILT_IN_MERGERS = ("record_count", "stitching")
"""The names of the built-in mergers of pyhudi."""

JVM_PACKAGE = "org.apache.hudi."
_PYTHON_CLASS = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)[:.]([^\W\d]\w*)")


def _read_mergers(value: str) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if value else []
    # JVM Hudi's own classes implement merge modes that pyhudi has built in; JVM jobs often name one.
    mergers = [merger_name(name) for name in names if not name.startswith(JVM_PACKAGE)]
    return tuple(dict.fromkeys(mergers))


def merger_name(name: str) -> str:
    """The name of a built-in merger, or `module:Class` of a custom one.

    Raises:
        ValueError: the text is neither.
    """
    if name in BUILT_IN_MERGERS:
        return name
    found = _PYTHON_CLASS.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return f"{found.group(1)}:{found.group(2)}"


MERGERS = Parser(
    _read_mergers,
    f"{' or '.join(BUILT_IN_MERGERS)}, or importable classes as package.module:Class, separated by commas",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergingOptions:
    """Custom mergers: Python classes that merge two versions of a record.

    A table names its merger. Writers, and readers of its logs, must provide the class, unless it is built in. pyhudi
    imports classes that these options name, never classes that a table names.
    """

    mergers: tuple[str, ...] = option(
        MERGERS_KEY,
        aliases=("hoodie.datasource.write.record.merger.impls",),
        parse=MERGERS,
        default=(),
        doc="The merger of a new table; for an existing table, the classes that it may name. Classes of "
        "`org.apache.hudi` are ignored: they implement the other merge modes.",
    )
    merger_options: str | None = option(
        MERGER_OPTIONS_KEY,
        parse=text(),
        default=None,
        doc="The options of a built-in merger, for example for `stitching` each ordering column with its columns: "
        "`_ts1:a,b;_ts2:c`. A new table stores them.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """Memory limits of merging the logs of one file slice, per task."""

    merge_max_bytes: int = option(
        "hoodie.memory.merge.max.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="The limit of log records of a slice in memory, and of rows that go into one base file. Further ones are "
        "kept in a file on local disk. What a task reads, merges and encodes at the moment comes on top: some copies "
        "of a row if it is wide.",
    )
    spill_folder: str | None = option(
        "hoodie.memory.spillable.map.path",
        parse=text("a folder on local disk"),
        default=None,
        doc="The folder of that file, and of rows of a bulk insert and entries of an index that do not fit into "
        "memory; by default the operating system's folder of temporary files.",
    )
