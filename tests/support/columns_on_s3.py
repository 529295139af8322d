"""A table on an S3 server, of which one column has nearly all bytes, and a relay that counts what readers receive."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from tests.support.minio import Minio
from tests.support.ports import free_port

import pyhudi

CITIES = 4
ROWS_OF_CITY = 2_000
BODY_BYTES = 1024
BODIES = CITIES * ROWS_OF_CITY * BODY_BYTES
"""The bytes of the wide column."""
CHANGED = 10
_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1.1\r\n")
_LISTED = re.compile(rb"[?&](list-type|prefix|delimiter)=")
_DELETED = re.compile(rb"[?&]delete\b")


def write_wide_table(minio: Minio, kind: str) -> str:
    """The URI of a table whose `b` counts its rows, city by city; the first ten then get -1 in `a`."""
    uri, rows = minio.new_root(), CITIES * ROWS_OF_CITY
    numbers = np.arange(rows)
    bodies = np.random.default_rng(1).bytes(rows * BODY_BYTES // 2).hex()
    table = pa.table(
        {
            "id": numbers,
            "city": [f"c{number}" for number in (numbers // ROWS_OF_CITY).tolist()],
            "body": [bodies[at : at + BODY_BYTES] for at in range(0, rows * BODY_BYTES, BODY_BYTES)],
            "b": numbers,
            "a": numbers,
        }
    )
    options = {**minio.options, "hoodie.index.bloom.num_entries": str(ROWS_OF_CITY)}  # else footers are the most of it
    hudi = pyhudi.HudiTable.create(
        uri, schema=table.schema, record_key="id", partition_by="city", table_type=kind, hudi_options=options
    )
    hudi.bulk_insert(table)
    changed = table.slice(0, CHANGED)
    hudi.refresh().upsert(changed.set_column(4, "a", pa.array([-1] * CHANGED)))
    return uri


@dataclass
class Received:
    """What clients of a relay have received, and the requests that they made.

    `server`: the relay, in place of the server. `requests`: their kinds, as they are billed: `POST` deletes objects, or
    begins or ends a `PUT` in parts. `read`: the paths of those for objects' bytes.
    """

    server: Minio
    size: int = 0
    requests: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)


def _kind(method: str, target: bytes) -> str:
    if method == "POST":
        return "DELETE" if _DELETED.search(target) else "PUT"
    return "LIST" if method == "GET" and _LISTED.search(target) else method


@contextlib.contextmanager
def counted(minio: Minio) -> Iterator[Received]:
    """A relay before a server, which listens during the block."""
    address = urlsplit(minio.endpoint)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((address.hostname, address.port)) as upstream:
                threading.Thread(target=self._pass_requests, args=(upstream,), daemon=True).start()
                with contextlib.suppress(OSError):
                    while data := upstream.recv(1 << 16):
                        received.size += len(data)
                        self.request.sendall(data)

        def _pass_requests(self, upstream: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := self.request.recv(1 << 16):
                    # A client waits for the answer before it sends its next request.
                    if found := _REQUEST.match(data):
                        received.requests.append(_kind(found[1].decode(), found[2]))
                        if received.requests[-1] == "GET":
                            received.read.append(found[2].decode())
                    upstream.sendall(data)
                upstream.shutdown(socket.SHUT_WR)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", free_port()), Relay) as server:
        received = Received(replace(minio, endpoint=f"http://127.0.0.1:{server.server_address[1]}"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield received
        server.shutdown()
