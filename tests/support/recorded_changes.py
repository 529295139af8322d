"""What Debezium really sent of databases, and the rows that these had at the end: `tests/unit/cdc/recorded`."""

from __future__ import annotations

import base64
import json
import lzma
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.registries import Registry

RECORDED = Path(__file__).parents[1] / "unit" / "cdc" / "recorded"
AVRO_COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("big", pa.string()),
        ("seen", pa.timestamp("us")),
        ("day", pa.date32()),
        ("note", pa.string()),
    ]
)
"""The columns of the table of PostgreSQL whose changes came as Avro."""


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a recording."""
    return [json.loads(line) for line in lzma.decompress((RECORDED / name).read_bytes()).splitlines()]


def as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a recording has them: all but whole numbers are texts."""
    return [
        {name: value if isinstance(value, int | None) else str(value) for name, value in row.items()} for row in rows
    ]


def avro_messages(registry: Registry) -> list[bytes | None]:
    """The messages of Avro, with the ids that their schemas have in a registry."""
    schemas, *values = lines("postgres_avro.jsonl.xz")
    ids = {int(old): registry.register("orders-value", schema) for old, schema in schemas.items()}
    assert len(set(ids.values())) == 2
    found: list[bytes | None] = []
    for value in values:
        data = None if value is None else base64.b64decode(value)  # type: ignore[arg-type]
        if data is not None:
            data = b"\0" + ids[int.from_bytes(data[1:5], "big")].to_bytes(4, "big") + data[5:]
        found.append(data)
    return found


def avro_rows() -> list[dict[str, Any]]:
    """The rows of the table at the end, whose values other than numbers were recorded as text."""
    return [
        {
            **line,
            "amount": Decimal(line["amount"]),
            "seen": datetime.fromisoformat(line["seen"]),
            "day": date.fromisoformat(line["day"]),
        }
        for line in lines("postgres_avro.final.jsonl.xz")
    ]
