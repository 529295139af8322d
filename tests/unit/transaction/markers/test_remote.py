"""The marker service through HTTP, as tasks in other processes use it."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from pyhudi.errors import StorageError, TransactionError, UnavailableError, WriteConflictError
from pyhudi.format.markers import Marker, MarkerKind, encode_markers_file
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transaction.markers import remote
from pyhudi.transaction.markers.announcing import TaskMarkers, create_markers, register_service
from pyhudi.transaction.markers.reading import load_markers
from pyhudi.transaction.markers.remote import MARKERS_PER_REQUEST, ServiceAddress, create_remotely, serving
from pyhudi.transaction.markers.service import MarkerService

T = "20240102030405678"
KEY = "not told to anybody"
MARKER = Marker(f"p=\u00e9/a-0_0-1-2_{T}.parquet", MarkerKind.MERGE)
HOST = "127.0.0.1"


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def service(storage: MemoryStorage) -> MarkerService:
    return MarkerService(storage, T, None)


@pytest.fixture
def address(service: MarkerService) -> Iterator[ServiceAddress]:
    with serving(service, KEY, host=HOST, bind_to=HOST) as address:
        yield address


def signature_of(groups_exist: str, body: bytes) -> str:
    """As the documentation of the module has it."""
    return hmac.new(KEY.encode(), f"{groups_exist}\n".encode() + body, hashlib.sha256).hexdigest()


def asked(address: ServiceAddress, method: str, path: str, body: bytes, **headers: str) -> int:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def test_marker_is_stored_when_the_answer_comes(storage: MemoryStorage, address: ServiceAddress) -> None:
    create_remotely(address, KEY, [MARKER], groups_exist=True)

    assert load_markers(storage, T) == {MARKER.data_path}


def test_request_that_is_repeated_changes_nothing(storage: MemoryStorage, address: ServiceAddress) -> None:
    create_remotely(address, KEY, [MARKER], groups_exist=True)
    before = {info.path: storage.read(info.path) for info in storage.list_recursive("")}

    create_remotely(address, KEY, [MARKER], groups_exist=True)

    assert {info.path: storage.read(info.path) for info in storage.list_recursive("")} == before


def test_more_markers_than_a_request_takes_are_sent_in_several(storage: MemoryStorage, address: ServiceAddress) -> None:
    count = 2 * MARKERS_PER_REQUEST + 1
    markers = [Marker(f"p={n}/a{n}_0-1-2_{T}.parquet", MarkerKind.CREATE) for n in range(count)]

    create_remotely(address, KEY, markers, groups_exist=False)

    assert load_markers(storage, T) == {marker.data_path for marker in markers}
    assert (
        sum(info.name.startswith("MARKERS") and info.name != "MARKERS.type" for info in storage.list_recursive("")) == 3
    )


def test_another_key_stores_nothing(storage: MemoryStorage, address: ServiceAddress) -> None:
    with pytest.raises(UnavailableError) as refused:
        create_remotely(address, "guessed", [MARKER], groups_exist=True)

    assert refused.value.context["status"] == http.client.FORBIDDEN
    assert storage.list_recursive("") == ()


def test_signed_request_whose_flag_or_markers_were_changed_is_refused(
    storage: MemoryStorage, address: ServiceAddress
) -> None:
    body = encode_markers_file([MARKER])
    signature = signature_of("true", body)
    sent = {"X_Markers_Signature": signature}

    assert asked(address, "POST", "/markers", body, X_Markers_Groups_Exist="false", **sent) == 403
    assert asked(address, "POST", "/markers", body + body, X_Markers_Groups_Exist="true", **sent) == 403
    assert storage.list_recursive("") == ()
    assert asked(address, "POST", "/markers", body, X_Markers_Groups_Exist="true", **sent) == 204


@pytest.mark.parametrize(
    ("method", "path", "length", "expected"),
    [
        ("POST", "/", None, 400),
        ("POST", "/markers/../../etc", None, 400),
        ("POST", "/markers", str(remote.REQUEST_BYTES_MAX + 1), 400),
        ("POST", "/markers", "-1", 400),
        ("POST", "/markers", "\u00b2", 400),
        ("GET", "/markers", None, 501),
        ("PUT", "/markers", None, 501),
    ],
)
def test_any_other_request_is_refused(
    address: ServiceAddress, method: str, path: str, length: str | None, expected: int
) -> None:
    headers = {} if length is None else {"Content_Length": length}
    assert asked(address, method, path, b"", **headers) == expected


@pytest.mark.parametrize("text", ["../../x.parquet.marker.CREATE", "p/a.txt", "\x00"])
def test_signed_request_for_something_else_than_a_data_file_is_refused(
    storage: MemoryStorage, address: ServiceAddress, text: str
) -> None:
    body = f"{text}\n".encode()
    sent = {"X_Markers_Groups_Exist": "true", "X_Markers_Signature": signature_of("true", body)}

    assert asked(address, "POST", "/markers", body, **sent) == 409
    assert storage.list_recursive("") == ()


def test_errors_of_the_service_cross_as_they_are(
    monkeypatch: pytest.MonkeyPatch, service: MarkerService, address: ServiceAddress
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise WriteConflictError("taken", instant=T, winner="other", shared=["p/a"])

    monkeypatch.setattr(service, "create", refuse)

    with pytest.raises(WriteConflictError, match="taken") as conflict:
        create_remotely(address, KEY, [MARKER], groups_exist=True)

    assert conflict.value.context == {"instant": T, "winner": "other", "shared": ["p/a"]}


def test_service_that_has_stopped_refuses_late_tasks(service: MarkerService, address: ServiceAddress) -> None:
    service.stop()

    with pytest.raises(TransactionError, match="has ended"):
        create_remotely(address, KEY, [MARKER], groups_exist=True)


def test_unreachable_service_is_a_typed_error_with_advice(service: MarkerService) -> None:
    with serving(service, KEY, host=HOST, bind_to=HOST) as address:
        pass

    with pytest.raises(UnavailableError, match=r"hoodie.write.markers.type=DIRECT"):
        create_remotely(address, KEY, [MARKER], groups_exist=True)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"220 mail\r\n"])
def test_another_server_at_the_address_gives_a_typed_error(answer: bytes) -> None:
    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(UnavailableError):
            create_remotely(ServiceAddress(HOST, server.getsockname()[1]), KEY, [MARKER], groups_exist=True)
        server.shutdown(socket.SHUT_RDWR)


def test_address_of_another_machine_cannot_be_listened_on(service: MarkerService) -> None:
    with (
        pytest.raises(StorageError, match="cannot listen"),
        serving(service, KEY, host="192.0.2.1", bind_to="192.0.2.1"),
    ):
        pytest.fail("listening")


def test_task_of_this_process_needs_no_request(storage: MemoryStorage, service: MarkerService) -> None:
    how = TaskMarkers(service=register_service(service, KEY, None))

    create_markers(storage, T, how, [MARKER], groups_exist=False)

    assert load_markers(storage, T) == {MARKER.data_path}


def test_task_of_another_process_sends_a_request_though_it_has_a_copy_of_the_service(
    storage: MemoryStorage, service: MarkerService, address: ServiceAddress
) -> None:
    copied = MemoryStorage()
    handle = register_service(MarkerService(copied, T, None), KEY, address)

    create_markers(storage, T, TaskMarkers(service=replace(handle, process=-1)), [MARKER], groups_exist=False)

    assert load_markers(storage, T) == {MARKER.data_path}  # by the service that listens
    assert load_markers(copied, T) == frozenset()


def test_task_that_outlives_its_write_cannot_announce(storage: MemoryStorage) -> None:
    service = MarkerService(storage, T, None)
    how = TaskMarkers(service=register_service(service, "a key of its own", None))
    del service

    with pytest.raises(TransactionError, match="has ended"):
        create_markers(storage, T, how, [MARKER], groups_exist=False)


def test_key_is_in_no_text(service: MarkerService, address: ServiceAddress, caplog: pytest.LogCaptureFixture) -> None:
    how = TaskMarkers(service=register_service(service, KEY, address))
    with caplog.at_level(logging.DEBUG):
        create_remotely(address, KEY, [MARKER], groups_exist=False)

    assert KEY not in repr(how)
    assert KEY not in caplog.text
