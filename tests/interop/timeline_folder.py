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
    found = (_COMPLETED_WRITE.fullmatch(file.name) for file in _folder(table).iterdir())
    return sorted((CompletedWrite(*match.groups()) for match in found if match), key=lambda write: write.requested)


def completed_turns(table: Path) -> list[CompletedWrite]:
    """The completed writes without compactions. Not every `commit` is one: 1.2.0 calls a bulk insert so."""
    return [write for write in completed_writes(table) if not _is_compaction(table, write)]


def completed_compactions(table: Path) -> list[CompletedWrite]:
    """The completed compactions, oldest first."""
    return [write for write in completed_writes(table) if _is_compaction(table, write)]


def planned_compactions(table: Path) -> list[str]:
    """Instants of the compactions that were planned and are not completed, oldest first."""
    suffix = ".compaction.requested"
    planned = {file.name.removesuffix(suffix) for file in _folder(table).iterdir() if file.name.endswith(suffix)}
    return sorted(planned - {write.requested for write in completed_writes(table)})


def undo_last_completion(table: Path) -> None:
    """Take the completed instant of the last write away: what a writer leaves that dies just before it."""
    last = completed_writes(table)[-1]
    time = last.requested if last.completed is None else f"{last.requested}_{last.completed}"
    (_folder(table) / f"{time}.{last.action}").unlink()
    (_folder(table) / f".{time}.{last.action}.crc").unlink(missing_ok=True)


def _is_compaction(table: Path, write: CompletedWrite) -> bool:
    return (_folder(table) / f"{write.requested}.compaction.requested").exists()


def _folder(table: Path) -> Path:
    folder = table / ".hoodie" / "timeline"
    return folder if folder.is_dir() else table / ".hoodie"
