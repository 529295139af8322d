"""The keys of commit metadata in which JVM Hudi's HoodieStreamer and ours keep how far they have read."""

from __future__ import annotations

from typing import Final

KEY_V1: Final = "deltastreamer.checkpoint.key"
RESET_KEY_V1: Final = "deltastreamer.checkpoint.reset_key"
IGNORE_KEY: Final = "deltastreamer.checkpoint.ignore_key"
KEY_V2: Final = "streamer.checkpoint.key.v2"
RESET_KEY_V2: Final = "streamer.checkpoint.reset.key.v2"
SOURCE_STATE_KEY: Final = "pyhudi.streamer.source"
"""What a source of pyhudi remembers beside its checkpoint. JVM Hudi does not read it."""
BATCH_KEY: Final = "pyhudi.streamer.batch"
"""A name of the batch that has reached the checkpoint, which no other batch of pyhudi has."""
SAYING_WHERE: Final = (KEY_V2, RESET_KEY_V2, KEY_V1, RESET_KEY_V1)
CHECKPOINT_KEYS: Final = frozenset({*SAYING_WHERE, IGNORE_KEY, SOURCE_STATE_KEY, BATCH_KEY})
"""All of them. What one commit says in them belongs together."""
