"""Hive metastore sync of JVM Hudi and of pyhudi, in turn and side by side: equal objects, read by JVM Hudi's Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.hive_metastores import Metastore, metastore_or_skip
from tests.support.oracle import ORACLE_HOME, jar_of, missing_oracle
from tests.support.programs import told_by

import pyhudi
from pyhudi.catalogs.hive_metastore import HiveMetastore

PROGRAM = Path(__file__).with_name("catalog_sync_program.py")
JVM_HUDI = "1.2.0"
SECONDS_MAX = 500
PREFIX = "hoodie.datasource.hive_sync."
OWN = {"createTime", "lastAccessTime", "transient_lastDdlTime", "hudi_writer_version", "numFiles", "totalSize"}
"""What says when and by whom an entry was made, and Hive's own statistics."""
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("day", pa.date32()),
        ("fare", pa.float64()),
        ("ts", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("local_at", pa.timestamp("us")),
        ("amount", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("rider", pa.struct([("name", pa.string()), ("rides", pa.list_(pa.struct([("n", pa.int64())])))])),
        ("raw", pa.binary()),
        ("ok", pa.bool_()),
        ("weight", pa.float32()),
    ]
)
PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "city"}
TABLES: dict[str, dict[str, str]] = {
    "cow": PARTITIONED,
    "mor": {
        "hoodie.datasource.write.partitionpath.field": "city,day",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
    "mor_rt_only": {
        **PARTITIONED,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        PREFIX + "table.strategy": "RT",
    },
    "mor_ro_only": {
        **PARTITIONED,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        PREFIX + "table.strategy": "RO",
    },
    "plain": {},
    "timestamps": {**PARTITIONED, PREFIX + "support_timestamp": "true"},
    "wide": PARTITIONED,
}


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    reason = missing_oracle(JVM_HUDI)
    if reason is not None:
        pytest.skip(reason)
    # Hive 3: JVM Hudi's client does not know Hive 4's calls.
    with metastore_or_skip("hive-3", tmp_path_factory.mktemp("metastore")) as found:
        yield found


def rows(*values: tuple[int, str, float]) -> pa.Table:
    made = [
        {
            "id": number,
            "city": city,
            "day": 19000 + number,
            "fare": fare,
            "ts": int(fare),
            "at": 1_700_000_000_000_000,
            "local_at": 1_700_000_000_000_000,
            "tags": ["a"],
            "counts": [("a", 1)],
            "rider": {"name": "x", "rides": [{"n": 1}]},
            "raw": b"x",
            "ok": True,
            "weight": 1.0,
        }
        for number, city, fare in values
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def options_of(name: str, database: str, metastore: Metastore) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        **TABLES[name],
        PREFIX + "enable": "true",
        PREFIX + "mode": "hms",
        PREFIX + "metastore.uris": metastore.uri,
        PREFIX + "database": database,
        PREFIX + "table": name,
        "hoodie.meta_sync.spark.version": "3.5.9",
    }


def by_jvm_hudi(folder: Path, metastore: Metastore, steps: list[dict[str, Any]]) -> list[Any]:
    python = str(ORACLE_HOME / "venv" / "bin" / "python")
    given = json.dumps({"jar": str(jar_of(JVM_HUDI)), "uri": metastore.uri, "folder": str(folder), "steps": steps})
    answer: list[Any] = told_by(PROGRAM, given, folder=folder, seconds_max=SECONDS_MAX, python=python)
    return answer


def by_pyhudi(folder: Path, metastore: Metastore, queries: list[dict[str, str]]) -> list[Any]:
    """What a session of pyhudi with the metastore finds by name."""
    given = json.dumps({"jar": None, "uri": metastore.uri, "folder": str(folder), "steps": queries})
    answer: list[Any] = told_by(PROGRAM, given, folder=folder, seconds_max=SECONDS_MAX)
    return answer


def write_step(folder: Path, name: str, database: str, metastore: Metastore, table: pa.Table) -> dict[str, Any]:
    source = folder / f"{name}-{database}-{table.num_rows}.parquet"
    pq.write_table(table, source)
    return {
        "write": str(folder / name),
        "rows": str(source),
        "options": options_of(name, database, metastore),
    }


def objects(metastore: Metastore, database: str) -> dict[str, Any]:
    """All that the metastore has of a database, but for what is of one sync alone."""
    catalog = HiveMetastore(metastore.uri)
    found = {}
    for name in catalog._client.get_all_tables(database):
        entry = catalog.find_table(database, name)
        assert entry is not None
        stored = [_plain(one) for one in catalog._stored_partitions(entry, None)] if entry.partition_columns else []
        found[name] = (_plain(entry.stored), sorted(stored, key=str))
    catalog.close()
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "thrift_spec"):
        value = vars(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None and name not in {*OWN, "dbName"}}
    return value


