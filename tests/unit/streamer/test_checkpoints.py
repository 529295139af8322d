"""Where a run begins, by the metadata of commits and the arguments of the run."""

from __future__ import annotations

import pytest
from tests.support.bootstraps import put_bootstrap_instant
from tests.support.table_builder import TableBuilder
from tests.support.tables import open_table

from pyhudi.errors import InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import (
    IGNORE_KEY,
    KEY_V1,
    KEY_V2,
    RESET_KEY_V1,
    RESET_KEY_V2,
    SOURCE_STATE_KEY,
    LastCommit,
    last_commit,
    resumption,
)
from pyhudi.table.state import load_table

ROW = (7, "oslo", 9, "x")


def commit(**kept: str) -> LastCommit:
    names = {"v1": KEY_V1, "v2": KEY_V2, "reset": RESET_KEY_V1, "reset2": RESET_KEY_V2, "ignore": IGNORE_KEY}
    return LastCommit(instant="20260101000000000", kept={names[name]: text for name, text in kept.items()})


@pytest.mark.parametrize(
    ("last", "checkpoint", "ignore", "begin"),
    [
        (None, None, None, None),
        (None, "9", None, "9"),
        (None, None, "word", None),
        (commit(v1="5"), None, None, "5"),
        (commit(v2="6"), None, None, "6"),
        (commit(v1="5", v2="6"), None, None, "6"),  # both: the second form counts
        (commit(v1="5", reset="9"), "9", None, "5"),  # the same argument counts once
        (commit(v1="5", reset="9"), "8", None, "8"),
        (commit(v2="5", reset2="9"), "9", None, "5"),
        (commit(v2="5", reset="9"), "9", None, "9"),  # the reset key of the other form does not count
        (commit(v1="5"), None, "word", None),
        (commit(v1="5", ignore="word"), None, "word", "5"),
        (commit(v1="5", ignore="word"), None, "other", None),
        (commit(v1="5", reset="9"), "9", "word", "9"),  # started afresh, from the checkpoint that is given
        (commit(v1="5"), "", None, ""),
    ],
)
def test_run_begins_where_commit_and_arguments_say(
    last: LastCommit | None, checkpoint: str | None, ignore: str | None, begin: str | None
):
    assert resumption(last, checkpoint=checkpoint, ignore_checkpoint=ignore).checkpoint.text == begin


def test_commit_that_says_only_where_its_run_began_is_refused():
    with pytest.raises(InvalidRequestError, match="keeps no checkpoint"):
        resumption(commit(reset="9"), checkpoint="9", ignore_checkpoint=None)


def written(storage: Storage, **metadata: str) -> None:
    """A write with this metadata, as JVM Hudi's Spark writer makes one whose prefix lets them in."""
    rows = TableBuilder(9, "cow").batch(ROW)
    prefixes = {name.partition(".")[0] for name in metadata} or {"none"}
    (prefix,) = prefixes
    open_table(storage).upsert(
        rows, hudi_options={"hoodie.datasource.write.commitmeta.key.prefix": f"{prefix}.", **metadata}
    )


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_newest_commit_with_a_checkpoint_counts(version: int, kind: str):
    storage = TableBuilder(version, kind).insert(ROW).build(MemoryStorage())
    assert last_commit(load_table(storage)) is None
    written(storage, **{KEY_V1: "1"})
    written(storage, **{KEY_V2: "2"})
    written(storage)
    found = last_commit(load_table(storage))
    assert found is not None
    assert found.checkpoint.text == "2"


def test_checkpoint_of_a_bootstrap_that_was_made_anew_is_read_anew():
    storage = TableBuilder(6, "cow").insert(ROW).build(MemoryStorage())
    for text in ("1", "2"):
        put_bootstrap_instant(storage, **{KEY_V1: text})
        found = last_commit(load_table(storage))
        assert found is not None
        assert found.checkpoint.text == text


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_checkpoint_is_found_when_its_commit_was_archived(version: int, kind: str):
    storage = TableBuilder(version, kind).insert(ROW).build(MemoryStorage())
    written(storage, **{KEY_V1: "1", "deltastreamer.x": "y"})
    eager = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "1",
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    for number in range(14):
        open_table(storage).upsert(TableBuilder(9, "cow").batch((7, "oslo", number, "x")), hudi_options=eager)
    table = load_table(storage)
    assert KEY_V1 not in {key for write in table.timeline.completed_writes for key in _extra(table, write)}
    found = last_commit(table)
    assert found is not None
    assert found.checkpoint.text == "1"


def _extra(table, write):
    from pyhudi.table.commits import load_commit_summary

    return load_commit_summary(table.storage, write, table.version).extra


def test_state_of_the_source_comes_with_its_checkpoint():
    last = LastCommit(instant="1", kept={KEY_V1: "5", SOURCE_STATE_KEY: "{}"})
    assert last.checkpoint.state == "{}"
