"""Markers of tasks that run in Spark's workers: through the service in the driver, and in executors of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.audit import audit
from tests.support.crashes import assert_nothing_left_over
from tests.support.programs import told_by
from tests.support.spark import trip_options

from pyhudi.errors import UnsupportedFeatureError, WriteConflictError
from pyhudi.format.markers import Marker
from pyhudi.spark import engine as spark_engine
from pyhudi.spark import settings as spark_settings
from pyhudi.spark.engine import SparkEngine
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.transaction.markers.announcing import TaskMarkers, create_markers, register_service
from pyhudi.transaction.markers.remote import serving
from pyhudi.transaction.markers.service import MarkerService

SERVED = {"hoodie.write.markers.type": "TIMELINE_SERVER_BASED"}
PROGRAM = Path(__file__).with_name("killed_worker_program.py")
PROGRAM_SECONDS_MAX = 300


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that the services of this process were asked to announce."""
    found: list[str] = []
    original = MarkerService.create

    def create(self: MarkerService, markers: Sequence[Marker], *, groups_exist: bool) -> None:
        original(self, markers, groups_exist=groups_exist)
        found.extend(marker.data_path for marker in markers)

    monkeypatch.setattr(MarkerService, "create", create)
    return found


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_in_workers_announce_every_file_to_the_driver(
    spark: Any, tmp_path: Path, announced: list[str], monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    monkeypatch.setattr(spark_engine, "IN_PROCESS_BYTES_MAX", 0)
    options = trip_options(**SERVED, **{"hoodie.datasource.write.table.type": table_type})
    trips = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) uuid", "concat('c', id % 5) city", "1L ts")
    writes = [("bulk_insert", trips), ("upsert", trips.where("id < 50").selectExpr("uuid", "city", "2L as ts"))]
    for operation, rows in writes:
        announced.clear()
        chosen = {**options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**chosen).mode("append").save(str(tmp_path / "t"))

        storage = LocalStorage(tmp_path / "t")
        table = load_table(storage)
        metadata = load_commit_metadata(storage, table.timeline.completed_writes[-1], table.version)
        assert metadata.paths() == set(announced)
        assert_nothing_left_over(storage)
    assert spark.read.format("hudi").load(str(tmp_path / "t")).where("ts = 2").count() == 50
    audit(LocalStorage(tmp_path / "t"))


def test_errors_of_the_service_reach_the_caller_as_they_are(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise WriteConflictError("taken", winner="other")

    monkeypatch.setattr(MarkerService, "create", refuse)
    monkeypatch.setattr(spark_engine, "IN_PROCESS_BYTES_MAX", 0)
    rows = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) uuid", "concat('c', id % 5) city", "1L ts")

    with pytest.raises(WriteConflictError, match="taken") as conflict:
        rows.write.format("hudi").options(**trip_options(**SERVED)).mode("append").save(str(tmp_path / "t"))

    assert conflict.value.context == {"winner": "other", "table": f"file:{tmp_path}/t"}


def test_worker_reaches_the_service_by_the_hosts_that_the_engine_names(spark: Any) -> None:
    storage, time = MemoryStorage(), "20240102030405678"
    service = MarkerService(storage, time, None)
    engine = SparkEngine(spark)
    hosts = engine.callback_hosts
    with serving(service, "key", host=hosts.host, bind_to=hosts.bind_to) as address:
        how = TaskMarkers(service=register_service(service, "key", address))

        def task(context: Any, number: int) -> None:
            from pyhudi.format.markers import Marker, MarkerKind

            name = f"{number:08}-0_{context.write_token}_{time}.parquet"
            create_markers(None, time, how, [Marker(name, MarkerKind.CREATE)], groups_exist=False)

        engine.map(task, list(range(6)), size_bytes=spark_engine.IN_PROCESS_BYTES_MAX, description="announce")

    files = [info.name for info in storage.list_recursive("")]
    lines = b"".join(storage.read(info.path) for info in storage.list_recursive("") if info.name != "MARKERS.type")
    assert lines.count(b"\n") == 6
    assert "MARKERS.type" in files


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"spark.master": "local[2]", "spark.driver.host": "10.0.0.1"}, ("127.0.0.1", "127.0.0.1")),
        ({"spark.master": "yarn", "spark.driver.host": "driver.lan"}, ("driver.lan", "driver.lan")),
        (
            {"spark.master": "k8s://x", "spark.driver.host": "driver.svc", "spark.driver.bindAddress": "10.0.0.7"},
            ("driver.svc", "10.0.0.7"),
        ),
    ],
)
def test_executors_reach_the_driver_as_spark_does(
    spark: Any, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: tuple[str, str]
) -> None:
    for module in (spark_engine, spark_settings):
        monkeypatch.setattr(module, "setting", lambda _, name: settings.get(name))

    hosts = SparkEngine(spark).callback_hosts

    assert (hosts.host, hosts.bind_to) == expected


def test_client_of_spark_connect_is_told_that_it_has_no_service(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "is_connect", lambda _: True)

    with pytest.raises(UnsupportedFeatureError, match=r"hoodie.write.markers.type=DIRECT"):
        _ = SparkEngine(spark).callback_hosts


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 30)
def test_file_of_a_worker_that_died_half_way_is_gone_after_the_commit(tmp_path: Path) -> None:
    found = told_by(PROGRAM, str(tmp_path), folder=tmp_path, seconds_max=PROGRAM_SECONDS_MAX)

    for markers, seen in found.items():
        assert (seen["half files before"], seen["half files after"]) == (1, 0), markers
        assert seen["sender died"], markers
        assert seen["rows"] == 400, markers
        assert seen["files"] == seen["listed"], markers
        assert seen["left over"] == [], markers
