"""Change data for tests: a small database that is changed at random, and what Debezium and Maxwell say of it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pyhudi.config.payloads import DEBEZIUM_UNAVAILABLE_VALUE
from pyhudi.streamer.sources.json_rows import rows_of_json

MARKER: Final = DEBEZIUM_UNAVAILABLE_VALUE
KINDS: Final = ("postgresql", "mysql", "maxwell")


@dataclass
class Database:
    """A table with the columns id, city and big, and its log. `messages`: of each change, at one place of the log.

    `is_full`: the replica identity of the table is FULL, so that PostgreSQL says each value.
    """

    kind: str
    seed: int
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    messages: list[list[dict[str, Any] | None]] = field(default_factory=list)
    place: int = 90
    table: str = "orders"
    is_full: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def change(self) -> None:
        """One change, chosen at random: an insert, an update, an update of the key, or a delete."""
        key, choice = self.random.randrange(8), self.random.random()
        self.place += self.random.randrange(1, 9)
        if key not in self.rows:
            self.insert(key)
        elif choice < 0.5:
            self.update(key, city=self.random.choice("abc"))
        elif choice < 0.6:
            self.update(key, big=f"big{self.random.random()}")
        elif choice < 0.8:
            self.move(key, self.random.randrange(8))
        else:
            old = self.rows.pop(key)
            self.messages.append([self._envelope("d", old, None), None])

    def insert(self, key: int) -> None:
        self.rows[key] = {"id": key, "city": "new", "big": f"big{self.random.random()}"}
        self.messages.append([self._envelope("c", None, self.rows[key])])

    def update(self, key: int, **values: str) -> None:
        old = self.rows[key]
        self.rows[key] = {**old, **values}
        sent = self.rows[key] if "big" in values else self._without_big(self.rows[key])
        self.messages.append([self._envelope("u", old, sent)])

    def move(self, key: int, to: int) -> None:
        if to in self.rows:
            return
        old = self.rows.pop(key)
        self.rows[to] = {**old, "id": to}
        if self.kind == "maxwell":
            self.messages.append([self._envelope("u", old, self.rows[to])])
            return
        sent = self._without_big(self.rows[to])
        self.messages.append([self._envelope("d", old, None), None, self._envelope("c", None, sent)])

    def _without_big(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "big": MARKER} if self.kind == "postgresql" and not self.is_full else row

    def _envelope(self, op: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
        if self.kind == "maxwell":
            return self._maxwell(op, old, new)
        source = {"connector": self.kind, "name": "src", "db": "shop", "table": self.table, "ts_ms": 5}
        if self.kind == "postgresql":
            # Of a deleted row PostgreSQL knows the key, and says the other columns' defaults.
            old = None if old is None else old if self.is_full else {"id": old["id"], "city": "default"}
            source |= {"schema": "public", "lsn": self.place, "txId": 1}
        else:
            source |= {"file": f"log.{self.place // 50:06}", "pos": self.place % 50, "row": 0}
        return {"op": op, "before": old if op == "d" else None, "after": new, "source": source, "ts_ms": 6}

    def _maxwell(self, op: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
        kind = {"c": "insert", "u": "update", "d": "delete"}[op]
        position = f"log.{self.place // 50:06}:{self.place % 50}"
        message = {"database": "shop", "table": self.table, "type": kind, "ts": 5, "xid": 1, "position": position}
        if op == "u":
            assert old is not None
            assert new is not None
            message["old"] = {name: value for name, value in old.items() if new[name] != value}
        return {**message, "commit": True, "data": old if op == "d" else new}

    def in_batches(self, size: int) -> list[pa.Table]:
        """The messages in batches of about so many changes, shuffled within each."""
        batches = []
        for start in range(0, len(self.messages), size):
            messages = [message for change in self.messages[start : start + size] for message in change]
            self.random.shuffle(messages)
            batches.append(decoded(messages))
        return batches


def in_windows(messages: Sequence[dict[str, Any]], size: int, seed: int) -> list[list[dict[str, Any]]]:
    """Windows of about so many messages, shuffled; messages of one place of the log are in one window."""
    windows: list[list[dict[str, Any]]] = [[]]
    for message in messages:
        if len(windows[-1]) >= size and _place_of(windows[-1][-1]) != _place_of(message):
            windows.append([])
        windows[-1].append(message)
    for window in windows:
        random.Random(seed).shuffle(window)
    return windows


def _place_of(message: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(message["source"].get(name) for name in ("lsn", "file", "pos", "row"))


def decoded(messages: Sequence[dict[str, Any] | None]) -> pa.Table:
    """Messages as the streamer decodes them. Tombstones, which have no value, are not among them."""
    texts = [json.dumps(message).encode() for message in messages if message is not None]
    return rows_of_json(pa.array(texts, pa.binary()), None, None)
