"""Metrics under Hudi's names: what writes and services report, and that no reporter is in their way."""

from __future__ import annotations

import itertools
import json
import logging
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.memory_catalog import MemoryCatalog
from tests.support.ports import free_port
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.catalogs import measured_sync
from pyhudi.config.options_catalogs import CatalogOptions
from pyhudi.environment import SYSTEM, ThreadTimers, Timer
from pyhudi.errors import CatalogError, UnsupportedFeatureError, WriteConflictError
from pyhudi.streamer import run as run_streamer
from pyhudi.telemetry import reporters
from pyhudi.telemetry.recorder import Recorder
from pyhudi.telemetry.reporters import prometheus_name, serve_prometheus
from tools import prometheus

SCHEMA = pa.schema([("id", pa.int64()), ("fare", pa.float64()), ("ts", pa.int64())])
_names = itertools.count()


def options(reporter: str = "INMEMORY", **more: object) -> dict[str, str]:
    given = {"on": "true", "reporter.type": reporter, **{key.replace("__", "."): value for key, value in more.items()}}
    return {f"hoodie.metrics.{key}": str(value) for key, value in given.items()}


def table(folder: Path, hudi_options: dict[str, str], **more: Any) -> pyhudi.HudiTable:
    """A table whose name no other test has, as metrics are those of the process."""
    name = f"rides_{next(_names)}"
    return pyhudi.HudiTable.create(
        folder / name, schema=SCHEMA, record_key="id", ordering_fields="ts", hudi_options=hudi_options, **more
    )


def folder_of(rides: pyhudi.HudiTable) -> Path:
    return Path(rides.inspect.detail().uri.removeprefix("file:"))


def name_of(rides: pyhudi.HudiTable) -> str:
    return folder_of(rides).name


def rows(*ids: int, ts: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "fare": [1.0] * len(ids), "ts": [ts] * len(ids)}, schema=SCHEMA)


def metrics_of(rides: pyhudi.HudiTable) -> dict[str, float]:
    prefix = f"{name_of(rides)}."
    return {name.removeprefix(prefix): value for name, value in pyhudi.metrics().items() if name.startswith(prefix)}


