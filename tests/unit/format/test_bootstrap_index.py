"""The bootstrap index of many files: written and read a block at a time."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import InternalError
from pyhudi.format.bootstrap_index import (
    FILE_IDS_PATH,
    PARTITIONS_PATH,
    SourcePartition,
    SourceStatus,
    write_file_ids,
    write_partitions,
)
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.hfile.writer import HFileWriter
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.bootstrap import load_sources

FOLDER = "file:/s"


def partitions(count: int, files: int) -> list[SourcePartition]:
    """Partitions in the order of numbers, which is not that of their keys."""
    return [
        SourcePartition(
            f"day={number}",
            f"day={number}",
            {
                f"{number:04x}-{file}": SourceStatus(f"{FOLDER}/day={number}/{file}.parquet", file, 7)
                for file in range(files)
            },
        )
        for number in range(count)
    ]


class CountedReads(MemoryStorage):
    """A store that adds up the bytes that are read of an open file."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def open_input(self, path: str) -> Any:
        data, reads = self.read(path), self.reads

        class Input(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                found = super().read(size)
                reads.append(len(found))
                return found

        return Input(data)


def test_index_is_written_in_pieces_and_one_partition_is_read_without_the_others() -> None:
    made = partitions(1500, 12)
    storage, pieces, by_file = CountedReads(), list[bytes](), io.BytesIO()
    write_partitions(made, lambda piece: pieces.append(bytes(piece)), source_folder=FOLDER, created_ms=1)
    write_file_ids(made, by_file.write, source_folder=FOLDER, created_ms=1)
    storage.put(PARTITIONS_PATH, b"".join(pieces))

    assert max(map(len, pieces)) < sum(map(len, pieces)) / 2
    found = load_sources(storage, ["day=7", "day=none"])

    assert {group.file_id: source.path for group, source in found.items()} == {
        f"0007-{file}": f"day=7/{file}.parquet" for file in range(12)
    }
    assert sum(storage.reads) < sum(map(len, pieces)) / 2
    assert len(load_sources(storage, [each.partition_path for each in made])) == 1500 * 12
    ids = read_hfile(by_file.getvalue(), path=FILE_IDS_PATH)
    assert len(ids.keys) == 1500 * 12
    assert ids.keys.to_pylist() == sorted(ids.keys.to_pylist())


@pytest.mark.parametrize("key", [b"b", b"a"])
def test_keys_that_do_not_ascend_from_one_piece_to_the_next_are_refused(key: bytes) -> None:
    writer = HFileWriter(io.BytesIO().write, codec=HFileCodec.NONE)
    writer.add(pa.array([b"a", b"b"], pa.binary()), pa.array([b"1", b"2"], pa.binary()))
    with pytest.raises(InternalError, match="ascend"):
        writer.add(pa.array([key], pa.binary()), pa.array([b"3"], pa.binary()))
