"""Opening the store that an option names, and an index of the user's own."""

from __future__ import annotations

import importlib
import os
import sqlite3
from functools import lru_cache

from pyhudi.errors import ConfigError, StorageError
from pyhudi.index.locations import KeyStore, Locations, StoredLocations
from pyhudi.index.stores.redis import RedisKeyStore
from pyhudi.index.stores.sqlite import SqliteKeyStore

METHODS = ("get", "add", "remove")


def locations_in_store(url: str, table_uri: str) -> Locations:
    """The entries of a table in the store at a URL. Raises `ConfigError` for a URL of another kind."""
    scheme, colon, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        return StoredLocations.of(_sqlite(rest, os.getpid()), table_uri, is_shared=False)
    if scheme in ("redis", "rediss") and rest:
        return StoredLocations.of(RedisKeyStore(url), table_uri, is_shared=True)
    raise ConfigError(
        "hoodie.index.hbase.store must be sqlite:///folder/file or redis://host:port/number; for another store give a "
        "class of your own by hoodie.index.class",
        scheme=scheme if colon else None,
    )


def locations_of_class(name: str, table_uri: str) -> Locations:
    """The entries of a table in an index of the user's own, named `module:Name`.

    There is one instance of a class for a process. Raises `ConfigError` for a name that cannot be imported, or that has
    not the methods of `KeyStore`.
    """
    module, _, attribute = name.partition(":")
    try:
        named = getattr(importlib.import_module(module), attribute)
        store = _instance(named) if isinstance(named, type) else named
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the index {name.replace(':', '.')} cannot be loaded: hoodie.index.class takes a Python class that can be "
            "imported here and created without arguments, or an object; rewrite a Java class in Python",
            cause=str(error),
        ) from error
    missing = [method for method in METHODS if not callable(getattr(store, method, None))]
    if missing:
        raise ConfigError(
            f"{name.replace(':', '.')} is not an index: it needs the methods get, add and remove of pyhudi.KeyStore",
            missing=missing,
        )
    return StoredLocations.of(store, table_uri, is_shared=bool(getattr(store, "is_shared", False)))


@lru_cache(maxsize=64)
def _sqlite(path: str, _process: int) -> KeyStore:
    try:
        return SqliteKeyStore(path)
    except (sqlite3.Error, OSError) as error:
        raise StorageError("the store of the index cannot be opened", path=path, reason=str(error)) from error


@lru_cache(maxsize=64)
def _instance(kind: type[KeyStore]) -> KeyStore:
    return kind()
