"""Where a party is known to answer differently, and why. Everything else that differs is a failure."""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.shapes import Shape


@dataclass(frozen=True, slots=True)
class Deviation:
    """`party` does not give `columns` (empty: cannot read the table) of a table for which `applies` holds."""

    party: str
    columns: frozenset[str]
    reason: str


def ignored_columns(party: str, shape: Shape) -> frozenset[str]:
    """The columns that this party is known to give differently for this shape of table."""
    return frozenset().union(*(d.columns for d in _deviations(shape) if party.startswith(d.party)))


def cannot_read(party: str, shape: Shape) -> str | None:
    """Why this party is not asked about this shape of table."""
    return next((d.reason for d in _deviations(shape) if party.startswith(d.party) and not d.columns), None)


def _deviations(shape: Shape) -> list[Deviation]:
    return []
