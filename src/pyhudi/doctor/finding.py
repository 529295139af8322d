"""`Finding`: one thing that is wrong, how bad it is, and what mends it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from pyhudi.table.state import TableState

_Item = TypeVar("_Item")


class Severity(enum.StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Rows are missing, wrong or twice, or the table cannot be read or written."""
    WARNING = "warning"
    """Something died or is damaged, and readers do not notice it."""
    NOTE = "note"
    """Work that is due; nothing is wrong."""


class Mend(enum.StrEnum):
    """What mends a finding without losing anything that readers see, in the order in which mends are made."""

    PROPERTIES = "finish the change of the properties"
    ROLL_BACK = "roll back"
    CLEAN_PLANS = "remove damaged plans of cleans"
    MARKERS = "delete markers of writes that have ended"
    ORPHANS = "delete files of rolled back writes"
    METAFILES = "put partition metafiles"
    METADATA_TABLE = "build the metadata table again"
    SERVICES = "run services"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        severity: how bad it is.
        problem: what kind of thing it is, in a few words that do not change.
        path: the file, partition, instant or package.
        detail: what was seen.
        command: arguments of `pyhudi` that mend it, with `PATH` for the table's path, or other words; None if no one
            thing does.
        mend: what the doctor itself can do about it.
    """

    severity: Severity
    problem: str
    path: str = ""
    detail: str
    command: str | None = None
    mend: Mend | None = None


def evenly(items: Sequence[_Item], limit: int) -> list[_Item]:
    """At most so many of these, from all over them."""
    if len(items) <= limit:
        return list(items)
    return [items[number * len(items) // limit] for number in range(limit)]


def restore_before(table: TableState, instant_time: str) -> str | None:
    """The command that goes back to the state before a write; None if the active timeline has none."""
    earlier = [write.requested_time for write in table.timeline.completed_writes if write.requested_time < instant_time]
    return f"restore PATH {earlier[-1]}" if earlier else None


def findings_table(findings: Iterable[Finding], uri: str) -> pa.Table:
    """The findings as rows, the worst ones first."""
    order = list(Severity)
    rows = [
        {
            "severity": finding.severity.value,
            "problem": finding.problem,
            "path": finding.path,
            "detail": finding.detail,
            "command": finding.command.replace("PATH", uri) if finding.command else None,
            "mend": finding.mend.value if finding.mend else None,
        }
        for finding in sorted(findings, key=lambda found: (order.index(found.severity), found.problem, found.path))
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


_SCHEMA = pa.schema([(name, pa.string()) for name in ("severity", "problem", "path", "detail", "command", "mend")])
