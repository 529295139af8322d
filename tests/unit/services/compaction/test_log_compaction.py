"""Log compaction, where the logs are of a kind that cannot become one."""

from __future__ import annotations

import logging
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import SplitEngine, rehandled

import pyhudi
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.metadata.compaction import encode_compaction_plan
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.format.timeline.instant import Action, Instant, InstantState, next_instant_time
from pyhudi.services.compaction.plan import plan_log_compaction
from pyhudi.table.file_system_view import load_view
from pyhudi.table.timeline import instant_path

GOLDEN = Path(__file__).parents[3] / "golden" / "mor"
JOIN_ALL = {"hoodie.log.compaction.blocks.threshold": "1"}
PARTIAL = pytest.mark.parametrize("name", ["v8-partial", "v9-partial"])


def unpacked(name: str, folder: Path) -> pyhudi.HudiTable:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return rehandled(pyhudi.HudiTable.for_path(str(folder / "table")), engine=SplitEngine())


def rows_of(table: pyhudi.HudiTable) -> list[dict[str, Any]]:
    found = table.refresh().scan().to_arrow()
    return sorted(found.drop_columns([n for n in found.column_names if n.startswith("_hoodie_")]).to_pylist(), key=str)


def pending(table: pyhudi.HudiTable) -> tuple[Instant, ...]:
    return table.refresh().handle.state.timeline.pending_compactions


def stuck_plan(table: pyhudi.HudiTable) -> str:
    """A planned log compaction of all logs, as a release that did not look into them left it."""
    state = table.handle.state
    slices = [one for group in load_view(state.storage, state.timeline).latest.values() for one in group]
    plan = plan_log_compaction(slices, (), 1).plan
    time = next_instant_time(state.timeline.instants[-1].requested_time)
    instant = Instant(time, Action.LOG_COMPACTION, InstantState.REQUESTED)
    state.storage.put_if_absent(instant_path(instant, state.version), encode_compaction_plan(plan))
    return time


@PARTIAL
def test_logs_with_partial_updates_are_not_planned_to_be_joined(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = unpacked(name, tmp_path)
    before = rows_of(table)
    with caplog.at_level(logging.WARNING, "pyhudi"):
        joined = table.services.compact_logs(hudi_options=JOIN_ALL)

    assert "partial updates and are not compacted" in caplog.text
    assert not any(one.action is Action.LOG_COMPACTION for one in pending(table))
    assert rows_of(table) == before
    assert joined.num_rows == 0
    assert table.refresh().services.compact().num_rows
    assert rows_of(table) == before
    assert pending(table) == ()


@PARTIAL
def test_stuck_log_compaction_is_taken_back_as_its_error_says(name: str, tmp_path: Path) -> None:
    table = unpacked(name, tmp_path)
    before = rows_of(table)
    stuck = stuck_plan(table)

    with pytest.raises(UnsupportedFeatureError, match=rf"table\.recovery\.rollback\('{stuck}'\)"):
        table.refresh().services.compact()
    table.refresh().recovery.rollback(stuck)

    assert table.refresh().services.compact().num_rows
    assert rows_of(table) == before
    assert pending(table) == ()


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("name", ["basic", "parquet-blocks"])
def test_logs_of_either_format_with_deletes_and_mixed_ones_become_one(name: str, version: int, tmp_path: Path) -> None:
    """JVM Hudi could not read Parquet blocks when it joined logs (HUDI-6578)."""
    table = unpacked(f"v{version}-{name}", tmp_path)
    row = _row_with_logs(table)
    other = "avro" if name == "parquet-blocks" else "parquet"
    mixed = {"hoodie.logfile.data.block.format": other, "hoodie.compact.inline": "false"}
    table.upsert(row, hudi_options=mixed)
    table.refresh().delete(_row_with_logs(table.refresh()), hudi_options=mixed)
    before = rows_of(table)

    (joined,) = table.refresh().services.compact_logs(hudi_options=JOIN_ALL).to_pylist()

    assert joined["slices"] > 0
    assert rows_of(table) == before
    assert table.refresh().services.compact().num_rows
    assert rows_of(table) == before


def test_log_that_is_written_while_logs_are_looked_into_waits_for_the_next_plan(tmp_path: Path) -> None:
    table = unpacked("v9-basic", tmp_path)

    class WritesMeanwhile(SplitEngine):
        def map(self, function: Any, tasks: Any, **how: Any) -> list[Any]:
            found = super().map(function, tasks, **how)
            if how["description"] == "look into logs":
                again = pyhudi.HudiTable.for_path(str(tmp_path / "table"))
                again.upsert(_row_with_logs(again), hudi_options={"hoodie.compact.inline": "false"})
            return found

    with_logs = [one for one in table.inspect.files().to_pylist() if one["logs"]]
    (joined,) = rehandled(table, engine=WritesMeanwhile()).services.compact_logs(hudi_options=JOIN_ALL).to_pylist()

    assert joined["slices"] == len(with_logs) - 1
    assert not pending(table)


def _row_with_logs(table: pyhudi.HudiTable) -> pa.Table:
    file_id = next(one["file_id"] for one in table.inspect.files().to_pylist() if one["logs"])
    found = table.scan().to_arrow()
    of_group = found.filter(pc.starts_with(found["_hoodie_file_name"], file_id))
    return of_group.select([name for name in found.column_names if name not in META_COLUMNS]).slice(0, 1)
