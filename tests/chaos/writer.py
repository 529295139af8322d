"""A process that writes until it is killed or told to stop (SIGTERM): `run_writer`.

Appends to lists are transactions of read and write. What is read is the table's newest snapshot, and that it still
stands when the write has begun is looked at from within the write; from there on the conflict check keeps watch.
"""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.dataset as ds
from tests.chaos.journal import Journal, Work
from tests.chaos.setting import (
    CALL_METADATA,
    LIST_AREAS,
    LIST_LENGTH,
    LISTS_AT_ONCE,
    ONCE_AREAS,
    ONCE_ROWS,
    Setting,
    rows_of,
    split_list,
)
from tests.support.tables import rehandled

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import CommitOutcomeUnknownError, HudiError, TransactionError, WriteConflictError
from pyhudi.testing.isolation import Ending, Version

Key = tuple[str, str]
"""A record key and its area, which is its partition."""


def run_writer(setting: Setting, slot: int, life: int) -> None:
    """Write until the end. `slot`: whose place this process has; `life`: how often it was filled before."""
    # A warning would be a defect unless it says that something was left for later, which other processes' ends explain.
    warnings.simplefilter("error")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    name = f"w{slot}-{life}"
    writer = _Writer(setting, slot, Journal(setting.folder, name), random.Random(f"{setting.seed} {name}"))
    while not stop.is_set():
        writer.turn()


@dataclass(frozen=True)
class CheckedEngine(LocalEngine):
    """Runs `check` once, before the first tasks of a write that has begun.

    Rows are staged by `map_splits` before the write takes its instant; everything later goes through `map`.
    """

    check: Callable[[], None] = field(default=lambda: None)
    _checked: list[bool] = field(default_factory=list)

    def map(self, function: Any, tasks: Sequence[Any], **how: Any) -> list[Any]:
        if not self._checked:
            self._checked.append(True)
            self.check()
        return super().map(function, tasks, **how)


@dataclass(frozen=True, slots=True)
class _Writer:
    setting: Setting
    slot: int
    journal: Journal
    dice: random.Random

    def turn(self) -> None:
        """One call of some kind."""
        does = {Work.APPEND: self._append, Work.ONCE: self._once, Work.OWN: self._own, Work.SERVICE: self._service}
        is_mor = self.setting.kind.table_type == "mor"
        weights = {Work.APPEND: 5, Work.ONCE: 3, Work.OWN: 2, Work.SERVICE: 1 if is_mor else 0}
        does[self.dice.choices(list(weights), list(weights.values()))[0]]()

    def _append(self) -> None:
        """Append to one to three lists that everybody appends to."""
        table = self.setting.open()
        lists = read_lists(table, LIST_AREAS)
        live = [live_key(lists, area, n) for area in LIST_AREAS for n in range(LISTS_AT_ONCE // len(LIST_AREAS))]
        self._append_to(Work.APPEND, table, lists, self.dice.sample(live, self.dice.randint(1, 3)))

    def _own(self) -> None:
        """Append to lists that nobody else appends to: the successor of a killed process goes on with them."""
        table = self.setting.open()
        area = f"own-{self.slot}"
        lists = read_lists(table, [area])
        self._append_to(Work.OWN, table, lists, [live_key(lists, area, n) for n in range(2)])

    def _append_to(
        self, work: Work, table: pyhudi.HudiTable, lists: Mapping[Key, Version], keys: Sequence[Key]
    ) -> None:
        found = {key: lists.get(key, ()) for key in keys}
        name = self.journal.begin(
            work, reads={key: found[key, area] for key, area in keys}, appends=[key for key, _ in keys]
        )

        def check_unchanged() -> None:
            now = read_lists(table.refresh(), sorted({area for _, area in keys}))
            if {key: now.get(key, ()) for key in keys} != found:
                raise WriteConflictError("what this call had read was changed before its write began; run it again")

        rows = rows_of(name, {key: (*values, name) for key, values in found.items()})
        checked = rehandled(table, engine=CheckedEngine(check=check_unchanged))
        self._call(name, lambda: checked.upsert(rows, hudi_options={CALL_METADATA: name}).instant)

    def _once(self) -> None:
        """Write new keys, in several partitions, that are never written again."""
        table = self.setting.open()
        name = self.journal.begin(Work.ONCE, rows=ONCE_ROWS)
        areas = self.dice.sample(ONCE_AREAS, 2)
        rows = rows_of(name, {(f"{name}/{n}", areas[n % 2]): None for n in range(ONCE_ROWS)})
        write = self.dice.choice([table.upsert, table.insert, table.bulk_insert])
        self._call(name, lambda: write(rows, hudi_options={CALL_METADATA: name}).instant)

    def _service(self) -> None:
        """Compact."""
        table = self.setting.open()
        name = self.journal.begin(Work.SERVICE)
        self._call(name, lambda: table.services.compact().num_rows)

    def _call(self, name: str, act: Callable[[], object]) -> None:
        try:
            result = act()
        except TransactionError as error:
            self.journal.end(name, Ending.FAILED, error=type(error).__name__, why=str(error))
        except CommitOutcomeUnknownError as error:
            instant = error.context.get("instant")
            self.journal.end(name, Ending.UNKNOWN, error=type(error).__name__, why=str(error), instant=instant)
        except HudiError as error:
            # Nothing that a healthy store should lead to: the judge reports it.
            self.journal.end(name, Ending.UNKNOWN, error=type(error).__name__, why=str(error))
        else:
            self.journal.end(name, Ending.OK, result=result)


def read_lists(table: pyhudi.HudiTable, areas: Sequence[str]) -> dict[Key, Version]:
    """All lists of some areas, in one snapshot."""
    rows = table.scan(["id", "area", "list"], where=ds.field("area").isin(areas)).to_arrow().to_pylist()
    return {(row["id"], row["area"]): split_list(row["list"]) for row in rows}


def live_key(lists: Mapping[Key, Version], area: str, number: int) -> Key:
    """The list of this number in an area that has not got long."""
    generation = 0
    while len(lists.get((f"{area}/{number}/{generation}", area), ())) >= LIST_LENGTH:
        generation += 1
    return f"{area}/{number}/{generation}", area