@pytest.mark.timeout(2 * SECONDS_MAX)
def test_entries_and_partitions_of_both_syncs_are_equal_field_by_field(metastore: Metastore, tmp_path: Path) -> None:
    first = rows((1, "oslo", 1.5), (2, "ro me", 2.5))
    wide = first
    for number in range(300):  # whose schema is in several properties
        wide = wide.append_column(f"column_{number}", pa.array([number, None], pa.int64()))
    given = {name: wide if name == "wide" else first for name in TABLES}
    by_jvm_hudi(
        tmp_path, metastore, [write_step(tmp_path, name, "side_jvm", metastore, given[name]) for name in TABLES]
    )

    for name in TABLES:
        table = pyhudi.HudiTable.for_path(tmp_path / name)
        table.catalog.sync(hudi_options=options_of(name, "side_own", metastore))

    wide_entry = objects(metastore, "side_own")["wide"][0]
    assert int(wide_entry["parameters"]["spark.sql.sources.schema.numParts"]) > 1
    by_jvm, own = objects(metastore, "side_jvm"), objects(metastore, "side_own")
    assert sorted(own) == sorted(by_jvm)
    for name, (entry, partitions) in by_jvm.items():
        assert own[name][0] == entry, name
        assert own[name][1] == partitions, name


@pytest.mark.timeout(4 * SECONDS_MAX)
def test_both_syncs_in_turn_leave_what_one_alone_would_and_both_read_by_name(
    metastore: Metastore, tmp_path: Path
) -> None:
    names = ("cow", "mor")
    first, second, third = (
        rows((1, "oslo", 1.5), (2, "ro me", 2.5)),
        rows((1, "oslo", 9.5), (3, "it's", 3.5)),
        rows((4, "bonn", 4.5)),
    )
    by_jvm_hudi(tmp_path, metastore, [write_step(tmp_path, name, "turns", metastore, first) for name in names])
    for name in names:
        table = pyhudi.HudiTable.for_path(tmp_path / name)
        table.upsert(second, hudi_options=options_of(name, "turns", metastore))
    queries = [{"query": f"SELECT id, fare FROM turns.{name} ORDER BY id"} for name in (*names, "mor_ro", "mor_rt")]
    *_, cow, mor, read_optimized, real_time = by_jvm_hudi(
        tmp_path,
        metastore,
        [*(write_step(tmp_path, name, "turns", metastore, third) for name in names), *queries],
    )

    expected = [[1, 9.5], [2, 2.5], [3, 3.5], [4, 4.5]]
    assert cow == mor == real_time == expected
    assert read_optimized[0] == [1, 1.5]
    call = {"query": f"CALL hive_sync(table => 'turns.cow', metastore_uri => '{metastore.uri}')"}
    *read, called = by_pyhudi(tmp_path, metastore, [*queries, call])
    assert read == [cow, mor, read_optimized, real_time]
    assert called == [["success"]]
    before = objects(metastore, "turns")
    for name in names:
        table = pyhudi.HudiTable.for_path(tmp_path / name)
        for done in table.catalog.sync(hudi_options=options_of(name, "turns", metastore)).to_pylist():
            changed = (done["created"], done["altered"], done["added"], done["moved"], done["dropped"])
            assert changed == (False, False, 0, 0, 0), done
    assert objects(metastore, "turns") == before
