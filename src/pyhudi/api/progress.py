"""`show_progress`: the progress of long work as a bar, in a notebook or in a terminal."""

from __future__ import annotations

import sys

from pyhudi.engine.progress import Progress
from pyhudi.environment import SYSTEM

_DISPLAYS: dict[str, str] = {}
"""The bar of each step in a notebook, by the id under which it is drawn anew."""


def show_progress(progress: Progress) -> None:
    """Show how far a step is: a bar in a notebook, a line on the standard error elsewhere. Cost: no request.

    >>> result = table.services.clean(on_progress=pyhudi.show_progress)
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        _show_line(progress)
        return
    from IPython.display import display, update_display  # noqa: PLC0415

    if progress.done == 1 or progress.step not in _DISPLAYS:
        _DISPLAYS[progress.step] = SYSTEM.ids.uuid()
        display(progress, display_id=_DISPLAYS[progress.step])
    else:
        update_display(progress, display_id=_DISPLAYS[progress.step])


def _show_line(progress: Progress) -> None:
    """Write over the line before; the last one of a step stays."""
    end = "\n" if progress.done == progress.tasks else ""
    sys.stderr.write(f"\r{progress.words:<60}{end}")
    sys.stderr.flush()
