"""Opening the store that an option names, and an index of the user's own."""

from __future__ import annotations

import importlib
import os
import sqlite3
from dataclasses import replace
from functools import lru_cache

from pyhudi.config.enums import IndexType
from pyhudi.config.options_write import IndexOptions
from pyhudi.errors import ConfigError, StorageError
from pyhudi.index.key_value.hbase_rows import FAMILY, HudiRows, KnownWrites, LocationsWithRows
from pyhudi.index.key_value.locations import KeyStore, Locations, StoredLocations
from pyhudi.index.key_value.stores.hbase import HBaseKeyStore, HBaseTable, table_at
from pyhudi.index.key_value.stores.redis import RedisKeyStore
from pyhudi.index.key_value.stores.sqlite import SqliteKeyStore
from pyhudi.table.state import TableState

METHODS = ("get", "add", "remove")


def locations_in_store(options: IndexOptions, table: TableState) -> Locations:
    """The entries of a table in the store that the options name, and the rows of JVM Hudi in HBase if they name these.

    Raises `ConfigError` for a URL of another kind, for a table in HBase that is not there or none of this table's, and
    for a Redis that evicts entries.
    """
    url, uri = options.store or "", table.storage.uri
    scheme, colon, rest = url.partition("://")
    if scheme == "thrift" and rest:
        own = StoredLocations.of(HBaseKeyStore(_entries(options)), uri, is_shared=True)
        rows = hudi_rows(options, table)
        return own if rows is None else LocationsWithRows(own, rows)
    if scheme == "sqlite" and rest.startswith("/"):
        return StoredLocations.of(_in_file(rest), uri, is_shared=False)
    if scheme in ("redis", "rediss") and rest:
        stored = StoredLocations.of(RedisKeyStore(url), uri, is_shared=True)
        stored.ask("check")
        return stored
    raise ConfigError(
        "hoodie.index.hbase.store must be thrift://host:port/table, sqlite:///folder/file or redis://host:port/number; "
        "for another store give a class of your own by hoodie.index.class",
        scheme=scheme if colon else None,
    )


def hudi_rows(options: IndexOptions, table: TableState) -> HudiRows | None:
    """The rows of JVM Hudi's index in HBase, if the options name a table of HBase for them.

    Raises `ConfigError` if it is not there, is no index, or is that of another Hudi table. Cost: four calls; what is in
    HBase changes while this process lives.
    """
    if options.index_type is not IndexType.HBASE or options.index_class is not None or options.hbase_table is None:
        return None
    entries = _entries(options)
    rows = replace(entries, name=options.hbase_table, family=FAMILY)
    _check_rows(entries, rows, table.storage.uri)
    return HudiRows(rows, KnownWrites.of(table.timeline))


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
            f"{name.replace(':', '.')} is not a key store: it needs the methods get, add and remove of pyhudi.KeyStore",
            missing=missing,
        )
    return StoredLocations.of(store, table_uri, is_shared=bool(getattr(store, "is_shared", False)))


def _in_file(path: str) -> SqliteKeyStore:
    """The open store of a file; opened again if the file is another one by now."""
    store = _sqlite(path, os.getpid())
    if not store.is_at_its_path:
        _sqlite.cache_clear()
        store = _sqlite(path, os.getpid())
    return store


@lru_cache(maxsize=64)
def _sqlite(path: str, _process: int) -> SqliteKeyStore:
    try:
        return SqliteKeyStore(path)
    except (sqlite3.Error, OSError) as error:
        raise StorageError("the store of the index cannot be opened", path=path, reason=str(error)) from error


@lru_cache(maxsize=64)
def _instance(kind: type[KeyStore]) -> KeyStore:
    return kind()


def _entries(options: IndexOptions) -> HBaseTable:
    table = table_at(options.store or "", keys_per_get=options.keys_per_get, keys_per_put=options.keys_per_put)
    table.make()
    return table


def _check_rows(entries: HBaseTable, rows: HBaseTable, uri: str) -> None:
    """Refuse a table of HBase that is no index of JVM Hudi, or not that of this table."""
    if (rows.name, rows.server) == (entries.name, entries.server):
        raise ConfigError(
            "the entries of pyhudi and the rows of JVM Hudi's index need tables of their own in HBase: name another "
            "table in hoodie.index.hbase.store",
            table=rows.name,
        )
    rows.check()
    store, name = HBaseKeyStore(entries), f"rows of {rows.name}".encode()
    owners = {bytes(owner).decode() for owner in store.get([name])[0]}
    if not owners:
        store.add([name], [uri.encode()])
    elif owners != {uri}:
        raise ConfigError(
            f"the table {rows.name} of HBase is the index of another Hudi table, and keys would be mixed up: name "
            f"one of its own by hoodie.index.hbase.table; if the table has moved, delete the row 'k{name.decode()}' of "
            f"{entries.name}",
            table=uri,
            index_of=sorted(owners),
        )
