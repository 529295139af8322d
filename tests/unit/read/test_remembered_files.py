"""What a process remembers of files is not believed of other files at their paths."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.io.slices.files import SliceFiles
from pyhudi.read.scan import ScanSlice
from pyhudi.read.skipping.file_bounds import FooterRanges
from pyhudi.read.stored_types import stored_columns
from pyhudi.storage.local import LocalStorage

KM = pa.schema([("km", pa.float64())])


def lowest(folder: Path, name: str) -> float:
    info = LocalStorage(folder).info(name)
    assert info is not None
    one = ScanSlice(SliceFiles(name, ()), info.size, "", (), modified_ms=info.modified_ms)
    low: float = FooterRanges(LocalStorage(folder).spec, KM).of([one], ["km"])["km"].low[0].as_py()
    return low


@pytest.mark.parametrize("seconds", [0, -60], ids=["at once", "after a minute"])
def test_bounds_of_a_plain_file_written_again_with_its_size_are_read_again(tmp_path: Path, seconds: int) -> None:
    file = tmp_path / "r.parquet"
    sizes = []
    for turn, value in enumerate((1.5, 7.5)):
        pq.write_table(pa.table({"km": [value, value]}), file)
        when = file.stat().st_mtime + seconds * (2 - turn)
        os.utime(file, (when, when))
        sizes.append(file.stat().st_size)

        assert lowest(tmp_path, "r.parquet") == value

    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_table_bootstrapped_anew_at_a_path_is_read_by_a_process_that_knew_the_previous(
    tmp_path: Path, version: int
) -> None:
    for place, count in (("t", 3), ("other", 5)):
        source = tmp_path / f"source of {place}"
        source.mkdir()
        pq.write_table(pa.table({"id": list(range(count))}), source / "a.parquet")
        made = pyhudi.HudiTable.bootstrap(source, tmp_path / place, record_key="id", table_version=version)
        assert made.scan().count() == count
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "other", tmp_path / "t")

    table = pyhudi.HudiTable.for_path(tmp_path / "t")

    assert table.scan().count() == 5
    assert table.upsert(pa.table({"id": [0]})).updated == 1
    assert table.refresh().scan().to_arrow().num_rows == 5


@pytest.mark.parametrize("seconds", [0, -60], ids=["at once", "after a minute"])
def test_columns_of_a_plain_file_written_again_in_other_types_are_looked_up_again(tmp_path: Path, seconds: int) -> None:
    file = tmp_path / "r.parquet"
    for turn, kind in enumerate((pa.float64(), pa.string())):
        pq.write_table(pa.table({"km": pa.array(["1.5", "7.5"]).cast(kind)}), file)
        when = file.stat().st_mtime + seconds * (2 - turn)
        os.utime(file, (when, when))
        storage = LocalStorage(tmp_path)
        info = storage.info("r.parquet")
        assert info is not None
        one = ScanSlice(SliceFiles("r.parquet", ()), info.size, "", (), modified_ms=info.modified_ms)

        stored = stored_columns(storage, [one], pa.schema([("km", pa.string())]))[one]

        assert dict(stored.types) == ({} if pa.types.is_string(kind) else {"km": kind})
