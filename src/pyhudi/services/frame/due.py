"""`Due`: whether a table service is to run now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Due:
    """Whether to run a service now, and why, for the user."""

    is_due: bool
    reason: str
