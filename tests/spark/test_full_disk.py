"""A write whose executors cannot keep what they shuffle, as on a full disk, and the write after it.

A limit of the size of the JVM's files stands for the full disk: it needs no right to mount one, and files of the table
are not under it, because Python writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from tests.support.audit import audit

import pyhudi
from pyhudi.errors import OutOfSpaceError
from pyhudi.spark import engine
from pyhudi.storage.local import LocalStorage

ROWS, SPLITS = 2_000, 2
FILE_BYTES_MAX = 4 << 10
SCHEMA = pa.schema({"id": pa.int64(), "city": pa.int64(), "text": pa.string(), "version": pa.int64()})


def test_write_with_a_full_disk_of_spark_is_told_so_and_the_next_leaves_nothing_of_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)  # each stage is one of Spark
    rows = spark.range(0, ROWS, 1, SPLITS).selectExpr("id", "id % 4 city", "sha2(string(id), 512) text", "0L version")
    folder = tmp_path / "trips"
    table = pyhudi.HudiTable.create(folder, schema=SCHEMA, record_key="id", partition_by="city")
    table.upsert(rows)
    before = set(folder.rglob("*.parquet"))

    with _full_disk(spark), pytest.raises(OutOfSpaceError, match=r"\(File too large\).*spark\.local\.dir") as caught:
        table.upsert(rows.selectExpr("id", "city", "text", "1L version"))

    assert caught.value.context["step"]
    assert table.scan(where=[("version", "==", 0)]).count() == table.scan().count() == ROWS
    result = table.upsert(rows.selectExpr("id", "city", "text", "2L version"))
    assert {path for path in set(folder.rglob("*.parquet")) - before if result.instant not in path.name} == set()
    assert table.scan(where=[("version", "==", 2)]).count() == table.scan().count() == ROWS
    audit(LocalStorage(str(folder)))


@contextmanager
def _full_disk(spark: Any) -> Iterator[None]:
    """Limit the files that the driver's JVM writes, which is the executor, too."""
    jvm = psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    before = jvm.rlimit(psutil.RLIMIT_FSIZE)
    jvm.rlimit(psutil.RLIMIT_FSIZE, (FILE_BYTES_MAX, before[1]))
    try:
        yield
    finally:
        jvm.rlimit(psutil.RLIMIT_FSIZE, before)