@pytest.fixture(autouse=True)
def _reporters_that_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that went on would warn into the logs of other tests."""
    made: list[Timer] = []

    class RememberedTimers(ThreadTimers):
        def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> Timer:
            made.append(super().every(seconds, call, name=name))
            return made[-1]

    monkeypatch.setattr(reporters, "SYSTEM", replace(SYSTEM, timers=RememberedTimers()))
    yield
    for timer in made:
        timer.stop()


def test_upsert_reports_its_commit_under_the_names_of_hudi(tmp_path: Path) -> None:
    rides = table(tmp_path, options())
    rides.upsert(rows(1, 2, 3))
    result = rides.upsert(rows(3, 4, ts=2))

    found = metrics_of(rides)
    assert found["commit.totalRecordsWritten"] == 4
    assert found["commit.totalInsertRecordsWritten"] == 1
    assert found["commit.totalUpdateRecordsWritten"] == 1
    assert found["commit.totalBytesWritten"] == result.bytes
    assert (found["commit.totalFilesInsert"], found["commit.totalFilesUpdate"]) == (0, 1)
    assert found["commit.totalPartitionsWritten"] == 1
    assert found["commit.duration"] >= 0
    assert abs(found["commit.commitTime"] - time.time() * 1000) < 60_000
    assert found["finalize.numFilesFinalized"] == 1
    assert "index.lookup.duration" in found
    assert not [name for name in found if name.startswith("conflict_resolution.")]


def test_services_report_what_they_did(tmp_path: Path) -> None:
    rides = table(tmp_path, options() | {"hoodie.clean.commits.retained": "1"}, table_type="mor")
    for ts in range(4):
        rides.upsert(rows(1, ts=ts))
    rides.services.compact()
    rides.upsert(rows(1, ts=5))

    found = metrics_of(rides)
    assert found["deltacommit.totalRecordsWritten"] == 1
    assert found["compaction.totalLogFilesCompacted"] == 3
    assert found["compaction.completed.counter"] == 1
    assert found["compaction.pendingCompactionInstantCount"] == 0
    rides.services.clean()
    found = metrics_of(rides)
    assert found["clean.numFilesDeleted"] >= 1
    counts = {name: found[f"{name}.timer.count"] for name in ("deltacommit", "compaction", "clean", "finalize")}
    assert counts == {"deltacommit": 5, "compaction": 1, "clean": 1, "finalize": 5}


def test_timers_report_the_numbers_of_dropwizard(tmp_path: Path) -> None:
    rides = table(tmp_path, options(lock__enable="true"))
    for ts in range(3):
        rides.upsert(rows(1, ts=ts))
    found = metrics_of(rides)
    for timer in ("commit", "index", "finalize", "conflict_resolution"):
        numbers = {name.rpartition(".")[2] for name in found if name.startswith(f"{timer}.timer.")}
        assert numbers == {"count", "min", "max", "mean", "stddev", "p50", "p75", "p95", "p98", "p99", "p999"}
        assert found[f"{timer}.timer.count"] == 3
        assert 0 <= found[f"{timer}.timer.min"] <= found[f"{timer}.timer.mean"] <= found[f"{timer}.timer.max"]


@pytest.mark.parametrize("fails", [False, True])
def test_sync_of_a_catalog_reports_its_duration_and_whether_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    @contextmanager
    def opened(_: CatalogOptions) -> Iterator[MemoryCatalog]:
        if fails:
            raise CatalogError("nobody answers")
        yield MemoryCatalog()

    monkeypatch.setattr(measured_sync, "opened_catalog", opened)
    asked = {"hoodie.datasource.hive_sync.enable": "true", "hoodie.datasource.hive_sync.ignore_exceptions": "true"}
    rides = table(tmp_path, options() | asked)
    rides.upsert(rows(1))
    found = {name: value for name, value in metrics_of(rides).items() if name.startswith("meta_sync.")}
    assert found["meta_sync.duration.HiveSyncTool"] >= 0
    assert found[f"meta_sync.{'failure' if fails else 'success'}.counter.HiveSyncTool"] == 1
    assert f"meta_sync.{'success' if fails else 'failure'}.counter.HiveSyncTool" not in found
    assert found["meta_sync.timer.HiveSyncTool.count"] == 1
    if not fails:
        rides.catalog.sync()
        assert metrics_of(rides)["meta_sync.success.counter.HiveSyncTool"] == 2


def test_archiving_and_rollback_are_reported(tmp_path: Path) -> None:
    archiving = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    rides = table(tmp_path, options() | archiving)
    for ts in range(6):
        result = rides.upsert(rows(1, ts=ts))
    assert metrics_of(rides)["archive.numInstantsArchived"] > 0
    rides.recovery.rollback(result.instant)
    assert metrics_of(rides)["rollback.numFilesDeleted"] == 1


def test_calls_of_the_store_are_counted_by_purpose(tmp_path: Path) -> None:
    rides = table(tmp_path, options())
    rides.upsert(rows(1))
    first = metrics_of(rides)
    rides.upsert(rows(1, ts=2))
    second = metrics_of(rides)

    assert first["storage.data.write.requests"] == 2  # a base file, and the metadata of the partition
    assert second["storage.data.write.requests"] == 3
    written = sum(file.stat().st_size for file in folder_of(rides).rglob("*.parquet") if ".hoodie" not in str(file))
    assert second["storage.data.write.bytes"] - written < 1000
    assert second["storage.timeline.write.requests"] > first["storage.timeline.write.requests"]
    assert not any(name.endswith("dollars") for name in second)


def test_conflicts_are_counted_where_the_options_ask_for_it(tmp_path: Path) -> None:
    rides = table(tmp_path, options(lock__enable="true"))
    rides.upsert(rows(1))

    with pytest.raises(WriteConflictError):
        _write_while(rides, lambda: pyhudi.HudiTable.for_path(folder_of(rides)).upsert(rows(1, ts=9)))
    found = metrics_of(rides)
    assert (found["conflict_resolution.success.counter"], found["conflict_resolution.failure.counter"]) == (1, 1)


def _write_while(rides: pyhudi.HudiTable, other: Callable[[], object]) -> None:
    """Upsert, and call `other` when the write has looked its keys up."""
    from pyhudi.write import staged

    original = staged.mark_inflight

    def beside(*given: Any) -> None:
        original(*given)
        staged.mark_inflight = original
        other()

    staged.mark_inflight = beside
    try:
        rides.upsert(rows(1, ts=5))
    finally:
        staged.mark_inflight = original


def test_names_begin_with_the_prefix_of_the_options(tmp_path: Path) -> None:
    rides = table(tmp_path, options(reporter__metricsname__prefix="city.taxis"))
    rides.upsert(rows(1))
    assert pyhudi.metrics()["city.taxis.commit.totalRecordsWritten"] == 1


def test_prometheus_scrapes_the_values_of_a_table(tmp_path: Path) -> None:
    port = free_port()
    rides = table(tmp_path, options("PROMETHEUS", prometheus__port=port))
    rides.upsert(rows(1, 2))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}

    family = families[f"{name_of(rides)}_commit_totalRecordsWritten"]
    assert family.type == "gauge"
    assert [sample.value for sample in family.samples] == [2.0]
    timer = families[f"{name_of(rides)}_commit_timer"]
    assert timer.type == "summary"
    found = {tuple(sample.labels.values()): sample.value for sample in timer.samples}
    assert found.pop(()) == 1  # its count
    assert list(found) == [("0.5",), ("0.75",), ("0.95",), ("0.98",), ("0.99",), ("0.999",)]
    assert metrics_of(rides)["commit.timer.p95"] == pytest.approx(found["0.95",] * 1000, abs=0.001)


def test_port_that_another_process_has_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        assert serve_prometheus(Recorder(), port=taken.getsockname()[1]) is None
    assert "could not be opened" in caplog.text


@contextmanager
def gateway() -> Iterator[tuple[int, list[tuple[str, str, str]]]]:
    """A push gateway that keeps what it gets: method, path, body."""
    got: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((self.command, self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], got
        server.shutdown()


def test_push_gateway_gets_the_values_of_its_job(tmp_path: Path) -> None:
    with gateway() as (port, got):
        given = {"port": port, "report.period.seconds": 1, "job.name": "nightly/1", "random.job.name.suffix": "false"}
        labels = {"report.labels": 'team:a"b,env:test', "delete.on.shutdown": "false"}
        hudi_options = {f"hoodie.metrics.pushgateway.{key}": str(value) for key, value in (given | labels).items()}
        rides = table(tmp_path, options("PROMETHEUS_PUSHGATEWAY") | hudi_options)
        rides.upsert(rows(1, 2))
        name = f"{name_of(rides)}_commit_totalRecordsWritten"
        wait_until(lambda: any(name in body for _, _, body in got))
    method, path, body = got[-1]
    assert (method, path) == ("PUT", "/metrics/job/nightly%2F1")
    assert f'{name}{{team="a\\"b",env="test"}} 2\n' in body
    timer = name.replace("totalRecordsWritten", "timer")
    assert f'{timer}{{team="a\\"b",env="test",quantile="0.95"}} ' in body
    assert f'{timer}_count{{team="a\\"b",env="test"}} 1\n' in body


def test_graphite_gets_a_line_per_value(tmp_path: Path) -> None:
    got: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            got.append(self.rfile.read())

    with socketserver.ThreadingTCPServer(("127.0.0.1", free_port()), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        graphite = {"port": server.server_address[1], "report.period.seconds": 1, "metric.prefix": "eu"}
        hudi_options = {f"hoodie.metrics.graphite.{key}": str(value) for key, value in graphite.items()}
        rides = table(tmp_path, options("GRAPHITE") | hudi_options)
        rides.upsert(rows(1, 2, 3))
        line = f"eu.{name_of(rides)}.commit.totalRecordsWritten 3 ".encode()
        wait_until(lambda: any(line in text for text in got))
        assert f"eu.{name_of(rides)}.commit.timer.count 1 ".encode() in got[-1]
        assert f"eu.{name_of(rides)}.commit.timer.p95 ".encode() in got[-1]
        server.shutdown()


@pytest.mark.parametrize("reporter", ["PROMETHEUS_PUSHGATEWAY", "GRAPHITE"])
def test_server_that_is_down_is_one_warning_and_no_failure(
    tmp_path: Path, reporter: str, caplog: pytest.LogCaptureFixture
) -> None:
    family = "pushgateway" if reporter.startswith("PROM") else "graphite"
    port = free_port()
    more = {f"hoodie.metrics.{family}.port": str(port), f"hoodie.metrics.{family}.report.period.seconds": "1"}
    rides = table(tmp_path, options(reporter) | more)

    def warned() -> int:
        """Other tables of this process may have reporters that fail, too."""
        return sum("could not be reported" in text and f":{port}" in text for text in caplog.messages)

    with caplog.at_level(logging.WARNING, "pyhudi"):
        rides.upsert(rows(1))
        wait_until(lambda: warned() > 0)
        rides.upsert(rows(2))
        time.sleep(1.5)  # for one more report at least
    assert warned() == 1
    assert rides.refresh().scan().count() == 2


def test_server_that_never_answers_delays_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reporters, "ANSWER_SECONDS", 100.0)
    with socket.create_server(("127.0.0.1", free_port())) as silent, caplog.at_level(logging.WARNING, "pyhudi"):
        port = silent.getsockname()[1]
        more = {
            "hoodie.metrics.pushgateway.port": str(port),
            "hoodie.metrics.pushgateway.report.period.seconds": "1",
            "hoodie.metrics.pushgateway.delete.on.shutdown": "false",
        }
        rides = table(tmp_path, options("PROMETHEUS_PUSHGATEWAY") | more)
        rides.upsert(rows(1))
        silent.settimeout(60)
        report, _ = silent.accept()
        with report:
            rides.upsert(rows(2))
            assert f":{port}" not in caplog.text  # the report hangs still: a commit that waits for it would see it fail


@pytest.mark.parametrize("reporter", ["DATADOG", "JMX", "CLOUDWATCH", "M3"])
def test_reporter_of_jvm_hudi_alone_is_refused_with_what_to_use(tmp_path: Path, reporter: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="use PROMETHEUS"):
        table(tmp_path, options(reporter)).upsert(rows(1))


def test_values_are_printed_and_logged_at_the_end_of_a_process(tmp_path: Path) -> None:
    program = f"""
