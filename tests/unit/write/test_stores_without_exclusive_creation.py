"""Object stores that ignore or refuse If-None-Match: one writer at a time, or a lock that is kept elsewhere."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest
from obstore.store import MemoryStore
from tests.support.lost_locks import TakenLocks
from tests.support.ports import free_port
from tests.support.tables import LATER_MS, StepClock, contents, environment, new_table, open_table, rows

import pyhudi
from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, UnsupportedFeatureError
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage import registry as in_process
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.presence import WRITERS_FOLDER


class Conditional(ObjectStorage):
    """An object store in memory that can do everything."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), uri="s3://bucket/t", prefix="t", options={})
        self.requests: list[str] = []

    @cached_property
    def _own_spec(self) -> StorageSpec:
        return in_process.register(self)

    @property
    def spec(self) -> StorageSpec:
        return self._own_spec


class Ignoring(Conditional):
    """It overwrites, whatever the condition says."""

    def _conditional_put(self, key: str, data: bytes, number: str, mode: Any) -> Any:  # noqa: ARG002
        self.requests.append(key)
        return super()._conditional_put(key, data, number, "overwrite")


class Refusing(Conditional):
    """It says that it cannot do that."""

    def _conditional_put(self, key: str, data: bytes, number: str, mode: Any) -> Any:  # noqa: ARG002
        self.requests.append(key)
        raise UnsupportedFeatureError("cannot create", path=key)


WITHOUT = pytest.mark.parametrize("kind", [Ignoring, Refusing])


@contextmanager
def server(answer: int | None) -> Iterator[ObjectStorage]:
    """What speaks just enough of S3's protocol to be put to; conditional puts get this answer, or None: are done."""
    objects: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def reply(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("etag", '"1"')
            self.send_header("last-modified", "Sat, 21 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if answer is not None and self.headers["if-none-match"]:
                self.reply(answer, b"<Error><Code>NotImplemented</Code></Error>")
                return
            objects[self.path] = body
            self.reply(200)

        def do_GET(self) -> None:
            found = objects.get(self.path)
            self.reply(404) if found is None else self.reply(200, found)

        do_HEAD = do_GET  # noqa: N815

        def do_DELETE(self) -> None:
            objects.pop(self.path, None)
            self.reply(204)

        def do_POST(self) -> None:
            """S3's deletion of many objects at once, of which there is one here."""
            self.rfile.read(int(self.headers["content-length"]))
            objects.clear()
            self.reply(200, b"<DeleteResult><Deleted><Key>t</Key></Deleted></DeleteResult>")

    with http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        options = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{httpd.server_port}",
            "fs.s3a.access.key": "key",
            "fs.s3a.secret.key": "secret",
            "fs.s3a.attempts.maximum": "1",
        }
        storage = open_storage("s3://bucket/t", options)
        assert isinstance(storage, ObjectStorage)
        yield storage
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [pytest.param(501, id="not implemented"), pytest.param(400, id="bad request"), pytest.param(None, id="done")],
)
def test_a_server_that_knows_no_conditions_is_found_out_whatever_it_answers(answer: int | None) -> None:
    with server(answer) as storage:
        assert not storage.creates_exclusively()
        storage.put_if_absent("a", b"1")
        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("a", b"2")

        assert storage.read("a") == b"1"


def opened(storage: ObjectStorage, env: Environment | None = None) -> pyhudi.HudiTable:
    return open_table(storage, env=env or environment())


def table_in(storage: ObjectStorage) -> ObjectStorage:
    new_table(storage)
    return storage


def test_a_store_that_can_is_tried_once_and_left_clean() -> None:
    storage = Conditional()

    assert storage.creates_exclusively()
    assert storage.creates_exclusively()
    assert storage.list_recursive("") == ()


@WITHOUT
def test_a_store_that_cannot_is_found_out_and_left_clean(kind: type[Conditional]) -> None:
    storage = kind()

    assert not storage.creates_exclusively()
    tried = len(storage.requests)
    assert not storage.creates_exclusively()
    assert len(storage.requests) == tried <= 2
    assert storage.list_recursive("") == ()


def test_other_stores_are_not_tried() -> None:
    store = FaultStorage(MemoryStorage())

    assert store.creates_exclusively()
    assert store.operations == []


@WITHOUT
def test_such_a_store_looks_before_it_creates(kind: type[Conditional]) -> None:
    storage = kind()
    assert not storage.creates_exclusively()

    storage.put_if_absent("a", b"1")
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("a", b"2")

    assert storage.read("a") == b"1"


