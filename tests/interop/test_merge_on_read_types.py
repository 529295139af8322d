"""Every column type in log files of either block format, read, merged and compacted by the other side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import ALL_META, WRITER_META, assert_same_rows
from tests.interop.parties import HudiRs, JvmHudi, Pyhudi
from tests.interop.shapes import Shape
from tests.interop.timeline_folder import planned_compactions
from tests.interop.zoo import VERSIONS, jvm_options, new_version, stored, zoo
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]

BLOCK_FORMAT = "hoodie.logfile.data.block.format"


def moved(table: pa.Table) -> pa.Table:
    """A new version of every row with the values of the row after it, so that every null and value changes."""
    count = table.num_rows
    others = table.take(pa.array([*range(1, count), 0]))
    others = others.set_column(others.column_names.index("id"), "id", table.column("id"))
    return others.set_column(others.column_names.index("ts"), "ts", pa.array(range(10, 10 + count), pa.int64()))


def options(version: int, block_format: str) -> dict[str, str]:
    return {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
        "hoodie.metadata.enable": "false",
        BLOCK_FORMAT: block_format,
    }


@pytest.mark.parametrize("block_format", ["parquet", "avro"])
@pytest.mark.parametrize("version", VERSIONS)
def test_types_in_our_logs_are_read_updated_and_compacted_by_jvm_hudi(
    version: int, block_format: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    jvm, rows, path = JvmHudi(oracle), zoo(), tmp_path / "zoo"
    shape = Shape(name="zoo", table_version=version, merge_on_read=True, metadata=False)
    table = pyhudi.HudiTable.create(
        str(path),
        schema=rows.schema,
        record_key="id",
        ordering_fields="ts",
        name="zoo",
        table_version=version,
        table_type="mor",
        hudi_options=options(version, block_format),
    )
    table.bulk_insert(rows)
    rows = moved(rows)
    table.upsert(rows)
    everybody_reads(path, jvm, stored(rows), "as written")

    oracle.write(path, new_version(rows, 0), {**jvm_options("upsert"), **options(version, block_format)})
    rows = pa.concat_tables([new_version(rows, 0), rows.slice(1)])
    everybody_reads(path, jvm, stored(rows), "updated")

    merged = Pyhudi().read(path)
    jvm.schedule(path, shape)
    jvm.run(path, shape, *planned_compactions(path))
    everybody_reads(path, jvm, stored(rows), "compacted")
    assert_same_rows(merged, Pyhudi().read(path), ignore=WRITER_META, hint="before and after compaction")


@pytest.mark.parametrize("block_format", ["parquet", "avro"])
@pytest.mark.parametrize("version", VERSIONS)
def test_types_in_logs_of_jvm_hudi_are_read_updated_and_compacted_by_us(
    version: int, block_format: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    jvm, rows, path = JvmHudi(oracle), zoo(), tmp_path / "zoo"
    chosen = options(version, block_format)
    oracle.write(path, rows, {**jvm_options("insert"), **chosen})
    rows = moved(rows)
    # Into a log, and not into the base file again, which is small.
    oracle.write(path, rows, {**jvm_options("upsert"), **chosen, "hoodie.parquet.small.file.limit": "0"})
    everybody_reads(path, jvm, stored(rows), "as written")

    table = pyhudi.HudiTable.for_path(str(path), hudi_options=chosen)
    table.upsert(new_version(rows, 0))
    rows = pa.concat_tables([new_version(rows, 0), rows.slice(1)])
    everybody_reads(path, jvm, stored(rows), "updated")

    merged = oracle.read(path)
    assert table.services.compact().num_rows == 1
    everybody_reads(path, jvm, stored(rows), "compacted")
    assert_same_rows(merged, oracle.read(path), ignore=WRITER_META, hint="before and after compaction")


def everybody_reads(path: Path, jvm: JvmHudi, rows: pa.Table, hint: str) -> None:
    """The rows as given, by all three; and the meta columns as JVM Hudi gives them."""
    answer = jvm.read(path)
    assert_same_rows(rows, answer, ignore=ALL_META, hint=f"{hint}, read by {jvm}")
    for reader in (Pyhudi(), HudiRs()):
        assert_same_rows(answer, reader.read(path), hint=f"{hint}, read by {reader}")
