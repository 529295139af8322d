"""A store of index entries in Redis or Valkey: each key is a set of its entries. Needs `pip install pyhudi[redis]`."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import getpid
from typing import Any

from pyhudi.errors import ConfigError

_EVICTING = "allkeys-"
"""How the policies begin that remove keys without an expiry, as entries are."""


@dataclass(frozen=True, slots=True)
class RedisKeyStore:
    """Entries in the database that a URL such as `redis://host:6379/0` names. See `KeyStore`.

    It can be pickled: each process that uses it connects by itself.
    """

    url: str

    def check(self) -> None:
        """Raise `ConfigError` for a server that removes entries when its memory is full: their records seem new.

        Cost: one round trip. A server that does not say how it is set up is trusted.
        """
        try:
            memory = _client(self.url, getpid()).info("memory")
        except importlib.import_module("redis").ResponseError:
            return
        policy = str(memory.get("maxmemory_policy", ""))
        if memory.get("maxmemory") and policy.startswith(_EVICTING):
            raise ConfigError(
                f"the server of the index evicts keys (maxmemory-policy {policy}), and records whose entries are gone "
                "would be inserted once more: set it to noeviction, delete the entries, and write again",
                option="hoodie.index.hbase.store",
                maxmemory=memory["maxmemory"],
            )

    def get(self, keys: Sequence[bytes]) -> Sequence[Collection[bytes]]:
        """See `KeyStore.get`. Cost: one round trip."""
        calls = _client(self.url, getpid()).pipeline(transaction=False)
        for key in keys:
            calls.smembers(key)
        found: list[set[bytes]] = calls.execute()
        return found

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.add`. Cost: one round trip."""
        calls = _client(self.url, getpid()).pipeline(transaction=False)
        for key, entry in zip(keys, entries, strict=True):
            calls.sadd(key, entry)
        calls.execute()

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.remove`. Cost: one round trip."""
        calls = _client(self.url, getpid()).pipeline(transaction=False)
        for key, entry in zip(keys, entries, strict=True):
            calls.srem(key, entry)
        calls.execute()


# The process id is part of the key because a forked child must not share its parent's connections.
@lru_cache(maxsize=16)
def _client(url: str, _process: int) -> Any:
    try:
        redis: Any = importlib.import_module("redis")
    except ImportError as error:
        raise ConfigError("a store at redis:// needs the redis package: pip install 'pyhudi[redis]'") from error
    return redis.Redis.from_url(url)
