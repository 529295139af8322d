"""Commit metadata that later commits carry along."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.tables import MOR, environment, new_table, open_table, rows
from tests.support.two_writers import CLOCK, with_other_in_between

import pyhudi
from pyhudi.format.metadata.checkpoint_keys import BATCH_KEY, KEY_V1, KEY_V2, SOURCE_STATE_KEY
from pyhudi.format.timeline.instant import Action
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.timeline import position_of

CARRIED = {"hoodie.write.rolling.metadata.keys": f"{KEY_V1}, app.run"}


def write(table: pyhudi.HudiTable, number: int, city: str = "oslo", **options: str) -> pyhudi.HudiTable:
    """A write of a row; names of options that are no option of Hudi are commit metadata."""
    prefixes = {name.partition(".")[0] for name in options if not name.startswith("hoodie.")}
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": f"{prefixes.pop()}."} if prefixes else {}
    table.upsert(rows((number, city, number, "x")), hudi_options={**prefix, **options})
    return table.refresh()


def newest(storage: Storage) -> Mapping[str, str]:
    state = open_table(storage).handle.state
    return load_commit_metadata(storage, max(state.timeline.completed_writes, key=position_of), state.version).extra


@pytest.mark.parametrize("version", [6, 8, 9])
def test_checkpoint_stays_on_the_active_timeline_through_archiving(version: int):
    storage = MemoryStorage()
    table = write(new_table(storage, version=version), 0, **{KEY_V1: "topic,0:5"})
    archived = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5", "hoodie.clean.commits.retained": "2"}
    for number in range(12):
        table = write(table, number, **CARRIED, **archived)
    assert len(table.handle.state.timeline.completed_writes) < 12
    assert newest(storage)[KEY_V1] == "topic,0:5"


def test_keys_that_are_not_asked_for_stay_where_they_are():
    storage = MemoryStorage()
    table = write(new_table(storage), 0, **{"app.run": "7", "app.other": "8"})
    table = write(table, 1, **CARRIED)
    assert {key for key in newest(storage) if key.startswith("app.")} == {"app.run"}
    write(table, 2, **{"app.run": "9"}, **CARRIED)
    assert newest(storage)["app.run"] == "9"
    write(table, 3)
    assert "app.run" not in newest(storage)


def test_keys_of_a_checkpoint_come_from_one_commit():
    storage = MemoryStorage()
    table = write(new_table(storage), 0, **{SOURCE_STATE_KEY: "old", BATCH_KEY: "old"})
    table = write(table, 1, **{KEY_V2: "5"})
    write(table, 2, **CARRIED)
    found = newest(storage)
    assert found[KEY_V2] == "5"
    assert SOURCE_STATE_KEY not in found
    assert BATCH_KEY not in found


def test_checkpoint_of_a_write_that_was_faster_is_carried():
    inner = MemoryStorage()
    table = write(new_table(inner), 0, **{KEY_V1: "1"})
    slow = with_other_in_between(inner, lambda table: write(table, 5, "rome", **{KEY_V1: "2"}))
    write(open_table(slow, env=environment(CLOCK)), 1, **CARRIED)
    assert newest(inner)[KEY_V1] == "2"
    del table


def test_compactions_and_clusterings_carry_along():
    storage = MemoryStorage()
    table = write(new_table(storage, **MOR), 0, **{KEY_V1: "1"})
    table = write(write(table, 0, **CARRIED), 0, **CARRIED)
    options = {**CARRIED, **MOR, "hoodie.compact.inline.max.delta.commits": "1"}
    open_table(storage, **options).services.compact()
    assert open_table(storage).handle.state.timeline.completed_writes[-1].action is Action.COMMIT
    assert newest(storage)[KEY_V1] == "1"


def test_older_commits_than_asked_for_are_not_looked_at():
    storage = MemoryStorage()
    table = write(write(new_table(storage), 0, **{"app.run": "7"}), 1)
    write(table, 2, **CARRIED, **{"hoodie.write.rolling.metadata.timeline.lookback.commits": "1"})
    assert "app.run" not in newest(storage)
