"""The sync with real Hive metastores, of Hive 3 and Hive 4: by call, by option, by command; names; lost connections."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.support.hive_metastores import Metastore
from tests.support.memory_catalog import MemoryCatalog

import pyhudi
from pyhudi.catalogs.hive_metastore import HiveMetastore, _table_of
from pyhudi.catalogs.sync import sync_table
from pyhudi.commands.command_line import main
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import CatalogError, ConfigError, TableNotFoundError

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("hive metastore")]
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
PREFIX = "hoodie.datasource.hive_sync."
ODD = ["it's", 'say "x"', "a=b", "c%2Fd", "e f", "snö", "50% off?", "{x}^[y]"]


def trips(*cities: str, first: int = 1) -> pa.Table:
    rows = [{"id": number, "city": city, "fare": 1.0} for number, city in enumerate(cities, first)]
    return pa.Table.from_pylist(rows, SCHEMA)


def options_of(metastore: Metastore, database: str, **more: Any) -> dict[str, str]:
    return {PREFIX + "metastore.uris": metastore.uri, PREFIX + "database": database} | {
        PREFIX + name: value for name, value in more.items()
    }


def new_table(folder: Any, kind: str = "cow", **how: Any) -> pyhudi.HudiTable:
    given = {"record_key": "id", "partition_by": "city", "name": "trips", "table_type": kind, **how}
    return pyhudi.HudiTable.create(folder / "trips", schema=SCHEMA, **given)


@contextmanager
def catalog_of(metastore: Metastore) -> Iterator[HiveMetastore]:
    catalog = HiveMetastore(metastore.uri)
    try:
        yield catalog
    finally:
        catalog.close()


def partitions(metastore: Metastore, database: str, table: str = "trips") -> dict[tuple[str, ...], str]:
    with catalog_of(metastore) as catalog:
        entry = catalog.find_table(database, table)
        assert entry is not None
        return {one.values: one.location for one in catalog.partitions(entry, None)}


def test_writes_with_the_option_sync_and_the_table_opens_by_name(hive_metastore: Metastore, tmp_path: Any) -> None:
    options = options_of(hive_metastore, "by_option", enable=True)
    table = new_table(tmp_path, "mor", hudi_options=options)
    table.upsert(trips("oslo", "rome"))
    table.upsert(trips("oslo"))
    table.delete_partition("rome")

    assert set(partitions(hive_metastore, "by_option")) == {("oslo",)}
    named = pyhudi.HudiTable.for_name("by_option.trips", catalog=hive_metastore.uri)
    assert named.scan(["id"]).to_arrow().to_pylist() == [{"id": 1}]
    read_optimized = pyhudi.HudiTable.for_name("By_Option.Trips_ro", catalog=hive_metastore.uri)
    assert [log for logs in read_optimized.scan().files()["logs"].to_pylist() for log in logs] == []
    with pytest.raises(TableNotFoundError, match="no table of this name"):
        pyhudi.HudiTable.for_name("by_option.other", catalog=hive_metastore.uri)


def test_names_with_quotes_and_signs_are_partitions_that_are_found_moved_and_dropped(
    hive_metastore: Metastore, tmp_path: Any
) -> None:
    options = options_of(hive_metastore, "odd_names")
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = new_table(tmp_path, hudi_options=encoded)
    table.upsert(trips(*ODD))
    decoding = {**options, "hoodie.meta.sync.decode_partition": "true"}

    assert table.catalog.sync(hudi_options=decoding)["added"].to_pylist() == [len(ODD)]
    assert set(partitions(hive_metastore, "odd_names")) == {(city,) for city in ODD}

    with catalog_of(hive_metastore) as catalog:
        entry = catalog.find_table("odd_names", "trips")
        assert entry is not None
        found = catalog.partitions(entry, [(city,) for city in ODD])
        assert {one.values for one in found} == {(city,) for city in ODD}
        catalog.move_partitions(entry, [type(found[0])(one.values, f"{one.location}-old") for one in found])
    table.upsert(trips(*ODD))
    assert table.catalog.sync(hudi_options=decoding)["moved"].to_pylist() == [len(ODD)]
    table.truncate()
    assert table.catalog.sync(hudi_options=decoding)["dropped"].to_pylist() == [len(ODD)]
    assert partitions(hive_metastore, "odd_names") == {}


@pytest.mark.parametrize(("database", "name"), [("it's", "trips"), ("quoted", "it's"), ("quoted", 'a "trip"')])
def test_quotes_in_names_of_databases_and_tables_are_kept_or_refused_by_name(
    hive_metastore: Metastore, request: pytest.FixtureRequest, tmp_path: Any, database: str, name: str
) -> None:
    table = new_table(tmp_path)
    table.upsert(trips("oslo"))
    options = options_of(hive_metastore, database, table=name)

    if "hive-3" in request.node.name:  # which has a rule for names
        with pytest.raises(CatalogError, match=r"is not a valid (database|object) name"):
            table.catalog.sync(hudi_options=options)
    else:
        assert table.catalog.sync(hudi_options=options)["added"].to_pylist() == [1]
        assert pyhudi.HudiTable.for_name(f"{database}.{name}", catalog=hive_metastore.uri).scan().count() == 1


def test_quotes_in_comments_and_paths_are_stored_as_they_are(hive_metastore: Metastore, tmp_path: Any) -> None:
    folder = tmp_path / 'it\'s a "folder"'
    table = new_table(folder)
    table.upsert(trips("oslo"))
    said = 'the driver\'s "tip"; -- `x` \\ é'
    table.alter.add_column("tip", pa.float64(), comment=said)

    table.catalog.sync(hudi_options=options_of(hive_metastore, "comments", sync_comment="true"))

    with catalog_of(hive_metastore) as catalog:
        entry = catalog.find_table("comments", "trips")
        assert entry is not None
        assert [column.comment for column in entry.columns if column.name == "tip"] == [said]
    assert pyhudi.HudiTable.for_name("comments.trips", catalog=hive_metastore.uri).scan().count() == 1


def test_added_column_and_wider_type_reach_partitions_whose_locations_stay(
    hive_metastore: Metastore, tmp_path: Any
) -> None:
    options = options_of(hive_metastore, "evolution")
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("seats", pa.int32())])
    table = pyhudi.HudiTable.create(tmp_path / "trips", schema=schema, record_key="id", partition_by="city")
    table.upsert(pa.table({"id": [1], "city": ["oslo"], "seats": [2]}, schema))
    table.catalog.sync(hudi_options=options)
    before = partitions(hive_metastore, "evolution")

    table.alter.add_column("tip", pa.float64())
    table.alter.change_type("seats", pa.int64())
    table.catalog.sync(hudi_options=options)

    assert partitions(hive_metastore, "evolution") == before
    with catalog_of(hive_metastore) as catalog:
        entry = catalog.find_table("evolution", "trips")
        assert entry is not None
        [partition] = catalog._stored_partitions(entry, [("oslo",)])
        expected = {column.name: column.type for column in entry.columns}
        assert {column.name: column.type for column in partition.sd.cols} == expected
        assert (expected["seats"], expected["tip"]) == ("bigint", "double")


def test_connection_that_is_lost_half_way_is_an_error_and_the_next_sync_makes_up_for_it(
    hive_metastore: Metastore, tmp_path: Any
) -> None:
    table = new_table(tmp_path)
    table.upsert(trips("oslo", "rome", "bonn"))
    for requests in range(1, 7):
        with relay(hive_metastore, requests) as uri:
            options = {**options_of(hive_metastore, "half_way", batch_num=1), PREFIX + "metastore.uris": uri}
            with pytest.raises(CatalogError, match="lost"):
                table.catalog.sync(hudi_options=options)

    table.catalog.sync(hudi_options=options_of(hive_metastore, "half_way"))

    assert set(partitions(hive_metastore, "half_way")) == {("oslo",), ("rome",), ("bonn",)}


@contextmanager
def relay(metastore: Metastore, requests: int) -> Iterator[str]:
    """A port that passes some requests on, and then closes both connections."""
    parts = urlsplit(metastore.uri)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, socket.create_connection((parts.hostname or "", parts.port or 0)) as upstream:
                for _ in range(requests):
                    upstream.sendall(_message(client))
                    client.sendall(_message(upstream))
                _message(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}"
        thread.join(30)


def _message(source: socket.socket) -> bytes:
    """What is sent in one go: requests and answers take turns, and are small."""
    source.settimeout(30)
    data = source.recv(1 << 20)
    source.settimeout(0.2)
    while True:
        try:
            more = source.recv(1 << 20)
        except TimeoutError:
            return data
        if not more:
            return data
        data += more


def test_write_stands_when_the_sync_behind_it_fails(tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    options = {PREFIX + "enable": "true", PREFIX + "metastore.uris": f"thrift://127.0.0.1:{port}"}
    table = new_table(tmp_path)
    with pytest.raises(CatalogError, match=r"is committed and must not be run again.*no Hive metastore answers"):
        table.upsert(trips("oslo"), hudi_options=options)
    assert table.scan().count() == 1

    table.upsert(trips("rome", first=2), hudi_options={**options, PREFIX + "ignore_exceptions": "true"})
    assert table.scan().count() == 2


def test_first_metastore_that_answers_is_used_and_one_without_thrift_is_refused(hive_metastore: Metastore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    catalog = HiveMetastore(f"thrift://127.0.0.1:{port}, {hive_metastore.uri}")
    assert not catalog.has_database("no_such_database")
    catalog.close()
    with pytest.raises(ConfigError, match="thrift://host:port"):
        HiveMetastore("http://127.0.0.1:9083")


def test_command_syncs_and_says_before_what_it_would_do(
    hive_metastore: Metastore, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    new_table(tmp_path).upsert(trips("oslo"))
    chosen = [f"{name}={value}" for name, value in options_of(hive_metastore, "by_command").items()]
    command = ["sync", str(tmp_path / "trips"), *(word for pair in chosen for word in ("--option", pair)), "--json"]

    assert main([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == planned
    assert (planned[0]["created"], planned[0]["added"]) == (True, 1)
    assert set(partitions(hive_metastore, "by_command")) == {("oslo",)}


def test_hundreds_of_partitions_are_synced_in_batches_and_found_by_name(
    hive_metastore: Metastore, tmp_path: Any
) -> None:
    from pyhudi.catalogs.protocol import CatalogPartition

    table = new_table(tmp_path)
    table.upsert(trips("oslo"))
    table.catalog.sync(hudi_options=options_of(hive_metastore, "many"))
    with catalog_of(hive_metastore) as catalog:
        entry = catalog.find_table("many", "trips")
        assert entry is not None
        made = [CatalogPartition((f"c{number:03}",), f"{entry.location}/c{number:03}") for number in range(250)]
        for start in range(0, len(made), 100):
            catalog.add_partitions(entry, made[start : start + 100])
        catalog.add_partitions(entry, made[:10])  # again
        assert len(catalog.partitions(entry, None)) == 251
    # The stamp is of a write that was undone, so all are compared: those that are not in the table go.
    table.recovery.rollback(table.inspect.last_write().instant)
    table.upsert(trips("rome"))
    [done] = table.catalog.sync(hudi_options=options_of(hive_metastore, "many")).to_pylist()
    assert (done["listed_all"], done["dropped"], done["added"]) == (True, 251, 1)


def test_bootstrapped_table_is_in_the_catalog(hive_metastore: Metastore, tmp_path: Any) -> None:
    import pyarrow.dataset as ds

    ds.write_dataset(
        trips("oslo", "rome"), tmp_path / "source", format="parquet", partitioning=["city"], partitioning_flavor="hive"
    )
    pyhudi.HudiTable.bootstrap(
        tmp_path / "source",
        tmp_path / "trips",
        record_key="id",
        name="trips",
        hudi_options=options_of(hive_metastore, "bootstrapped", enable=True),
    )
    found = partitions(hive_metastore, "bootstrapped")
    assert set(found) == {("oslo",), ("rome",)}
    assert found["oslo",].endswith("/trips/city=oslo")
    named = pyhudi.HudiTable.for_name("bootstrapped.trips", catalog=hive_metastore.uri)
    assert named.scan().count() == 2


def test_view_of_the_name_is_refused_though_it_has_neither_folder_nor_classes() -> None:
    stored = SimpleNamespace(
        dbName="default",
        tableName="trips",
        partitionKeys=[],
        parameters=None,
        sd=SimpleNamespace(
            cols=[],
            location=None,
            inputFormat=None,
            outputFormat=None,
            serdeInfo=SimpleNamespace(serializationLib=None, parameters=None),
        ),
    )
    catalog = MemoryCatalog({"default"}, {("default", "trips"): _table_of(stored)})
    table = pyhudi.HudiTable.create("memory://view-of-hive/trips", schema=SCHEMA, record_key="id", name="trips")
    with pytest.raises(CatalogError, match="table elsewhere"):
        sync_table(table.handle.state, catalog, WriteConfig.from_options({}).catalog)
