"""A proxy before a NameNode, which loses answers or is away, as tests say."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.support.ports import free_port


class NameNodeProxy:
    """Passes on what clients and the NameNode say. `authority`: what clients connect to."""

    def __init__(self, namenode: str) -> None:
        host, _, port = namenode.partition(":")
        self._namenode = (host, int(port))
        self._port = free_port()
        self.authority = f"127.0.0.1:{self._port}"
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._lose_answer_to: bytes | None = None
        self.lost = 0

    def lose_answer_to(self, method: str) -> None:
        """Let the next request of a method through, and end its connection in place of the answer."""
        self._lose_answer_to = method.encode()

    def come(self) -> None:
        """Listen."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def go_away(self) -> None:
        """End all connections, and refuse others."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        while self._connections:
            _end(self._connections.pop())

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._namenode)
            self._connections += [client, server]
            loses = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, loses), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server, loses), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        for data in _received(client):
            if self._lose_answer_to is not None and self._lose_answer_to in data:
                self._lose_answer_to = None
                loses.set()
            with contextlib.suppress(OSError):
                server.sendall(data)
        _end(server)

    def _answers(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        for data in _received(server):
            if loses.is_set():
                self.lost += 1
                break
            with contextlib.suppress(OSError):
                client.sendall(data)
        _end(client)
        _end(server)


@contextlib.contextmanager
def proxy_before(namenode: str) -> Iterator[NameNodeProxy]:
    """A proxy that listens during the block."""
    proxy = NameNodeProxy(namenode)
    proxy.come()
    try:
        yield proxy
    finally:
        proxy.go_away()


def _received(connection: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = connection.recv(1 << 16)
        except OSError:
            return
        if not data:
            return
        yield data


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
