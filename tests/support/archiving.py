"""Tables that are archived: writes to them, and what they tell of their history."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
from tests.support.crashes import opened, rows
from tests.support.tables import contents

import pyhudi
from pyhudi.errors import HistoryNotRetainedError
from pyhudi.format.timeline.archived_log import is_archive_file, parse_archive_file
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import history_files
from pyhudi.table.state import load_table

KEEP = {
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "3",
}
AUTOMATIC = {**KEEP, "hoodie.archive.automatic": "true"}


def updated(storage: Storage, times: int, **options: str) -> list[pyhudi.WriteResult]:
    return [opened(storage, later=False, **options).upsert(rows((1, "oslo", 10 + n, f"u{n}"))) for n in range(times)]


def commits(storage: Storage) -> list[str]:
    return [str(one.requested_time) for one in load_table(storage).timeline.completed_writes]


def answers(storage: Storage, *, states: bool = True) -> dict[str, Any]:
    """What a user may ask of history; `states`: the rows of each state, too, each of which reads the archive."""
    table = opened(storage)
    history = table.inspect.history().to_pylist()
    told: dict[str, Any] = {"history": history, "now": contents(storage)}
    for write in history if states else ():
        told[write["instant"]] = table.recovery.outcome_of(write["instant"])
        instant = write["instant"]
        asked = {
            "as of": lambda time=instant: table.scan(as_of=time),
            "since": lambda time=instant: table.changes(time),
        }
        for name, ask in asked.items():
            try:
                found = ask().to_arrow().select(["id", "city", "ts", "note"]).to_pylist()
                told[f"{name} {write['instant']}"] = sorted(map(str, found))
            except HistoryNotRetainedError:
                told[f"{name} {write['instant']}"] = "gone"
    return told


def archived(storage: Storage) -> list[tuple[str, str]]:
    """Time and action of each archived instant, as often as the archive has it."""
    version = load_table(storage).version
    if version.has_completion_times:
        files = history_files(storage, version)
        return [entry for file in files for entry in zip(*_columns(storage, file.name), strict=True)]
    logs = [info.path for info in storage.list_folder(version.history_folder).files if is_archive_file(info.name)]
    parsed = (parse_archive_file(storage.read(path), path=path) for path in logs)
    return [(one.instant_time, one.action) for found in parsed for one in found]


def _columns(storage: Storage, name: str) -> tuple[list[str], list[str]]:
    folder = load_table(storage).version.history_folder
    with storage.open_input(f"{folder}/{name}") as source:
        table = pq.read_table(source, columns=["instantTime", "action"])
    return table["instantTime"].to_pylist(), table["action"].to_pylist()
