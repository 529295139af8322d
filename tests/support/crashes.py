"""Tables to be crashed, the crashes, and what must hold of a table whatever happened to its writers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from tests.support.table_builder import THREE_ROWS, Action, TableBuilder
from tests.support.tables import (
    DELETE_FLAG,
    LATER_MS,
    SCHEMA,
    Row,
    StepClock,
    environment,
    open_table,
)

import pyhudi
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState, load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.testing.faults import Operation as Effect

COW = tuple(TableBuilder(version, "cow", has_delete_flag=True) for version in (6, 8, 9))
MOR = tuple(TableBuilder(version, "mor", has_delete_flag=True) for version in (6, 8, 9))
BEFORE: set[Row] = {(1, "oslo", 2, "b"), (2, "oslo", 1, "a"), (3, "rome", 1, "a")}


def rows(*values: Row, gone: tuple[Row, ...] = ()) -> pa.Table:
    """Rows to be written, and rows that ask for the deletion of their records."""
    live, deleted = ([dict(zip(SCHEMA.names, row, strict=True)) for row in part] for part in (values, gone))
    flagged = [{**row, "_hoodie_is_deleted": False} for row in live]
    return pa.Table.from_pylist(
        [*flagged, *({**row, "_hoodie_is_deleted": True} for row in deleted)], SCHEMA.append(DELETE_FLAG)
    )


def prepared(table: TableBuilder) -> Storage:
    """A table with the rows `BEFORE` in two partitions; in a merge-on-read table one of them has a log."""
    return table.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()


def copied(storage: Storage) -> MemoryStorage:
    """Another store with the same objects."""
    copy = MemoryStorage()
    for info in storage.list_recursive(""):
        copy.put(info.path, storage.read(info.path))
    return copy


def opened(storage: Storage, *, later: bool = False, **options: str) -> pyhudi.HudiTable:
    """The table; `later`: at a time when all who are writing to it now count as dead."""
    env = environment(StepClock(LATER_MS)) if later else None
    return open_table(storage, env=env, **{"hoodie.compact.inline": "false", **options})


def effects_of(given: Storage, action: Action) -> tuple[Effect, ...]:
    """The changes of the store that an action makes, in order."""
    storage = FaultStorage(copied(given))
    action(opened(storage))
    return storage.effects


def crashed(given: Storage, action: Action, number: int) -> MemoryStorage | None:
    """The table as a process leaves it that dies right before this effect; None where the action ended before."""
    inner = copied(given)
    storage = FaultStorage(inner, before=at_effect(number, SimulatedCrash()))
    with suppress(SimulatedCrash):
        action(opened(storage))
    return inner if storage.is_dead else None


def crash_images(given: Storage, action: Action, *, every: int = 1) -> Iterator[tuple[str, MemoryStorage]]:
    """The table after a crash before each effect, or each of so many, and at last after the whole action.

    A crash right after an effect leaves the same as one before the next. All are taken in one run, as a process that
    dies changes nothing more. Where an effect left no trace, as the begin of a file, there is no image of its own.
    """
    inner = copied(given)
    taken: list[tuple[str, MemoryStorage]] = []
    guard = threading.Lock()

    def take(name: str, path: str) -> None:
        with guard:
            taken.append((str(Effect(name, path)), inner.copy()))

    action(opened(FaultStorage(inner, before=take)))
    last: tuple[FileInfo, ...] | None = None
    for number, (effect, image) in enumerate(taken, start=1):
        found = image.list_recursive("")
        if (number - 1 - len(taken)) % every == 0 and found != last:
            last = found
            yield f"before effect {number} of {len(taken)}: {effect}", image
    yield "at the end", inner


def replayed(storage: Storage) -> set[Row]:
    """The rows that the captured changes of a table make, one after the other, in an empty one.

    Each change must fit: the image before it is what the changes before it have made.
    """
    state: set[Row] = set()
    for change in open_table(storage).changes(format="cdc_typed").to_arrow().to_pylist():
        before, after = (
            None if change[side] is None else tuple(change[side][name] for name in SCHEMA.names)
            for side in ("before", "after")
        )
        assert before is None or before in state, change
        state -= {before}  # type: ignore[arg-type]
        assert after is None or after not in state, change
        state |= {after} if after is not None else set()  # type: ignore[arg-type]
    return state


TEMPORARY_FOLDERS = (".hoodie/.temp", ".hoodie/.heartbeat")


def assert_nothing_left_over(storage: Storage, folders: Sequence[str] = TEMPORARY_FOLDERS) -> None:
    """No trace of a dead writer, but for what a pending compaction will replace, and blocks that were taken back."""
    table = load_table(storage)
    timeline = table.timeline
    assert not timeline.pending_writes
    assert not timeline.pending_rollbacks
    planned = {instant.requested_time for instant in (*timeline.pending_compactions, *timeline.pending_clusterings)}
    for folder in folders:
        for info in storage.list_recursive(folder):
            assert info.path.split("/")[2] in planned, info.path
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and not table.version.has_completion_times:
            continue
        ours = name is None or timeline.is_committed(name.instant_time)
        assert ours or name is None or name.instant_time in planned, info.path
    if not table.version.has_completion_times:
        _check_blocks(storage, table)


def _check_blocks(storage: Storage, table: TableState) -> None:
    """Every block in the logs of a version 6 table counts, will count, or has a command block behind it."""
    counting = {*table.timeline.completed_times, *(i.requested_time for i in table.timeline.pending_compactions)}
    slices: dict[tuple[str, str, str], list[tuple[int, str, str]]] = {}
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName):
            key = (info.path.rpartition("/")[0], name.file_id, name.instant_time)
            slices.setdefault(key, []).append((name.version, name.write_token or "", info.path))
    for key, logs in slices.items():
        dead: set[str] = set()
        for _, _, path in sorted(logs):
            for block in scan_blocks(storage, path):
                assert block.kind is not BlockType.CORRUPT, path
                if block.kind is BlockType.COMMAND:
                    assert block.target_instant_time in dead, f"{path}: nothing to take back, or taken back twice"
                    dead.discard(block.target_instant_time or "")
                elif block.instant_time not in counting:
                    dead.add(block.instant_time)
        assert not dead, key
