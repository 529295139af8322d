"""Metadata tables whose HFiles say CRC-32C and have zeros for checksums, as those of hudi-rs 0.6."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import MetadataTableWarning
from pyhudi.format.hfile.layout import BLOCK_HEADER

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
OPTIONS = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.compact.inline": "false",
}
_MAGIC = re.compile(rb"DATABLK\*|IDXROOT2|FILEINF2")
_CRC32C = 2


def as_of_hudi_rs(path: Path, last_byte: int = 0) -> int:
    """Rewrite what stands for checksums in the metadata table of a table; how many blocks."""
    count = 0
    for file in sorted((path / ".hoodie" / "metadata").rglob("*")):
        if not file.is_file() or not re.search(r"\.hfile$|\.log\.", file.name):
            continue
        data = bytearray(file.read_bytes())
        for found in _MAGIC.finditer(bytes(data)):
            start = found.start()
            magic, stored, size, before, _, _, data_end = BLOCK_HEADER.unpack_from(data, start)
            end = start + BLOCK_HEADER.size + stored
            BLOCK_HEADER.pack_into(data, start, magic, stored, size, before, _CRC32C, 16384, data_end)
            sums = end - start - data_end
            assert sums == -(-data_end // 16384) * 4
            data[start + data_end : end] = struct.pack(f"{sums - 1}xB", last_byte)
            count += 1
        file.write_bytes(data)
    return count


def rows(turn: int) -> pa.Table:
    ids = range(2 * turn, 2 * turn + 4)
    return pa.table({"id": ids, "city": ["oslo", "rome"] * 2, "n": [turn] * 4}, SCHEMA)


def made(path: Path, version: int, kind: Literal["cow", "mor"]) -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=kind,
        table_version=version,
        hudi_options=OPTIONS,
    )
    table.upsert(rows(0))
    return table.refresh()


@pytest.mark.parametrize(("version", "kind"), [(8, "mor"), (9, "cow"), (9, "mor")])
def test_zeros_for_checksums_are_read_written_and_compacted(
    tmp_path: Path, version: int, kind: Literal["cow", "mor"]
) -> None:
    table = made(tmp_path, version, kind)
    for turn in range(1, 5):
        assert as_of_hudi_rs(tmp_path) > 0

        written = table.upsert(rows(turn), hudi_options={"hoodie.index.type": "RECORD_INDEX"})

        assert (written.updated, written.inserted) == (2, 2)
        table = table.refresh()
    as_of_hudi_rs(tmp_path)
    assert table.inspect.metadata_check().num_rows == 0
    assert sorted(table.lookup([0, 3, 8, 99])["id"].to_pylist()) == [0, 3, 8]
    assert table.scan(where=[("n", "==", 4)]).count() == 4
    assert list((tmp_path / ".hoodie" / "metadata").rglob("*.hfile"))


def test_checksum_that_is_not_zero_and_does_not_match_is_damage(tmp_path: Path) -> None:
    table = made(tmp_path, 9, "cow")
    as_of_hudi_rs(tmp_path, last_byte=1)

    with pytest.warns(MetadataTableWarning, match="damaged"):
        assert table.refresh().scan().count() == 4
