"""Pieces of exchange files: what comes of them, what is missing, and what is left on disk."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.engine import file_pieces
from pyhudi.engine.exchange_files import (
    ExchangeFiles,
    ExchangeWriter,
    Segment,
    open_exchange,
    read_segment,
    remove_exchange,
)
from pyhudi.engine.file_pieces import FilePieces, Piece, pieces_of_batch
from pyhudi.errors import StagedRowsLostError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import SimulatedCrash

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.decimal128(20, 2): st.decimals(-1000, 1000, places=2),
    pa.timestamp("us", "UTC"): st.datetimes().map(lambda time: pa.scalar(time, pa.timestamp("us", "UTC")).as_py()),
    pa.list_(pa.string()): st.lists(st.text(max_size=5), max_size=4),
    pa.struct([("a", pa.int32()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.integers(0, 9), "b": st.text(max_size=5)}
    ),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), max_size=3),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["x", "y", "z"]),
    pa.null(): st.none(),
}
kinds = st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4)


@st.composite
def files(draw: st.DrawFn) -> list[pa.RecordBatch]:
    """The batches of a file, of columns of any types."""
    chosen = draw(kinds)
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(chosen)])
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(0, 12))
        columns = [
            pa.array(draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)), kind) for kind in chosen
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return batches


def written(batches: list[pa.RecordBatch], path: str = "a/rows-1-2-3.arrow") -> list[bytes]:
    """The pieces of a file that a task has written."""
    with FilePieces(None) as pieces, pieces.taking():
        with ExchangeWriter(MemoryStorage(), path, batches[0].schema) as writer:
            for batch in batches:
                writer.write(batch)
        assert [name for name, _ in pieces.sizes()] == [path]
        return [piece.encode() for piece in pieces.pieces()]


@settings(max_examples=60, deadline=None)
@given(files(), st.integers(1, 200), st.randoms(use_true_random=False))
def test_a_file_brought_in_pieces_in_any_order_has_the_batches_that_were_written(
    batches: list[pa.RecordBatch], limit: int, dice: random.Random
) -> None:
    before = file_pieces.BYTES_OF_PIECE
    file_pieces.BYTES_OF_PIECE = limit  # type: ignore[misc]
    try:
        contents = written(batches)
    finally:
        file_pieces.BYTES_OF_PIECE = before  # type: ignore[misc]
    dice.shuffle(contents)

    with FilePieces(None) as brought:
        for content in [*contents, *contents[:1]]:
            brought.add(Piece.decode(content))
        with open_exchange(MemoryStorage(), "a/rows-1-2-3.arrow") as reader:
            assert reader.num_record_batches == len(batches)
            assert reader.schema == batches[0].schema
            assert [reader.get_batch(number) for number in range(len(batches))] == batches


BATCHES = [pa.RecordBatch.from_pydict({"n": [number] * 50, "text": ["x" * 100] * 50}) for number in range(3)]


def test_some_batches_of_a_file_are_read_and_others_are_missing() -> None:
    with FilePieces(None) as brought:
        for content in written(BATCHES, "tags"):
            if (piece := Piece.decode(content)).batch != 1:
                brought.add(piece)
        assert list(read_segment(MemoryStorage(), Segment("tags", (2, 0), 100))) == [BATCHES[2], BATCHES[0]]
        with ExchangeFiles(MemoryStorage()) as opened:
            assert opened.batch("tags", 0) == BATCHES[0]
            with pytest.raises(StagedRowsLostError, match="run it again"):
                opened.batch("tags", 1)


def test_batch_of_which_one_piece_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pieces, "BYTES_OF_PIECE", 1000)
    first, *others = written(BATCHES, "rows")
    assert len(others) > 5
    with FilePieces(None) as brought:
        for content in others:
            brought.add(Piece.decode(content))
        assert brought.lacks("rows", 0)
        assert not brought.lacks("rows", 1)
        with open_exchange(MemoryStorage(), "rows") as reader, pytest.raises(StagedRowsLostError):
            reader.get_batch(0)
        brought.add(Piece.decode(first))
        with open_exchange(MemoryStorage(), "rows") as reader:
            assert reader.get_batch(0) == BATCHES[0]


def test_file_of_another_attempt_is_not_read_in_place_of_one_that_is_lost(tmp_path: Path) -> None:
    with FilePieces(None) as brought:
        for content in written(BATCHES, "rows-0-1-8.arrow"):
            brought.add(Piece.decode(content))
        for storage in (MemoryStorage(), LocalStorage(tmp_path)):
            with pytest.raises(StagedRowsLostError) as raised, open_exchange(storage, "rows-0-1-7.arrow"):
                pass
            assert raised.value.context["file"] == "rows-0-1-7.arrow"


def test_file_whose_task_fails_or_that_is_removed_is_no_part_of_what_a_task_has_written() -> None:
    with FilePieces(None) as pieces, pieces.taking():
        with suppress(SimulatedCrash), ExchangeWriter(MemoryStorage(), "a", BATCHES[0].schema) as writer:
            writer.write(BATCHES[0])
            raise SimulatedCrash
        with ExchangeWriter(MemoryStorage(), "raw", BATCHES[0].schema) as writer:
            writer.write(BATCHES[0])
        with open_exchange(MemoryStorage(), "raw") as reader:
            assert reader.get_batch(0) == BATCHES[0]
        remove_exchange(MemoryStorage(), "raw")
        assert list(pieces.pieces()) == []


def test_what_waits_on_disk_has_no_name_and_its_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "spills" / "inner"
    with FilePieces(str(folder)) as pieces:
        for piece in pieces_of_batch("rows", 1, 0, BATCHES[0]):
            pieces.add(piece)
        assert list(folder.iterdir()) == []
        assert pieces.batch("rows", 0) == BATCHES[0]
