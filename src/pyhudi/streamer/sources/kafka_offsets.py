"""Offsets of a Kafka topic: the checkpoint as text, where each partition begins, and how much of it a batch takes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.errors import ConfigError, SourceDataLostError

Offsets = Mapping[int, int]
"""An offset for each partition: the next one to be read."""


class StartAt(enum.Enum):
    """Where a topic begins that has not been read yet."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a topic has: of each partition the first offset, and the one after the last that may be read."""

    topic: str
    earliest: Offsets
    latest: Offsets


def checkpoint_text(topic: str, offsets: Offsets) -> str:
    """The offsets as JVM Hudi writes them: `topic,0:5,1:7`, with every partition."""
    return ",".join([topic, *(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))])


def parse_checkpoint(text: str, topic: str) -> dict[int, int]:
    """The offsets in a checkpoint. Raises `ConfigError` for one that is none of this topic."""
    name, *parts = text.split(",")
    try:
        pairs = [part.split(":") for part in parts]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError as error:
        raise ConfigError("the checkpoint of a Kafka source is like topic,0:5,1:7", checkpoint=text) from error
    if not offsets or len(offsets) != len(parts) or min(*offsets, *offsets.values()) < 0:
        raise ConfigError("the checkpoint of a Kafka source is like topic,0:5,1:7", checkpoint=text)
    if name != topic:
        raise ConfigError(
            "the checkpoint is that of another topic: to read this one from its begin, give ignore_checkpoint a new"
            " word",
            checkpoint=text,
            topic=topic,
        )
    return offsets


def first_offsets(bounds: Bounds, start: StartAt) -> dict[int, int]:
    """Where a topic begins that has not been read yet."""
    return dict(bounds.earliest if start is StartAt.EARLIEST else bounds.latest)


def next_offsets(bounds: Bounds, known: Offsets, *, is_made_anew: bool, accepts_loss: bool) -> dict[int, int]:
    """Where each partition goes on after a checkpoint; a partition that it does not know begins at its first offset.

    `is_made_anew`: the topic is another one than that of the checkpoint. With `accepts_loss` a partition whose next
    message is gone goes on at the first one that is there, and only that partition.

    Raises `SourceDataLostError` for a message that is gone, a partition that is gone, and a topic that was made anew.
    """
    if is_made_anew:
        if not accepts_loss:
            raise _lost("the topic was deleted and made anew", bounds.topic)
        return dict(bounds.earliest)
    for partition in sorted(known.keys() - bounds.latest.keys()):
        if not accepts_loss:
            raise _lost("a partition is gone, so the topic was made anew", bounds.topic, partition=partition)
    offsets = {}
    for partition, end in bounds.latest.items():
        first, offset = bounds.earliest[partition], known.get(partition)
        if offset is None:
            offsets[partition] = first
            continue
        if not accepts_loss and offset > end:
            raise _lost(
                "a partition ends before the checkpoint, so the topic was made anew",
                bounds.topic,
                partition=partition,
                checkpoint=offset,
                end=end,
            )
        if not accepts_loss and offset < first:
            raise _lost(
                "messages were deleted before they were read",
                bounds.topic,
                partition=partition,
                first_lost=offset,
                last_lost=first - 1,
            )
        offsets[partition] = offset if first <= offset <= end else first
    return offsets


def _lost(what: str, topic: str, **context: int) -> SourceDataLostError:
    return SourceDataLostError(
        f"{what}; to go on with what is there, run once with hoodie.streamer.source.kafka.enable.failOnDataLoss=false",
        topic=topic,
        **context,
    )


def end_offsets(begin: Offsets, bounds: Bounds, limit: int | None) -> dict[int, int]:
    """Where a batch ends that takes at most so many offsets, of all partitions alike.

    What one partition does not need goes to the others. Every partition with messages moves if the limit has one
    for each.
    """
    left = {partition: bounds.latest[partition] - offset for partition, offset in begin.items()}
    if limit is None or limit >= sum(left.values()):
        return {partition: bounds.latest[partition] for partition in begin}
    taken = dict.fromkeys(begin, 0)
    while limit:
        open_partitions = [partition for partition in sorted(begin) if taken[partition] < left[partition]]
        share = max(1, limit // len(open_partitions))
        for partition in open_partitions:
            count = min(share, left[partition] - taken[partition], limit)
            taken[partition] += count
            limit -= count
    return {partition: begin[partition] + count for partition, count in taken.items()}
