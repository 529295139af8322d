"""Captured changes and changing columns: what readers of them see, and invariants K20 and K21 of `docs/reliability.md`.

The rows of such tables have two more columns than others, `note` with the key and `number` with a 1: whatever becomes
of the columns, these values remain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa

from pyhudi.api.handle import TableHandle
from pyhudi.api.hudi_table import HudiTable
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import SYSTEM
from pyhudi.errors import HistoryNotRetainedError, HistoryNotSettledError
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState
from pyhudi.testing.simulation.computed_writes import NUMBER
from pyhudi.testing.simulation.full_writes import SCHEMA
from pyhudi.testing.simulation.history import Answer, History, Verdict

CAPTURED_SCHEMA = pa.schema([*SCHEMA, ("note", pa.string()), ("number", pa.int32())])
"""The columns of simulated tables that capture changes, in the beginning."""
FORMER, RENAMED = "note", "remark"
_ENGINE = LocalEngine(parallelism=1)


def _table(table: TableState) -> HudiTable:
    return HudiTable(TableHandle(table, {}, _ENGINE, SYSTEM))


def read_captured(table: TableState, as_of: str | None) -> list[tuple[str, str]]:
    """All keys and values of the table, now or as of an instant time; sorted."""
    return sorted(_shown(row) for row in _table(table).scan(as_of=as_of).to_arrow().to_pylist())


def _shown(row: Mapping[str, Any]) -> tuple[str, str]:
    """The key and the value of a row, which shows what else is wrong in it."""
    key, value, note = row["key"], row["value"], row.get(RENAMED, row.get(FORMER))
    is_right = note == key and row["number"] is not None and float(row["number"]) == NUMBER
    return key, value if is_right else f"{value} ({note}, {row['number']})"


def replay(table: TableState, rows: dict[str, str], *, after: str | None = None) -> str | None:
    """Apply the changes after a position to the rows; a sentence where one of them does not fit.

    Raises what `HudiTable.changes` raises.
    """
    for change in _table(table).changes(after, format="cdc_typed").to_arrow().to_pylist():
        if change["before"] is not None:
            key, value = _shown(change["before"])
            if (found := rows.pop(key, None)) != value:
                return f"{change['ts_ms']} changed {key} from {value}, and it was {found}"
        if change["after"] is not None:
            key, value = _shown(change["after"])
            if key in rows:
                return f"{change['ts_ms']} inserted {key}, which was there"
            rows[key] = value
    return None


def check_captured(table: TableState, wanted: Mapping[str, str]) -> Iterator[str]:
    """K20: the captured changes, one after the other, make the rows of the table."""
    if not table.config.cdc_enabled:
        return
    rows: dict[str, str] = {}
    try:
        found = replay(table, rows)
    except HistoryNotRetainedError:
        return
    except HistoryNotSettledError:
        if not table.timeline.pending_writes:
            yield "K20: the captured changes are refused, though no write is pending"
        return
    if found is not None:
        yield f"K20: {found}"
    elif rows != wanted:
        yield f"K20: the captured changes make {sorted(rows.items())}, and the rows must be {sorted(wanted.items())}"


def check_replays(
    history: History, committed: AbstractSet[str], expected: Callable[[Collection[str]], Mapping[str, str]]
) -> Iterator[str]:
    """K20: whoever follows the captured changes has the rows of the writes that they have seen, at any time."""
    for answer in history.answers:
        if not answer.is_followed or answer.rows is None or not answer.seen <= committed:
            continue
        if dict(answer.rows) != (wanted := expected(answer.seen)):
            made = f"K20: {answer.actor} has made {answer.rows} of the changes"
            yield f"{made}, and the table was {sorted(wanted.items())}"


def check_columns(table: TableState, history: History) -> Iterator[str]:
    """K21: changes of columns that were acknowledged are there and stay, and those that were refused are not."""
    schema = load_table_schema(table)
    if not table.config.cdc_enabled or schema is None:
        return
    names = schema.arrow.names
    for event in history.answers:
        if not event.actor.startswith("add-"):
            continue
        column = added_column(event.actor)
        if _is_done(event) and event.instant not in history.undone and column not in names:
            yield f"K21: {event.actor} was told that it added {column}, and the columns are {names}"
        if event.verdict is Verdict.REFUSED and column in names:
            yield f"K21: {event.actor} was refused, and the columns are {names}"
    if len({FORMER, RENAMED}.intersection(names)) != 1:
        yield f"K21: of a column that is renamed the table has {names}"
    renames = [answer for answer in history.answers if answer.actor.startswith("rename-")]
    asked = sum(name.startswith("rename-") for name in history.requests)
    is_known = len(renames) == asked == 1 and renames[0].verdict is not Verdict.UNKNOWN
    if is_known and renames[0].instant not in history.undone and _is_done(renames[0]) is not (RENAMED in names):
        yield f"K21: the only rename was {renames[0].verdict.name}, and the columns are {names}"
    widened = sum(answer.actor.startswith("widen-") and _is_done(answer) for answer in history.answers)
    if widened > _TYPES.index(schema.arrow.field("number").type):
        yield f"K21: {widened} changes of its type were acknowledged, and number is {schema.arrow.field('number').type}"


def _is_done(answer: Answer) -> bool:
    return answer.verdict is Verdict.DONE


_TYPES = (pa.int32(), pa.int64(), pa.float64())
"""The types of the column `number`, each wider than the one before."""


def added_column(actor: str) -> str:
    """The column that an actor adds."""
    return f"extra_{actor.rpartition('-')[2]}"


def add_column(table: HudiTable, actor: str) -> str:
    """Add a column of the actor's own; the instant."""
    return table.alter.add_column(added_column(actor), pa.int64()).instant


def rename_column(table: HudiTable, _: str) -> str:
    """Rename a column, there and back; the instant."""
    name, to = (FORMER, RENAMED) if FORMER in table.schema.names else (RENAMED, FORMER)
    return table.alter.rename_column(name, to, hudi_options={"hoodie.schema.on.read.enable": "true"}).instant


def widen_column(table: HudiTable, _: str) -> str:
    """Give a column the next wider type; the instant."""
    wider = _TYPES[_TYPES.index(table.schema.field("number").type) + 1]
    return table.alter.change_type("number", wider).instant
