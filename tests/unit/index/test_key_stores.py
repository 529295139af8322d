"""What a store of index entries promises, on each store that pyhudi has, and one of a user's own."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.indexes import DictIndex
from tests.support.redis import redis_url  # noqa: F401
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.errors import ConfigError, CorruptDataError, StorageError, UnavailableError
from pyhudi.index.key_value.locations import Coverage, KeyStore, Location, StoredLocations
from pyhudi.index.key_value.stores.hbase import HBaseKeyStore, table_at
from pyhudi.index.key_value.stores.redis import RedisKeyStore
from pyhudi.index.key_value.stores.sqlite import SqliteKeyStore
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.file_slice import FileGroupId

MANY = 25_000


HBASE = os.environ.get("PYHUDI_HBASE")
"""Set by the tests of HBase, which start one: `tests/interop/test_hbase.py`."""


@pytest.fixture(params=["sqlite", "redis", "own", *(["HBASE-thrift"] if HBASE else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> KeyStore:
    if request.param == "sqlite":
        return SqliteKeyStore(str(tmp_path / "keys.db"))
    if request.param == "redis":
        return RedisKeyStore(request.getfixturevalue("redis_url"))
    if request.param == "HBASE-thrift":
        table = table_at(f"{HBASE}/stores", keys_per_get=100, keys_per_put=1000)
        table.make()
        return HBaseKeyStore(table)
    return DictIndex()


def test_entries_are_kept_once_and_given_up(store: KeyStore) -> None:
    odd = [b"a", b"", b"\x00\xff", "U+10000 \U00010000".encode(), b"k" * 70_000]
    store.add(odd, [b"1"] * len(odd))
    store.add([b"a", b"a", b"b"], [b"1", b"2", b"1"])
    store.remove([b"b", b"b", b"nothing"], [b"1", b"9", b"1"])

    found = store.get([*odd, b"b", b"nothing", b"a"])

    assert [sorted(entries) for entries in found] == [[b"1", b"2"], *[[b"1"]] * 4, [], [], [b"1", b"2"]]
    store.remove(odd, [b"1"] * len(odd))
    assert [sorted(entries) for entries in store.get(odd)] == [[b"2"], [], [], [], []]
    assert store.get([]) == []


def test_store_in_a_file_that_is_let_go_closes_it(tmp_path: Path) -> None:
    store = SqliteKeyStore(str(tmp_path / "keys.db"))
    connection = store._connection
    del store
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_tables_in_one_store_do_not_meet(store: KeyStore) -> None:
    one, other = (StoredLocations.of(store, uri, is_shared=False) for uri in ("s3://a/t", "s3://b/t"))
    location = Location("20260101000000000", FileGroupId("city=oslo", "f-0"))
    one.begin("1")
    one.add(pa.array(["k", "l"]), location)
    one.cover(Coverage(frozenset({"1"}), "1"))

    assert one.find(pa.array(["k", "l", "m"])) == {location: 2}
    assert other.find(pa.array(["k", "l", "m"])) == {}
    assert (one.coverage().until, other.coverage()) == ("1", Coverage())


def test_more_keys_than_a_call_takes_are_all_found(store: KeyStore) -> None:
    entries = StoredLocations.of(store, "s3://many/t", is_shared=False)
    keys = pa.array([f"key {n}" for n in range(MANY)])
    here, there = (Location("20260101000000000", FileGroupId(path, "f-0")) for path in ("", "a/b=c d"))
    entries.add(keys, here)
    entries.add(keys.slice(MANY // 2), there)

    assert entries.find(keys) == {here: MANY, there: MANY // 2}
    entries.forget(keys, [here])
    assert entries.find(keys) == {there: MANY // 2}


def test_what_processes_covered_at_once_is_all_covered(store: KeyStore) -> None:
    entries = StoredLocations.of(store, "s3://two/t", is_shared=False)
    name = entries.table.encode() + b":\x00covered"
    store.add(
        [name, name], [Coverage(frozenset({"1", "3"}), "1").to_bytes(), Coverage(frozenset({"2"}), "2").to_bytes()]
    )

    assert entries.coverage() == Coverage(frozenset({"1", "2", "3"}), "2")
    entries.cover(Coverage(frozenset({"4"}), "4"))
    assert entries.coverage() == Coverage(frozenset({"4"}), "4")


@pytest.mark.parametrize("entry", [b"", b"{", b"[]", b"\xff", b"no slashes"])
def test_entry_of_another_program_is_refused(entry: bytes) -> None:
    with pytest.raises(CorruptDataError, match="store of the index"):
        Location.parse(entry)
    with pytest.raises(CorruptDataError, match="store of the index"):
        Coverage.parse(entry)


def _upsert(folder: str, number: int) -> None:
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{folder}/keys.db"}
    import pyhudi

    retries = {"hoodie.write.num.retries.on.conflict.failures": "20"}
    table = pyhudi.HudiTable.for_path(f"{folder}/t", hudi_options={**options, **retries})
    for turn in range(3):
        table.upsert(rows((turn, "oslo", number, f"{number}"), (10 + number, "rome", turn, "own")))


def test_processes_share_a_store_without_losing_a_key(tmp_path: Path) -> None:
    import pyhudi
    from pyhudi.storage.local import LocalStorage

    storage = LocalStorage(tmp_path / "t")
    new_table(storage)
    running = [
        multiprocessing.get_context("spawn").Process(target=_upsert, args=(str(tmp_path), number)) for number in (1, 2)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join(150)

    assert [process.exitcode for process in running] == [0, 0]
    keys = pyhudi.HudiTable.for_path(tmp_path / "t").scan(["id"]).to_arrow().column("id").to_pylist()
    assert sorted(keys) == [0, 1, 2, 11, 12]


@pytest.mark.parametrize(
    "url",
    [
        "hbase://host",
        "sqlite://relative.db",
        "redis://",
        "nothing",
        "file:///x",
        "thrift://",
        "thrift://host",
        "thrift://host:port/keys",
        "thrift://host:9090/a/b",
        "thrift://me:secret@host:9090/keys",
        "thrift://host:9090/keys?transport=sasl",
        "thrift://host:9090/keys?ssl=true",
    ],
)
def test_store_of_an_unknown_kind_is_refused(url: str) -> None:
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": url}

    with pytest.raises(ConfigError, match=r"hoodie\.index\.hbase\.store must be"):
        open_table(storage, **options).upsert(rows((1, "oslo", 2, "b")))


def test_store_that_cannot_be_opened_is_a_typed_error_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "keys.db").write_bytes(b"this is no database" * 100)
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{tmp_path}/keys.db"}

    with pytest.raises(StorageError, match="store of the index"):
        open_table(storage, **options).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_file_that_was_removed_while_it_was_open_is_made_again(tmp_path: Path) -> None:
    storage, path = MemoryStorage(), tmp_path / "keys.db"
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{path}"}
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    open_table(storage, **options).upsert(rows((2, "oslo", 1, "a")))
    for file in tmp_path.iterdir():
        file.unlink()

    written = open_table(storage, **options).upsert(rows((1, "oslo", 2, "b"), (3, "oslo", 2, "b")))

    assert (written.updated, written.inserted) == (1, 1)
    with closing(sqlite3.connect(path)) as others:
        assert others.execute("SELECT count(*) FROM entries").fetchone()[0] > 2


def test_server_that_evicts_entries_is_refused_and_nothing_is_written(redis_url: str) -> None:  # noqa: F811
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": redis_url}
    server = pytest.importorskip("redis").Redis.from_url(redis_url)
    try:
        server.config_set("maxmemory-policy", "allkeys-lru")
        open_table(storage, **options).upsert(rows((2, "oslo", 1, "a")))  # it has no limit that it would keep
        server.config_set("maxmemory", "1gb")
        with pytest.raises(ConfigError, match="evicts keys"):
            open_table(storage, **options).upsert(rows((1, "oslo", 2, "b")))
        server.config_set("maxmemory-policy", "volatile-lru")
        assert open_table(storage, **options).upsert(rows((1, "oslo", 2, "b"))).updated == 1
    finally:
        server.config_set("maxmemory", 0)
        server.config_set("maxmemory-policy", "noeviction")
        server.close()


def test_server_of_hbase_that_is_away_is_a_typed_error_and_nothing_is_written() -> None:
    pytest.importorskip("happybase")
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        store = f"thrift://127.0.0.1:{closed.getsockname()[1]}/keys"

        with pytest.raises(UnavailableError, match="Thrift server does not answer"):
            open_table(storage, **{"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": store}).upsert(
                rows((1, "oslo", 2, "b"))
            )

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_hbase_table_with_a_store_elsewhere_is_refused() -> None:
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": "sqlite:///tmp/keys.db"}
    with pytest.raises(ConfigError, match=r"hoodie\.index\.hbase\.table is a table of HBase"):
        new_table(**options, **{"hoodie.index.hbase.table": "trips"})
