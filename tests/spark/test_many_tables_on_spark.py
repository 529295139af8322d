"""Many tables from one process whose tasks run on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.spark_streamers import ROOT_OF_FILES, put, stored

from pyhudi.errors import SourceError
from pyhudi.streamer import StreamerConfig, TableResult, run_many

pytestmark = pytest.mark.timeout(300)
SQL = "hoodie.streamer.transformer.sql"
NAMES = "abcdef"


def config(folder: Path, name: str, on: Path, spark: Any = None) -> StreamerConfig:
    return StreamerConfig(
        on / name,
        hoodie_conf={
            ROOT_OF_FILES: str(folder / name),
            "hoodie.datasource.write.recordkey.field": "id",
            SQL: f"SELECT *, '{name}' AS of FROM <SRC>",
        },
        source_ordering_fields="ts",
        transformer_class="SqlQueryBasedTransformer",
        retry_interval_seconds=0.2,
        spark=spark,
    )


def test_many_tables_on_spark_are_those_without_it_and_one_that_fails_is_paused_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.engine.IN_PROCESS_BYTES_MAX", 0)
    for number, name in enumerate(NAMES):
        put(tmp_path / name, "1.json", [{"id": number, "ts": 1}, {"id": 10 + number, "ts": 1}])
    (tmp_path / "b" / "1.json").write_text("{")
    seen: list[tuple[TableResult, ...]] = []

    def ends(results: Sequence[TableResult]) -> bool:
        seen.append(tuple(results))
        if len(seen) == 1:  # after a round of each
            put(tmp_path / "b", "1.json", [{"id": 1, "ts": 1}])
        return all(result.result.batches == 1 for result in results)

    on_spark = [config(tmp_path, name, tmp_path / "on_spark", spark) for name in NAMES]
    ended = run_many(on_spark, continuous=True, post_write_termination=ends)
    assert [type(result.error) for result in seen[0]] == [SourceError if name == "b" else type(None) for name in NAMES]
    assert [result.result.batches for result in seen[0]] == [int(name != "b") for name in NAMES]
    local = run_many([config(tmp_path, name, tmp_path / "local") for name in NAMES])
    assert [result.result.checkpoint for result in ended] == [result.result.checkpoint for result in local]
    for name in NAMES:
        assert stored(tmp_path / "on_spark" / name) == stored(tmp_path / "local" / name)
