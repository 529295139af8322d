"""Golden tables of `tests/golden`, unpacked where a test may change them."""

from __future__ import annotations

import tarfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def unpacked(name: str, to: Path) -> Path:
    """The folder of an archive, such as `keys/v9-slash-dates`."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return to
