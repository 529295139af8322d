"""Credentials stay where they were given: canaries in every option that holds one, and a look at everything else.

That is: logs, errors, metadata of the table, and descriptions of tasks.
"""

from __future__ import annotations

import http.server
import json
import logging
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ports import free_port
from tests.support.tables import MOR, environment, new_table, open_table, rehandled, rows

import pyhudi
from pyhudi.api.writes import save
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import HudiError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.options import client_settings
from pyhudi.storage.protocol import StorageSpec

CANARY = "CANARYx7Kq"


def canary(name: str) -> str:
    """A value that is found wherever it goes, and tells from where it came."""
    return f"{CANARY}{name.replace('.', '').replace('_', '')}Zz9"


NAMES = (
    *("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token"),
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_sse_customer_key_base64"),
    *("azure_storage_account_key", "azure_storage_sas_key", "azure_storage_token", "azure_client_secret"),
    *("google_service_account_key", "google_application_credentials"),
)
SECRETS = {
    **{name: canary(name) for name in NAMES},
    "proxy_url": f"http://user:{canary('proxy')}@proxy.example:3128",
    # Of the JVM, unknown here: people copy their configurations.
    **{name: canary(name) for name in ("hoodie.aws.access.key", "hoodie.aws.secret.key", "hoodie.aws.session.token")},
    "hoodie.write.lock.zookeeper.auth": canary("zookeeper"),
}
DESCRIPTION = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.table.ordering.fields": "ts",
    **MOR,
}


@pytest.fixture(autouse=True)
def _in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, canary(f"env{name}"))


class Seen:
    """All text that a user, a log or a file got."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def error(self, action: Callable[[], object]) -> None:
        """Everything that an error says, causes and traceback included."""
        try:
            action()
        except HudiError as error:
            self.texts += [str(error), repr(error), repr(error.context), "".join(traceback.format_exception(error))]
        else:
            raise AssertionError("this was meant to fail")

    def folder(self, folder: Path) -> None:
        """Every file, and its name."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        self.texts += [str(path) for path in files]
        self.texts += [path.read_bytes().decode("latin-1") for path in files]

    def leaks(self) -> list[str]:
        """Where there is a canary."""
        return [text[max(0, text.index(CANARY) - 80) :][:200] for text in self.texts if CANARY in text]


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Seen]:
    """Whatever is in it at the end, in the logs of all levels, in warnings or in the output holds no canary."""
    found = Seen()
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield found
        logging.getLogger("pyhudi").debug("logs are looked at")
    assert "logs are looked at" in caplog.text
    found.texts += [caplog.text, *capfd.readouterr(), *(str(warning.message) for warning in warned)]
    assert found.leaks() == []


class TellingEngine(LocalEngine):
    """Shows the tasks that it is given, as a debugger or a log would."""

    shown: list[str] = []  # noqa: RUF012

    def map(self, function: Any, tasks: Any, **how: Any) -> Any:
        self.shown += [repr(task) for task in tasks]
        return super().map(function, tasks, **how)

    def exchange(self, exchange: Any) -> Any:
        self.shown.append(repr(exchange))
        return super().exchange(exchange)


def test_the_canary_would_be_found() -> None:
    found = Seen()
    found.texts.append(json.dumps(SECRETS))
    assert found.leaks()


