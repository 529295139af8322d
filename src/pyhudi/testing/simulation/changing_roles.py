"""Roles that compute their rows from those of the table, change its columns, or follow its captured changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement
from typing import Final

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import HudiError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.table.state import load_table
from pyhudi.table.timeline import position_of
from pyhudi.testing.simulation.captured_changes import add_column, rename_column, replay, widen_column
from pyhudi.testing.simulation.computed_writes import Computation, Computed
from pyhudi.testing.simulation.key_value_writes import Request
from pyhudi.testing.simulation.stage import Role, Stage, failed, serve, write

POLLS = 3
"""How often the follower of changes looks at the table."""


def _capture(stage: Stage) -> None:
    """Follow the captured changes, again and again, and keep the rows that they make."""
    position: str | None = None
    rows: dict[str, str] = {}

    def look(stage: Stage) -> None:
        nonlocal position
        began = stage.run.steps
        table = load_table(stage.seat.storage)
        wrong = replay(table, rows, after=position)
        position = max((position_of(instant) for instant in table.timeline.completed_writes), default=position)
        found = tuple(sorted(rows.items())) if wrong is None else ((wrong, ""),)
        stage.done(began, rows=found, seen=table.timeline.completed_times, is_followed=True)

    for _ in range(POLLS):
        serve(stage, look)


def _alter(change: Callable[[HudiTable, str], str]) -> Role:
    def play(stage: Stage) -> None:
        began, name = stage.run.steps, stage.seat.name
        stage.history.requests[name] = Request(operation=WriteOperation.ALTER_SCHEMA)
        try:
            instant = change(stage.seat.table(), name)
        except HudiError as error:
            stage.tell(failed(stage, began, error))
        else:
            stage.done(began, instant=instant)

    return play


def _computed(operation: WriteOperation, computation: Computation, name: str) -> Request:
    return Request(operation=operation, computed=Computed(computation, name))


CHANGING: Final[Mapping[str, Role]] = {
    "extend": write(lambda name: _computed(WriteOperation.UPSERT, Computation.EXTEND, name)),
    "discard": write(lambda name: _computed(WriteOperation.DELETE, Computation.DISCARD, name)),
    "merge": write(lambda name: _computed(WriteOperation.UPSERT, Computation.MERGE, name)),
    "claim": write(lambda name: _computed(WriteOperation.UPSERT, Computation.CLAIM, name)),
    "add": _alter(add_column),
    "rename": _alter(rename_column),
    "widen": _alter(widen_column),
    "capture": _capture,
}
COMPUTING = ("extend", "discard", "merge", "claim")
ALTERING = ("add", "rename", "widen")

CAPTURED: tuple[tuple[str, ...], ...] = (
    *((role, "capture") for role in ("update", "both", "extend", "merge", "discard", "drop", "overwrite")),
    ("claim", "claim", "capture"),
    *((role, other, "capture") for role in ("update", "merge") for other in ("cluster", "late", "clean", "expire")),
    ("new", "update-2", "capture"),
    ("update", "update-b", "capture"),
    ("abandoned", "attempt", "capture"),
    *((role, other) for role in ("update", "merge", "overwrite", "cluster", "late") for other in ALTERING),
    *combinations_with_replacement(ALTERING, 2),
    ("extend", "rename", "capture"),
    ("update", "add", "capture"),
    ("both", "widen", "read"),
    ("update", "rename", "late"),
)
CAPTURED_IN_LOGS: tuple[tuple[str, ...], ...] = (
    *(("compact", role) for role in ALTERING),
    ("update", "compact", "capture"),
    ("update", "compact", "rename"),
    ("merge", "compact", "capture"),
)
"""Beside tables that capture changes, and whose columns change."""
