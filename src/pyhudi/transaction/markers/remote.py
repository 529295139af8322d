"""The marker service for tasks in other processes: one kind of HTTP request to the process that commits the write.

    POST /markers              body: the markers, as in a MARKERS file
    X-Markers-Groups-Exist     whether the files belong to existing groups, which others may write to: `true` or `false`
    X-Markers-Signature        HMAC-SHA256 of both under the key of the write, which never travels in a request

204: the markers are stored. 409: they are not; the body is the error. Repeating a request changes nothing, so lost
answers and replays are harmless. The server accepts this request only, reads a limited number of bytes, and ends with
the write.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from pyhudi import errors
from pyhudi.environment import SYSTEM
from pyhudi.errors import CorruptDataError, HudiError, StorageError, UnavailableError
from pyhudi.format.markers import Marker, encode_markers_file, parse_markers_file

if TYPE_CHECKING:  # it loads the timeline, for which the first task of a worker would wait
    from pyhudi.transaction.markers.service import MarkerService

_PATH: Final = "/markers"
_GROUPS_EXIST: Final = "X-Markers-Groups-Exist"
_SIGNATURE: Final = "X-Markers-Signature"
REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
MARKERS_PER_REQUEST: Final = 2_000
"""So many always fit into a request: a key of an object store has at most 1,024 bytes."""
_ANSWER_BYTES_MAX: Final = 64 * 1024
_ANSWER_SECONDS_MAX: Final = 120
"""How long a task waits: for a batch and the one before it, with the retries of their puts."""
_IDLE_SECONDS_MAX: Final = 30
_POLL_SECONDS: Final = 0.02
"""The longest time that a write waits for the server to end."""
_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.25
_ERRORS: Final[Mapping[str, type[HudiError]]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, HudiError)
}

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a marker service listens, as its tasks reach it."""

    host: str
    port: int


@contextmanager
def serving(service: MarkerService, key: str, *, host: str, bind_to: str) -> Iterator[ServiceAddress]:
    """Serve requests for as long as the block runs, on a free port.

    `bind_to`: the address of this machine that is listened on; `host`: how tasks reach it.

    Raises:
        StorageError: the address cannot be listened on.
    """
    try:
        server = _Server(bind_to, service, key)
    except OSError as error:
        raise StorageError(
            f"the marker service cannot listen: {error.strerror or error}; set hoodie.write.markers.type=DIRECT",
            address=bind_to,
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), name="marker service", daemon=True)
    thread.start()
    try:
        yield ServiceAddress(host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def create_remotely(address: ServiceAddress, key: str, markers: Sequence[Marker], *, groups_exist: bool) -> None:
    """Let the service store the markers; raises what it raised. Cost: a request per `MARKERS_PER_REQUEST` markers.

    Raises:
        UnavailableError: the service cannot be reached: the write has ended, or the network is broken.
    """
    flag = _flag(groups_exist)
    for start in range(0, len(markers), MARKERS_PER_REQUEST):
        body = encode_markers_file(markers[start : start + MARKERS_PER_REQUEST])
        status, answer = _answered(address, body, {_GROUPS_EXIST: flag, _SIGNATURE: _signature(key, flag, body)})
        if status != http.HTTPStatus.NO_CONTENT:
            raise _error_in(answer, status, address)


def _answered(address: ServiceAddress, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body of the answer, with retries."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _post(address, body, headers)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error)
        if attempt < _ATTEMPTS:
            SYSTEM.clock.sleep(_PAUSE_SECONDS * attempt)
    raise UnavailableError(
        "the marker service of this write does not answer; if its driver is behind a firewall, set "
        "hoodie.write.markers.type=DIRECT",
        host=address.host,
        port=address.port,
        reason=reason,
    )


def _post(address: ServiceAddress, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_ANSWER_SECONDS_MAX)
    try:
        connection.request("POST", _PATH, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.read(_ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _error_in(answer: bytes, status: int, address: ServiceAddress) -> HudiError:
    """The error that an answer describes; its class is always one of `pyhudi.errors`."""
    try:
        described = json.loads(answer)
        return _ERRORS[described["error"]](
            str(described["message"]), **{str(k): v for k, v in described["context"].items()}
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return UnavailableError("the answer is not one of a marker service", status=status, host=address.host)


def _flag(groups_exist: bool) -> str:
    return "true" if groups_exist else "false"


def _signature(key: str, flag: str, body: bytes) -> str:
    return hmac.new(key.encode(), flag.encode() + b"\n" + body, hashlib.sha256).hexdigest()


class _Server(ThreadingHTTPServer):
    """One thread per request, which waits until the markers are stored."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, bind_to: str, service: MarkerService, key: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in bind_to else socket.AF_INET
        self.service, self.key = service, key
        super().__init__((bind_to, 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection at debug level only: the task retries."""
        del request
        _log.debug("a request to the marker service broke off: %s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _IDLE_SECONDS_MAX

    def do_POST(self) -> None:
        """Store the markers of one request, or answer with the error."""
        length = self.headers.get("Content-Length", "")
        if self.path != _PATH or not length.isascii() or not length.isdigit() or int(length) > REQUEST_BYTES_MAX:
            self._answer(http.HTTPStatus.BAD_REQUEST)
            return
        body = self.rfile.read(int(length))
        flag = self.headers.get(_GROUPS_EXIST, "")
        signature = self.headers.get(_SIGNATURE, "").encode("latin-1", "replace")
        if not hmac.compare_digest(signature, _signature(self.server.key, flag, body).encode()):
            self._answer(http.HTTPStatus.FORBIDDEN)
            return
        try:
            self.server.service.create(_markers_in(body), groups_exist=flag == _flag(groups_exist=True))
        except HudiError as error:
            described = {"error": type(error).__name__, "message": error.message, "context": error.context}
            self._answer(http.HTTPStatus.CONFLICT, json.dumps(described, default=str).encode())
            return
        self._answer(http.HTTPStatus.NO_CONTENT)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gives it
        """Requests are not logged: there are as many as data files."""

    def _answer(self, status: http.HTTPStatus, body: bytes = b"") -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _markers_in(body: bytes) -> tuple[Marker, ...]:
    if not body.endswith(b"\n"):
        raise CorruptDataError("the request ends within a marker")
    return parse_markers_file(body, path="request")
