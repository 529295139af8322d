"""Commit callbacks: who is told of which commits, with which message, and that no commit suffers from it."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.config.options_hooks import KAFKA_CALLBACK, CallbackOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.hooks.callbacks import _produce

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
ON = "hoodie.write.commit.callback.on"
CLASS = "hoodie.write.commit.callback.class"
URL = "hoodie.write.commit.callback.http.url"


def rows(*ids: int, ts: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "ts": [ts] * len(ids)}, schema=SCHEMA)


def table(folder: Path, hudi_options: dict[str, str], **more: Any) -> pyhudi.HudiTable:
    options = {ON: "true", **hudi_options}
    return pyhudi.HudiTable.create(
        folder / "rides", schema=SCHEMA, record_key="id", ordering_fields="ts", hudi_options=options, **more
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the function `callbacks_of_a_test:tell` is told."""
    messages: list[dict[str, Any]] = []
    module = types.ModuleType("callbacks_of_a_test")
    module.tell = messages.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "callbacks_of_a_test", module)
    return messages


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    got: list[tuple[dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(
                (
                    {name.lower(): text for name, text in self.headers.items()},
                    json.loads(self.rfile.read(int(self.headers["Content-Length"]))),
                )
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/commits", got
        listening.shutdown()


def test_function_is_told_of_writes_and_of_compactions(tmp_path: Path, told: list[dict[str, Any]]) -> None:
    rides = table(tmp_path, {CLASS: "callbacks_of_a_test:tell"}, table_type="mor")
    rides.upsert(rows(1, 2))
    result = rides.upsert(rows(2, ts=2))
    rides.services.compact()

    assert [one["commitActionType"] for one in told] == ["deltacommit", "deltacommit", "compaction"]
    second = told[1]
    assert second["commitTime"] == result.instant
    assert second["tableName"] == "rides"
    assert second["basePath"] == f"file:{tmp_path}/rides"
    assert [stat["numUpdateWrites"] for stat in second["hoodieWriteStat"]] == [1]
    assert "schema" in second["extraMetadata"]


def test_function_that_raises_is_a_warning_and_the_commit_stands(
    tmp_path: Path, told: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise RuntimeError("no time")

    sys.modules["callbacks_of_a_test"].tell = refuse  # type: ignore[attr-defined]
    rides = table(tmp_path, {CLASS: "callbacks_of_a_test:tell"})
    with caplog.at_level(logging.WARNING, "pyhudi"):
        rides.upsert(rows(1))
    assert "no time" in caplog.text
    assert rides.refresh().scan().count() == 1


def test_failed_write_is_not_told(tmp_path: Path, told: list[dict[str, Any]]) -> None:
    rides = table(tmp_path, {CLASS: "callbacks_of_a_test:tell"})
    with pytest.raises(pyhudi.errors.SchemaMismatchError):
        rides.upsert(pa.table({"id": [1], "ts": ["x"]}))
    assert told == []


def test_commit_is_posted_with_key_and_headers(
    tmp_path: Path, server: tuple[str, list[tuple[dict[str, str], Any]]]
) -> None:
    url, got = server
    headers = {"hoodie.write.commit.callback.http.custom.headers": "X-Team:rides; X-Env: test"}
    key = {"hoodie.write.commit.callback.http.api.key": "secret"}
    rides = table(tmp_path, {URL: url, **headers, **key})
    for ts in range(3):
        rides.upsert(rows(1, ts=ts))
    wait_until(lambda: len(got) == 3)

    sent, message = got[0]
    assert (sent["hudi-callback-key"], sent["x-team"], sent["x-env"]) == ("secret", "rides", "test")
    assert message["hoodieWriteStat"][0]["numInserts"] == 1
    times = [message["commitTime"] for _, message in got]
    assert times == sorted(times)


def test_server_that_never_answers_delays_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        rides = table(tmp_path, {URL: url, "hoodie.write.commit.callback.http.timeout.seconds": "100"})
        with caplog.at_level(logging.WARNING, "pyhudi"):
            rides.upsert(rows(1))
            assert "was not told" not in caplog.text  # which a commit that waits for the answer would see
            silent.close()
            wait_until(lambda: "was not told" in caplog.text)
    assert "which stands" in caplog.text


def test_topic_of_a_broker_that_is_away_is_an_error_of_the_sender_alone() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    options = CallbackOptions(callback=KAFKA_CALLBACK, servers="127.0.0.1:1", topic="t", timeout_seconds=1)
    with pytest.raises(confluent_kafka.KafkaException):
        _produce(options, {"tableName": "rides", "commitTime": "1"})


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({}, ConfigError, "needs hoodie.write.commit.callback.http.url"),
        ({CLASS: KAFKA_CALLBACK}, ConfigError, "kafka.bootstrap.servers"),
        ({CLASS: "no_such_module:f"}, ConfigError, "cannot be imported"),
        ({CLASS: "pyhudi:__version__"}, ConfigError, "no function"),
        ({CLASS: "org.apache.hudi.callback.impl.HoodieWriteCommitPulsarCallback"}, UnsupportedFeatureError, "not one"),
        ({URL: "http://x", "hoodie.write.commit.callback.http.custom.headers": "nonsense"}, ConfigError, "name:value"),
    ],
)
def test_callback_that_cannot_be_called_is_refused_before_the_write(
    tmp_path: Path, given: dict[str, str], error: type[Exception], match: str
) -> None:
    rides = pyhudi.HudiTable.create(tmp_path / "rides", schema=SCHEMA, record_key="id")
    with pytest.raises(error, match=match):
        rides.upsert(rows(1), hudi_options={ON: "true", **given})
    assert rides.refresh().scan().count() == 0


def test_key_and_headers_are_not_in_the_text_of_a_configuration() -> None:
    prefix = "hoodie.write.commit.callback.http"
    secrets = {f"{prefix}.api.key": "s3cr3t", f"{prefix}.custom.headers": "Authorization:s3cr3t"}
    config = WriteConfig.from_options({ON: "true", URL: "http://x/?key=s3cr3t", **secrets})
    assert config.callbacks.api_key == "s3cr3t"
    assert "s3cr3t" not in repr(config)
