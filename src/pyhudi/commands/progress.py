"""The progress of long work, on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhudi.engine.progress import OnProgress, Progress


def shown_on_terminal() -> OnProgress | None:
    """What shows progress on the standard error; None if that is no terminal."""
    return _show if sys.stderr.isatty() else None


def _show(progress: Progress) -> None:
    """Write over the line before; the last one of a step stays."""
    is_last = progress.done == progress.tasks
    time = f"{progress.seconds:.1f} s" if is_last else f"about {progress.seconds_left:.0f} s left"
    end = "\n" if is_last else ""
    sys.stderr.write(f"\r{progress.step}: {progress.done} of {progress.tasks} tasks, {time:<20}{end}")
    sys.stderr.flush()
