"""The timeline as its folder shows it: read by name only, with no code of pyhudi."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_COMPLETED_WRITE = re.compile(r"(\d{17})(?:_(\d{17}))?\.(commit|deltacommit|replacecommit)")


@dataclass(frozen=True, slots=True)
class CompletedWrite:
    """A completed commit. Version 6 names carry no completion time."""

    requested: str
    completed: str | None
    action: str

    @property
    def position(self) -> str:
        """What incremental queries of its table version count in."""
        return self.completed or self.requested


def completed_writes(table: Path) -> list[CompletedWrite]:
    """All completed writes of the active timeline, oldest first."""
    folder = table / ".hoodie" / "timeline"
    if not folder.is_dir():
        folder = table / ".hoodie"
    found = (_COMPLETED_WRITE.fullmatch(file.name) for file in folder.iterdir())
    return sorted((CompletedWrite(*match.groups()) for match in found if match), key=lambda write: write.requested)
