"""Change data in parts gives the rows of the whole batch: what two parts have of one update is found in both."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.change_data import KINDS, Database, in_windows
from tests.support.change_streamers import streamer
from tests.support.ingestions import run_until_idle
from tests.support.recorded_changes import as_text, lines
from tests.support.tables import open_table

pytest.importorskip("confluent_kafka")

from tests.support.message_parts import PartedBatches, batch_of_parts, topic_source

from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources import kafka
from pyhudi.streamer.sources.decoding import Messages
from pyhudi.streamer.sources.kafka_client import MESSAGES

CHANGES = 60
Message = dict[str, Any]


def history(kind: str, seed: int) -> Database:
    database = Database(kind, seed)
    while len(database.messages) < CHANGES:
        database.change()
        database.place += 1
    return database


def in_parts(database: Database, chance: random.Random) -> list[list[list[Message]]]:
    """Shuffled windows of the messages, each in many small parts; some changes are sent again."""
    batches, begin = [], 0
    while begin < len(database.messages):
        size = chance.randrange(1, 30)
        changes = database.messages[begin : begin + size]
        messages = [message for change in changes for message in change if message is not None]
        messages += chance.sample(messages, len(messages) // 5)
        chance.shuffle(messages)
        cuts = sorted(chance.randrange(len(messages) + 1) for _ in range(chance.randrange(8)))
        batches.append([messages[i:j] for i, j in zip([0, *cuts], [*cuts, len(messages)], strict=True)])
        begin += size
    return batches


def tables_of(batches: Any, kind: str, **given: Any) -> list[pa.Table]:
    """The tables that are made of batches in parts, and of whole ones."""
    found = []
    for made in ({"batch_of": batch_of_parts}, {}):
        storage = MemoryStorage()
        run_until_idle(replace(streamer(PartedBatches(batches), storage, kind, **given), **made))
        rows = open_table(storage).scan().to_arrow().sort_by("id")
        changing = [name for name in rows.column_names if name.startswith("_hoodie_") and "key" not in name]
        found.append(rows.drop_columns(changing))
    return found


TEXTS = [json.dumps({"op": op, "before": {"id": 1}}).encode() for op in ("c", "d")]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.lists(st.sampled_from([None, None, None, *TEXTS]), max_size=12), min_size=1, max_size=3),
    again=st.booleans(),
)
def test_delete_that_is_put_off_is_found_at_the_end_of_a_batch_alone(values: list[list[bytes | None]], again: bool):
    partition = [number for number, texts in enumerate(values) for _ in texts]
    offset = [number for texts in values for number in range(len(texts))]
    columns = [partition, offset, [5] * len(offset), [text for texts in values for text in texts]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    log = pa.table(arrays, schema=MESSAGES)

    def read(options: Any, topic: str, begin: dict[int, int], end: dict[int, int], **_: Any) -> Messages:
        places = zip(partition, offset, strict=True)
        found = [number in end and begin[number] <= place < end[number] for number, place in places]
        yield from log.filter(pa.array(found, pa.bool_())).to_batches()

    source = replace(topic_source(), has_moved_keys=True)
    begin, end = dict.fromkeys(range(len(values)), 0), {number: len(texts) for number, texts in enumerate(values)}
    state = json.dumps({"checkpoint": "t,0:0", "again": {"0": 0}}) if again else None
    after = Checkpoint(text="t,0:0", state=state)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka, "read_messages", read)
        patched.setattr(kafka, "LAST_MESSAGES", 2)
        of_end = source._put_off(source._last_messages(None, begin, end), end, after)
        whole = source._put_off(source.fetched(None, begin, end), end, after)
    assert (of_end[0].ends, of_end[0].again, of_end[1]) == (whole[0].ends, whole[0].again, whole[1])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_table_of_changes_in_parts_equals_that_of_whole_batches_and_the_source(kind: str, seed: int):
    database = history(kind, seed)
    of_parts, whole = tables_of(in_parts(database, random.Random(seed)), kind)
    assert of_parts.select(sorted(of_parts.column_names)).equals(whole.select(sorted(whole.column_names)))
    rows = of_parts.select(["id", "city", "big"]).to_pylist()
    assert rows == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize(("name", "kind", "unit"), [("postgres", "postgresql", "us"), ("mariadb", "mysql", "ms")])
def test_table_of_recorded_changes_in_parts_equals_the_source(name: str, kind: str, unit: str):
    messages = [line["value"] for line in lines(f"{name}.jsonl.xz") if line["value"] is not None]
    windows = in_windows(messages, 150, seed=5)
    batches = [[window[first : first + 9] for first in range(0, len(window), 9)] for window in windows]
    types = {"amount": pa.decimal128(10, 2), "seen": pa.timestamp(unit), "day": pa.date32()}
    storage, options = MemoryStorage(), {"hoodie.write.set.null.for.missing.columns": "true"}
    following = streamer(PartedBatches(batches), storage, kind, options, schema=pa.schema(list(types.items())))
    run_until_idle(replace(following, batch_of=batch_of_parts))
    final = lines(f"{name}.final.jsonl.xz")
    rows = open_table(storage).scan(list(final[0])).to_arrow().sort_by("id").to_pylist()
    assert as_text(rows) == final
