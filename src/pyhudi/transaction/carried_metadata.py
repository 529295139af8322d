"""Commit metadata that each commit carries along, so that readers of the newest commits find them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import islice

from pyhudi.format.metadata.checkpoint_keys import CHECKPOINT_KEYS
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.table.commits import load_commit_summary
from pyhudi.table.state import TableState
from pyhudi.table.timeline import position_of


def with_carried(metadata: CommitMetadata, table: TableState, keys: Collection[str], *, commits: int) -> CommitMetadata:
    """The metadata with what the newest of so many commits say in these keys, where the metadata say nothing.

    The keys of a checkpoint belong together: if one of them is asked for, all come from one commit, and none of them
    where the metadata have one.

    `table`: as it is under the table lock, so that nothing newer is replaced. Cost: a read of the newest commit; more
    where it lacks a key.
    """
    asked = set(keys)
    if asked & CHECKPOINT_KEYS:
        asked |= CHECKPOINT_KEYS
    wanted = asked - _settled(metadata.extra)
    carried: dict[str, str] = {}
    newest_first = sorted(table.timeline.completed_writes, key=position_of, reverse=True)
    for write in islice(newest_first, commits):
        if not wanted:
            break
        extra = load_commit_summary(table.storage, write, table.version).extra
        carried |= {key: extra[key] for key in wanted & extra.keys()}
        wanted -= _settled(extra)
    return replace(metadata, extra={**carried, **metadata.extra}) if carried else metadata


def _settled(extra: Collection[str]) -> set[str]:
    """The keys about which nothing older is to be asked."""
    found = set(extra)
    return found | CHECKPOINT_KEYS if found & CHECKPOINT_KEYS else found
