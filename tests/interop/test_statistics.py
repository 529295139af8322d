"""Column and partition statistics: those of JVM Hudi equal ours, and queries agree with and without data skipping."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, missing_oracle
from tests.support.statistics_of_tables import Payload, statistics_known

import pyhudi
from pyhudi.errors import MetadataTableWarning
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.metadata_table.file_ranges import RangesTask, ranges_of_files
from pyhudi.metadata_table.partitions.column_stats import live_paths
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table

_UTC = dt.UTC
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=_UTC)
_NAN = float("nan")
#: JVM Hudi says that their values are null, or 0.0, where the footer has no statistics.
_FALSE = {"x_nan", "long_text"}

VERSIONS = [
    pytest.param(version, id=f"v{version}", marks=[] if version == 9 else [pytest.mark.thorough])
    for version in (9, 8, 6)
]
CONDITIONS = (
    "n = 77",
    "n > 5",
    "n is null",
    "n is not null",
    "x_nan = 1.0",
    "x_nan > 5",
    "x_nan is null",
    "x = 0.0",
    "single < 1",
    "long_text = repeat('b', 3000)",
    "long_text is null",
    "text = 'é'",
    "raw > X'61'",
    "day = date'1969-12-01'",
    "moment < timestamp'1970-01-01'",
    "money < 0",
    "nothing is null",
    "nothing = 'x'",
    "flag = false",
    "id > 'k1' and long_text < 'b'",
    "city = 'rome' and x_nan > 0",
)


def _rows(first: int, count: int, city: str, **values: Any) -> pa.Table:
    """Rows of all types that have statistics; the last one is smaller than the others, or NaN, or null."""
    most = count - 1
    columns = {
        "id": pa.array([f"k{first + at}" for at in range(count)]),
        "ts": pa.array(range(first, first + count), pa.int64()),
        "city": pa.array([city] * count),
        "flag": pa.array([True] * most + [False]),
        "n": pa.array([at - 1 for at in range(most)] + [None], pa.int32()),
        "single": pa.array([1.5] * most + [-0.0], pa.float32()),
        "x": pa.array([1.5] * most + [0.0], pa.float64()),
        "x_nan": pa.array([1.0] * most + [_NAN], pa.float64(), from_pandas=False),
        "text": pa.array(["x"] * most + ["é"]),
        "long_text": pa.array(["a" * 3000] * most + ["b" * 3000]),
        "raw": pa.array([b"\xff\x01"] * most + [b"a"]),
        "day": pa.array([dt.date(2024, 1, 1)] * most + [dt.date(1969, 12, 1)]),
        "moment": pa.array(
            [dt.datetime(2024, 1, 1, tzinfo=_UTC)] * most + [_EPOCH - dt.timedelta(microseconds=1)],
            pa.timestamp("us", "UTC"),
        ),
        "money": pa.array([Decimal("1.10")] * most + [Decimal("-3.45")], pa.decimal128(10, 2)),
        "nothing": pa.nulls(count, pa.string()),
        "nested": pa.array([{"a": 1}] * count),
    }
    return pa.table({**columns, **{name: pa.array(each, columns[name].type) for name, each in values.items()}})


_BATCHES: tuple[tuple[str, pa.Table], ...] = (
    ("bulk_insert", _rows(0, 3, "oslo")),
    ("insert", pa.concat_tables([_rows(3, 3, "oslo"), _rows(10, 4, "rome", n=[None] * 4)])),
    ("upsert", _rows(0, 1, "oslo", n=[77], x_nan=[9.0])),
    ("delete", _rows(4, 1, "oslo")),
)


def _options(version: int, kind: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
        "hoodie.write.table.version": str(version),
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
    }


def _check_jvm_queries(oracle: Oracle, path: Path, name: str) -> None:
    """Queries of JVM Hudi find the same rows with and without data skipping."""
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    for condition in CONDITIONS:
        found = []
        for skips in ("false", "true"):
            oracle.sql(f"SET hoodie.enable.data.skipping={skips}")
            found.append(sorted(str(row["id"]) for row in oracle.sql(f"SELECT id FROM {name} WHERE {condition}")))
        assert found[0] == found[1], condition
    oracle.sql("RESET hoodie.enable.data.skipping")
    oracle.sql(f"DROP TABLE {name}")


def _check_our_queries(path: Path) -> None:
    field = pc.field
    conditions: list[Any] = [
        [("n", "==", 77)],
        [("n", ">", 5)],
        field("n").is_null(),
        [("x_nan", "==", 1.0)],
        [("x_nan", ">", 5.0)],
        [("x_nan", "!=", 1.0)],
        [("x", "==", 0.0)],
        [("long_text", "==", "b" * 3000)],
        field("long_text").is_null(),
        [("text", "==", "é")],
        [("raw", ">", b"a")],
        [("day", "==", dt.date(1969, 12, 1))],
        [("moment", "<", _EPOCH)],
        [("money", "<", Decimal(0))],
        field("nothing").is_valid(),
        [("flag", "==", False)],
        [[("id", ">", "k1"), ("long_text", "<", "b")], [("n", "==", 77)]],
    ]
    whole = {"hoodie.enable.data.skipping": "false"}
    for where in conditions:
        scan = pyhudi.HudiTable.for_path(str(path)).scan(where=where)
        expected = pyhudi.HudiTable.for_path(str(path), hudi_options=whole).scan(where=where).to_arrow()
        assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(expected["id"].to_pylist()), where


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_statistics_that_jvm_hudi_wrote_equal_ours_and_lose_no_row(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, version: int, kind: str
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path = tmp_path / "t"
    for operation, rows in _BATCHES:
        options = {**_options(version, kind), "hoodie.datasource.write.operation": operation}
        oracle.write(path, rows, options, mode="append" if path.exists() else "overwrite")

    _check_equal(path)
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr("pyhudi.read.skipping.column_statistics.FILES_MIN", 1)
        _check_our_queries(path)

    # What pyhudi adds is found by JVM Hudi, and by us.
    pyhudi.save(
        _rows(30, 3, "rome", n=[5000, 6000, None]),
        str(path),
        mode="append",
        hudi_options={"hoodie.datasource.write.operation": "upsert", "hoodie.parquet.small.file.limit": "0"},
    )
    assert "column_stats" in load_table(LocalStorage(path)).config.metadata_partitions
    # JVM Hudi loses rows by the false statistics that it wrote itself: `long_text` and `x_nan` are not asked for.
    name = f"{kind}_{version}_theirs"
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    for condition, count in (("n > 4000", 2), ("n = 77", 1), ("text = 'é'", 5), ("money < 0", 5)):
        for skips in ("false", "true"):
            oracle.sql(f"SET hoodie.enable.data.skipping={skips}")
            assert len(oracle.sql(f"SELECT id FROM {name} WHERE {condition}")) == count, condition
    oracle.sql("RESET hoodie.enable.data.skipping")
    oracle.sql(f"DROP TABLE {name}")


def _check_equal(path: Path) -> None:
    """The record of each file and column has the values that we compute for the same file."""
    storage = LocalStorage(path)
    table = load_table(storage)
    theirs = {
        (payload["fileName"], payload["columnName"]): payload
        for (payload,) in statistics_known(storage, "column_stats").values()
    }
    columns = tuple({column for _, column in theirs if column != "nested"})
    compared = 0
    for file in live_paths(table):
        ranges = ranges_of_files(storage, RangesTask(storage.spec, (file,), columns))
        kind = payload_type(table.version, COLUMN_STATS_COLUMN)
        for ours in statistics_payloads(ranges, kind, is_tight=False).to_pylist():
            place = ours["fileName"], ours["columnName"]
            if ours["columnName"] in _FALSE or _has_only_nulls(ours):
                continue
            assert _plain(theirs[place]) == _plain(ours), place
            compared += 1
    assert compared > 50


def _has_only_nulls(payload: Payload) -> bool:
    """JVM Hudi says of numbers that they are 0, from footers, and nothing, from logs."""
    return bool(payload["nullCount"] == payload["valueCount"])


def _plain(payload: Payload) -> dict[str, Any]:
    """The payload as text, which tells 0.0 from -0.0, without the sign of zeros in logs: JVM Hudi keeps it."""
    is_log = payload["fileName"].startswith(".")
    return {
        name: repr(value).replace("-0.0", "0.0") if is_log else repr(value)
        for name, value in payload.items()
        if name not in ("isTightBound", "isDeleted")
    }


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_jvm_hudi_finds_the_same_rows_of_our_tables_with_and_without_skipping(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, version: int, kind: str
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path = tmp_path / "t"
    for operation, rows in _BATCHES:
        options = {**_options(version, kind), "hoodie.datasource.write.operation": operation}
        pyhudi.save(rows, str(path), mode="append", hudi_options=options)

    _check_jvm_queries(oracle, path, f"{kind}_{version}_ours")

    # In turn: JVM Hudi, then pyhudi.
    oracle.write(path, _rows(20, 3, "oslo", n=[1000, 2000, None]), _options(version, kind))
    pyhudi.save(_rows(30, 2, "rome", n=[5000, None]), str(path), mode="append", hudi_options=_options(version, kind))
    _check_jvm_queries(oracle, path, f"{kind}_{version}_in_turn")
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr("pyhudi.read.skipping.column_statistics.FILES_MIN", 1)
        _check_our_queries(path)


_OF_NUMBERS: dict[str, Callable[[float], bool]] = {  # Spark's order: NaN is above all numbers, and both zeros are equal
    "x > 5": lambda x: x > 5 or x != x,
    "x >= 12": lambda x: x >= 12 or x != x,
    "x = 11": lambda x: x == 11,
    "x < 3": lambda x: x < 3,
    "x <= 0": lambda x: x <= 0,
    "x != 5": lambda _: True,
    "x in (1, 12)": lambda x: x in (1, 12),
    "x between 5 and 11": lambda x: 5 <= x <= 11,
    "x > 1e9": lambda x: x != x,
    "x is not null": lambda _: True,
}


@pytest.mark.parametrize("skips", ["true", "false"])
@pytest.mark.parametrize("version", VERSIONS)
def test_jvm_hudi_loses_no_number_by_our_statistics_of_columns_with_nan(
    tmp_path: Path, version: int, skips: str
) -> None:
    release = RELEASE_OF_TABLE_VERSION[version]
    reason = missing_oracle(release)
    if reason is not None:
        pytest.skip(reason)
    # In "mixed" one file has a NaN and the other has none, in "nan" both have nothing else.
    numbers = {f"mixed {at}": value for at, value in enumerate((0.0, _NAN, 2.0, 10.0, 11.0, 12.0))}
    numbers |= {f"plain {at}": value for at, value in enumerate((-0.0, 1.0, 2.0, 10.0, 11.0, 12.0))}
    numbers |= {f"nan {at}": _NAN for at in range(6)}
    for kind in ("cow", "mor"):
        for part in (0, 3):
            chosen = {key: x for key, x in numbers.items() if part <= int(key.split()[1]) < part + 3}
            values = pa.array(list(chosen.values()), pa.float64(), from_pandas=False)
            cities = [key.split()[0] for key in chosen]
            rows = pa.table({"id": list(chosen), "ts": [1] * 9, "city": cities, "x": values})
            rows = rows.append_column("single", rows["x"].cast(pa.float32()))
            options = {**_options(version, kind), "hoodie.datasource.write.operation": "insert"}
            pyhudi.save(rows, str(tmp_path / kind), mode="append", hudi_options=options)

    # A session of its own: in one that has planned queries with skipping, switching it off changes no answer.
    oracle = Oracle(release)
    try:
        oracle.sql(f"SET hoodie.enable.data.skipping={skips}")
        oracle.sql(f"SET hoodie.metadata.enable={skips}")
        for kind in ("cow", "mor"):
            oracle.sql(f"CREATE TABLE {kind} USING hudi LOCATION '{tmp_path / kind}'")
            for column in ("x", "single"):
                for condition, holds in _OF_NUMBERS.items():
                    asked = condition.replace("x", column)
                    found = {str(row["id"]) for row in oracle.sql(f"SELECT id FROM {kind} WHERE {asked}")}
                    assert found == {key for key, x in numbers.items() if holds(x)}, (kind, asked)
    finally:
        oracle.stop()


@pytest.mark.parametrize(
    ("version", "with_columns"),
    [
        pytest.param(9, False, id="v9"),
        pytest.param(9, True, marks=pytest.mark.thorough, id="v9-with-those-of-columns"),
        pytest.param(8, False, marks=pytest.mark.thorough, id="v8"),
    ],
)
def test_bounds_that_jvm_hudi_built_before_it_rolled_a_write_back_lose_no_row(
    version: int, with_columns: bool, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / "t"
    given = {
        **_options(version, "cow"),
        "hoodie.metadata.index.column.stats.enable": str(with_columns).lower(),
        "hoodie.metadata.index.partition.stats.enable": "false",
    }
    pyhudi.save(pa.concat_tables(_rows(3 * at, 3, f"c{at}") for at in range(9)), str(path), hudi_options=given)
    changed = _rows(12, 3, "c4", n=[1000] * 3, ts=[99] * 3)
    pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(changed)
    newest = load_table(LocalStorage(path)).timeline.completed_writes[-1].requested_time
    name = f"bounds_{version}_{with_columns}"
    oracle.sql(f"SET hoodie.write.table.version={version}")
    oracle.sql("SET hoodie.write.auto.upgrade=false")
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest}')")
    for option in ("hoodie.write.table.version", "hoodie.write.auto.upgrade"):
        oracle.sql(f"RESET {option}")
    assert "partition_stats" in load_table(LocalStorage(path)).config.metadata_partitions, "it builds bounds"

    for upserted in (None, _rows(24, 3, "c8", ts=[99] * 3), _rows(15, 3, "c5", ts=[99] * 3)):
        if upserted is not None:
            pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(upserted)
        with pytest.warns(MetadataTableWarning) if upserted is None else nullcontext():
            found = pyhudi.HudiTable.for_path(str(path)).scan(["id"], where=[("n", "<", 900)]).to_arrow()
        assert {"k12", "k13"} <= {*found["id"].to_pylist()}
        _check_our_queries(path)
    assert "partition_stats" not in load_table(LocalStorage(path)).config.metadata_partitions
    oracle.write(path, _rows(0, 1, "c0", ts=[100]), {**given, "hoodie.write.auto.upgrade": "false"})
    _check_our_queries(path)
    found_by_jvm = {row["id"] for row in oracle.sql(f"SELECT id FROM {name} WHERE n < 900")}
    expected = pyhudi.HudiTable.for_path(str(path)).scan(["id"], where=[("n", "<", 900)]).to_arrow()
    assert found_by_jvm == {*expected["id"].to_pylist()}
