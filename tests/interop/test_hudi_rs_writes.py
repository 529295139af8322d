"""hudi-rs 0.6 as a second writer: it, pyhudi and JVM Hudi write one table in turn, and all read the same rows.

Its program is built by `python tools/hudi_rs.py`. Tables of version 8 have no metadata table: hudi-rs 0.6.0-rc.1 writes
its records by the schema of version 9 there, and then reads no block with that of JVM Hudi 1.0.2 beside them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import Oracle

import pyhudi
from tools import hudi_rs as program

OracleOf = Callable[[str], Oracle]
COLUMNS = ["id", "city", "ts", "fare"]
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
Row = tuple[int, str, int, float]


@dataclass
class Program:
    """The program at a path, which takes and gives rows as files of `folder`."""

    path: Path
    folder: Path
    numbers: count[int] = field(default_factory=count)

    def run(self, *arguments: object) -> None:
        command = [str(self.path), *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ran.returncode == 0, f"{command}: {ran.stderr[-2000:]}"

    def write(self, verb: str, table: Path, rows: pa.Table, *options: str) -> None:
        file = self._file()
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        self.run(verb, table, file, *options)

    def read(self, table: Path) -> pa.Table:
        file = self._file()
        self.run("read", table, file)
        return pa.ipc.open_stream(file.read_bytes()).read_all()

    def _file(self) -> Path:
        return self.folder / f"{next(self.numbers)}.arrow"


@pytest.fixture
def hudi_rs(tmp_path: Path) -> Program:
    path = program.find()
    if path is None:
        pytest.skip("hudi-rs 0.6 is not built: python tools/hudi_rs.py")
    return Program(path, tmp_path)


def rows(*given: Row) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in given], schema)


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.select(COLUMNS).to_pylist())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("maker", "version", "indexes"),
    [
        ("hudi-rs", 9, {}),
        ("hudi-rs", 9, RECORD_INDEX),
        ("pyhudi", 9, {}),
        ("pyhudi", 9, RECORD_INDEX),
        ("pyhudi", 8, {}),
    ],
)
def test_hudi_rs_and_pyhudi_write_in_turn_and_jvm_hudi_reads_and_writes_on(
    maker: str,
    version: int,
    indexes: dict[str, str],
    kind: str,
    hudi_rs: Program,
    tmp_path: Path,
    oracle_of: OracleOf,
) -> None:
    path = tmp_path / f"in_turn_{maker[:4]}_{version}_{kind[:1]}_{bool(indexes)}"
    options = {"hoodie.metadata.enable": str(version == 9).lower(), **indexes}
    as_given = [f"{name}={value}" for name, value in options.items()]
    if maker == "hudi-rs":
        index = [f"{name}={value}" for name, value in indexes.items()]
        keys = ("record_key=id", "partition_by=city", "ordering=ts")
        hudi_rs.run("create", path, f"name={path.name}", f"type={kind}", "version=9", *keys, *index)
    else:
        pyhudi.HudiTable.create(
            path,
            schema=rows().schema,
            record_key="id",
            partition_by="city",
            ordering_fields="ts",
            table_type=kind,
            table_version=version,
            hudi_options=options,
        )

    def ours() -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(path, hudi_options=options)

    def check(hint: str, *expected: Row) -> None:
        assert rows_of(ours().scan().to_arrow()) == list(expected), f"pyhudi: {hint}"
        assert rows_of(hudi_rs.read(path)) == list(expected), f"hudi-rs: {hint}"
        assert_healthy(ours(), hint)

    hudi_rs.write("upsert", path, rows((1, "oslo", 1, 1.0), (2, "rome", 1, 2.0), (3, "oslo", 1, 3.0)), *as_given)
    check("upserted by hudi-rs", (1, "oslo", 1, 1.0), (2, "rome", 1, 2.0), (3, "oslo", 1, 3.0))
    ours().upsert(rows((1, "oslo", 2, 10.0), (4, "rome", 2, 4.0)))
    check("upserted by pyhudi", (1, "oslo", 2, 10.0), (2, "rome", 1, 2.0), (3, "oslo", 1, 3.0), (4, "rome", 2, 4.0))
    hudi_rs.write("upsert", path, rows((4, "rome", 3, 40.0), (1, "oslo", 1, -1.0), (5, "paris", 3, 5.0)), *as_given)
    ours().delete(pa.table({"id": pa.array([2], pa.int64()), "city": ["rome"]}))
    check("deleted by pyhudi", (1, "oslo", 2, 10.0), (3, "oslo", 1, 3.0), (4, "rome", 3, 40.0), (5, "paris", 3, 5.0))
    hudi_rs.run("delete", path, "id = 3", *as_given)
    left = [(1, "oslo", 2, 10.0), (4, "rome", 3, 40.0), (5, "paris", 3, 5.0)]
    check("deleted by hudi-rs", *left)
    if kind == "MERGE_ON_READ":
        ours().services.compact()
        check("compacted by pyhudi", *left)
        hudi_rs.write("upsert", path, rows((5, "paris", 4, 50.0)), *as_given)
        left[-1] = (5, "paris", 4, 50.0)
        hudi_rs.run("compact", path, *as_given)
        check("compacted by hudi-rs", *left)
    ours().services.cluster()
    check("clustered by pyhudi", *left)

    oracle = oracle_of("1.2.0" if version == 9 else "1.0.2")
    assert rows_of(oracle.read(path, options)) == left
    by_jvm_hudi = {
        **options,
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": str((path / "city=oslo").is_dir()).lower(),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": "upsert",
    }
    oracle.write(path, rows((4, "rome", 9, 44.0), (6, "oslo", 9, 6.0)), by_jvm_hudi)
    check("upserted by JVM Hudi", left[0], (4, "rome", 9, 44.0), left[2], (6, "oslo", 9, 6.0))


def assert_healthy(table: pyhudi.HudiTable, hint: str) -> None:
    """The metadata table says what the folders and the rows say."""
    found = table.inspect.metadata_check()
    assert found.num_rows == 0, f"{hint}: {found.to_pylist()}"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_rs_goes_on_where_pyhudi_has_joined_logs_of_the_metadata_table(
    kind: str, hudi_rs: Program, tmp_path: Path
) -> None:
    path = tmp_path / f"joined_logs_{kind[:1]}"
    index = [f"{name}={value}" for name, value in RECORD_INDEX.items()]
    keys = ("record_key=id", "partition_by=city", "ordering=ts")
    hudi_rs.run("create", path, f"name={path.name}", f"type={kind}", "version=9", *keys, *index)
    joining = {
        **RECORD_INDEX,
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "2",
    }
    expected: dict[int, Row] = {}

    def ours() -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(path, hudi_options=joining)

    for moment in range(1, 9):
        batch = [(1, "oslo", moment, float(moment)), (10 + moment, "rome", moment, 0.5)]
        if moment % 2:
            hudi_rs.write("upsert", path, rows(*batch), *index)
        else:
            ours().upsert(rows(*batch))
        expected |= {row[0]: row for row in batch}
        assert rows_of(hudi_rs.read(path)) == sorted(expected.values()), f"hudi-rs: {moment}"
        assert_healthy(ours(), f"moment {moment}")

    assert list((path / ".hoodie" / "metadata" / ".hoodie").rglob("*.logcompaction.requested")) != []
    hudi_rs.run("delete", path, "id = 12", *index)
    assert rows_of(ours().scan().to_arrow()) == sorted(row for key, row in expected.items() if key != 12)