def test_a_table_s_life_with_credentials_leaves_no_trace_of_them(seen: Seen, tmp_path: Path) -> None:
    options = {**DESCRIPTION, **SECRETS, "hoodie.datasource.write.commitmeta.key.prefix": "a"}
    path = str(tmp_path / "table")
    save(rows((1, "oslo", 1, "a")), path, hudi_options=options, mode="append")
    save(rows((1, "oslo", 2, "b")), path, hudi_options=options, mode="append")
    table = rehandled(
        pyhudi.HudiTable.for_path(path, hudi_options={**SECRETS, **MOR}),
        engine=TellingEngine(),
        environment=environment(),
    )
    table.upsert(rows((1, "oslo", 3, "c"), (2, "rome", 1, "d")))
    seen.error(lambda: table.upsert(rows((None, "oslo", 1, "x"))))  # type: ignore[arg-type]
    seen.error(lambda: table.upsert(pa.table({"id": [True], "city": ["a"], "ts": [1], "note": ["x"]})))
    seen.error(lambda: table.upsert(rows((1, "a/../..", 1, "x"))))
    seen.error(lambda: table.delete_partition("nowhere"))
    seen.error(lambda: table.recovery.rollback("20200101000000000"))
    seen.error(lambda: table.upsert(rows((1, "a", 1, "x")), hudi_options={"hoodie.write.lock.wait_time_ms": "never"}))
    table.services.compact()
    assert table.refresh().scan().to_arrow().num_rows == 2
    seen.texts += [
        repr(table),
        str(table),
        repr(table.scan()),
        str(table.scan().explain()),
        repr(table.inspect.detail()),
        repr(table.inspect.history().to_pylist()),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen.texts.append(repr(WriteConfig.from_options(options)))
    assert TellingEngine.shown
    seen.texts += TellingEngine.shown
    seen.folder(tmp_path)


def test_reprs_hide_options(seen: Seen) -> None:
    storage = open_storage("s3://bucket/t", {**{name: canary(name) for name in NAMES[3:6]}, "aws_region": "r"})
    assert isinstance(storage, ObjectStorage)
    settings = client_settings(SECRETS, authority="b")
    seen.texts += [
        repr(storage),
        repr(storage.spec),
        str(storage.spec),
        repr(settings),
        repr(StorageSpec("s3://b", SECRETS)),
    ]


# -- a store that repeats what it was told, as servers and proxies do in their errors ---------------------------------


class _Echo(http.server.BaseHTTPRequestHandler):
    status = 403

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"<Error><Code>{self.path}</Code><Message>{self.headers}{json.dumps(SECRETS)}</Message></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def echo() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), _Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("status", [400, 403, 404, 409, 416, 501])
def test_store_that_repeats_requests_in_its_errors_tells_no_secret(
    seen: Seen, echo: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Echo, "status", status)
    given = {name: value for name, value in SECRETS.items() if name.startswith("fs.s3a.")}
    options = {**given, "fs.s3a.endpoint": echo, "fs.s3a.attempts.maximum": "1", "aws_region": "r"}
    storage = open_storage("s3://bucket/t", options)
    for call in (
        lambda: storage.read("a"),
        lambda: storage.read("a", offset=5),
        lambda: storage.put("a", b"x"),
        lambda: storage.put_if_absent("a", b"x"),
        lambda: storage.put_if_match("a", b"x", etag="y"),
        lambda: storage.list_folder("a"),
        lambda: storage.delete_folder("a"),
        lambda: storage.open_output("a").close(),
        lambda: pyhudi.HudiTable.for_path("s3://bucket/t", hudi_options=options),
        lambda: save(rows((1, "a", 1, "x")), "s3://bucket/t", hudi_options={**DESCRIPTION, **options}, mode="append"),
    ):
        with suppress(HudiError):
            call()
            continue
        seen.error(call)


@pytest.mark.parametrize("name", [*NAMES, "aws_misspelt_secret"])
def test_option_that_the_client_refuses_is_not_repeated(seen: Seen, name: str) -> None:
    for uri in ("s3://b/t", "gs://b/t", "az://c/t"):
        with suppress(HudiError):
            open_storage(uri, {name: canary(name), "timeout": canary("timeout")}).list_folder("")
        try:
            open_storage(uri, {name: canary(name), "timeout": canary("timeout")})
        except HudiError as error:
            seen.texts += [str(error), "".join(traceback.format_exception(error))]


def test_password_in_a_uri_is_refused_and_not_repeated(seen: Seen) -> None:
    seen.error(lambda: open_storage(f"s3://user:{canary('uri')}@bucket/t"))
    seen.error(lambda: pyhudi.HudiTable.for_path(f"abfss://c:{canary('uri')}@a.dfs.core.windows.net/t"))


def test_prefix_of_commit_metadata_takes_no_credential_along(seen: Seen, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    new_table(storage)
    for prefix in ("fs.", "aws_", "proxy"):
        chosen = {**SECRETS, "hoodie.datasource.write.commitmeta.key.prefix": prefix}
        open_table(storage, **chosen).upsert(rows((1, "oslo", 1, "a")))
    open_table(storage).upsert(rows((1, "oslo", 1, "a")), hudi_options={"_mine": "is kept"})
    seen.folder(tmp_path)
    assert any("is kept" in text for text in seen.texts)


# -- Spark: plans, catalog, event log ---------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.timeout(330)
def test_spark_shows_no_credential_in_plans_errors_or_its_event_log(tmp_path: Path) -> None:
    hidden = {name: value for name, value in SECRETS.items() if name.startswith("fs.s3a.")}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.security.secrets_program", str(tmp_path), json.dumps(hidden)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert ran.returncode == 0, ran.stderr[-4000:].replace(CANARY, "a secret")
    found = Seen()
    found.texts += [ran.stdout, ran.stderr]
    found.folder(tmp_path)
    assert "== Physical Plan ==" in ran.stdout
    assert "RecordKeyError" in ran.stderr
    assert any("SparkListenerApplicationStart" in text for text in found.texts)
    assert found.leaks() == []
