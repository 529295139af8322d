"""Golden tables of `tests/golden`, unpacked where a test may change them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def unpacked(name: str, to: Path) -> Path:
    """The folder of an archive, such as `keys/v9-slash-dates`."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return to


def expected_features(name: str) -> pa.Table:
    """What JVM Hudi reads; before 1.2 it cannot read logs without meta columns that it wrote: as 1.2 reads its own."""
    file = "expected.parquet"
    with tarfile.open(GOLDEN / "features" / f"{name}.tar.xz") as archive:
        if file in archive.getnames():
            return pq.read_table(io.BytesIO(archive.extractfile(file).read()))  # type: ignore[union-attr]
    assert "no-meta-columns" in name
    assert not name.startswith("v9")
    return expected_features(f"v9{name[2:]}")
