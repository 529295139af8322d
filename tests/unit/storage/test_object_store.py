"""What only object stores have: lost answers, wrong credentials, parts, folder markers."""

from __future__ import annotations

import http.client
import logging
import pickle
import threading
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.fs
import pytest
from obstore.exceptions import BaseError
from obstore.store import MemoryStore
from tests.support.minio import BUCKET, Minio
from tests.support.ports import free_port

from pyhudi.errors import (
    AlreadyExistsError,
    ConfigError,
    HudiError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    Retry,
    TableNotFoundError,
    UnavailableError,
)
from pyhudi.storage import object_store
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import FolderListing, Storage
from pyhudi.table.state import load_table

CANARIES = ("CANARYaccess0123", "CANARYsecret/+456", "CANARYtoken=789")
CANARY_OPTIONS = {
    "fs.s3a.access.key": CANARIES[0],
    "fs.s3a.secret.key": CANARIES[1],
    "fs.s3a.session.token": CANARIES[2],
    "fs.s3a.endpoint.region": "us-east-1",
    "fs.s3a.attempts.maximum": "1",
}


class Lossy:
    """A relay before a server that spoils the answers to some puts, as a bad line or an overloaded store does."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.endpoint = ""
        self.puts = 0
        self.arrive = True
        self.answer_status: int | None = 500
        self.spoiled_puts = 0

    def spoil(self, count: int, *, arrive: bool, status: int | None) -> None:
        """Let the next puts reach the server or not, and answer with this status, or (None) not at all."""
        self.spoiled_puts, self.arrive, self.answer_status = count, arrive, status


@contextmanager
def _relay(upstream: str) -> Iterator[Lossy]:
    lossy = Lossy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            spoiled = self.command == "PUT" and lossy.spoiled_puts > 0
            lossy.puts += self.command == "PUT"
            if spoiled:
                lossy.spoiled_puts -= 1
            status, headers, answer = 500, [], b""
            if not spoiled or lossy.arrive:
                status, headers, answer = self._ask(body)
            if spoiled:
                if lossy.answer_status is None:
                    self.close_connection = True
                    return
                status, headers, answer = lossy.answer_status, [], b""
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(name, value)
            length = dict(headers).get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(urlsplit(lossy.upstream).netloc, timeout=10)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            answer = response.read()
            connection.close()
            return response.status, response.getheaders(), answer

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with _serving(Handler) as endpoint:
        lossy.endpoint = endpoint
        yield lossy


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def lossy(minio: Minio) -> Iterator[Lossy]:
    with _relay(minio.endpoint) as lossy:
        yield lossy


@pytest.fixture
def storage(minio: Minio, lossy: Lossy) -> Storage:
    """A store behind the lossy line."""
    return open_storage(minio.new_root(), {**minio.options, "fs.s3a.endpoint": lossy.endpoint})


@pytest.fixture
def impatient(minio: Minio, lossy: Lossy) -> Storage:
    """The same, by a client that does not repeat requests."""
    options = {**minio.options, "fs.s3a.endpoint": lossy.endpoint, "fs.s3a.attempts.maximum": "1"}
    return open_storage(minio.new_root(), options)


class TestLostAnswers:
    @pytest.mark.parametrize("status", [500, 503, None], ids=["500", "503", "dropped"])
    def test_creation_that_was_repeated_by_the_client_has_won_against_itself(
        self, storage: Storage, lossy: Lossy, status: int | None
    ) -> None:
        lossy.spoil(1, arrive=True, status=status)
        storage.put_if_absent("t/1.requested", b"")

        assert lossy.puts == 2
        assert storage.read("t/1.requested") == b""
        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("t/1.requested", b"")

    def test_creation_that_was_repeated_loses_against_an_equal_object_of_another(
        self, storage: Storage, lossy: Lossy
    ) -> None:
        storage.put_if_absent("t/1.requested", b"")
        lossy.spoil(1, arrive=True, status=500)

        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("t/1.requested", b"")

    @pytest.mark.parametrize("status", [500, None], ids=["500", "dropped"])
    def test_creation_without_an_answer_is_found_out(
        self, impatient: Storage, lossy: Lossy, status: int | None
    ) -> None:
        lossy.spoil(1, arrive=True, status=status)
        impatient.put_if_absent("arrived", b"x")
        assert impatient.read("arrived") == b"x"

        lossy.spoil(1, arrive=False, status=status)
        with pytest.raises(UnavailableError) as caught:
            impatient.put_if_absent("lost", b"x")
        assert caught.value.retry is Retry.SAME_INSTANT
        assert impatient.info("lost") is None

    def test_creation_refused_for_a_request_that_came_to_nothing_is_tried_again(
        self, impatient: Storage, lossy: Lossy
    ) -> None:
        lossy.spoil(2, arrive=False, status=409)
        impatient.put_if_absent("file", b"x")
        assert impatient.read("file") == b"x"

        lossy.spoil(100, arrive=False, status=409)
        with pytest.raises(UnavailableError):
            impatient.put_if_absent("other", b"x")

    def test_replacement_whose_answer_was_lost_gives_the_tag_of_its_version(
        self, storage: Storage, impatient: Storage, lossy: Lossy
    ) -> None:
        for store in (storage, impatient):
            store.put("lease", b"1")
            _, tag = store.read_with_etag("lease")
            lossy.spoil(1, arrive=True, status=500)
            tag = store.put_if_match("lease", b"2", etag=tag)
            assert store.put_if_match("lease", b"3", etag=tag)
            lossy.spoil(1, arrive=True, status=500)
            with pytest.raises((PreconditionFailedError, UnavailableError)):
                store.put_if_match("lease", b"4", etag=tag)
            assert store.read("lease") == b"3"

    def test_racing_threads_on_a_bad_line_have_one_winner(self, storage: Storage, lossy: Lossy) -> None:
        lossy.spoil(8, arrive=True, status=500)

        def create(_: int) -> bool:
            try:
                storage.put_if_absent("race", b"")
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(create, range(8))).count(True) == 1


def _parts(minio: Minio) -> set[Path]:
    return set((minio.folder / ".minio.sys" / "multipart").rglob("part.*"))


def test_stream_given_up_removes_its_uploaded_parts(minio: Minio) -> None:
    storage = open_storage(minio.new_root(), minio.options)
    before = _parts(minio)
    seen: set[Path] = set()

    with pytest.raises(KeyError), storage.open_output("file") as output:  # noqa: PT012
        for _ in range(200):
            output.write(bytes(1 << 20))
            seen |= _parts(minio)
            if seen - before:
                raise KeyError

    assert seen - before
    assert not (_parts(minio) - before)
    assert storage.list_recursive("") == ()


def test_stream_that_is_forgotten_makes_no_object(minio: Minio) -> None:
    storage = open_storage(minio.new_root(), minio.options)

    output = storage.open_output("file")
    output.write(b"half")
    del output

    assert storage.info("file") is None


def test_folder_markers_of_other_clients_are_no_files(minio: Minio) -> None:
    root = minio.new_root()
    storage = open_storage(root, minio.options)
    theirs = pyarrow.fs.S3FileSystem(
        access_key=minio.access_key,
        secret_key=minio.secret_key,
        endpoint_override=minio.endpoint,
        region="us-east-1",
    )
    theirs.create_dir(f"{root.removeprefix('s3://')}/a/b/c", recursive=True)
    storage.put("a/b/c/d/file", b"x")
    storage.put("a/empty", b"")

    assert [info.path for info in storage.list_recursive("")] == ["a/b/c/d/file", "a/empty"]
    assert [info.path for info in storage.list_folder("a").files] == ["a/empty"]
    assert storage.list_folder("a").folders == ("a/b",)
    assert storage.list_folder("a/b/c") == FolderListing((), ("a/b/c/d",))


def test_bucket_root_and_hadoop_scheme_are_roots_like_any_other(minio: Minio) -> None:
    name = minio.new_root("s3a").rpartition("/table")[0].rpartition("/")[2]
    bucket = open_storage(f"s3a://{BUCKET}/", minio.options)
    bucket.put(f"{name}/table/a", b"x")

    table = open_storage(f"s3a://{BUCKET}/{name}/table/", minio.options)

    assert bucket.uri == f"s3a://{BUCKET}"
    assert table.uri == f"s3a://{BUCKET}/{name}/table"
    assert table.read("a") == b"x"
    assert name in bucket.list_folder("").folders


def test_bucket_that_does_not_exist_is_reported_by_listing_and_writing(minio: Minio) -> None:
    storage = open_storage("s3://no-such-bucket/table", minio.options)

    for call in (
        lambda: storage.list_folder(""),
        lambda: storage.put("a", b""),
        lambda: storage.put_if_absent("a", b""),
    ):
        with pytest.raises(NotFoundError, match="no such bucket"):
            call()
    with pytest.raises(TableNotFoundError, match="no such bucket") as caught:
        load_table(storage)
    assert caught.value.context["bucket"] == "no-such-bucket"


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_plain_endpoint_of_the_environment_is_reached(minio: Minio, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, minio.endpoint)
    keys = {"aws_access_key_id": minio.access_key, "aws_secret_access_key": minio.secret_key}

    storage = open_storage(minio.new_root(), keys)

    storage.put("a", b"x")
    assert storage.read("a") == b"x"


def test_environment_gives_credentials_that_no_option_gives(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minio.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minio.secret_key)
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    storage = open_storage(minio.new_root(), {"AWS_ENDPOINT": minio.endpoint})

    storage.put("a", b"x")
    assert storage.read("a") == b"x"


def test_credentials_that_are_new_in_the_environment_count_for_the_next_opening(
    minio: Minio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minio.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "expired")
    root, options = minio.new_root(), {"AWS_ENDPOINT": minio.endpoint, "AWS_REGION": "us-east-1"}
    with pytest.raises(PermissionDeniedError):
        open_storage(root, options).put("a", b"x")

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minio.secret_key)

    open_storage(root, options).put("a", b"x")
    assert open_storage(root, options) is open_storage(root, options)


def test_endpoint_that_is_new_in_the_environment_is_the_one_that_is_asked(
    minio: Minio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    root, keys = minio.new_root(), {"aws_access_key_id": minio.access_key, "aws_secret_access_key": minio.secret_key}
    options = {**keys, "fs.s3a.attempts.maximum": "1"}
    with pytest.raises(UnavailableError):
        open_storage(root, options).info("a")

    monkeypatch.setenv("AWS_ENDPOINT_URL", minio.endpoint)

    assert open_storage(root, options).info("a") is None


class _Tattler(BaseHTTPRequestHandler):
    """Denies access and quotes the request back, as S3 does on a wrong signature, and then some."""

    def handle_any(self) -> None:
        body = (
            "<Error><Code>SignatureDoesNotMatch</Code>"
            f"<AWSAccessKeyId>{CANARIES[0]}</AWSAccessKeyId>"
            f"<StringToSign>{self.headers}</StringToSign>"
            f"<Leak>{CANARIES[1]} https://u:{CANARIES[1]}@h/?X-Amz-Security-Token={CANARIES[2]}&amp;x=1</Leak></Error>"
        ).encode()
        self.send_response_only(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _failures(storage: Storage) -> Iterator[HudiError]:
    def stream() -> None:
        with storage.open_output("a") as output:
            output.write(bytes(11 << 20))

    calls: list[Callable[[], object]] = [
        lambda: storage.read("a"),
        lambda: storage.read("a", offset=1, length=2),
        lambda: storage.open_input("a"),
        stream,
        lambda: storage.put("a", b""),
        lambda: storage.put_if_absent("a", b""),
        lambda: storage.put_if_match("a", b"", etag=" x"),
        lambda: storage.read_with_etag("a"),
        lambda: storage.info("a"),
        lambda: storage.list_folder(""),
        lambda: storage.list_recursive(""),
        lambda: storage.delete("a"),
        lambda: storage.delete_folder("a"),
    ]
    for call in calls:
        with pytest.raises(HudiError) as caught:
            call()
        yield caught.value


def _everything_shown(error: BaseException) -> str:
    shown = [str(error), repr(error), *traceback.format_exception(error), repr(pickle.dumps(error))]
    seen: BaseException | None = error
    while seen is not None:
        shown += [str(seen), repr(seen), repr(seen.args), repr(getattr(seen, "context", None))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(shown)


class TestSecrets:
    def _assert_silent(self, storage: Storage, expected: type[HudiError], caplog: pytest.LogCaptureFixture) -> None:
        for error in _failures(storage):
            assert isinstance(error, expected), error
            assert error.context["path"].startswith(storage.uri)
            logging.getLogger("pyhudi.test").error("it failed", exc_info=error)
            shown = _everything_shown(error) + caplog.text
            assert not [canary for canary in CANARIES if canary in shown], shown
        shown = f"{storage!r} {storage} {storage.spec!r} {storage.uri}"
        assert not [canary for canary in CANARIES if canary in shown]

    def test_unknown_access_key_shows_no_credential(self, minio: Minio, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        storage = open_storage(minio.new_root(), {**CANARY_OPTIONS, "fs.s3a.endpoint": minio.endpoint})
        self._assert_silent(storage, PermissionDeniedError, caplog)

    def test_wrong_secret_shows_no_credential(self, minio: Minio, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        options = {**CANARY_OPTIONS, "fs.s3a.endpoint": minio.endpoint, "fs.s3a.access.key": minio.access_key}
        del options["fs.s3a.session.token"]
        storage = open_storage(minio.new_root(), options)
        self._assert_silent(storage, PermissionDeniedError, caplog)

    def test_store_that_quotes_the_request_is_masked(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with _serving(_Tattler) as endpoint:
            storage = open_storage("s3://bucket/table", {**CANARY_OPTIONS, "fs.s3a.endpoint": endpoint})
            self._assert_silent(storage, PermissionDeniedError, caplog)

    def test_endpoint_that_does_not_answer_is_unavailable_and_shows_no_credential(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        options = {**CANARY_OPTIONS, "fs.s3a.endpoint": "http://127.0.0.1:1"}
        self._assert_silent(open_storage("s3://bucket/table", options), UnavailableError, caplog)

    def test_errors_of_a_store_say_what_to_look_at(self) -> None:
        there = {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.attempts.maximum": "1"}
        with pytest.raises(UnavailableError, match="check its endpoint and the network"):
            open_storage("s3://bucket/table", {**CANARY_OPTIONS, **there}).info("x")
        with (
            _serving(_Tattler) as endpoint,
            pytest.raises(PermissionDeniedError, match="does not allow it with these credentials"),
        ):
            open_storage("s3://bucket/table", {**CANARY_OPTIONS, "fs.s3a.endpoint": endpoint}).info("x")

    @pytest.mark.parametrize(
        "text",
        [
            "Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: error sending request",
            "Error performing GET http://metadata.google.internal/computeMetadata/v1/ - status code: 403 Forbidden",
        ],
    )
    def test_store_that_finds_no_credentials_says_so(self, text: str) -> None:
        storage = object_store.ObjectStorage(MemoryStore(), uri="s3://bucket/t", prefix="t", options={})
        error = storage.failure(BaseError(text), "inspect", "x")
        assert "no credentials are in the options or the environment" in error.message

    def test_credentials_of_the_environment_are_masked_too(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name, value in zip(("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"), CANARIES, strict=True):
            monkeypatch.setenv(f"AWS_{name}", value)
        with _serving(_Tattler) as endpoint:
            options = {"aws_endpoint": endpoint, "aws_region": "x", "fs.s3a.attempts.maximum": "1"}
            self._assert_silent(open_storage("s3://bucket/table", options), PermissionDeniedError, caplog)

    @pytest.mark.parametrize(
        ("uri", "options"),
        [
            ("s3://bucket/t", {"aws_access_key_id": CANARIES[0]}),
            ("s3://bucket/t", {"aws_no_such_key": CANARIES[0]}),
            ("s3://bucket/t", {"aws_imdsv1_fallback": CANARIES[0]}),
            ("s3://bucket/t", {"fs.s3a.path.style.access": CANARIES[0]}),
            ("s3://bucket/t", {"timeout": CANARIES[0]}),
            ("gs://bucket/t", {"google_service_account_key": CANARIES[0]}),
            ("az://container/t", {"azure_storage_account_name": "a", "azure_storage_account_key": f"!{CANARIES[0]}"}),
            (f"s3://user:{CANARIES[0]}@bucket/t", {}),
        ],
    )
    def test_wrong_option_is_a_config_error_without_its_value(self, uri: str, options: dict[str, str]) -> None:
        with pytest.raises(ConfigError) as caught:
            open_storage(uri, options)
        assert CANARIES[0] not in _everything_shown(caught.value)


def test_google_and_azure_stores_are_made_from_their_uris() -> None:
    google = open_storage("gs://bucket/some/table", {"google_skip_signature": "true"})
    azure = open_storage(
        "abfss://container@account.dfs.core.windows.net/table",
        {"azure_storage_account_key": b64encode(b"key").decode()},
    )

    assert google.uri == "gs://bucket/some/table"
    assert azure.uri == "abfss://container@account.dfs.core.windows.net/table"


def test_an_answer_that_may_stand_for_success_is_no_certain_failure() -> None:
    """By the number of the answer: 408 and 429 come from in front of the store, and may come after it."""
    for status in (408, 429, 500, 502, 503, 504):
        kind = object_store._kind_of(ValueError(), status, f"status code: {status}")
        assert kind is UnavailableError, status
