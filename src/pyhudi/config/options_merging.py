"""Options of how versions of a record become one, for writes and reads alike, and the memory that this takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi.config.option import Parser, option
from pyhudi.config.parsers import integer, text

MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."
"""Before the names of a table's properties that belong to its merging."""

MERGERS_KEY = "hoodie.write.record.merge.custom.implementation.classes"
MERGER_KEY = f"{MERGE_PROPERTY_PREFIX}pyhudi.merger"
MERGER_OPTIONS_KEY = f"{MERGER_KEY}.options"

BUILT_IN_MERGERS = ("record_count", "stitching")
"""The names of the mergers that come with pyhudi."""

JVM_PACKAGE = "org.apache.hudi."
_PYTHON_CLASS = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)[:.]([^\W\d]\w*)")


def _read_mergers(value: str) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if value else []
    # Hudi's own classes only serve modes that pyhudi serves without them; jobs from the JVM often name one.
    mergers = [merger_name(name) for name in names if not name.startswith(JVM_PACKAGE)]
    return tuple(dict.fromkeys(mergers))


def merger_name(name: str) -> str:
    """A merger that comes with pyhudi, or `module:Class` of one's own. Raises `ValueError` for other text."""
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
    """Mergers of your own: classes in Python that make one row of two versions of a record.

    A table names its merger, and whoever writes it, or reads its logs, has to bring the class; those that come with
    pyhudi are always there. pyhudi imports what these options name, and never what a table names.
    """

    mergers: tuple[str, ...] = option(
        MERGERS_KEY,
        aliases=("hoodie.datasource.write.record.merger.impls",),
        parse=MERGERS,
        default=(),
        doc="The merger of a new table; for a table that exists, the classes among which its own is found. Classes "
        "of `org.apache.hudi` are passed over: what they do is the other merge modes.",
    )
    merger_options: str | None = option(
        MERGER_OPTIONS_KEY,
        parse=text(),
        default=None,
        doc="What a merger that comes with pyhudi needs to know, for example for `stitching` each ordering column "
        "with the columns that go by it: `_ts1:a,b;_ts2:c`. A new table keeps it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """What merging the logs of one file slice may hold in memory. It counts per task."""

    merge_max_bytes: int = option(
        "hoodie.memory.merge.max.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="Log records of a slice beyond this go to a file on local disk until they are merged.",
    )
    spill_folder: str | None = option(
        "hoodie.memory.spillable.map.path",
        parse=text("a folder on local disk"),
        default=None,
        doc="Where that file is, and where a bulk insert keeps what does not fit into memory; without it, where the "
        "operating system has temporary files.",
    )
