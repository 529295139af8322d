"""What Debezium really sent of databases, and the rows that these had at the end: `tests/unit/cdc/recorded`."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "unit" / "cdc" / "recorded"


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a recording."""
    return [json.loads(line) for line in lzma.decompress((RECORDED / name).read_bytes()).splitlines()]


def as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a recording has them: all but whole numbers are texts."""
    return [
        {name: value if isinstance(value, int | None) else str(value) for name, value in row.items()} for row in rows
    ]
