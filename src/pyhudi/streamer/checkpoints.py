"""Checkpoints: how far the streamer has read its source. Commits keep them, and nothing else does.

The keys and their order are those of JVM Hudi's HoodieStreamer, so that either goes on where the other has stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.checkpoint_keys import (
    BATCH_KEY,
    CHECKPOINT_KEYS,
    IGNORE_KEY,
    KEY_V1,
    KEY_V2,
    RESET_KEY_V1,
    RESET_KEY_V2,
    SAYING_WHERE,
    SOURCE_STATE_KEY,
)
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.commits import load_commit_summary
from pyhudi.table.state import TableState
from pyhudi.table.timeline import comes_once, position_of

_FIRST: Final = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A position of a source. `text`: as JVM Hudi writes it; None at the begin of the source.

    `state`: what the source remembers beside it, as text; None if another writer made the checkpoint.
    `is_completion_time`: it is a completion time of a Hudi table, which JVM Hudi keeps under a key of its own.
    """

    text: str | None = None
    state: str | None = None
    is_completion_time: bool = False

    def state_under(self, key: str) -> dict[str, Any]:
        """What the source remembers; empty where it stands beside another text than that under `key`.

        So it is of the checkpoint of JVM Hudi, and of one that the user has given.
        """
        state: dict[str, Any] = {} if self.state is None else json.loads(self.state)
        return state if self.text is not None and str(state.get(key)) == self.text else {}


BEGIN: Final = Checkpoint()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """The newest commit with a checkpoint, and of its metadata what is about checkpoints."""

    instant: str
    kept: Mapping[str, str] = field(repr=False)

    @property
    def checkpoint(self) -> Checkpoint:
        """Where the source was when the commit was made."""
        return Checkpoint(
            text=self.kept.get(self._key_of(KEY_V2, KEY_V1)) or None, state=self.kept.get(SOURCE_STATE_KEY)
        )

    @property
    def batch(self) -> str:
        """What no other batch is called. Another write that carries the checkpoint along has the name of its batch."""
        return self.kept.get(BATCH_KEY) or self.instant

    @property
    def reset_to(self) -> str | None:
        """The `checkpoint` that the run of this commit was given."""
        return self.kept.get(self._key_of(RESET_KEY_V2, RESET_KEY_V1)) or None

    @property
    def ignored_for(self) -> str | None:
        """The `ignore_checkpoint` that the run of this commit was given."""
        return self.kept.get(IGNORE_KEY) or None

    def _key_of(self, second: str, first: str) -> str:
        """The key of the form that counts: of both forms in one commit it is the second, as in JVM Hudi."""
        return second if self.kept.get(KEY_V2) or self.kept.get(RESET_KEY_V2) else first


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where a run begins. `batch_id`: what the batch after this position is called, whoever writes it."""

    checkpoint: Checkpoint
    batch_id: str


_read: WeakKeyDictionary[Storage, dict[Instant, Mapping[str, str]]] = WeakKeyDictionary()
"""What completed writes say of checkpoints, so that a round of the streamer reads only what is new."""


def last_commit(table: TableState) -> LastCommit | None:
    """The newest completed write with a checkpoint; None if no write has one.

    In a merge-on-read table with delta commits only these count, as in JVM Hudi, and overwrites by a streamer, which
    JVM Hudi passes over. Cost: a read for each write that is newer, once per process; the archived timeline where no
    write of the active one has a checkpoint.
    """
    for instant, kept in _metadata(table):
        if any(kept.get(key) for key in SAYING_WHERE):
            return LastCommit(instant=instant.requested_time, kept=kept)
    return None


def checkpoint_of_commit(table: TableState, instant: str) -> Checkpoint | None:
    """The checkpoint that a completed write of the active timeline keeps; None if it is not there, or keeps none.

    Cost: as `last_commit`.
    """
    if not table.timeline.is_committed(instant):
        return None
    kept = next((kept for write, kept in _metadata(table) if write.requested_time == instant), None)
    return None if kept is None else LastCommit(instant=instant, kept=kept).checkpoint


def _metadata(table: TableState) -> Iterator[tuple[Instant, Mapping[str, str]]]:
    """What writes say of checkpoints, newest first.

    By when they were completed, where that is known: JVM Hudi has a plain write carry the checkpoint of an earlier one
    along if an option says so, and such a write may have begun after that of a streamer and ended before it.
    """
    writes = sorted(table.timeline.completed_writes, key=position_of)
    only_delta_commits = any(write.action is Action.DELTA_COMMIT for write in writes)
    known = _read.get(itself(table.storage), {})
    _read[itself(table.storage)] = known = {write: known[write] for write in writes if write in known}
    for write in reversed(writes):
        if only_delta_commits and write.action not in (Action.DELTA_COMMIT, Action.REPLACE_COMMIT):
            continue
        kept = known.get(write)
        if kept is None:
            kept = _kept_of(load_commit_summary(table.storage, write, table.version).extra)
            if comes_once(write, table.version):
                known[write] = kept
        if not only_delta_commits or _is_of_a_streamer(write, kept):
            yield write, kept
    for write, metadata in archived_metadata(table.storage, table.version):
        kept = _kept_of(metadata.extra)
        if not only_delta_commits or _is_of_a_streamer(write, kept):
            yield write, kept


def _is_of_a_streamer(write: Instant, kept: Mapping[str, str]) -> bool:
    """Whether a write of a merge-on-read table may be that of a batch, and no table service that carries keys along."""
    return write.action is Action.DELTA_COMMIT or (write.action is Action.REPLACE_COMMIT and BATCH_KEY in kept)


def _kept_of(extra: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in extra.items() if key in CHECKPOINT_KEYS}


def resumption(last: LastCommit | None, *, checkpoint: str | None, ignore_checkpoint: str | None) -> Resumption:
    """Where a run begins that is given a checkpoint, or is to ignore that of the table; each counts once.

    Raises `InvalidRequestError` where the last commit says only where its run began.
    """
    override = Checkpoint(text=checkpoint)
    if last is None:
        return Resumption(checkpoint=override, batch_id=_batch_id(None))
    batch_id = _batch_id(last.batch)
    if ignore_checkpoint is not None and ignore_checkpoint != last.ignored_for:
        return Resumption(checkpoint=override, batch_id=batch_id)
    if checkpoint is not None and checkpoint != last.reset_to:
        return Resumption(checkpoint=override, batch_id=batch_id)
    if last.checkpoint.text is None:
        raise InvalidRequestError(
            "the last commit of a streamer keeps no checkpoint to go on from: give one as `checkpoint`",
            instant=last.instant,
        )
    return Resumption(checkpoint=last.checkpoint, batch_id=batch_id)


def _batch_id(batch: str | None) -> str:
    """The batch after another: of two streamers that go on from one checkpoint, one writes it."""
    return f"streamer/{_FIRST if batch is None else batch}"


def metadata_of(
    reached: Checkpoint, *, batch: str, checkpoint: str | None, ignore_checkpoint: str | None
) -> dict[str, str]:
    """What the commit of a batch keeps. `batch`: a name that no other batch has."""
    kept = {
        BATCH_KEY: batch,
        KEY_V2 if reached.is_completion_time else KEY_V1: reached.text,
        RESET_KEY_V2 if reached.is_completion_time else RESET_KEY_V1: checkpoint,
        IGNORE_KEY: ignore_checkpoint,
        SOURCE_STATE_KEY: reached.state,
    }
    return {key: value for key, value in kept.items() if value is not None}
