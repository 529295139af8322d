"""Offsets of a Kafka topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError, SourceDataLostError
from pyhudi.streamer.sources.kafka_offsets import (
    Bounds,
    StartAt,
    checkpoint_text,
    end_offsets,
    first_offsets,
    next_offsets,
    parse_checkpoint,
)

_SIZES = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6)


def bounds(**ranges: tuple[int, int]) -> Bounds:
    """Partitions `p0`, `p1`, … with their first and last offsets."""
    numbered = {int(name[1:]): found for name, found in ranges.items()}
    return Bounds(
        topic="t",
        earliest={number: first for number, (first, _) in numbered.items()},
        latest={number: end for number, (_, end) in numbered.items()},
    )


def following(topic: Bounds, known: dict[int, int], *, anew: bool = False, accepts: bool = False) -> dict[int, int]:
    return next_offsets(topic, known, is_made_anew=anew, accepts_loss=accepts)


def test_checkpoint_is_that_of_jvm_hudi_with_every_partition_in_order():
    assert checkpoint_text("orders", {1: 7, 10: 0, 0: 5}) == "orders,0:5,1:7,10:0"


@hypothesis_settings(deadline=None)
@given(st.dictionaries(st.integers(0, 99), st.integers(0, 2**62), min_size=1, max_size=9))
def test_checkpoint_comes_back(offsets: dict[int, int]):
    assert parse_checkpoint(checkpoint_text("a.b-c_d", offsets), "a.b-c_d") == offsets


@pytest.mark.parametrize("text", ["t", "t,", "t,0", "t,0:x", "t,0:1:2", "t,0:-1", "t,0:1,0:2", "1700000000000", ""])
def test_text_that_is_no_checkpoint_is_refused(text: str):
    with pytest.raises(ConfigError, match="is like topic"):
        parse_checkpoint(text, "t")


def test_checkpoint_of_another_topic_is_refused():
    with pytest.raises(ConfigError, match="another topic"):
        parse_checkpoint("u,0:1", "t")


def test_new_topic_begins_at_its_first_offset_unless_the_latest_is_asked_for():
    topic = bounds(p0=(3, 9), p1=(0, 4))
    assert first_offsets(topic, StartAt.EARLIEST) == {0: 3, 1: 0}
    assert first_offsets(topic, StartAt.LATEST) == {0: 9, 1: 4}


def test_partition_that_is_new_begins_at_its_first_offset():
    assert following(bounds(p0=(0, 9), p1=(6, 8)), {0: 5}) == {0: 5, 1: 6}


def test_messages_that_are_gone_stop_the_run_with_their_range():
    with pytest.raises(SourceDataLostError) as raised:
        following(bounds(p0=(0, 9), p1=(6, 8)), {0: 5, 1: 2})
    assert raised.value.context == {"topic": "t", "partition": 1, "first_lost": 2, "last_lost": 5}


def test_loss_that_is_accepted_moves_only_its_partition():
    topic = bounds(p0=(0, 9), p1=(6, 8), p2=(0, 4))
    assert following(topic, {0: 5, 1: 2, 2: 4}, accepts=True) == {0: 5, 1: 6, 2: 4}


@pytest.mark.parametrize(
    ("topic", "known", "anew"),
    [
        (bounds(p0=(0, 3)), {0: 5}, False),  # it ends before the checkpoint
        (bounds(p0=(0, 9)), {0: 5, 1: 2}, False),  # a partition is gone
        (bounds(p0=(0, 9)), {0: 5}, True),  # its id is another
    ],
)
def test_topic_that_was_made_anew_stops_the_run_and_begins_anew_if_accepted(
    topic: Bounds, known: dict[int, int], anew: bool
):
    with pytest.raises(SourceDataLostError, match="made anew"):
        following(topic, known, anew=anew)
    expected = 0 if anew or known[0] > topic.latest[0] else known[0]
    assert following(topic, known, anew=anew, accepts=True) == {0: expected}


@hypothesis_settings(deadline=None)
@given(_SIZES, st.one_of(st.none(), st.integers(1, 300)))
def test_batch_takes_the_limit_and_passes_no_partition_over(sizes: dict[int, tuple[int, int]], limit: int | None):
    begin = {number: first for number, (first, _) in sizes.items()}
    latest = {number: first + count for number, (first, count) in sizes.items()}
    end = end_offsets(begin, Bounds(topic="t", earliest=begin, latest=latest), limit)
    taken = {number: end[number] - begin[number] for number in begin}
    total = sum(count for _, count in sizes.values())
    assert sum(taken.values()) == (total if limit is None else min(limit, total))
    assert all(0 <= taken[number] <= sizes[number][1] for number in begin)
    if limit is None or limit >= len(sizes):
        assert all(taken[number] for number in begin if sizes[number][1])


@hypothesis_settings(deadline=None)
@given(_SIZES, st.integers(1, 60))
def test_batches_until_nothing_is_left_read_each_offset_once(sizes: dict[int, tuple[int, int]], limit: int):
    begin = {number: first for number, (first, _) in sizes.items()}
    topic = Bounds(
        topic="t", earliest=begin, latest={number: first + count for number, (first, count) in sizes.items()}
    )
    read: list[tuple[int, int]] = []
    while (end := end_offsets(begin, topic, limit)) != begin:
        read += [(number, offset) for number in begin for offset in range(begin[number], end[number])]
        begin = end
    assert sorted(read) == sorted(
        (number, offset) for number, first in topic.earliest.items() for offset in range(first, topic.latest[number])
    )