@WITHOUT
def test_the_only_writer_needs_no_lock_provider(kind: type[Conditional]) -> None:
    storage = table_in(kind())

    opened(storage).insert(rows((1, "oslo", 1, "a")))
    opened(storage).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 2, "b")}
    assert storage.list_recursive(WRITERS_FOLDER) == ()


@WITHOUT
def test_a_second_writer_is_refused_with_the_fix(kind: type[Conditional]) -> None:
    storage = table_in(kind())
    opened(storage).insert(rows((1, "oslo", 1, "a")))
    storage.put(f"{WRITERS_FOLDER}/somebody", b"{}")

    with pytest.raises(UnsupportedFeatureError, match=r"hoodie\.write\.lock\.provider"):
        opened(storage).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}
    assert [info.name for info in storage.list_recursive(WRITERS_FOLDER)] == ["somebody"]


@WITHOUT
def test_the_file_of_a_dead_writer_is_removed(kind: type[Conditional]) -> None:
    storage = table_in(kind())
    storage.put(f"{WRITERS_FOLDER}/somebody", b"{}")

    opened(storage, environment(StepClock(LATER_MS))).insert(rows((1, "oslo", 1, "a")))

    assert storage.list_recursive(WRITERS_FOLDER) == ()


@WITHOUT
def test_pending_write_of_a_possibly_living_writer_refuses_a_second_one(kind: type[Conditional]) -> None:
    storage = table_in(kind())
    table = load_table(storage)
    pending = Instant(InstantTime("20260101000000000"), Action.COMMIT, InstantState.REQUESTED)
    storage.put(instant_path(pending, table.version), b"")

    with pytest.raises(UnsupportedFeatureError, match="second writer"):
        opened(storage).insert(rows((1, "oslo", 1, "a")))


@WITHOUT
def test_under_a_lock_that_is_kept_elsewhere_writers_meet(kind: type[Conditional]) -> None:
    storage = table_in(kind())
    env = replace(environment(), locks=TakenLocks())
    storage.put(f"{WRITERS_FOLDER}/somebody", b"{}")

    opened(storage, env).insert(rows((1, "oslo", 1, "a")))
    opened(storage, env).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 2, "b")}


@WITHOUT
def test_no_lease_is_kept_in_such_a_store(kind: type[Conditional]) -> None:
    storage = table_in(kind())

    with pytest.raises(UnsupportedFeatureError, match="no lock"), table_lock(storage, environment(), wait_ms=0):
        pass
    with table_lock(storage, replace(environment(), locks=InProcessLocks()), wait_ms=0) as lock:
        assert not lock.can_be_lost


@WITHOUT
def test_the_only_writer_shows_itself_before_it_looks_for_others(kind: type[Conditional]) -> None:
    """Of two that come at one moment at least one must see the other."""
    inner = kind()
    new_table(inner)
    store = FaultStorage(inner)

    open_table(store).insert(rows((1, "oslo", 1, "a")))

    steps = [(one.name, one.path) for one in store.operations]
    shown = next(n for n, (name, path) in enumerate(steps) if name == "put" and path.startswith(WRITERS_FOLDER))
    assert shown < steps.index(("list_folder", WRITERS_FOLDER))


@WITHOUT
def test_a_write_that_began_since_the_table_was_loaded_refuses_a_second_writer(kind: type[Conditional]) -> None:
    """One of JVM Hudi, which shows itself nowhere else."""
    inner = kind()
    new_table(inner)

    def begin(operation: str, path: str) -> None:
        if operation == "put" and path.startswith(WRITERS_FOLDER):
            pending = Instant(InstantTime("20240101000000000"), Action.COMMIT, InstantState.REQUESTED, None)
            inner.put(instant_path(pending, load_table(inner).version), b"")

    with pytest.raises(UnsupportedFeatureError):
        open_table(FaultStorage(inner, after=begin)).insert(rows((1, "oslo", 1, "a")))


def test_creation_that_took_effect_late_is_found_by_the_next_attempt_to_be_ours() -> None:
    """Its first request was refused for another one that came to nothing, and was not seen at once."""

    class StoreWithALateFirstPut(Conditional):
        def _conditional_put(self, key: str, data: bytes, number: str, mode: Any) -> Any:
            self.requests.append(key)
            if len(self.requests) == 1:
                self.late = (key, data, number, mode)
                raise AlreadyExistsError("409", path=key)
            if len(self.requests) == 2:
                super()._conditional_put(*self.late)
            return super()._conditional_put(key, data, number, mode)

    store = StoreWithALateFirstPut()
    store.put_if_absent("1.commit", b"x")

    assert store.read("1.commit") == b"x"


def test_a_probe_for_exclusive_creation_leaves_nothing() -> None:
    store = Conditional()

    assert store.creates_exclusively()

    assert store.list_recursive("") == ()
