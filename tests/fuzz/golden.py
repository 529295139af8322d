"""Inputs of JVM Hudi: the files of some golden tables, unpacked in memory."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.fuzz.target import INPUT_BYTES_MAX

GOLDEN = Path(__file__).parents[1] / "golden"
_TABLES = (
    *("v6-archived", "v6-hive", "v8-levels", "v9-archived", "v9-types-of-avro", "v9-encoded-complex"),
    *("mor/v6-basic", "mor/v6-rolled-back", "mor/v6-parquet-blocks", "mor/v8-by-decimal", "mor/v8-compacted"),
    *("mor/v9-partial", "mor/v9-parquet-blocks", "mor/v9-log-compacted", "mor/v9-by-two-fields", "mor/v9-pending"),
)
SEEDS_MAX = 24
"""Inputs of one parser that damage starts from; more of the same kind find nothing more."""


@cache
def files() -> dict[str, bytes]:
    """Every file of the tables up to the largest size of an input, by table and path in it."""
    found = {}
    for name in _TABLES:
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
            for member in archive:
                if member.isfile() and member.size <= INPUT_BYTES_MAX and not member.name.endswith(".crc"):
                    source = archive.extractfile(member)
                    assert source is not None
                    found[f"{name}/{member.name.removeprefix('table/')}"] = source.read()
    return found


def chosen(wanted: Callable[[str], bool]) -> tuple[bytes, ...]:
    """The files whose path is wanted, without empty ones and doubles, evenly from all tables, the smallest first."""
    found = list(dict.fromkeys(data for path, data in sorted(files().items()) if data and wanted(path)))
    step = -(-len(found) // SEEDS_MAX) if found else 1
    return tuple(sorted(found[::step], key=len))