import logging, pyarrow as pa, pyhudi
logging.basicConfig(level=logging.INFO)
for reporter in ("CONSOLE", "SLF4J"):
    pyhudi.HudiTable.create(
        "{tmp_path}/" + reporter, schema=pa.schema([("id", pa.int64())]), record_key="id",
        hudi_options={{"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": reporter}},
    ).insert(pa.table({{"id": [1]}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=True)
    assert "CONSOLE.commit.totalRecordsWritten = 1\n" in done.stdout
    assert "CONSOLE.commit.timer.count = 1\n" in done.stdout
    assert "INFO:pyhudi.metrics:SLF4J.commit.timer.count=1\n" in done.stderr
    assert "INFO:pyhudi.metrics:SLF4J.commit.totalRecordsWritten=1\n" in done.stderr


def test_table_without_metrics_is_written_without_threads_and_wrappers(tmp_path: Path) -> None:
    before = threading.enumerate()
    rides = pyhudi.HudiTable.create(tmp_path / "quiet", schema=SCHEMA, record_key="id")
    rides.upsert(rows(1))
    assert not any(name.startswith("quiet.") for name in pyhudi.metrics())
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


def test_every_panel_of_the_dashboard_has_metrics_of_a_table(tmp_path: Path) -> None:
    dashboard = json.loads((Path(__file__).parents[3] / "examples" / "grafana.json").read_text())
    rides = table(tmp_path, options(lock__enable="true"))
    rides.upsert(rows(1))
    names = {prometheus_name(name) for name in pyhudi.metrics()}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            (pattern,) = re.findall(r'__name__=~"([^"]*)"', target["expr"])
            pattern = pattern.replace("${table}", name_of(rides))
            assert any(re.fullmatch(pattern, name) for name in names), panel["title"]


def stream(folder: Path, name: str, hudi_options: dict[str, str], rounds: int, **more: Any) -> None:
    """A streamer of JSON files, until so many rounds have passed."""
    passed = itertools.count(1)
    run_streamer(
        folder / name,
        source_class="JsonDFSSource",
        continuous=True,
        post_write_termination=lambda *_: next(passed) >= rounds,
        hoodie_conf={
            "hoodie.streamer.source.dfs.root": str(folder / "landing"),
            "hoodie.datasource.write.recordkey.field": "id",
            **hudi_options,
        },
        **more,
    )


def land(folder: Path, name: str, *ids: int) -> None:
    """A file for the streamer, which sees it whole or not at all."""
    (folder / "landing").mkdir(exist_ok=True)
    (folder / f".{name}").write_text("".join(f'{{"id": {number}}}\n' for number in ids))
    (folder / f".{name}").rename(folder / "landing" / name)


def test_streamer_reports_its_rounds_under_the_names_of_hudi(tmp_path: Path) -> None:
    name = f"rides_{next(_names)}"
    land(tmp_path, "1.json", 1, 2)
    stream(tmp_path, name, options(), rounds=2)
    (tmp_path / "landing" / "2.json").write_text("{")
    with pytest.raises(pyhudi.errors.SourceError):
        stream(tmp_path, name, options(), rounds=1, max_retry_count=0)

    prefix = f"{name}.deltastreamer."
    found = {name.removeprefix(prefix): value for name, value in pyhudi.metrics().items() if name.startswith(prefix)}
    assert (found["numSuccessfulSyncs"], found["numFailedSyncs"], found["numConsecutiveFailures"]) == (2, 1, 1)
    assert found["duration"] >= 0
    assert found["actualSyncDurationMs"] >= 0  # that of the second round, which had nothing to write
    assert found["heartbeatTimestampMs"] >= found["lastSync"] > time.time() * 1000 - 60_000
    assert "kafkaDelayCount" not in found
    assert pyhudi.metrics()[f"{name}.commit.totalInsertRecordsWritten"] == 2

    (tmp_path / "landing" / "2.json").unlink()
    stream(tmp_path, name, options(), rounds=1)
    assert pyhudi.metrics()[f"{prefix}numConsecutiveFailures"] == 0


def prometheus_or_skip() -> Path:
    try:
        return prometheus.find() or prometheus.unpack()
    except RuntimeError as error:
        pytest.skip(f"there is no Prometheus: {error}")


@contextmanager
def scraping(port: int, folder: Path) -> Iterator[Callable[[str], str | None]]:
    """A real Prometheus that scrapes a port; gives what it answers when it is asked for a metric."""
    config, own = folder / "prometheus.yml", free_port()
    config.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n"
        f"  - {{job_name: pyhudi, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
    )
    command = [str(prometheus_or_skip()), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    server = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def value(name: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query={name}") as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return found[0]["value"][1] if found else None

    try:
        yield value
    finally:
        server.terminate()
        server.wait()


@pytest.mark.timeout(400)
def test_real_prometheus_scrapes_a_stream_that_runs(tmp_path: Path) -> None:
    name, port, ends = f"rides_{next(_names)}", free_port(), threading.Event()
    land(tmp_path, "1.json", 1, 2)
    with scraping(port, tmp_path) as value:
        streamer = threading.Thread(
            target=run_streamer,
            kwargs={
                "target_base_path": tmp_path / name,
                "source_class": "JsonDFSSource",
                "continuous": True,
                "post_write_termination": lambda *_: ends.is_set(),
                "hoodie_conf": {
                    "hoodie.streamer.source.dfs.root": str(tmp_path / "landing"),
                    "hoodie.datasource.write.recordkey.field": "id",
                    **options("PROMETHEUS", prometheus__port=port),
                },
            },
        )
        streamer.start()
        try:
            wait_until(lambda: value(f"{name}_commit_totalInsertRecordsWritten") == "2", seconds=60)
            land(tmp_path, "2.json", 3, 4, 5)
            wait_until(lambda: value(f"{name}_commit_totalInsertRecordsWritten") == "3", seconds=60)
            wait_until(lambda: int(value(f"{name}_deltastreamer_numSuccessfulSyncs") or 0) >= 2)
            assert value(f"{name}_deltastreamer_numFailedSyncs") is None
        finally:
            ends.set()
            streamer.join()
