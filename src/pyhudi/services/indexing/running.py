"""Runs of index builds: by what they are told apart, and whether one is at work."""

from __future__ import annotations

from pyhudi.environment import Environment
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.heartbeat import HeartbeatSettings, Liveness, heartbeat_path, liveness_of


def fence_of(partition: str) -> str:
    """The name by which the runs of a build are told apart, in place of an instant time."""
    return f"index-{partition}"


def is_being_built(storage: Storage, partition: str, settings: HeartbeatSettings, environment: Environment) -> bool:
    """Whether a process that counts as alive builds the index now. Cost: two requests."""
    path = heartbeat_path(fence_of(partition))
    return liveness_of(storage, path, settings, environment) is Liveness.ALIVE
